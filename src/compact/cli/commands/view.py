"""`compactctl view`: writes a session as a page for a browser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from compact import wiring
from compact.cli import output, stores
from compact.cli.errors import Stop
from compact.cli.options import command, flag
from compact.cli.pages import page, session_data
from compact.cli.progress import Progress, counting
from compact.cli.render import Aside, Report
from compact.cli.settings import settings_of
from compact.cli.stores import OpenOptions
from compact.cli.words import counted
from compact.config import CompactConfig
from compact.files import is_file
from compact.messages.messages import Message
from compact.models.effective_settings import DEFAULT_WINDOW
from compact.secrets.redactor import Redactor
from compact.session.context_manager import ContextManager


@command
def view(
    options: OpenOptions,
    *,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="OUT", help="The file. Default: SESSION.html here."),
    ] = None,
    force: Annotated[bool, flag("--force", "Replace a file that is no such page.")] = False,
    verbatim: Annotated[
        bool, flag("--verbatim", "Leave secrets in it. Default: they are replaced.")
    ] = False,
) -> Report:
    """Write a session as one HTML page: its timeline, each compression with before and after, the
    checkpoints, and what the model saw at any turn.

    The page needs no server and no network, and loads nothing. Secrets are replaced by their kinds.
    A file in SESSION's place is read as if that conversation had been held in the window; nothing
    is stored.

    Examples:
      compactctl view harbour
      compactctl view harbour -o harbour.html
      compactctl view session.jsonl --window 32000
    """
    output.check_name("-o", out)
    with Progress("Reading") as progress:
        if is_file(Path(options.session)):
            name = _file_for(out, Path(options.session).stem, force=force)
            data = _replay_data(options, progress, verbatim=verbatim)
        else:
            with stores.opened(options) as catalog:
                session = catalog.find(options.session)
                name = _file_for(out, session.id, force=force)
                redactor = _redactor_of(catalog.settings, verbatim=verbatim)
                with stores.context_of(catalog, session) as ctx:
                    data = session_data.page_data(ctx, session, redactor=redactor)
        size = output.write(name, page.page_html(data))
    messages = len(data["messages"]["text"])
    yield {
        "session": data["session"]["id"],
        "out": name,
        "bytes": size,
        "messages": messages,
        "steps": len(data["moves"]),
        "redacted_messages": data["redacted"],
    }
    yield f"wrote {name} ({counted(messages, 'message')}, {size or 0:,} bytes)"
    if data["redacted"]:
        note = f"secrets in {counted(data['redacted'], 'message')} were replaced; --verbatim leaves"
        yield Aside(f"{note} them")


def _file_for(out: str | None, session_id: str, *, force: bool) -> str:
    plain = "".join(c if c.isalnum() or c in "-_" else "-" for c in session_id)[:80]
    name = out or f"{plain or 'session'}.html"
    start = output.beginning_of(name, len(page.BEGINS.encode()))
    if start and not page.is_page(start) and not force:
        raise Stop(f"{name} is no page of compact's: --force replaces it")
    return name


def _redactor_of(settings: CompactConfig, *, verbatim: bool) -> Redactor | None:
    return settings.redactor() if settings.redact and not verbatim else None


def _replay_data(options: OpenOptions, progress: Progress, *, verbatim: bool) -> dict[str, Any]:
    """Return the data of a file, as if the conversation had been held in the given window. It is
    compressed by extraction wherever that was due. Nothing is stored.
    """
    settings, file = settings_of(options), options.session
    transcript = wiring.read_transcript(file)
    window = settings.window()
    with ContextManager(
        window=window.size if window else DEFAULT_WINDOW,
        session_id=Path(file).stem,
        tokenizer=wiring.token_counter_of(settings, transcript.wire).estimator.name,
        format=transcript.wire,
        tools=transcript.tools or None,
        policy=settings.policy(),
    ) as ctx:
        replay(ctx, transcript.messages, on_message=counting(progress, "Replaying"))
        redactor, session = _redactor_of(settings, verbatim=verbatim), ctx.store.session(ctx.id)
        return session_data.page_data(ctx, session, redactor=redactor, replayed=True)


def replay(
    ctx: ContextManager, messages: Sequence[Message], *, on_message: Callable[[int, int], None]
) -> None:
    """Add the messages to an empty session one by one. Before each answer a prompt is made, as if a
    model with that window had been asked.
    """
    for number, message in enumerate(messages):
        on_message(number, len(messages))
        if message.role == "assistant" and number:
            ctx.get_context_for_model()
        ctx.add_message(message)
    ctx.get_context_for_model()
