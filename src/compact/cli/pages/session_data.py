"""The data of a session's page, as JSON values.

The data holds each message once, by position. A context is recorded only if it changed in another
way than by a new message; the page derives all others. A text that was made for a prompt, such as a
stub for tool output, is stored once in a separate list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from compact.cli.views import runs_of, words_of
from compact.engine.shorten import is_answer
from compact.messages.changes import GoalsTracked, PinSet
from compact.messages.characters import with_texts
from compact.messages.checkpoints import Checkpoint
from compact.messages.context import ActiveContext
from compact.messages.message_redaction import redact_messages, redact_text
from compact.messages.messages import Message
from compact.messages.sessions import Move, Session
from compact.secrets.redaction import Known
from compact.secrets.redactor import Redactor
from compact.session.context_manager import ContextManager
from compact.session.views.recalled_turns import KIND
from compact.text.speakers import speaker_of

MOST_LOOKS = 400
"""How many contexts, besides those after compressions, are recorded: the newest ones."""
VERSION = 1
"""The version of this data format."""


def page_data(
    ctx: ContextManager, session: Session, *, redactor: Redactor | None, replayed: bool = False
) -> dict[str, Any]:
    """Return the page's data for the session's open branch. Without a redactor, secrets are not
    masked. `replayed` says that the conversation comes from a file, so that the prompts on the page
    were never sent to a model.
    """
    entries = ctx.store.read(ctx.branch_id, 0, len(ctx.history))
    messages = [entry.message for entry in entries]
    views, texts = _views(ctx, messages)
    moves = ctx.time.moves()
    data = {
        "session": {**_session(session), "replayed": replayed},
        "window": {name: getattr(ctx.window, name) for name in ("size", "usable", "trigger")},
        "texts": list(texts),
        "views": views,
        "moves": [_move(ctx, move) for move in moves],
        "other_windows": _other_windows(ctx),
        "checkpoints": _checkpoints(ctx, views),
        "goals": [goal.model_dump(mode="json", include={"text", "status"}) for goal in ctx.goals],
    }
    redacted = 0
    if redactor is not None:
        known = Known(redactor=redactor)
        clean = redact_messages(messages, known)
        redacted = sum(one is not other for one, other in zip(messages, clean, strict=True))
        data = with_texts(data, partial(redact_text, known=known))
        messages = clean
    tokens = [entry.tokens for entry in entries]
    return {
        "version": VERSION,
        "redacted": None if redactor is None else redacted,
        **data,
        "messages": _messages(messages, tokens),
    }


def _session(session: Session) -> dict[str, Any]:
    return {
        # In an imported session, compact never sent the first messages to a model.
        "imported": {"source", "format"} <= session.metadata.keys(),
        "id": session.id,
        "title": session.title,
        "model": session.model,
        "tokenizer": session.tokenizer,
        "branch": session.branch.id,
    }


def _messages(messages: Sequence[Message], tokens: Sequence[int | None]) -> dict[str, list[Any]]:
    return {
        "speaker": [speaker_of(message) for message in messages],
        "time": [int(message.timestamp.timestamp()) for message in messages],
        "tokens": list(tokens),
        "text": [words_of(message) for message in messages],
    }


# --- contexts -------------------------------------------------------------------------------------


def _views(
    ctx: ContextManager, messages: Sequence[Message]
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return the recorded contexts, and the texts in them with their numbers."""
    texts: dict[str, int] = {}
    places = {message.id: position for position, message in enumerate(messages)}
    views = []
    for at in _recorded_positions(ctx, len(messages)):
        context = ctx.time.context_at(at)
        items = list(_items(ctx, context, messages, places, texts))
        live = {checkpoint.id: checkpoint.level for checkpoint in context.checkpoints}
        views.append({"at": at, "tokens": context.tokens, "items": items, "live": live})
    return views, texts


