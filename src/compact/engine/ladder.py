"""The ladder: choose what the prompt shows, by steps (rungs) that always make progress.

`lay_out` decides which groups fit a limit, and in which form: word for word, masked (a line
replaces tool output), or clipped (head and tail of an oversized text). Cheap steps come first.

1. The floor: system prompt, pins and the newest user message, word for word. If it does not fit,
   `CannotFit` is raised. Large tool results that cannot be separated from it are masked.
2. Messages marked important, whoever wrote them, as far as they leave a third of the room and room
   for the newest user messages. The plan names those that do not fit. Next, the newest 20 user
   messages, or 10, if they fit in `words` tokens. Next, the first request. Last, the newest 20,
   10, 6, 3 or 1 user messages, and the most important others that fit (`lower keep counts`).
3. The newest groups that fit: recent turns and the newest tool pairs word for word while they take
   at most half of the room, older tool output masked (`mask`). A turn that is too large is cut
   between its groups. The answer before the newest user message stays whole while the window has
   room for it: the limit is raised.
4. A checkpoint covers everything before (`summarize`). The newest group may be clipped (`clip`).
5. `fill` and `extend`: the room that is left goes to the newest masked output, then to the groups
   before the cut; the last one may be clipped.

The ladder reads from the end of the log and stops at the cut: its cost follows the window.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import Literal

from compact.engine import shorten
from compact.engine.forms import (
    ClosedMessages,
    GroupForms,
    forms_of,
    masked,
    may_shorten,
    whole,
)
from compact.engine.groups import Group, group_at, recent_from
from compact.engine.history import History
from compact.engine.plan import Cause, Reason
from compact.errors import CannotFit
from compact.messages.alternation import GAP_TOKENS
from compact.messages.boundaries import may_cut_before
from compact.messages.budget import even_share
from compact.messages.messages import SYSTEM_ROLES, Message, Opaque, is_compaction
from compact.messages.policy import CompactPolicy

LEAST_CHECKPOINT = 96
"""Fewest tokens for a checkpoint. In less, not even a receipt fits."""
CHECKPOINT_SHARE = 0.75
"""The checkpoint takes at most this share of the room above the floor."""
FIRST_REQUEST_SHARE = 0.6
"""The first request is kept if it takes at most this share of the room beside the checkpoint."""
SMALL_REQUEST_SHARE = 0.4
"""A first request up to this share of all room is kept even if the checkpoint leaves less."""
USER_SHARE = 0.35
"""Older user messages get at most this share of the room left after the first request."""
VERBATIM_SHARE = 0.5
"""Of the room for the newest groups, at most this share shows tool output word for word."""
UNSEEN_SHARE = 0.36
"""At most this share of the limit is reserved for tool output that no model has seen yet, before
older user messages are kept. A third of the limit is for the output, the rest for its calls."""
LAST_WORDS_SHARE = 0.5
"""A newest group without tool output stays word for word up to this share of the room."""
COMPANION_SHARE = 0.1
"""Tool results kept only for a held message are masked above this share of the limit."""
KEEP_STEPS = (1.0, 0.5, 0.3, 0.15, 0.05)
"""How keep counts are lowered: 20 messages become 10, 6, 3, 1."""
WORDS_SHARES = (1 / 3, 1 / 2)
"""All of the newest user messages may take the first share of the room above the floor, half of
them the second."""
MARKED_SHARE = 0.25
"""Important messages take this share of the room above the floor. For more, the limit is raised."""
MARKED_SPARE = 0.3
"""Important messages may use this share of the possible raise. The rest keeps the prompt below the
size at which a session is compressed again."""
MOST_LOOKED_AT = 10_000
"""How many of the last messages are searched for important ones. This bounds the time."""
MOST_STEPS = 512
"""How many groups are tried when spare room is filled. This bounds the time."""
FILL_LEAST = 40
"""Fewest tokens of room that are worth a clip."""


Form = Literal["verbatim", "masked", "clipped"]


@dataclass(slots=True)
class Piece:
    """Messages of one group, in the form in which the prompt shows them."""

    positions: tuple[int, ...]
    """Positions of the messages. Other messages of the group may be in another piece."""
    start: int
    """Position of the group's first message."""
    shape: ClosedMessages
    """The messages as the prompt shows them."""
    whole: ClosedMessages
    """The same messages word for word."""
    pairs: int = 0
    """How many tool results the messages hold."""
    form: Form = "verbatim"
    spared: Sequence[Message] = ()
    """The messages that stay word for word while the others are masked or clipped."""
    why: Reason = "recent"
    """Why the prompt shows the piece."""
    cause: Cause = "large"
    """Why a piece with the reason `recent` is shortened, if it is."""
    room: int = 0
    """How many tokens were left for a piece with the reason `recent`."""
    held: int | None = None
    """The message that the piece is kept for. The others cannot be separated from it."""
    forms: GroupForms | None = None
    """The forms of the group, if the piece is all of it."""

    @property
    def messages(self) -> Sequence[Message]:
        """The messages as they are shown."""
        return self.shape.messages

    @property
    def tokens(self) -> int:
        """Tokens of the messages as they are shown."""
        return self.shape.tokens

    def show(self, shape: ClosedMessages, form: Form) -> None:
        """Change the form in which the piece is shown."""
        self.shape, self.form = shape, form


