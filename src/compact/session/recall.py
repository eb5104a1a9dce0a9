"""Brings back messages that prompts no longer show: by words (`recall`), or by the id that is shown
instead (`expand`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compact.engine import shorten
from compact.errors import InvalidArgument, InvalidInput, NotFound
from compact.messages.checkpoints import Checkpoint
from compact.messages.formats.known import format_named
from compact.messages.formats.wire import schemas_for
from compact.messages.given import plain
from compact.messages.messages import Message, Part, Text, ToolCall, ToolResult
from compact.messages.tokens import TokenCounter
from compact.session.history import SessionHistory
from compact.session.state import ALL_MOVES, SessionState
from compact.text.recalls import (
    EXPAND,
    PAGE,
    RECALL,
    TOLD_TOKENS,
    Expansion,
    Recalled,
    told,
    tools,
)
from compact.text.snippets import Sought
from compact.text.terms import readable, searchable

if TYPE_CHECKING:
    from compact.session.open_session import OpenSession

DIGESTS_DIFFER = 8
"""By how many tokens two digests may differ."""
WHOLE_SHARE = 0.35
"""At most this share of an answer is one whole message. A longer message is shown as an excerpt."""
HEADING = 64
"""About how many tokens an answer's heading has."""
CHARS_PER_TOKEN, FULL, MOST_TRIES = 8, 0.95, 8
"""At most how many characters a token has, for the first try of a page. From which share of its
tokens a page counts as full. How often to try to make room for a heading."""
MOST_HITS = (2 * PAGE, 20 * PAGE, 200 * PAGE, 2_000 * PAGE)
"""How many messages that mention a call's id to search. Each limit is tried until it is found."""


def recall(state: SessionState, query: str, *, limit: int = PAGE) -> list[Recalled]:
    """Return messages of the history that share words with the query, best first.

    Raises:
        InvalidArgument: the limit is below 0.
    """
    if limit < 0:
        raise InvalidArgument("limit", f"limit must be at least 0, got {limit}")
    results, sought = list[Recalled](), Sought(query)
    for position, score in _search(state, query, limit):
        message = _read(state, state.history, position)
        results.append(
            Recalled(
                id=message.id,
                position=position,
                role=message.role,
                timestamp=message.timestamp,
                text=sought.around(searchable(message)),
                score=score,
            )
        )
    return results


def _read(state: SessionState, history: SessionHistory, position: int) -> Message:
    return history.redacted(position) if state.masks_recalled else history[position]


def _search(state: SessionState, query: str, most: int) -> list[tuple[int, float]]:
    """Return the store's hits in this history. Other processes may have added to both."""
    hits = state.store.search(state.branch_id, query, most=most)
    state.history.catch_up()
    return [hit for hit in hits if hit[0] < len(state.history)]


# --- expand ---------------------------------------------------------------------------------------


def expand(
    state: SessionState, id: str, *, max_tokens: int | None = None, start: int = 0
) -> Expansion:
    """Return the original messages for the id of a checkpoint, a message or a tool call: as many as
    fit into `max_tokens`, starting with message number `start`.

    If the id is for one message that does not fit, `start` counts characters of that message, and a
    page ends at the end of a line if possible. If one of several messages does not fit, it gets a
    page to itself and is clipped there, or left out if that is not enough. The id of a call finds
    the call's result, and the call itself if its arguments may be clipped in a prompt. If an id was
    used several times, a call's id finds them all, newest first; a message's id finds the newest.

    Raises:
        NotFound: nothing in the session has the id.
    """
    state.history.catch_up()
    return _page(state, *_behind(state, id), max_tokens, max(0, start))


