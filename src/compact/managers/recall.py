"""Bringing back what left the view: by words (`recall`), or by the id that stands in its place
(`expand`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from compact.compression import shorten
from compact.core.checkpoints import Checkpoint
from compact.core.messages import Message
from compact.core.recalls import EXPAND, PAGE, RECALL, Expansion, Recalled, told
from compact.core.terms import looked_for, searchable
from compact.errors import InvalidInput, NotFound
from compact.managers.state import SessionState

AROUND = 240
"""Characters that are shown before and after what was looked for."""
TOLD_TOKENS = 1_500
"""Tokens of what a tool gives back, unless it is asked for more or less."""


def recall(state: SessionState, query: str, *, limit: int = PAGE) -> list[Recalled]:
    """Messages of the history that share words with the query, the best first."""
    history = state.history
    found: list[Recalled] = []
    for position, score in state.store.search(state.branch_id, query, most=limit):
        message = history[position]
        found.append(
            Recalled(
                id=message.id,
                position=position,
                role=message.role,
                timestamp=message.timestamp,
                text=_around(searchable(message), query),
                score=score,
            )
        )
    return found


def _around(text: str, query: str) -> str:
    """The text, or of a long one the part in which most of the query's words stand."""
    if len(text) <= 3 * AROUND:
        return text
    lower = text.lower()
    words = {piece for name in looked_for(query) for piece in name}
    places = sorted(i for word in words for i in _places(lower, word))
    if not places:
        return text[: 2 * AROUND] + " …"
    best = max(places, key=lambda p: sum(1 for q in places if p <= q <= p + AROUND))
    start, stop = max(0, best - AROUND), best + 2 * AROUND
    return ("… " if start else "") + text[start:stop] + (" …" if stop < len(text) else "")


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    for _ in range(50):
        if at < 0:
            return
        yield at
        at = text.find(word, at + 1)


def expand(state: SessionState, id: str, *, max_tokens: int | None = None) -> Expansion:
    """The original messages behind a checkpoint's id, a message's id, or a tool call's id.

    Messages that do not fit into `max_tokens` are left out, the first that does not is clipped.

    Raises:
        NotFound: nothing in the session has that id.
    """
    positions = _positions(state, id)
    history = state.history
    taken: list[Message] = []
    tokens = 0
    for position in positions:
        message, size = history[position], history.tokens(position)
        if max_tokens is not None and tokens + size > max_tokens:
            message = shorten.clipped(message, max_tokens - tokens, state.counter)
            size = state.counter.message(message)
            if tokens + size <= max_tokens:
                taken.append(message)
                tokens += size
            break
        taken.append(message)
        tokens += size
    return Expansion(messages=tuple(taken), tokens=tokens, total=len(positions))


def _positions(state: SessionState, id: str) -> list[int] | range:
    checkpoint = find_checkpoint(state, id)
    if checkpoint is not None:
        return checkpoint.covered()
    position = state.history.position_of(id)
    if position is None:
        position = _answer_of(state, id)
    if position is None:
        raise NotFound(
            f"session {state.id!r} has no message, tool call or checkpoint with the id {id!r}"
        )
    return [position]


def find_checkpoint(state: SessionState, id: str) -> Checkpoint | None:
    """The checkpoint of that id, live or not."""
    if not id.startswith("ck-"):
        return None
    return next((c for c in state.store.checkpoints(state.id) if c.id == id), None)


def _answer_of(state: SessionState, call_id: str) -> int | None:
    """Where the result of a tool call stands, else the call itself."""
    called: int | None = None
    for position, _ in state.store.search(state.branch_id, call_id, most=2 * PAGE):
        message = state.history[position]
        if any(result.call_id == call_id for result in message.tool_results):
            return position
        if any(call.id == call_id for call in message.tool_calls):
            called = position
    return called


def answer_tool(
    state: SessionState, name: str, arguments: str | Mapping[str, Any], max_tokens: int | None
) -> str:
    """What the tools `recall` and `expand` answer a model, as text under a heading of ours.

    Raises:
        InvalidInput: there is no such tool, or its argument is missing.
        NotFound: nothing has the id that was asked for.
    """
    given = _arguments(arguments)
    room = TOLD_TOKENS if max_tokens is None else max_tokens
    match name, given:
        case "recall", {"query": str(query)}:
            found = recall(state, query)
            lines = [f"({x.id}, {x.role}) {x.text}" for x in found]
            return _fitted(state, f"{len(found)} messages for: {query[:80]}", lines, room)
        case "expand", {"id": str(id)}:
            whole = expand(state, id, max_tokens=room)
            lines = [f"({m.id}, {m.role}) {searchable(m)}" for m in whole.messages]
            return _fitted(state, f"{len(whole.messages)} of {whole.total} of {id}", lines, room)
    raise InvalidInput(
        f"no tool {name!r} with {sorted(given)}: there are {RECALL}(query) and {EXPAND}(id)"
    )


def _arguments(arguments: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(arguments, Mapping):
        return arguments
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidInput(f"the arguments of a tool are a JSON object, got {arguments[:80]!r}")
    return value


def _fitted(state: SessionState, title: str, lines: list[str], room: int) -> str:
    """As many of the lines as fit."""
    title = " ".join(title.replace("]", ")").split())
    while lines and state.counter.text(told(title, lines)) > room:
        if len(lines) == 1 and len(lines[0]) > 2 * AROUND:
            lines = [lines[0][: len(lines[0]) * 3 // 4] + " …"]
        else:
            lines = lines[:-1]
    return told(title, lines or ["nothing was found"])
