"""Messages, sessions and times as the commands about sessions show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from compact.apps.cli.drawing import counted, one_line, visible, whole
from compact.core.checkpoints import Checkpoint
from compact.core.context import render_text
from compact.core.messages import Message
from compact.core.sessions import Session
from compact.core.voices import voice_of
from compact.managers.context import ContextManager

VOICES: Mapping[str, str] = {
    "system": "blue",
    "person": "bold",
    "checkpoint": "green",
    "injected": "bright_black",
}
"""What the lines of a speaker look like."""


def words_of(message: Message) -> str:
    """What a message says, its tool calls and results included."""
    return render_text([message]).partition("\n")[2]


def time_of(at: datetime) -> str:
    """A time for people, of the zone they are in."""
    try:
        return at.astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):  # the year 1 or 9999, beyond the zone's tables
        return at.isoformat(" ", "minutes")


def session_json(session: Session) -> dict[str, Any]:
    """A session as JSON values."""
    return {
        "id": session.id,
        "title": session.title,
        "scope": session.scope,
        "model": session.model,
        "format": session.wire,
        "tokenizer": session.tokenizer,
        "messages": session.branch.messages,
        "tokens": session.branch.tokens,
        "branch": session.branch.id,
        "created_at": session.created_at.isoformat(),
        "updated_at": session.updated_at.isoformat(),
    }


def message_json(message: Message, *, number: int | None, tokens: int | None) -> dict[str, Any]:
    """A message as JSON values; its number counts from 0."""
    return {
        "number": number,
        "id": message.id,
        "role": message.role,
        "voice": voice_of(message),
        "time": message.timestamp.isoformat(),
        "tokens": tokens,
        "text": words_of(message),
    }


def checkpoint_json(checkpoint: Checkpoint, *, live: bool) -> dict[str, Any]:
    """A checkpoint as JSON values; its messages count from 0."""
    span = checkpoint.span
    return {
        "id": checkpoint.id,
        "live": live,
        "level": checkpoint.level,
        "first": span.first,
        "last": span.last,
        "messages": span.messages,
        "tokens_of_messages": span.tokens,
        "tokens": checkpoint.token_count,
        "made_by": checkpoint.made_by,
        "parents": list(checkpoint.parents),
    }


def used_by(ctx: ContextManager) -> int:
    """Tokens of what a model would see now, as `context` shows it: calls closed."""
    return ctx.context_at(len(ctx.history)).tokens


def standing_json(ctx: ContextManager) -> dict[str, Any]:
    """Where a session stands, as JSON values."""
    return {
        "session": ctx.id,
        "branch": ctx.branch_id,
        "messages": len(ctx.history),
        "window": ctx.window.size,
        "tokens": used_by(ctx),
        "checkpoints": [checkpoint.id for checkpoint in ctx.checkpoints],
    }


def standing_line(ctx: ContextManager) -> str:
    """Where a session stands, on one line."""
    used = used_by(ctx)
    line = (
        f"session {ctx.id!r}, branch {ctx.branch_id!r}: {counted(len(ctx.history), 'message')}; "
        f"the context for a window of {ctx.window.size:,} has {counted(used, 'token')}, "
        f"{counted(len(ctx.checkpoints), 'checkpoint')}"
    )
    later = "; it will be compressed before the next prompt"
    return line + later if used > ctx.window.trigger else line


Row = tuple[int | None, Message, int | None]
"""A message with its number and its tokens, each where it has one."""


def show_rows(out: Console, rows: Iterable[Row]) -> None:
    """Messages, one a line."""
    for number, message, tokens in rows:
        at = "" if number is None else f"{number:,}"
        size = "" if tokens is None else f"{tokens:,}"
        voice = voice_of(message)
        line = Text(f"{at:>7}  {time_of(message.timestamp):<16}  {voice:<11} {size:>8}  ")
        line.append(one_line(words_of(message), 200))
        line.stylize(VOICES.get(voice, ""))
        out.print(line, no_wrap=True, overflow="ellipsis")


def show_whole(out: Console, rows: Iterable[Row]) -> None:
    """Messages word for word, each under its heading."""
    for number, message, tokens in rows:
        count = "" if tokens is None else f" · {counted(tokens, 'token')}"
        named = whole(message.id) if number is None else f"{number:,} · {whole(message.id)}"
        head = f"{named} · {message.role} · {time_of(message.timestamp)}{count}"
        out.print(Text(head, style="bold"), soft_wrap=True)
        out.print(Text(visible(words_of(message))), soft_wrap=True)
        out.print()