@dataclass(slots=True)
class Layout:
    """Which messages the prompt shows, and how. The ladder fills it."""

    limit: int
    """Most tokens for the messages shown and the checkpoint together."""
    since: int = 0
    """Everything before this position stays covered, except `spared`."""
    spared: frozenset[int] = frozenset()
    """Positions before `since` that earlier compressions did not cover."""
    cut: int = 0
    """Everything before this position that is not held is covered."""
    held: dict[int, Piece] = field(default_factory=dict)
    """Position → piece kept in addition to the tail: system prompt, pins, user messages."""
    tail: list[Piece] = field(default_factory=list)
    """The newest groups, newest first, without the held messages."""
    floor: dict[str, int] = field(default_factory=dict)
    """Tokens that may not be shortened, by part of the prompt."""
    recent: int = 0
    """Where the recent turns begin that the policy wants. The cut may come after it."""
    users_kept: int = 0
    users_wanted: int = 0
    marked: list[int] = field(default_factory=list)
    """Positions of important messages that did not fit in addition to the tail."""
    tokens: int = 0
    """Tokens of the messages shown, without the checkpoint."""

    def is_gone(self, position: int) -> bool:
        """Whether a message was covered by an earlier compression."""
        return position < self.since and position not in self.spared

    def hold(self, piece: Piece) -> None:
        """Keep this piece in the prompt in addition to the newest messages."""
        self.held.update(dict.fromkeys(piece.positions, piece))
        self.tokens += piece.tokens + (
            GAP_TOKENS if piece.pairs else 0
        )  # a gap message may have to follow

    def reach(self, piece: Piece) -> None:
        """Extend the tail, so that it begins with this piece."""
        self.tail.append(piece)
        self.tokens += piece.tokens
        self.cut = piece.start

    def reshape(self, piece: Piece, shape: ClosedMessages, form: Form) -> None:
        """Show a piece in another form."""
        self.tokens += shape.tokens - piece.tokens
        piece.show(shape, form)

    def pieces(self) -> list[Piece]:
        """Return all pieces that the prompt shows, in the order of the log."""
        rows = [p for p in (*self.beside(), *self.tail) if p.positions]
        return sorted(rows, key=lambda piece: piece.positions[0])

    def beside(self) -> list[Piece]:
        """Return each held piece once."""
        return list({id(piece): piece for piece in self.held.values()}.values())

    def covered(self) -> list[int]:
        """Return the positions from `since` on that the checkpoint replaces, in order."""
        found, start = list[int](), self.since
        for held in sorted(i for i in self.held if start <= i < self.cut):
            found.extend(range(start, held))
            start = held + 1
        found.extend(range(start, self.cut))
        return found