def _page(
    state: SessionState,
    history: SessionHistory,
    positions: Sequence[int],
    max_tokens: int | None,
    start: int,
) -> Expansion:
    taken: list[Message] = []
    tokens, clipped = 0, False
    if len(positions) == 1 and start:
        return _part(_read(state, history, positions[0]), max_tokens, start, state.counter)
    for position in positions[start:]:
        size = history.said_tokens(position)
        if max_tokens is not None and tokens + size > max_tokens:
            clipped = not taken
            break
        taken.append(_read(state, history, position))
        tokens += size
    if clipped and max_tokens is not None:
        message = _read(state, history, positions[start])
        if len(positions) == 1:
            return _part(message, max_tokens, start, state.counter)
        message = shorten.clipped(message, max_tokens, state.counter)
        size = state.counter.message(message)
        taken, tokens = ([message], size) if size <= max_tokens else ([], 0)
    end = start + max(len(taken), int(clipped))
    return Expansion(
        messages=tuple(taken),
        tokens=tokens,
        total=len(positions),
        start=start,
        next=end if end < len(positions) else None,
        clipped=clipped,
    )


def _part(message: Message, most: int | None, start: int, counter: TokenCounter) -> Expansion:
    """Return as much of a message's text as fits, from character `start` on. It may be empty."""
    total = len(_text(message))
    high = stop = total if most is None else min(total, start + CHARS_PER_TOKEN * most)
    low, tokens = start, 0
    while low < stop and most is not None:
        tokens = counter.message(_between(message, start, stop))
        low, high = (stop, high) if tokens <= most else (low, stop - 1)
        if low == high or (tokens <= most and tokens > most * FULL):
            break
        stop = (low + high + 1) // 2
    stop = low if most is not None else total
    line = _text(message).rfind("\n", start, stop) + 1 if stop < total else 0
    stop = line if line > (start + stop) // 2 else stop
    shown = (_between(message, start, stop),) if stop > start else ()
    return Expansion(
        messages=shown,
        tokens=sum(map(counter.message, shown)),
        total=total,
        start=start,
        next=stop if start < stop < total else None,
        clipped=True,
        unit="characters",
    )


def _texts(message: Message) -> Iterator[tuple[Part, str]]:
    for part in message.parts:
        if isinstance(part, ToolCall):
            yield part, f"{part.name} {part.id} {part.arguments}"
        elif text := getattr(part, "text", ""):
            yield part, text


def _text(message: Message) -> str:
    """Return the text of a message that pages show."""
    return "\n".join(text for _, text in _texts(message))


def _between(message: Message, start: int, stop: int) -> Message:
    """Return the message with only these characters of its text."""
    parts: list[Part] = []
    for part, text in _texts(message):
        piece = text[max(0, start) : max(0, stop)]
        if piece and isinstance(part, ToolResult):
            parts.append(ToolResult(part.call_id, piece, part.name, part.is_error))
        elif piece:
            parts.append(Text(piece))
        start, stop = start - len(text) - 1, stop - len(text) - 1
    return message.with_parts(parts)


def _behind(state: SessionState, id: str) -> tuple[SessionHistory, Sequence[int]]:
    """Find the original messages for an id: their history and their positions."""
    checkpoint = find_checkpoint(state, id)
    if checkpoint is not None:
        return _history_of(state, checkpoint), checkpoint.covered()
    position = state.history.position_of(id)
    positions = _of_call(state, id) if position is None else [position]
    if not positions:
        raise NotFound(
            f"session {state.id!r} has no message, tool call or checkpoint with the id "
            f"{id[:80]!r}: take one that a heading or a stub names, or search with {RECALL}(query)"
        )
    return state.history, positions


def find_checkpoint(state: SessionState, id: str) -> Checkpoint | None:
    """Find the checkpoint with that id, even if prompts no longer show it."""
    if not id.startswith("ck-"):
        return None
    return next((c for c in state.store.checkpoints(state.id) if c.id == id), None)


def _history_of(state: SessionState, checkpoint: Checkpoint) -> SessionHistory:
    """Return the history of a checkpoint's branch: the open one, or one that was left early."""
    forks = [branch.fork for branch in state.store.branches(state.id) if branch.parent]
    if checkpoint.span.last < min(forks, default=checkpoint.span.last + 1):
        return state.history
    for move in state.store.moves(state.id, None, most=ALL_MOVES):
        if move.projection_id is None or move.at <= checkpoint.span.last:
            continue
        live = state.store.projection(move.projection_id).checkpoints
        if checkpoint.id not in [c.id for c in live]:
            continue
        if state.covers(move.branch_id, move.at):
            break
        branch = state.store.branch(move.branch_id)
        history = SessionHistory(state.store, branch, state.wire, state.counter, counts=False)
        history.own = state.own
        return history
    return state.history


