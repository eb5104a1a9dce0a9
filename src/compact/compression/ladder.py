"""The ladder: what stays in view, found by rungs that always make progress, cheapest first.

Positions of the history get one of four forms: `verbatim`, `masked` (tool output as stubs),
`clipped` (head and tail of one oversized text) or covered by the checkpoint. `lay_out` decides them
within a limit:

1. The floor: system prompt, pins and the newest message of a person, word for word. It must fit, or
   `CannotFit`.
2. The first request, and the newest 20 messages of a person; under pressure 10, 6, 3, 1, and of the
   others the most important that still fit (`lower keep counts`).
3. The newest groups, as far as they reach: recent turns and the newest tool pairs word for word
   while they take no more than half of the room, older tool output masked (`mask`). A turn that is
   too large is cut between its groups.
4. All before is covered (`summarize`). The newest group is clipped if it must be (`clip`).
5. `fill`: what room is left goes to the newest masked output, then to the group at the cut, clipped
   to measure.

Reads from the end of the log and stops at the cut: costs follow the window.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from compact.compression import shorten
from compact.core.groups import Group, group_at, groups_from_end
from compact.core.history import History
from compact.core.messages import Message
from compact.core.partition import recent_from
from compact.core.policy import CompactPolicy
from compact.errors import CannotFit

Form = Literal["verbatim", "masked", "clipped"]

LEAST_CHECKPOINT = 96
"""Tokens below which not even a receipt of what is not shown would fit."""
FIRST_REQUEST_SHARE = 0.6
"""The first request stays as long as it takes no more of what lies above the floor."""
USER_SHARE = 0.35
"""Share of what lies above the floor that older messages of a person may take."""
VERBATIM_SHARE = 0.5
"""Share of the tail's room that recent tool output may take word for word."""
KEEP_STEPS = (1.0, 0.5, 0.3, 0.15, 0.05)
"""The steps by which keep counts are lowered: 20 messages become 10, 6, 3, 1."""
FILL_LEAST = 40
"""Tokens of room below which filling is not worth a clip."""


@dataclass(slots=True)
class Piece:
    """A group in view, in its form."""

    group: Group
    messages: list[Message]
    tokens: int
    form: Form = "verbatim"
    whole: int = 0
    """Tokens of the group word for word."""
    pairs: int = 0
    """Tool results in the group."""


@dataclass(slots=True)
class Layout:
    """What is in view, by position, and what the rungs did."""

    limit: int
    fixed: dict[int, int] = field(default_factory=dict)
    """Position → tokens of what stays word for word beside the tail: system, pins, messages of a
    person."""
    tail: list[Piece] = field(default_factory=list)
    """The newest groups, newest first."""
    since: int = 0
    """No group before it is taken into view any more."""
    cut: int = 0
    """Everything before it that is not fixed is covered."""
    reserve: int = 0
    floor: dict[str, int] = field(default_factory=dict)
    users_kept: int = 0
    users_wanted: int = 0
    recent: int = 0
    """Where the recent turns start, as many as the policy wants; the cut may have to come after
    it."""
    first_request: int | None = None
    newest: int | None = None

    @property
    def tokens(self) -> int:
        """Tokens in view, the checkpoint left out."""
        return sum(self.fixed.values()) + sum(piece.tokens for piece in self.tail)

    def covered(self) -> list[int]:
        """Positions the checkpoint stands in for."""
        return [i for i in range(self.cut) if i not in self.fixed]


