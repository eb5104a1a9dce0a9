"""`compactctl`: the list of its commands, and the one place that catches everything."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group, get_install_completion_arguments

import compact as package
from compact.apps import cli
from compact.apps.cli.commands import (
    chat,
    checkpoints,
    compact,
    context,
    demo,
    diff,
    doctor,
    exchange,
    goals,
    history,
    memory,
    memory_aging,
    memory_archives,
    memory_backup,
    memory_upkeep,
    migrate,
    models,
    session_marks,
    sessions,
    snapshots,
    tokens,
    validate_config,
    view,
)
from compact.apps.cli.helping import CommandGroup, ListByDefault, OneCommand
from compact.apps.cli.interrupts import TRACEBACK

HELP = """Fit any conversation into any model's window, and keep every word reachable.

Reads the sessions of coding agents, exports of ChatGPT and Claude, request bodies and chat files,
with no key and no network.
Exit codes: 0 done, 1 cannot fit, 2 bad input or usage.

\b
Examples:
  compactctl demo
  compactctl tokens session.jsonl
  compactctl dry-run session.jsonl --max-tokens 8000
  compactctl compact session.jsonl --max-tokens 8000 -o out.jsonl
  compactctl sessions import session.jsonl
  compactctl context session
  compactctl search "what we said of the roof"
"""


COMMANDS: Sequence[Callable[..., None]] = (
    *(compact.compact, compact.dry_run, diff.diff, tokens.tokens),
    chat.chat,
    *(validate_config.validate_config, models.models, demo.demo),
    *(history.history, context.context, history.recall, history.expand, checkpoints.checkpoints),
    view.view,
    *(snapshots.snapshot, snapshots.restore, snapshots.undo, snapshots.redo, snapshots.branch),
    memory.search,
    *(migrate.migrate, doctor.doctor),
    *(sessions.sessions_list, sessions.sessions_show, exchange.sessions_import),
    *(exchange.sessions_export, sessions.sessions_compress, sessions.sessions_put_aside),
    *(session_marks.sessions_pin, session_marks.sessions_unpin, session_marks.sessions_mode),
    *(memory.sessions_describe, sessions.sessions_delete),
    *(goals.goals_list, goals.goals_add, goals.goals_done, goals.goals_drop, goals.goals_pause),
    *(goals.goals_resume, goals.goals_confirm),
    *(memory_archives.memory_archive, memory_archives.memory_restore),
    *(memory_archives.memory_archived, memory_archives.memory_verify),
    *(memory_upkeep.memory_status, memory_aging.memory_age, memory_aging.memory_why),
    *(memory_upkeep.memory_embed, memory_upkeep.memory_schedule),
    *(memory_backup.memory_backup, memory_backup.memory_restore_backup),
)
"""The commands in the order help lists them. A command is called as its function is:
`sessions_put_aside` is `sessions put-aside`.
"""

GROUPS: Mapping[str, tuple[type[CommandGroup], str]] = {
    "sessions": (
        CommandGroup,
        """Stored conversations: list, show, import, export, compress, put-aside, pin, unpin, mode,
describe, delete.

They are in one file: --store FILE, the setting `store` (COMPACT_STORE), else .compact/sessions.db
in this folder, which import, migrate and chat create. A session is named by its id, or a unique
prefix of it.

\b
Examples:
  compactctl sessions import session.jsonl
  compactctl sessions list
  compactctl sessions export session -o session.md
""",
    ),
    "goals": (
        ListByDefault,
        """The goals of a session: active goals are in every prompt, word for word.

`goals SESSION` lists them. A goal is named by its id, or a unique prefix of it.

\b
Examples:
  compactctl goals harbour
  compactctl goals add harbour "Mend the roof before week 42."
  compactctl goals done harbour 3f2a81b0
""",
    ),
    "memory": (
        CommandGroup,
        """All sessions of a scope as they grow old: what age leaves of them, archives, backups.

\b
Examples:
  compactctl memory age --dry-run
  compactctl memory why harbour
  compactctl memory archive
  compactctl memory archived --search "harbour office"
  compactctl memory forget harbour
  compactctl memory backup backup-monday
""",
    ),
}
"""Group → what it does with its arguments, and its help."""

OTHER_NAMES: Mapping[tuple[str, str], tuple[str, str]] = {
    ("memory", "forget"): ("sessions", "delete"),
}
"""Group and name of a command → those of the one that it is, under another name."""
TAKES_NUMBERS = {"expand", "sessions_put_aside", "sessions_pin", "sessions_unpin"}
"""Commands that are given a message's number, which may be negative and is no option then."""
PLAIN: Mapping[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}


def _version(wanted: bool) -> None:
    if wanted:
        print(f"compactctl {package.__version__}")
        raise typer.Exit


def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), color=context.color)


def _root(
    context: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    _help(context)


def command_line() -> TyperGroup:
    """All commands."""
    found: dict[str, dict[str, Any]] = {"": {}, **{name: {} for name in GROUPS}}
    for work in COMMANDS:
        first, _, rest = work.__name__.partition("_")
        group, name = (first, rest) if first in GROUPS else ("", work.__name__)
        one = typer.Typer(**PLAIN)
        settings = {"ignore_unknown_options": work.__name__ in TAKES_NUMBERS}
        one.command(name.replace("_", "-"), cls=OneCommand, context_settings=settings)(work)
        made = get_command(one)
        found[group][made.name or ""] = made
    for (group, name), (other, own) in OTHER_NAMES.items():
        found[group][name] = found[other][own]
    groups = {}
    for name, (kind, text) in GROUPS.items():
        app = typer.Typer(name=name, cls=kind, help=text, **PLAIN)
        groups[name] = _group(app, _help, found[name])
    options = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    app = typer.Typer(
        name="compactctl", cls=CommandGroup, help=HELP, context_settings=options, **PLAIN
    )
    whole = _group(app, _root, {**found[""], **groups})
    whole.params.extend(get_install_completion_arguments())
    return whole


def _group(app: typer.Typer, start: Callable[..., None], commands: Mapping[str, Any]) -> TyperGroup:
    """The group that an app describes, with these commands."""
    app.callback(invoke_without_command=True)(start)
    group = get_group(app)
    group.commands.update(commands)
    return group


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code. Prints one line on stderr where it fails, and no traceback
    unless `COMPACT_TRACEBACK` asks for one.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a letter gets a `?`
            stream.reconfigure(errors="replace")
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        code = command_line()(given, prog_name="compactctl", standalone_mode=False)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except BaseException as error:  # noqa: BLE001 - the one place that catches everything
        if os.environ.get(TRACEBACK):
            cli.errors.say_where(error)
        code, line = cli.errors.ending_of(error)
        if line is not None:
            cli.errors.say(line, is_error=True)
        _let_go_of(sys.stdout)
        _let_go_of(sys.stderr)
    return code if isinstance(code, int) else 0


def _let_go_of(stream: TextIO | None) -> None:
    """What is still buffered for a reader who left is dropped, not complained about at exit."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        stream.flush()
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())