class Ladder:
    """One run of the ladder over a history."""

    def __init__(
        self, history: History, policy: CompactPolicy, stale: Collection[int] = ()
    ) -> None:
        self._stale = stale
        """Positions of tool results that later calls made outdated. They are shortened first."""
        self._history = history
        self._policy = policy
        self._counter = history.counter
        self._fixed = frozenset(history.fixed)
        self._forms = forms_of(history)
        self._compacted = history.compacted
        """Position of the provider's own compaction, or -1. The provider ignores all before it."""
        self._spare = 0
        """Tokens by which the limit may be raised for the newest group."""

    def lay_out(
        self,
        layout: Layout,
        reserve: Callable[[int], int],
        *,
        hard: int,
        words: int = 0,
        told: bool = False,
    ) -> Layout:
        """Fill an empty layout and return it: what `hold` keeps, then the newest groups that fit.
        The limit may rise to `hard` for the newest. A larger group is clipped.

        Raises:
            CannotFit: the floor alone exceeds the limit.
        """
        kept = self.hold(layout, reserve, hard=hard, words=words, told=told)
        left = layout.limit - layout.tokens
        self._hold_tail(layout, max(left - kept, self._last_words(layout, left)))
        return layout

    def hold(
        self,
        layout: Layout,
        reserve: Callable[[int], int],
        *,
        hard: int,
        words: int = 0,
        told: bool = False,
    ) -> int:
        """Hold what stays whatever its age. `reserve` returns how many of the tokens above the
        floor the checkpoints get, which this returns. The newest user messages come first, up to
        `words` tokens; the limit may rise to `hard` for them. With `told`, the checkpoint tells
        them with their answers, and only the newest is kept.

        Raises:
            CannotFit: the floor alone exceeds the limit.
        """
        self._spare = hard - layout.limit
        newest = list(islice(self._persons(layout), self._policy.keep_user_messages))
        self._hold_floor(layout)
        self._hold_opening(layout)
        above = layout.limit - layout.tokens
        if above < LEAST_CHECKPOINT:
            self._refuse_rest(layout)
        if self._policy.strategy != "off":
            above = self._hold_marked(layout, above, self._words_first(layout, newest, words))
        if not told:
            self._hold_words(layout, newest, above, words)
            above = layout.limit - layout.tokens
        kept = reserve(above)
        if not told and self._hold_small_request(layout, above, kept):
            above = layout.limit - layout.tokens
            kept = reserve(above)
        if not told:
            self._hold_requests(layout, newest, above - kept)
        return kept

    def _words_first(self, layout: Layout, newest: Sequence[int], most: int) -> int:
        """Return the tokens of half of the newest user messages: important ones come after them."""
        count = max(1, round(self._policy.keep_user_messages * KEEP_STEPS[1]))
        tokens = sum(self._history.tokens(p) for p in newest[:count] if p not in layout.held)
        return tokens if tokens <= most else 0

    def _last_words(self, layout: Layout, room: int) -> int:
        """Return the newest group's tokens if it has no tool output and is small enough: it is not
        cut to make room for older messages. 0 in a session that was compressed before.
        """
        piece = next(self._pieces(layout), None)
        if piece is None or piece.pairs or layout.since:
            return 0
        most = min(LAST_WORDS_SHARE * room, room - LEAST_CHECKPOINT)
        return piece.tokens if piece.tokens <= most else 0

    def unseen(self, layout: Layout) -> int:
        """Return the tokens for a newest group of calls if even a raised limit cannot hold it."""
        piece = next(self._pieces(layout), None)
        if piece is None or not piece.pairs or piece.tokens <= self._spare:
            return 0
        return min(piece.tokens, int(UNSEEN_SHARE * layout.limit))

    def floor(self, *, but: int | None = None) -> int:
        """Return the tokens that may not be shortened, not counting the message at `but`."""
        layout = Layout(sys.maxsize)
        self._hold_floor(layout)
        left_out = self._history.tokens(but) if but is not None and but in layout.held else 0
        return layout.tokens - left_out

    def _hold_floor(self, layout: Layout) -> None:
        history = self._history
        parts = {"system prompt": 0, "pins": 0, "newest user message": 0}
        if self._compacted >= 0:
            parts["pins"] += self._hold_compaction(layout, self._compacted)
        for position in history.fixed:
            if position <= self._compacted and history[position].has_compaction:
                continue  # a provider ignores everything before the newest one
            system = history[position].role in SYSTEM_ROLES
            why: Reason = "system" if system else "pin"
            parts["system prompt" if system else "pins"] += self._hold(layout, position, why)
        newest = next(history.persons(), None)
        if newest is not None:
            parts["newest user message"] = self._hold(layout, newest, "newest words")
        layout.floor = parts
        if layout.tokens + LEAST_CHECKPOINT > layout.limit and len(layout.held) < len(history):
            self._clip_companions(layout)
        if layout.tokens > layout.limit:
            self._refuse_rest(layout)
            raise CannotFit(parts, layout.limit)

    def _clip_companions(self, layout: Layout) -> None:
        """Shorten the texts that are kept only because they cannot be separated from a pin."""
        for piece in layout.beside():
            before, size = piece.tokens, self._counter.message
            room = sum(map(size, piece.spared)) + int(COMPANION_SHARE * layout.limit)
            if piece.spared and room < before and self.clip(piece, room):
                layout.tokens += piece.tokens - before
                layout.floor["pins"] += piece.tokens - before

    def _hold_compaction(self, layout: Layout, position: int) -> int:
        """Keep only a provider's own compaction from its message; return the tokens."""
        self._hold(layout, position, "compaction")
        piece, message = layout.held[position], self._history[position]
        sealed = [p for p in message.parts if isinstance(p, Opaque) and is_compaction(p.raw)]
        if len(piece.positions) == 1 and len(sealed) < len(message.parts):
            alone = message.with_parts(sealed)
            shape = ClosedMessages([alone], self._counter.message(alone))
            layout.reshape(piece, shape, "clipped")
        return piece.tokens

    def _hold_opening(self, layout: Layout) -> None:
        """Keep a user message before a provider's compaction if the format must begin with one."""
        history, compacted = self._history, self._compacted
        if compacted < 0 or not history.wire.rules.has_turns:
            return
        first, newest = history.first_request(), (p for p in history.persons() if p < compacted)
        found = [p for p in (first, next(newest, None)) if p is not None and p < compacted]
        opening = min(found, key=history.tokens, default=None)
        if opening is None or opening in layout.held:
            return
        if history.tokens(opening) + LEAST_CHECKPOINT <= layout.limit - layout.tokens:
            self._hold(layout, opening, "compaction")

    def _refuse_rest(self, layout: Layout) -> None:
        """Refuse a floor that leaves no room for a checkpoint, unless it is the whole history.

        Raises:
            CannotFit: there are other messages than the floor.
        """
        if len(layout.held) < len(self._history):
            floor = {**layout.floor, "room for a checkpoint": LEAST_CHECKPOINT}
            raise CannotFit(floor, layout.limit)

    def _hold(self, layout: Layout, position: int, why: Reason) -> int:
        """Keep a message and those that cannot be separated from it; return the tokens."""
        piece = self._piece(self._forms.of(self._inseparable(position)), layout)
        if not piece.positions:
            return 0
        piece.why, piece.held = why, position
        most = int(COMPANION_SHARE * layout.limit)
        whole = [i for i in piece.positions if i == position or i in self._fixed]
        rest = piece.tokens - sum(map(self._history.tokens, whole))
        if rest > most or any(self._is_mixed(i, most) for i in whole):
            piece.spared = list(map(self._history.shown, whole))
            self._mask(piece)
        layout.hold(piece)
        return piece.tokens

    def _inseparable(self, position: int) -> Group:
        message = self._history[position]
        alone = message.role in ("user", "system", "developer") and not message.tool_results
        if message.role == "assistant" and isinstance(message.content, str):
            alone = message.reply_id is None and may_cut_before(self._history, position)
        if alone:
            return Group(position, position + 1)
        return group_at(self._history, position)

    def _is_mixed(self, position: int, most: int) -> bool:
        """Whether one message holds both user text and large tool results."""
        message = self._history[position]
        large = self._history.tokens(position) > most
        return large and bool(message.tool_results) and bool(message.text)

    def _hold_words(self, layout: Layout, newest: Sequence[int], above: int, most: int) -> None:
        """Keep the newest user messages, up to `most` tokens in all: as many as the policy says, if
        a third of the room holds them; else half as many, if half of the room does. Only the second
        may raise the limit.
        """
        free = max(0, above - self.unseen(layout))
        for step, share, spare in zip(KEEP_STEPS, WORDS_SHARES, (0, self._spare), strict=False):
            rest = max(above - int(share * free), LEAST_CHECKPOINT)
            count = max(1, round(self._policy.keep_user_messages * step))
            chosen = [p for p in newest[:count] if p not in layout.held]
            tokens = sum(map(self._history.tokens, chosen))
            more = max(0, tokens + rest - above)
            if tokens <= most and more <= spare:
                layout.limit += more
                self._spare -= more
                for position in chosen:
                    self._hold(layout, position, "words")
                return

    def _hold_requests(self, layout: Layout, newest: Sequence[int], room: int) -> None:
        if not self._policy.summarizes:
            room -= self._hold_checkpoint(layout, room)
        room -= self._hold_first_request(layout, room)
        budget = max(0, min(int(room * USER_SHARE), room - self.unseen(layout)))
        budget -= self._hold_newest(layout, newest, budget)
        if self._policy.strategy != "off":
            self._hold_important(layout, newest, budget)
        layout.users_wanted = len(newest)
        layout.users_kept = sum(1 for p in newest if p in layout.held)

    def _hold_checkpoint(self, layout: Layout, room: int) -> int:
        """Keep a checkpoint at the start if no summary will include it. Return its tokens."""
        position = self._history.opening_checkpoint()
        if position is None or self._history.tokens(position) > room * FIRST_REQUEST_SHARE:
            return 0
        return self._hold(layout, position, "checkpoint")

    def _persons(self, layout: Layout) -> Iterator[int]:
        """Yield the user messages that the prompt can show, newest first."""
        since = max(layout.since, self._compacted)
        yield from takewhile(lambda p: p >= since, self._history.persons())
        spared = (p for p in sorted(layout.spared)[::-1] if p > self._compacted)
        yield from filter(self._history.is_person, spared)

    def _hold_first_request(self, layout: Layout, room: int) -> int:
        """Keep the first request unless it takes most of the room. Return its tokens."""
        first = self._request_to_hold(layout)
        if first is None or self._history.tokens(first) > room * FIRST_REQUEST_SHARE:
            return 0
        return self._hold(layout, first, "first request")

    def _hold_small_request(self, layout: Layout, above: int, kept: int) -> int:
        """Keep a first request that is small compared with all of the room, even if the checkpoint
        leaves little. Return its tokens.
        """
        first = self._request_to_hold(layout)
        if first is None:
            return 0
        tokens = self._history.tokens(first)
        if tokens <= FIRST_REQUEST_SHARE * (above - kept):
            return 0
        is_small = tokens <= SMALL_REQUEST_SHARE * (above - LEAST_CHECKPOINT)
        return self._hold(layout, first, "first request") if is_small else 0

    def _request_to_hold(self, layout: Layout) -> int | None:
        """Return the first request if the policy wants it and it is not held yet."""
        first = self._history.first_request() if self._policy.pin_first_request else None
        if first is None or first in layout.held or first < self._compacted:
            return None
        return None if layout.is_gone(first) else first

    def _hold_newest(self, layout: Layout, newest: Sequence[int], budget: int) -> int:
        """Keep as many of the newest user messages as fit the budget. Return their tokens."""
        for step in KEEP_STEPS:
            count = max(1, round(self._policy.keep_user_messages * step))
            chosen = [p for p in newest[:count] if p not in layout.held]
            if sum(map(self._history.tokens, chosen)) <= budget:
                return sum(self._hold(layout, position, "words") for position in chosen)
        return 0

    def _hold_marked(self, layout: Layout, above: int, words: int) -> int:
        """Keep messages that are marked important, the most important first. Of the room above the
        floor (what every prompt shows), a third stays free, and `words` tokens besides. If they
        take more than `MARKED_SHARE` of the room, the limit is raised for the excess, as far as
        `MARKED_SPARE` allows. Return the room that is left.
        """
        spare = int(self._spare * MARKED_SPARE)
        left = budget = max(0, above + spare - max(LEAST_CHECKPOINT, above // 3) - words)
        end = len(self._history)
        within = (*layout.spared, *range(max(layout.since, end - MOST_LOOKED_AT), end))
        marked = [p for p in within if self._history.is_important(p)]
        for position in sorted(marked, key=lambda p: (-self._history.importance(p), -p)):
            piece = self._piece(self._forms.of(self._inseparable(position)), layout)
            if position not in layout.held and piece.tokens <= left:
                left -= self._hold(layout, position, "important")
        layout.marked = [position for position in marked if position not in layout.held]
        more = min(spare, max(0, budget - left - int(above * MARKED_SHARE)))
        layout.limit += more
        self._spare -= more
        return layout.limit - layout.tokens

    def _hold_important(self, layout: Layout, newest: Sequence[int], budget: int) -> None:
        """Keep the most important of the other user messages that fit."""
        rest = [p for p in newest if p not in layout.held]
        for position in sorted(rest, key=lambda p: (-self._history.importance(p), -p)):
            if self._history.tokens(position) <= budget:
                budget -= self._hold(layout, position, "words")

    def _hold_tail(self, layout: Layout, room: int) -> None:
        """Show the newest groups that fit. Only the newest may raise the limit."""
        policy, verbatim = self._policy, int(room * VERBATIM_SHARE)
        masks, pairs, unseen = policy.strategy != "off", 0, self.unseen(layout)
        layout.cut = len(self._history)
        layout.recent = recent_from(self._history, policy.keep_recent_turns) if masks else 0
        for piece in self._pieces(layout):
            if piece.start < max(layout.since, self._compacted):
                return
            is_newest = not layout.tail or (not piece.pairs and _is_held(layout.tail))
            if is_newest and room < piece.tokens:
                fits = piece.tokens <= room + self._spare
                if fits or piece.pairs:
                    more = min(piece.tokens - room, self._spare)
                    layout.limit += more
                    self._spare -= more
                    room = verbatim = room + more
            new = pairs < policy.keep_tool_pairs or piece.start >= layout.recent
            is_stale = self._is_stale(piece)
            piece.cause = "overtaken" if is_stale else "large" if new else "old"
            output_room = min(verbatim if layout.tail else max(verbatim, unseen), room)
            piece.room = output_room if piece.pairs else room
            if new and not is_stale and piece.tokens <= min(verbatim, room):
                verbatim -= piece.tokens if piece.pairs else 0
            elif not layout.tail and piece.pairs and self.clip(piece, output_room):
                verbatim -= piece.tokens
            elif masks and (piece.pairs or piece.tokens > room):
                self._mask(piece)
            pairs += piece.pairs
            if piece.tokens > room and (layout.tail or not self.clip(piece, room)):
                return
            room -= piece.tokens
            layout.reach(piece)

    def _is_stale(self, piece: Piece) -> bool:
        """Whether later calls made all tool output of a group outdated."""
        results = [i for i in piece.positions if self._history[i].tool_results]
        return bool(results) and all(i in self._stale for i in results)

    def _pieces(self, layout: Layout, stop: int | None = None) -> Iterator[Piece]:
        return (self._piece(forms, layout) for forms in self._forms.from_end(stop))

    def _piece(self, forms: GroupForms, layout: Layout) -> Piece:
        """Return the group's messages that are not held yet, word for word."""
        group, history = forms.group, self._history
        positions = tuple(i for i in group if i not in layout.held)
        if len(positions) == group.stop - group.start:
            shape = forms.whole
            return Piece(positions, group.start, shape, shape, forms.pairs, forms=forms)
        shape = whole(history, positions, [history.shown(i) for i in positions])
        pairs = sum(len(m.tool_results) for m in shape.messages)
        return Piece(positions, group.start, shape, shape, pairs)

    def _mask(self, piece: Piece) -> None:
        reasoning = self._history.wants_reasoning(piece.start)
        if piece.forms is not None and not piece.spared and piece.form == "verbatim":
            shape = piece.forms.masked(reasoning=reasoning)
        else:
            shape = masked(self._history, piece.shape, reasoning=reasoning, spared=piece.spared)
        if shape.tokens < piece.tokens:
            piece.show(shape, "masked")

    def clip(self, piece: Piece, room: int) -> bool:
        """Drop reasoning, then shorten the longest texts; return whether the group fits."""
        if room < FILL_LEAST:
            return False
        reasoning = self._history.wants_reasoning(piece.start)
        messages = list(piece.messages)
        if not reasoning:
            messages = list(map(shorten.without_reasoning, messages))
        own = {m.id for m in piece.spared}
        chosen = [
            i
            for i, m in enumerate(piece.messages)
            if may_shorten(m, piece.spared) and (m.id not in own or m.tool_results)
        ]
        sizes = [self._counter.message(m) for m in messages]
        excess = sum(sizes) - room
        results = [i for i in chosen if messages[i].tool_results]
        share = even_share([sizes[i] for i in results], excess)
        for i in results if len(results) > 1 else ():
            if sizes[i] > share:
                messages[i] = shorten.clipped(messages[i], share, self._counter, words=False)
                sizes[i] = self._counter.message(messages[i])
        excess = sum(sizes) - room
        for _ in range(2 * len(messages)):
            if excess <= 0:
                piece.show(ClosedMessages(messages, sum(sizes)), "clipped")
                return True
            weights = {i: sizes[i] * (2 if messages[i].tool_results else 1) for i in chosen}
            longest = max(weights, key=weights.__getitem__, default=None)  # results first
            if longest is None:
                break
            words = messages[longest].id not in own
            most = sizes[longest] - excess
            shorter = shorten.clipped(
                messages[longest], most, self._counter, words=words, reasoning=reasoning
            )
            size = self._counter.message(shorter)
            if size >= sizes[longest]:
                break
            excess -= sizes[longest] - size
            messages[longest], sizes[longest] = shorter, size
        return False

    def fill(self, layout: Layout, room: int, *, clip: bool) -> int:
        """Show hidden output again in spare room, newest first, and outdated output last. Clip the
        newest group if it does not fit; with `clip`, the others too. Return the room that is left.
        """
        most, newest = layout.tokens + room, layout.tail[:1]
        short = [p for p in (*layout.tail, *layout.beside()) if p.form != "verbatim"]
        for is_stale in (False, True):
            pieces = [p for p in short if (p.cause == "overtaken") is is_stale]
            for piece in pieces:
                if layout.tokens + piece.whole.tokens - piece.tokens <= most:
                    layout.reshape(piece, piece.whole, "verbatim")
            for piece in pieces if clip else [p for p in newest if p in pieces]:
                if most - layout.tokens < FILL_LEAST:
                    break
                if piece.form != "verbatim":
                    self._clip_again(layout, piece, most - layout.tokens)
        return most - layout.tokens

    def newest(self, layout: Layout) -> Piece | None:
        """Return the newest group, without its messages that are held. None if there is no other
        than held ones.
        """
        return next((piece for piece in self._pieces(layout) if piece.positions), None)

    def take_tail(self, layout: Layout, short: Set[int]) -> None:
        """Take over a tail that was chosen by its cut, for the plan. The messages at the positions
        in `short` are shown in part.
        """
        room = layout.limit - layout.tokens
        for piece in self._pieces(layout):
            if piece.start < layout.cut:
                return
            if not short.isdisjoint(piece.positions):
                piece.form = "clipped"
            piece.room = room
            room -= piece.tokens
            layout.tail.append(piece)

    def _clip_again(self, layout: Layout, piece: Piece, room: int) -> None:
        """Show more of a shortened piece: clip the original to the piece's tokens plus the room."""
        other = replace(piece, shape=piece.whole, form="verbatim")
        if self.clip(other, piece.tokens + room) and other.tokens >= piece.tokens:
            layout.reshape(piece, other.shape, "clipped")

    def extend(self, layout: Layout, room: int) -> int:
        """Show more groups before the cut while they fit, and clip or mask larger ones. Skip those
        that still do not fit. Return the room that is left.
        """
        for piece in islice(self._pieces(layout, layout.cut), MOST_STEPS):
            if room < FILL_LEAST or piece.start < self._compacted:
                break
            if self._is_stale(piece) or (piece.tokens > room and not self.clip(piece, room)):
                self._mask(piece)
            if piece.tokens <= room:
                room -= piece.tokens
                piece.why = "room"
                if piece.start + len(piece.positions) == layout.cut:
                    layout.reach(piece)
                else:
                    layout.hold(piece)
        return room


def _is_held(tail: Sequence[Piece]) -> bool:
    """Whether all pieces of the tail are empty. The newest user message is then kept elsewhere, and
    the answer before it is the newest group.
    """
    return not any(piece.positions for piece in tail)
