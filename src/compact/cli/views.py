"""Shows messages and sessions as JSON values and for people. Several commands share it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from typing import TYPE_CHECKING, Any

from compact.cli.render import PARTS, Shown, Styled, Table
from compact.cli.words import counted, one_line, whole
from compact.messages.context import render_text
from compact.messages.messages import Message
from compact.session.views.recalled_turns import KIND
from compact.text.speakers import speaker_of

if TYPE_CHECKING:
    from compact.messages.checkpoints import Checkpoint
    from compact.messages.sessions import Session
    from compact.messages.tokens import TokenCounter
    from compact.session.context_manager import ContextManager
    from compact.text.archived import ArchivedConversation

SPEAKERS: Mapping[str, str] = {
    "system": "blue",
    "person": "bold",
    "checkpoint": "green",
    "injected": "bright_black",
}
"""Speaker → the colour of the speaker's lines."""

Row = tuple[int | None, Message, int | None]
"""The number of a message, the message, and its tokens. Either number may be unknown."""


def words_of(message: Message) -> str:
    """Return the text of a message, with its tool calls and results."""
    return render_text([message]).partition("\n")[2]


def time_of(at: datetime) -> str:
    """Return a time in the local time zone, for people."""
    try:
        return at.astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):  # years 1 and 9999 have no local time
        return at.isoformat(" ", "minutes")


def session_json(session: Session) -> dict[str, Any]:
    """Return a session as JSON values."""
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


def messages_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return messages as JSON values, numbered from 0."""
    return [
        {
            "number": number,
            "id": message.id,
            "role": message.role,
            "voice": speaker_of(message),
            "time": message.timestamp.isoformat(),
            "tokens": tokens,
            "text": words_of(message),
        }
        for number, message, tokens in rows
    ]


def checkpoint_json(checkpoint: Checkpoint, *, live: bool) -> dict[str, Any]:
    """Return a checkpoint as JSON values. Its messages are numbered from 0."""
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


def standing_json(ctx: ContextManager) -> dict[str, Any]:
    """Return a session's branch, size and checkpoints, as JSON values."""
    return {
        "session": ctx.id,
        "branch": ctx.branch_id,
        "messages": len(ctx.history),
        "window": ctx.window.size,
        "tokens": ctx.time.context_at(len(ctx.history)).tokens,
        "checkpoints": [checkpoint.id for checkpoint in ctx.checkpoints],
    }


def standing_line(ctx: ContextManager) -> str:
    """Return a session's branch, size and checkpoints, on one line."""
    used = ctx.time.context_at(len(ctx.history)).tokens
    line = (
        f"session {ctx.id!r}, branch {ctx.branch_id!r}: {counted(len(ctx.history), 'message')}; "
        f"the context for a window of {ctx.window.size:,} has {counted(used, 'token')}, "
        f"{counted(len(ctx.checkpoints), 'checkpoint')}"
    )
    later = "; it will be compressed before the next prompt"
    return line + later if used > ctx.window.trigger else line


def messages_parts(rows: Iterable[Row], *, full: bool) -> Iterator[Shown]:
    """Yield messages, one line each. With `full`, yield them word for word under headings."""
    for number, message, tokens in rows:
        if full:
            size = "" if tokens is None else f" · {counted(tokens, 'token')}"
            name = whole(message.id) if number is None else f"{number:,} · {whole(message.id)}"
            head = f"{name} · {message.role} · {time_of(message.timestamp)}{size}"
            yield Styled(head, "bold")
            yield Styled(f"{words_of(message)}\n")
            continue
        at = "" if number is None else f"{number:,}"
        size = "" if tokens is None else f"{tokens:,}"
        speaker = speaker_of(message)
        head = f"{at:>7}  {time_of(message.timestamp):<16}  {speaker:<11} {size:>8}"
        line = f"{head}  {one_line(words_of(message), 200)}"
        yield Styled(line, SPEAKERS.get(speaker, ""), is_row=True)


def tokens_by_part(
    messages: Iterable[Message], counter: TokenCounter, pinned: Set[str] = frozenset()
) -> dict[str, int]:
    """Return the tokens of each part of the window. `pinned` holds the ids of pinned messages."""
    parts = dict.fromkeys(PARTS, 0)
    for message in messages:
        speaker = speaker_of(message)
        part: str = speaker if speaker in ("system", "checkpoint") else "recent"
        if part == "recent" and message.id in pinned:
            part = "pinned"
        if part == "checkpoint" and message.text.startswith("[Record "):
            part = "record"
        elif speaker == "injected" and message.text.startswith(f"[{KIND} "):
            part = "memory"
        parts[part] += counter.message(message)
    return parts


def archived_table(found: Sequence[ArchivedConversation]) -> Table:
    """Return archived sessions as a table."""
    rows = [
        (
            whole(each.session_id),
            one_line(each.title or "", 60),
            f"{time_of(each.begun):.10}",
            f"{time_of(each.ended):.10}",
            each.messages,
            each.bytes,
        )
        for each in found
    ]
    days, numbers = ("from", "to"), ("messages", "bytes")
    names = ("session", "title", *days, *numbers)
    return Table(names, rows, right=numbers, whole=("session", *days), is_list=True)


def runs_of(positions: Iterable[int]) -> list[list[int]]:
    """Return ascending positions as runs `[first, last]`."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and runs[-1][1] == position - 1:
            runs[-1][1] = position
        else:
            runs.append([position, position])
    return runs