class Ladder:
    """One run of the ladder over a history."""

    def __init__(self, history: History, policy: CompactPolicy) -> None:
        self._history = history
        self._policy = policy
        self._counter = history.counter

    def lay_out(self, limit: int, reserve: int, *, hard: int, since: int = 0) -> Layout:
        """What stays in view within `limit` tokens, `reserve` of them kept for the checkpoint.

        What stands before `since` is covered already and stays so. Where the newest group is
        larger, the limit is raised for it, up to `hard`; beyond that it is clipped.

        Raises:
            CannotFit: the floor alone exceeds the limit.
        """
        layout = Layout(limit, since=since)
        self._keep_floor(layout)
        above = limit - layout.tokens
        if above < LEAST_CHECKPOINT and len(layout.fixed) < len(self._history):
            raise CannotFit(layout.floor, limit)
        reserve = min(reserve, max(LEAST_CHECKPOINT, int(above * 0.75)))
        layout.reserve = reserve
        self._keep_requests(layout, above - reserve)
        self._keep_tail(layout, limit - layout.tokens - reserve, hard - limit)
        return layout

    def floor(self) -> int:
        """Tokens of what may not be shortened.

        Raises nothing: also a floor that fits nowhere has a size.
        """
        layout = Layout(sys.maxsize)
        self._keep_floor(layout)
        return layout.tokens

    def _keep_floor(self, layout: Layout) -> None:
        history = self._history
        system = pins = 0
        for position in history.fixed:
            took = self._keep(layout, position)
            if history[position].role in ("system", "developer"):
                system += took
            else:
                pins += took
        layout.newest = next(history.persons(), None)
        newest = 0
        if layout.newest is not None and layout.newest not in layout.fixed:
            newest = self._keep(layout, layout.newest)
        layout.floor = {"system prompt": system, "pins": pins, "newest user message": newest}
        if system + pins + newest > layout.limit:
            raise CannotFit(layout.floor, layout.limit)

    def _keep(self, layout: Layout, position: int) -> int:
        """Keep a message word for word, with whatever cannot be parted from it; the tokens that
        took.
        """
        history = self._history
        new = [i for i in self._inseparable(position) if i not in layout.fixed]
        if not new:
            return 0
        layout.fixed.update((i, history.tokens(i)) for i in new)
        messages = [history[i] for i in new]
        if not _is_plain(messages) and (shown := shorten.closed(messages)) != messages:
            layout.fixed[new[-1]] += sum(map(self._counter.message, shown)) - sum(
                history.tokens(i) for i in new
            )
        return sum(layout.fixed[i] for i in new)

    def _inseparable(self, position: int) -> Iterable[int]:
        """The group around a message; words alone are one: a result after them answers other
        calls.
        """
        message = self._history[position]
        if message.role in ("user", "system", "developer") and not message.tool_results:
            return (position,)
        return group_at(self._history, position)

    def _keep_requests(self, layout: Layout, room: int) -> None:
        room -= self._keep_first_request(layout, room)
        newest = list(islice(self._history.persons(), self._policy.keep_user_messages))
        budget = int(room * USER_SHARE)
        budget -= self._keep_newest(layout, newest, budget)
        if self._policy.strategy != "off":
            self._keep_important(layout, newest, budget)
        layout.users_wanted = len(newest)
        layout.users_kept = sum(1 for p in newest if p in layout.fixed)

    def _keep_first_request(self, layout: Layout, room: int) -> int:
        """Keep the session's first request unless it takes most of the room; the tokens it took."""
        first = self._history.first_request() if self._policy.pin_first_request else None
        if first is None:
            return 0
        if first in layout.fixed:
            layout.first_request = first
        elif self._history.tokens(first) <= room * FIRST_REQUEST_SHARE:
            layout.first_request = first
            return self._keep(layout, first)
        return 0

    def _keep_newest(self, layout: Layout, newest: Sequence[int], budget: int) -> int:
        """Keep as many of a person's newest messages as one of the steps allows; the tokens."""
        for step in KEEP_STEPS:
            count = max(1, round(self._policy.keep_user_messages * step))
            chosen = [p for p in newest[:count] if p not in layout.fixed]
            if sum(map(self._history.tokens, chosen)) <= budget:
                return sum(self._keep(layout, position) for position in chosen)
        return 0

    def _keep_important(self, layout: Layout, newest: Sequence[int], budget: int) -> None:
        """Keep of the others what is most important and still fits."""
        rest = [p for p in newest if p not in layout.fixed]
        for position in sorted(rest, key=lambda p: (-self._history.importance(p), -p)):
            if self._history.tokens(position) <= budget:
                budget -= self._keep(layout, position)

    def _keep_tail(self, layout: Layout, room: int, spare: int) -> None:
        pairs, verbatim_room = 0, int(room * VERBATIM_SHARE)
        masks = self._policy.strategy != "off"
        recent = recent_from(self._history, self._policy.keep_recent_turns) if masks else 0
        layout.recent = recent
        layout.cut = len(self._history)
        for piece in self._pieces(layout):
            if piece.group.start < layout.since:
                return
            if not layout.tail and room < piece.tokens <= room + spare:
                layout.limit += piece.tokens - room
                room = verbatim_room = piece.tokens
            new = pairs < self._policy.keep_tool_pairs or piece.group.start >= recent
            if new and piece.tokens <= min(verbatim_room, room):
                verbatim_room -= piece.tokens if piece.pairs else 0
            elif masks and (piece.pairs or piece.tokens > room):
                self._mask(piece)
            pairs += piece.pairs
            oldest = layout.cut < len(self._history)
            if piece.tokens > room and (oldest or not self._clip(piece, room)):
                return
            room -= piece.tokens
            layout.tail.append(piece)
            layout.cut = piece.group.start

    def _pieces(self, layout: Layout) -> Iterator[Piece]:
        """The groups from the end, word for word; positions that are fixed anyway cost nothing
        here.
        """
        history = self._history
        for group in groups_from_end(history):
            rest = [i for i in group if i not in layout.fixed]
            messages = [history[i] for i in rest]
            shown = messages if _is_plain(messages) else shorten.closed(messages)
            if shown == messages:
                tokens = sum(history.tokens(i) for i in rest)
            else:
                tokens = sum(map(self._counter.message, shown))
            pairs = sum(len(m.tool_results) for m in shown)
            yield Piece(group, shown, tokens, whole=tokens, pairs=pairs)

    def _mask(self, piece: Piece) -> None:
        names = {call.id: call.name for m in piece.messages for call in m.tool_calls}
        shorter = [shorten.masked(m, names, self._counter) for m in piece.messages]
        tokens = sum(map(self._counter.message, shorter))
        if tokens < piece.tokens:
            piece.messages, piece.tokens, piece.form = shorter, tokens, "masked"

    def _clip(self, piece: Piece, room: int) -> bool:
        """Shorten the longest texts of a group until it fits; whether it did."""
        if room < FILL_LEAST:
            return False
        messages = list(piece.messages)
        for _ in range(2 * len(messages)):
            sizes = [self._counter.message(m) for m in messages]
            excess = sum(sizes) - room
            if excess <= 0:
                piece.messages, piece.tokens, piece.form = messages, sum(sizes), "clipped"
                return True
            longest = max(
                range(len(messages)), key=lambda i: _worth_clipping(messages[i], sizes[i])
            )
            shorter = shorten.clipped(messages[longest], sizes[longest] - excess, self._counter)
            if self._counter.message(shorter) >= sizes[longest]:
                return False
            messages[longest] = shorter
        return False

    def shortened(self, layout: Layout) -> list[int]:
        """Positions of what is in view masked or clipped."""
        pieces = [p for p in reversed(layout.tail) if p.form != "verbatim"]
        return [i for piece in pieces for i in piece.group if i not in layout.fixed]

    def fill(self, layout: Layout, room: int, *, clip: bool) -> int:
        """Use room that is left: show the newest masked output again, the last of it clipped to
        measure.

        Returns the room that remains.
        """
        for piece in layout.tail:
            if piece.form != "verbatim" and piece.whole - piece.tokens <= room:
                room -= piece.whole - piece.tokens
                self._restore(piece, layout)
        for piece in layout.tail if clip and room >= FILL_LEAST else ():
            if piece.form != "verbatim":
                before = piece.messages, piece.tokens, piece.form
                self._restore(piece, layout)
                if self._clip(piece, before[1] + room) and piece.tokens >= before[1]:
                    room -= piece.tokens - before[1]
                    if room < FILL_LEAST:
                        break
                else:
                    piece.messages, piece.tokens, piece.form = before
        return room

    def extend(self, layout: Layout, room: int) -> int:
        """Take groups at the cut into the view while they fit, the last one clipped; the room that
        remains.
        """
        for piece in self._pieces_before(layout):
            if piece.tokens > room and not self._clip(piece, room):
                self._mask(piece)
            if piece.tokens <= room:
                room -= piece.tokens
                layout.tail.append(piece)
                layout.cut = piece.group.start
                if piece.form == "clipped":
                    break
            else:
                break
        return room

    def _pieces_before(self, layout: Layout) -> Iterator[Piece]:
        for piece in self._pieces(layout):
            if piece.group.stop <= layout.cut:
                yield piece

    def _restore(self, piece: Piece, layout: Layout) -> None:
        messages = [self._history[i] for i in piece.group if i not in layout.fixed]
        piece.messages = shorten.closed(messages)
        piece.tokens, piece.form = piece.whole, "verbatim"


def _is_plain(messages: list[Message]) -> bool:
    """Whether no message has parts: nothing could be open or orphaned."""
    return all(isinstance(m.content, str) for m in messages)


def _worth_clipping(message: Message, tokens: int) -> int:
    """Results go before words."""
    return tokens * (2 if message.tool_results else 1)
