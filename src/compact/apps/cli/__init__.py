"""The command line, `compactctl`. Start at `main`, which has the list of commands; each is in
`commands`.

Modules of commands say what may be asked for, and yield what is told (`told`). They are imported
for every help, so they import nothing that takes long: the modules below, and `wiring`, are names
of this package that are loaded when they are first used. `jobs` reads a file and plans for it,
`stores` opens sessions, `session_markdown` and `session_page` are sessions as files, `exchange`
brings them in and out, `migrations` many at once, `changes` is what became of messages, `usage`
where tokens go, `checks` what `doctor` finds, `reviewing` a summary in an editor, `chats` what the
chat program is given, `known_models` what is known of models, `views` words what several commands
tell, `render` draws it, `output` writes bytes, `settings` are the effective ones, `progress` shows
long work, and `errors` says how a command ends.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from compact.apps.cli.interrupts import ending_at_once

if TYPE_CHECKING:
    from compact import wiring as wiring
    from compact.apps.cli import changes as changes
    from compact.apps.cli import chats as chats
    from compact.apps.cli import checks as checks
    from compact.apps.cli import errors as errors
    from compact.apps.cli import exchange as exchange
    from compact.apps.cli import jobs as jobs
    from compact.apps.cli import known_models as known_models
    from compact.apps.cli import main as main
    from compact.apps.cli import migrations as migrations
    from compact.apps.cli import output as output
    from compact.apps.cli import progress as progress
    from compact.apps.cli import render as render
    from compact.apps.cli import reviewing as reviewing
    from compact.apps.cli import session_markdown as session_markdown
    from compact.apps.cli import session_page as session_page
    from compact.apps.cli import settings as settings
    from compact.apps.cli import stores as stores
    from compact.apps.cli import usage as usage
    from compact.apps.cli import views as views


def __getattr__(name: str) -> ModuleType:
    if name.startswith("__"):
        raise AttributeError(name)
    with ending_at_once():
        return import_module("compact.wiring" if name == "wiring" else f"{__name__}.{name}")