def _recorded_positions(ctx: ContextManager, length: int) -> list[int]:
    of_steps = {move.at for move in ctx.time.moves()}
    own = (c for c in ctx.store.changes(ctx.id) if not isinstance(c.what, GoalsTracked | PinSet))
    of_changes = {at for change in own for at in (change.at, change.at + 1)}
    newest = sorted(at for at in of_changes - of_steps if at <= length)[-MOST_LOOKS:]
    return sorted({0, *(at for at in of_steps if at <= length), *newest})


def _items(
    ctx: ContextManager,
    context: ActiveContext,
    messages: Sequence[Message],
    places: dict[str, int],
    texts: dict[str, int],
) -> Iterator[Any]:
    """Yield the messages of a context in order. A run of unchanged messages is `[first, last]`. Any
    other message is an item with a kind, text and tokens.
    """
    run: list[int] = []
    for message in _with_system(context):
        at = places.get(message.id)
        if at is not None and message.content == messages[at].content:
            if not run or run[1] != at - 1:
                if run:
                    yield run
                run = [at, at]
            run[1] = at
            continue
        if run:
            yield run
            run = []
        kind = _kind(message, at)
        item: dict[str, Any] = {"kind": kind, "tokens": ctx.history.counter.message(message)}
        if kind == "checkpoint":
            item["id"] = message.id
        else:
            item["text"] = texts.setdefault(words_of(message), len(texts))
        if kind == "shortened":
            item["at"] = at
        yield item
    if run:
        yield run


def _with_system(context: ActiveContext) -> Iterator[Message]:
    if context.system_text:
        yield Message(id="system-beside", role="system", content=context.system_text)
    yield from context.messages


def _kind(message: Message, at: int | None) -> str:
    if at is not None:
        return "shortened"
    if message.metadata.source == "checkpoint":
        return "checkpoint" if message.id.startswith("ck-") else "record"
    if is_answer(message):
        return "note"
    if message.text.startswith(f"[{KIND} "):
        return "memory"
    return "system" if speaker_of(message) == "system" else "note"


# --- steps and checkpoints ------------------------------------------------------------------------


def _move(ctx: ContextManager, move: Move) -> dict[str, Any]:
    projection = ctx.store.projection(move.projection_id) if move.projection_id else None
    return {
        "kind": move.kind,
        "at": move.at,
        "time": int(move.made_at.timestamp()),
        "number": projection.number if projection else 0,
        "tokens": projection.tokens if projection else None,
        "checkpoints": [c.id for c in projection.checkpoints] if projection else [],
    }


def _other_windows(ctx: ContextManager) -> list[int]:
    windows = {move.window for move in ctx.store.moves(ctx.id, None, most=MOST_LOOKS)}
    return sorted(windows - {ctx.window.size})


def _checkpoints(ctx: ContextManager, views: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the checkpoints of the recorded contexts and their sources, oldest span first."""
    stored = {checkpoint.id: checkpoint for checkpoint in ctx.store.checkpoints(ctx.id)}
    names = [name for view in views for name in view["live"]]
    found: dict[str, Checkpoint] = {}
    while names:
        name = names.pop()
        if name in stored and name not in found:
            found[name] = stored[name]
            names += stored[name].parents
    ordered = sorted(found.values(), key=lambda c: (c.span.first, c.span.last, c.number))
    return [_checkpoint(checkpoint) for checkpoint in ordered]


def _checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    span = checkpoint.span
    return {
        "id": checkpoint.id,
        "level": checkpoint.level,
        "number": checkpoint.number,
        "first": span.first,
        "last": span.last,
        "messages": span.messages,
        "before": span.tokens,
        "tokens": checkpoint.token_count,
        "made_by": checkpoint.made_by,
        "parents": list(checkpoint.parents),
        "summary": checkpoint.summary,
        "anchors": list(checkpoint.anchors),
        "verdicts": [verdict.model_dump(mode="json") for verdict in checkpoint.verdicts],
        "covers": runs_of(checkpoint.covered()),
    }