def _of_call(state: SessionState, call_id: str) -> list[int]:
    """Return the positions of a call's results, newest first, then of the calls with that id that
    are long or have no result.
    """
    results: list[int] = []
    calls: dict[int, bool] = {}
    looked_at = 0
    for most in MOST_HITS:
        before = len(results) + len(calls)
        hits = _search(state, call_id, most)
        for position, _ in hits[looked_at:]:
            message = state.history[position]
            if any(result.call_id == call_id for result in message.tool_results):
                results.append(position)
            sizes = [len(call.arguments) for call in message.tool_calls if call.id == call_id]
            if sizes:
                calls[position] = max(sizes) > shorten.LONG_ARGUMENT_CHARS
        looked_at = len(hits)
        was_used_again = max(len(results), len(calls)) > 1
        goes_on = was_used_again and len(results) + len(calls) > before
        if looked_at < most or (results and not goes_on):
            break
    wanted = [position for position, long in calls.items() if long or not results]
    return sorted(results, reverse=True) + sorted(wanted, reverse=True)


# --- as tools -------------------------------------------------------------------------------------


class RecallTools:
    """`ctx.tools`: `recall` and `expand` as tools for a model."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session

    def schemas(self, format: str | None = None) -> list[dict[str, Any]]:
        """Return the schemas of the tools, to declare to a model, in the session's wire format or
        another one.

        Raises:
            UnknownModel: there is no such format.
        """
        written = format_named(format or self._session.state.wire.name)
        return schemas_for(written.tool_shape, tools())

    def call(
        self, name: str, arguments: str | Mapping[str, Any], *, max_tokens: int | None = None
    ) -> str:
        """Run `recall` or `expand` for a model that called the tool, and return the answer's text.

        Raises:
            InvalidInput: there is no such tool, or an argument is missing.
            NotFound: nothing in the session has the id that the model gave.
        """
        shown = self._session.view.shown_whole()
        return answer_tool(self._session.state, name, arguments, max_tokens, shown)


def answer_tool(
    state: SessionState,
    name: str,
    arguments: str | Mapping[str, Any],
    max_tokens: int | None,
    seen: Collection[int] = (),
) -> str:
    """Return the answer of the tools `recall` and `expand` to a model, as text under a heading of
    compact. The answer has at most `max_tokens`, but always the heading and one line. A search
    leaves out the messages at positions `seen`, which the prompt shows, unless it finds nothing
    else.

    Raises:
        InvalidInput: there is no such tool, or an argument is missing. The error's text can be
            shown to the model.
        NotFound: nothing has that id. The error's text can be shown to the model.
    """
    values = _arguments(arguments)
    room = TOLD_TOKENS if max_tokens is None else max_tokens
    match name, values:
        case "recall", {"query": str(query)}:
            return _told_search(state, query, room, seen)
        case "expand", {"id": str(id)}:
            start = values.get("start", 0)
            if isinstance(start, int) and not isinstance(start, bool):
                return _told_page(state, id, start, room)
            raise InvalidInput(
                f"{EXPAND}(id, start): start must be a whole number, not "
                f"{json.dumps(start, default=str)[:80]}"
            )
    raise InvalidInput(
        f"no tool {name!r} with {json.dumps(values, default=str)[:80]}: there are "
        f"{RECALL}(query: text) and {EXPAND}(id: text, start: whole number, 0 if left out)"
    )


def _arguments(arguments: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(arguments, Mapping):
        read: Mapping[str, Any] = plain(arguments, "arguments")
        return read
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidInput(f"the arguments of a tool are a JSON object, got {arguments[:80]!r}")
    return value


def _told_search(state: SessionState, query: str, room: int, seen: Collection[int]) -> str:
    results = recall(state, query, limit=PAGE + len(seen))
    results = ([x for x in results if x.position not in seen] or results)[:PAGE]
    lines = [f"({x.id}, {x.role}) {_whole_or(x, state, room)}" for x in results]

    def title(shown: int) -> str:
        more = f"{shown} of " if shown < len(results) else ""
        return f"{more}{len(results)} messages for: {query[:80]}"

    return _fitted(state, title, lines or ["nothing was found"], room)


def _whole_or(found: Recalled, state: SessionState, room: int) -> str:
    """Return the whole message if it has at most `WHOLE_SHARE` of the room, else the excerpt."""
    whole = readable(_read(state, state.history, found.position))
    return whole if state.counter.text(whole) <= room * WHOLE_SHARE else found.text


def _told_page(state: SessionState, id: str, start: int, room: int) -> str:
    state.history.catch_up()
    history, positions = _behind(state, id)
    if len(positions) == 1:
        message = _read(state, history, positions[0])
        if start or state.counter.text(readable(message)) > room - HEADING:
            return _told_part(state, id, message, start, room)
    page = _page(state, history, positions, room, max(0, start))
    lines = [f"({m.id}, {m.role}) {readable(m)}" for m in page.messages]
    first = page.start + 1

    def title(shown: int) -> str:
        end = page.start + shown
        if page.clipped or not shown:
            end = first
        which = f"message {first}" if end == first else f"messages {first} to {end}"
        alone = ", ".join(m.id for m in page.messages if page.clipped)
        whole = f", clipped: expand {alone} reads all of it" if alone else ""
        more = f", go on with start={end}" if end < page.total else ""
        return f"{which} of the {page.total} of {id}{whole}{more}"

    if start >= page.total:
        none = f"none from start={start} on"
        return told(f"{id} has {page.total} messages", [none], state.own)
    return _fitted(state, title, lines, room)


def _told_part(state: SessionState, id: str, message: Message, start: int, room: int) -> str:
    """Return a part of one message's text, and say which characters and lines it is."""
    text, most = _text(message), room
    for _ in range(MOST_TRIES):
        page = _part(message, max(0, most), max(0, start), state.counter)
        if page.start >= page.total:
            none = f"none from start={start} on"
            return told(f"{id} has {page.total:,} characters", [none], state.own)
        if not page.messages:
            break
        end = page.total if page.next is None else page.next
        first, last = (1 + text.count("\n", 0, at) for at in (page.start, end - 1))
        lines = f"lines {first:,} to {last:,} of {1 + text.count(chr(10)):,}"
        more = f", go on with start={end}" if page.next is not None else ""
        which = f"characters {page.start + 1:,} to {end:,} of the {page.total:,} of {id}"
        (shown,) = page.messages
        line = f"({shown.id}, {shown.role}) {readable(shown)}"
        answer = told(f"{which} ({lines}){more}", [line], state.own)
        excess = state.counter.text(answer) - room
        if excess <= 0:
            return answer
        most -= excess + DIGESTS_DIFFER
    return _fitted(state, lambda _: f"nothing of {id}", [], room)


def _fitted(
    state: SessionState, title: Callable[[int], str], lines: Sequence[str], room: int
) -> str:
    """Return the first lines that fit in `room` tokens. If even the first line does not fit, it is
    shortened. `title` returns the heading for a number of shown lines.
    """

    def page(shown: Sequence[str]) -> str:
        return told(" ".join(title(len(shown)).replace("]", ")").split()), shown, state.own)

    shown = list(lines)
    while len(shown) > 1 and state.counter.text(page(shown)) > room:
        shown.pop()
    whole = page(shown)
    if shown and state.counter.text(whole) > room:
        left = room - state.counter.text(page([""])) - DIGESTS_DIFFER
        about = "in the history"
        shown = [shorten.clip_text(shown[0], max(0, left), about, state.counter)]
    return page(shown or ["it does not fit: ask for more tokens"])
