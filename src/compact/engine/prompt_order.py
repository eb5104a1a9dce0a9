"""The fold: an active context that grows by later messages, one by one.

A projection (a compressed view) is taken as it is. Later messages are appended, and nothing before
them is looked at again. A note answers an open call until its result comes. The session's system
prompt comes first; goals come after the history's system messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from compact.engine import shorten
from compact.engine.history import History
from compact.messages.alternation import (
    GAP_TOKENS,
    Placed,
    Sent,
    in_turns,
    lacks_answer,
    may_join,
    seams_of,
    sent_placed,
)
from compact.messages.characters import all_carried
from compact.messages.checkpoints import Checkpoint
from compact.messages.context import ActiveContext
from compact.messages.copies import Originals, copied
from compact.messages.messages import META, SYSTEM_ROLES, Message, ToolCall
from compact.messages.sessions import CheckpointRef, Projection, Run, Shown

NEAR = 4
"""A late result moves to its call if at most this many messages came between."""


class RequestExtras(NamedTuple):
    """What is sent in addition to the messages, as the caller gave it."""

    system: str | tuple[Mapping[str, Any], ...] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(
        cls,
        system: str | Sequence[Mapping[str, Any]] | None,
        tools: Sequence[Mapping[str, Any]] | None,
    ) -> RequestExtras:
        """Build the extras from copies of what the caller gave."""
        if system is not None and not isinstance(system, str):
            system = tuple(map(copied, system))
        return cls(system or None, tuple(map(copied, tools or ())))


NO_EXTRAS = RequestExtras()


class _Note(NamedTuple):
    """The note that answers open calls, and the message that made them."""

    asker: Message
    calls: list[ToolCall]
    message: Message
    tokens: int


class Fold:
    """The messages to send, and their tokens. `overhead_tokens` counts the rest of the prompt,
    including goals and our own system prompt (`opening`). `strict_turns` is for servers that refuse
    two adjacent messages of one role.
    """

    def __init__(
        self,
        history: History,
        *,
        overhead_tokens: int,
        goals: Message | None = None,
        opening: Message | None = None,
        extras: RequestExtras = NO_EXTRAS,
        strict_turns: bool = False,
    ) -> None:
        self._history = history
        self._strict_turns = strict_turns
        self._opening = [opening] if opening else []
        self._goals = [goals] if goals else []
        self._extras = extras
        self.overhead_tokens = overhead_tokens
        self.checkpoints: tuple[Checkpoint, ...] = ()
        self.seen = 0
        """How many messages of the history the fold holds or has passed."""
        self._tokens = self.overhead_tokens
        """Tokens of the prompt, not counting the note for open calls."""
        self._messages: list[Message] = []
        self._places: list[int | None] = []
        """Position of each message in the history; None for messages that compact made."""
        self._rendered = Originals()
        """The provider's dictionaries for each message."""
        self._open: dict[str, ToolCall] = {}
        self._asker: Message | None = None
        self._noted: _Note | None = None
        self._ids: set[str] = set()
        """Ids of the calls in the prompt."""
        self._has_twins = False
        """Whether two calls share an id, so that they are numbered when sent."""
        self._has_reasoning = False
        self.recalled: Mapping[int, Message] = {}
        """Position of a message → the message that recall puts before it."""
        self.recalled_tokens = 0

    @property
    def tokens(self) -> int:
        """Tokens of the prompt as it would be sent now."""
        return self._tokens + (self._noted_now().tokens if self._open else 0)

    def take(self, projection: Projection, *, counted: bool = False) -> None:
        """Start again from a projection. If it ends with a note for a call that is still open, the
        note is removed. `counted`: this counter counted the projection's tokens; else they are
        counted again.
        """
        history = self._history
        rows = list(_placed(projection, history))
        counted = counted and all(p is None or history.shown(p) is history[p] for p, _ in rows)
        placed = [each for row in rows for each in (*self._recalled_at(row[0]), row)]
        messages = [message for _, message in placed]
        self.checkpoints = projection.checkpoints
        self.seen = projection.at
        self._tokens = projection.tokens + self.overhead_tokens + self.recalled_tokens
        self._open, self._asker = {}, None
        waiting: set[str] = set()
        while messages and shorten.is_answer(messages[-1]):
            note = messages.pop()
            self._tokens -= self._history.counter.message(note)
            waiting.update(result.call_id for result in note.tool_results)
        for message in reversed(messages if waiting else ()):
            mine = [c for c in reversed(message.tool_calls) if c.id in waiting]
            if mine and self._asker is None:
                self._asker = message
            self._open.update((c.id, c) for c in mine)
            waiting.difference_update(c.id for c in mine)
            if not waiting:
                break
        self._open = dict(reversed(self._open.items()))
        self._messages = messages
        self._places = [position for position, _ in placed[: len(messages)]]
        self._without_stale(messages)
        if not counted:
            count = self._count(projection)
            self._tokens = self.overhead_tokens + sum(map(count, self._places, messages))
        if self._strict_turns:
            self._tokens += sum(map(self._words_before, range(len(messages))))
        self._ids, self._has_twins, self._has_reasoning = set(), False, False
        for message in messages:
            self._take_ids(message)
        self._render_all()

    def _goes_behind(self, at: int, position: int | None) -> bool:
        """Whether the message at that index can be rendered without changing what is before it."""
        before = self._places[at - 1] if at else None
        return (
            at == len(self._places) - 1
            and (before is None) == (at == 0)
            and (before is None or position == before + 1)
        )

    def _take_ids(self, message: Message) -> None:
        self._has_reasoning = self._has_reasoning or message.has_reasoning
        for call in message.tool_calls:
            self._has_twins = self._has_twins or call.id in self._ids
            self._ids.add(call.id)

    def _render_all(self) -> None:
        placed = [*zip(self._places, self._messages, strict=True)]
        said = [message for _, message in self.sent(placed)]
        self._rendered = Originals(self._wires(said))

    def _wires(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return the dictionaries that carry these messages. compact's own fields are left out,
        because some servers refuse unknown fields.
        """
        wires = self._history.wire.render(messages)
        return all_carried([_without_meta(w) if "metadata" in w else w for w in wires])

    def sent(self, placed: Placed) -> Sent:
        """Return the messages as they go out."""
        return in_turns(placed) if self._strict_turns else sent_placed(placed)

    def _words_before(self, at: int) -> int:
        """Return the tokens of the gap message that strict turns need before that message."""
        if not self._strict_turns or at == 0:
            return 0
        return GAP_TOKENS * lacks_answer(self._messages[at - 1], self._messages[at])

    def _recalled_at(self, position: int | None) -> list[tuple[None, Message]]:
        found = None if position is None else self.recalled.get(position)
        if found is None:
            return []
        self.recalled_tokens += self._history.counter.message(found)
        return [(None, found)]

    def _count(self, projection: Projection) -> Callable[[int | None, Message], int]:
        """Return a function that counts a projection's messages. It reuses known counts for
        messages that are shown in full.
        """
        runs = (piece for piece in projection.pieces if isinstance(piece, Run))
        whole = {position for run in runs for position in range(run.first, run.last + 1)}

        def tokens(position: int | None, message: Message) -> int:
            if position is not None and position in whole:
                return self._history.tokens(position)
            return self._history.counter.message(message)

        return tokens

    def follow(self, stop: int) -> None:
        """Append the messages of the history up to `stop`."""
        for position in range(self.seen, stop):
            self._append(position)
        new = range(self.seen, stop)
        if self._has_reasoning and any(map(self._history.is_person, new)):
            self._tokens -= self._without_stale(self._messages)
        self.seen = max(self.seen, stop)

    def _without_stale(self, messages: list[Message]) -> int:
        """Drop reasoning that the model no longer wants; return the tokens saved."""
        history, before, saved = self._history, list(messages), 0
        for at, (position, message) in enumerate(zip(self._places, before, strict=True)):
            if position is None or not message.has_reasoning or history.sends_reasoning(position):
                continue
            as_said = message is history[position]
            less = history.shown(position) if as_said else shorten.without_reasoning(message)
            saved += history.counter.message(message) - history.counter.message(less)
            messages[at] = less
        if messages != before:
            self._render_all()
        return saved

    def _append(self, position: int) -> None:
        message, tokens = self._history.shown(position), self._history.tokens(position)
        if isinstance(message.content, str):
            if self._open:
                self._close()
            self._push_recalled(position)
            self._push(message, tokens, position)
            return
        if message.tool_results:
            if self._came_late(message, tokens, position):
                return
            message, tokens = self._with_results(message, tokens)
        elif self._open and not self._goes_on(message):
            self._close()
        if not message.tool_results:
            self._push_recalled(position)
        self._push(message, tokens, position)
        if calls := message.tool_calls:
            self._open.update((call.id, call) for call in calls)
            self._asker = message

    def _push_recalled(self, position: int) -> None:
        before = self.recalled_tokens
        for _, message in self._recalled_at(position):
            self._push(message, self.recalled_tokens - before, None)

    def _came_late(self, message: Message, tokens: int, position: int) -> bool:
        """If the message brings the results of calls that a nearby note answers, put the message in
        the note's place. Return whether there was such a note.
        """
        came = {result.call_id for result in message.tool_results if not message.text}
        for at in range(len(self._messages) - 1, max(-1, len(self._messages) - 2 - NEAR), -1):
            note = self._messages[at]
            if shorten.is_answer(note) and came == {r.call_id for r in note.tool_results}:
                self._messages[at], self._places[at] = message, position
                self._tokens += tokens - self._history.counter.message(note)
                self._render_all()
                return True
        return False

    def _with_results(self, message: Message, tokens: int) -> tuple[Message, int]:
        due = [r.call_id for r in message.tool_results if r.call_id in self._open]
        if self._open and not due:
            self._close()
        shown = shorten.closed([message], called=due)[0]
        for call_id in due:
            self._open.pop(call_id, None)
        if self._open and shown.text:
            (shown,) = shorten.joined(self._noted_now().message, shown)
            self._open = {}
        return shown, tokens if shown is message else self._history.counter.message(shown)

    def _push(self, message: Message, tokens: int, position: int | None) -> None:
        at, place = len(self._messages), len(self._rendered)
        if self._open:
            at = shorten.place_in_reply(message, self._messages)
            place -= sum(len(self._wires((each,))) for each in self._messages[at:])
        self._messages.insert(at, message)
        self._places.insert(at, position)
        self._tokens += tokens + self._words_before(at)
        self._take_ids(message)
        if self._has_twins or not self._goes_behind(at, position):
            self._render_all()
        else:
            self._rendered.insert(place, self._wires((message,)))

    def _goes_on(self, message: Message) -> bool:
        """Whether the message continues the reply that made the open calls."""
        reply = self._asker.reply_id if self._asker else None
        return reply is not None and message.reply_id == reply

    def _close(self) -> None:
        """Answer open calls by a note, since the conversation went on without their results."""
        note = self._noted_now()
        self._open = {}
        self._push(note.message, note.tokens, None)

    def _noted_now(self) -> _Note:
        asker, calls = self._asker, list(self._open.values())
        assert asker is not None, "open calls have a message that made them"
        if self._noted is None or self._noted[:2] != (asker, calls):
            note = shorten.answer(calls, asker)
            self._noted = _Note(asker, calls, note, self._history.counter.message(note))
        return self._noted

    def _leading_system(self) -> int:
        leading = 0
        while leading < len(self._messages) and self._messages[leading].role in SYSTEM_ROLES:
            leading += 1
        return leading

    def placed(self) -> list[tuple[int | None, Message]]:
        """Return all messages except goals and opening, each with its position."""
        note = [(None, self._noted_now().message)] if self._open else []
        return [*zip(self._places, self._messages, strict=True), *note]

    def shown_whole(self) -> frozenset[int]:
        """Return the positions of messages that are sent as they were said."""
        shown = self._history.shown
        placed = zip(self._places, self._messages, strict=True)
        return frozenset(p for p, message in placed if p is not None and shown(p) is message)

    def _all_placed(self) -> list[tuple[int | None, Message]]:
        leading, placed = self._leading_system(), self.placed()
        opening, goals = ([(None, each) for each in rows] for rows in (self._opening, self._goals))
        return [*opening, *placed[:leading], *goals, *placed[leading:]]

    def messages(self) -> list[Message]:
        """Return the messages to send, in order."""
        return [message for _, message in self._all_placed()]

    def _is_sent_anew(self) -> bool:
        """Whether what is sent are not the messages one by one, with the note behind them."""
        if self._strict_turns or self._has_twins:
            return True
        return bool(self._open) and may_join(self._messages[-1], self._noted_now().message)

    def rendered(self) -> list[dict[str, Any]]:
        """Return the messages as the provider's dictionaries, as copies for the caller."""
        if self._is_sent_anew():
            return copied(self._wires([message for _, message in self.sent(self._all_placed())]))
        out = self._rendered.copies()
        if self._open:
            out += copied(self._wires((self._noted_now().message,)))
        if self._goals:
            leading = self._leading_system()
            out[leading:leading] = copied(self._wires(self._goals))
        return [*copied(self._wires(self._opening)), *out] if self._opening else out

    def places(self) -> list[tuple[int, ...]]:
        """Return the positions of the messages that stand in each dictionary of `rendered`. Empty
        for what compact made.
        """
        render = self._history.wire.render
        if self._is_sent_anew():
            sent = self.sent(self._all_placed())
        else:
            leading, sent = self._leading_system(), self.sent(self.placed())
            sent[leading:leading] = [((), message) for message in self._goals]
            sent[:0] = [((), message) for message in self._opening]
        return [places for places, message in sent for _ in render((message,))]

    def sent_places(self) -> list[tuple[int, ...]]:
        """Return the positions of the messages that stand in each message of `context().sent`."""
        return [places for places, _ in self.sent(self._all_placed())]

    def context(self) -> ActiveContext:
        """Return a copy of the active context for the caller."""
        placed = self._all_placed()
        context = ActiveContext(
            messages=tuple(message for _, message in placed),
            seams=seams_of(placed),
            strict_turns=self._strict_turns,
            tokens=self.tokens,
            checkpoints=self.checkpoints,
            system=self._extras.system,
            tools=self._extras.tools,
        )
        return context.owned()


def _without_meta(wire: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in wire.items() if k not in META}


def _placed(projection: Projection, history: History) -> Iterator[tuple[int | None, Message]]:
    known: Mapping[str, Checkpoint] = {c.id: c for c in projection.checkpoints}
    for piece in projection.pieces:
        match piece:
            case Run(first, last):
                yield from ((i, history.shown(i)) for i in range(first, last + 1))
            case Shown(message, position):
                yield position, message
            case CheckpointRef(checkpoint_id):
                yield None, known[checkpoint_id].message(history.own)


def pieces_of(
    shown: Sequence[tuple[int | None, Message]], history: History
) -> tuple[Run | Shown | CheckpointRef, ...]:
    """Return the pieces to build these messages again. Compact's own have no position."""
    pieces: list[Run | Shown | CheckpointRef] = []
    for position, message in shown:
        last = pieces[-1] if pieces else None
        if position is not None and history.shown(position) is message:
            if isinstance(last, Run) and last.last == position - 1:
                pieces[-1] = Run(last.first, position)
            else:
                pieces.append(Run(position, position))
        elif message.metadata.source == "checkpoint" and message.id.startswith("ck-"):
            pieces.append(CheckpointRef(message.id))
        else:
            pieces.append(Shown(message, position))
    return tuple(pieces)
