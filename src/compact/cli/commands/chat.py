"""`compactctl chat`: the chat program."""

from __future__ import annotations

import os
import sys
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from compact import wiring
from compact.cli import exchange, output
from compact.cli.errors import Stop
from compact.cli.options import (
    Summarizer,
    Tokenizer,
    argument,
    command,
    flag,
    number_option,
    text_option,
)
from compact.cli.render import Aside, Report
from compact.cli.stores import SessionCatalog, StoreOptions, memory_of, opened
from compact.cli.words import counted, whole
from compact.errors import NotFound
from compact.exchange import exporting
from compact.messages import clock_and_ids
from compact.messages.sessions import DEFAULT_SCOPE

if TYPE_CHECKING:
    from compact.tui.opening import ChatSetup

TEXT, DATA = (".md", ".markdown"), (".json",)
"""File endings for an export as text to read, and for one that can be imported again."""


@dataclass(frozen=True, kw_only=True)
class ChatOptions(StoreOptions):
    """Options of `chat`."""

    model: Annotated[
        str | None,
        text_option(
            "KEY",
            "The model to talk to, such as ollama:qwen3:8b; echo:4k answers offline. Default: the "
            "session's last one, else the settings', else one of Ollama's here.",
        ),
    ] = None
    window: Annotated[int | None, number_option("The window. Default: the model's own.")] = None
    tokenizer: Tokenizer = None
    summarizer: Summarizer = None


@command
def chat(
    options: ChatOptions,
    *,
    session: Annotated[
        str | None,
        argument("[SESSION]", "Continue this session, or begin one of that name. Default: new."),
    ] = None,
    last: Annotated[bool, flag("--last", "Continue the session that changed last.")] = False,
    light: Annotated[bool, flag("--light", "Begin with the light theme.")] = False,
) -> Report:
    """Talk to a model in a conversation that never overflows.

    Everything is kept in the store, and the session can be continued later. F1 lists keys and
    commands. Needs the extra `chat`.

    Examples:
      compactctl chat
      compactctl chat garden --model ollama:qwen3:8b
      compactctl chat --model echo:4k
      compactctl chat --last
    """
    if find_spec("textual") is None:
        raise Stop(f"chat needs the package textual: {wiring.how_to_install('chat')}")
    if session is not None and last:
        raise Stop("--last continues the newest session: leave SESSION out")
    if options.json:
        raise Stop("--json: chat is for people; `sessions export` prints a session")
    with opened(options, create=True) as catalog:
        session_id = _run(catalog, session, last=last, light=light)
    yield {"session": session_id}
    if session_id is not None:
        yield Aside(f"kept; it continues with: compactctl chat {whole(session_id)}")


def _run(catalog: SessionCatalog, name: str | None, *, last: bool, light: bool) -> str | None:
    """Run the chat program. Return the id of the session, or None if it was not stored."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        raise Stop("chat needs a terminal; `show` and `sessions` work without one")
    from compact.tui.app import ChatApp  # its package may be missing

    setup = setup_of(catalog, name, last=last)
    app = ChatApp(setup, light=light)
    with closing(memory_of(catalog, setup.scope)) as memory:
        memory.age_daily(app.hear)
        app.run()
    ids = {session.id for session in catalog.store.sessions(scope=setup.scope)}
    return setup.session_id if setup.session_id in ids else None


def setup_of(catalog: SessionCatalog, name: str | None, *, last: bool = False) -> ChatSetup:
    """Return the setup of the chat program."""
    from compact.tui.opening import ChatSetup

    scope = catalog.scope or DEFAULT_SCOPE
    return ChatSetup(
        store=catalog.store,
        settings=catalog.settings,
        session_id=_session(catalog, name, scope, last=last),
        scope=scope,
        write=lambda session_id, file: _export(catalog, session_id, file),
    )


def _session(catalog: SessionCatalog, name: str | None, scope: str, *, last: bool) -> str:
    if last:
        sessions = catalog.store.sessions(scope=scope)
        if not sessions:
            raise NotFound(f"there is no session in {catalog.file} yet: leave --last out")
        return sessions[0].id
    if name is None:
        return f"chat-{clock_and_ids.now().astimezone():%Y%m%d-%H%M%S}"
    if not name.strip() or len(name) > 200 or not name.isprintable():
        raise Stop("the session's name is to be on one line, of up to 200 letters")
    with suppress(NotFound):
        return catalog.find(name).id
    return name


def _export(catalog: SessionCatalog, session_id: str, file: str) -> str:
    if not file.lower().endswith(TEXT + DATA):
        raise Stop(f"{file}: end the name in .md (to read) or .json (to import again)")
    exchange.check_out(file, catalog, force=False)
    session = catalog.find(session_id)
    done = "Replaced" if os.path.isfile(file) else "Wrote"
    is_text = file.lower().endswith(TEXT)
    whole = exchange.file_of(catalog, session, session.branch if is_text else None)
    if catalog.settings.redact:
        whole = exporting.without_secrets(whole, catalog.settings.redactor())
    size = output.write(file, exchange.text_of(whole, as_text=is_text))
    return f"{done} {file}: {counted(len(whole.messages), 'message')}, {size or 0:,} bytes"
