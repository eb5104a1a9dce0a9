"""The stage *identify*: choose what the prompt shows, in which form, and which checkpoints age.

What a session has covered stays covered (`inputs.Standing`). `engine.ladder` chooses from the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from compact.engine.checkpoint_levels import LEAST_CAP, Ageing, age
from compact.engine.checkpoint_text import Composer
from compact.engine.chronology.notes import Notes, notes_of
from compact.engine.forms import ClosedMessages
from compact.engine.history import History
from compact.engine.inputs import Budget, Standing
from compact.engine.ladder import CHECKPOINT_SHARE, LEAST_CHECKPOINT, Ladder, Layout
from compact.engine.visible import VisibleText
from compact.errors import CannotFit
from compact.messages.checkpoints import LEVELS, Level, level_at, older
from compact.messages.policy import CompactPolicy


@dataclass(slots=True)
class Selection:
    """The choice of `identify`, and the ladder that can still change it."""

    history: History
    policy: CompactPolicy
    ladder: Ladder
    layout: Layout
    budget: Budget
    standing: Standing
    ageing: Ageing
    notes: Notes | None = None
    """Notes on the whole history. None if nothing is summarized."""
    record: int = 0
    """Tokens reserved for the record of a session."""
    seen: tuple[list[ClosedMessages], VisibleText] | None = None
    """The messages shown at the last request, and the text that a reader sees in them."""
    composed: tuple[VisibleText, Composer] | None = None
    """The composer of the record, and the visible text that it was made for."""


RECEIPT_TOKENS = 64
"""Tokens reserved for a receipt with its heading."""
LEAST_RESERVE, MOST_RESERVE = 2_000, 12_000
"""Fewest and most tokens reserved for the checkpoint of a single call, not counting the
instructions in it. A larger reserve tells more of what is hidden and shows fewer messages."""
LARGEST_SHARE, LARGE_LIMIT_SHARE = 0.75, 0.45
"""Largest share of a small limit, and of a large one, for the checkpoint of a single call."""
SMALL_LIMIT = (3_000, 8_000)
"""Up to the first number of tokens a limit is small, from the second on it is large."""
TALK_SHARE = 0.7
"""A checkpoint of plain talk takes this share of the limit."""
SESSION_SHARE, RECORD_SHARE, ALONE_SHARE = 0.4, 0.4, 0.6
"""Largest shares of the room above the floor: for a session's checkpoints; for the record in
addition to them; for the record if there are no checkpoints."""
MOST_PERSONS = 500
"""How many user messages, the newest, are searched for instructions. This bounds the time."""
LOT = 0.6
"""Share of the usable window that one compression covers: about what a target of .40 leaves."""


def identify(
    history: History, policy: CompactPolicy, budget: Budget, standing: Standing
) -> Selection:
    """Choose what the prompt shows. If the limit cannot hold what may not be shortened, it is
    raised to `budget.hard`.

    Raises:
        CannotFit: what may not be shortened exceeds `budget.hard` too.
    """
    limit = budget.limit - budget.overhead_tokens
    hard = (budget.hard or budget.limit) - budget.overhead_tokens
    ageing, record = Ageing(()), 0
    notes = notes_of(history, known=standing.record) if policy.summarizes else None
    ladder = Ladder(history, policy, notes.work.stale if notes else ())

    def reserve(above: int) -> int:
        nonlocal ageing, record
        if notes is None or not standing.is_session:
            most = max(LEAST_CHECKPOINT, int(above * CHECKPOINT_SHARE))
            is_talk = notes is not None and notes.is_plain_talk
            return min(_reserve(history, policy, limit, is_talk=is_talk), most)
        new = LEAST_CHECKPOINT
        if not standing.by_record:
            new = min(_cap_of_new(history, policy, standing), max(new, above // 3))
        room = min(standing.caps.together, int(above * SESSION_SHARE)) - new
        ageing = age(
            standing.live,
            number=standing.number + 1,
            caps=standing.caps,
            room=room,
            pressure=standing.pressure,
        )
        left = max(0, above - ageing.tokens - new - ladder.unseen(empty))
        caps, most = standing.caps, int(above * RECORD_SHARE)
        record = min(caps.record, most, left)
        if standing.by_record:
            most = int(above * ALONE_SHARE)
            record = min(caps.record + room - ageing.tokens, most, left)
        return ageing.tokens + new + record

    empty = Layout(limit, since=standing.cut, spared=standing.kept)
    try:
        in_order = notes is not None and (standing.by_model or not notes.is_plain_talk)
        told = in_order and not standing.is_session
        layout = ladder.lay_out(empty, reserve, hard=hard, words=budget.words, told=told)
    except CannotFit as error:
        if budget.limit < (most := budget.hard or 0):
            return identify(history, policy, replace(budget, limit=most), standing)
        raise CannotFit(budget.floor(error.floor), budget.limit) from None
    if all(i in layout.held for i in range(layout.cut)):
        ladder.fill(layout, layout.limit - layout.tokens, clip=budget.fill)
    return Selection(history, policy, ladder, layout, budget, standing, ageing, notes, record)


def _cap_of_new(history: History, policy: CompactPolicy, standing: Standing) -> int:
    """Return the most tokens for the checkpoints of newly covered messages."""
    levels = {level for level, _ in parts_of(history, standing, policy, range(len(history)))}
    return min(sum(map(standing.caps.of, levels)), standing.caps.together)


def _reserve(history: History, policy: CompactPolicy, limit: int, *, is_talk: bool) -> int:
    """Return the tokens reserved for the checkpoint of a single call: a share, and room for the
    instructions it must carry. Plain talk gets more, as each sentence may matter.
    """
    if not policy.summarizes:
        return RECEIPT_TOKENS
    if is_talk:
        return min(int(TALK_SHARE * limit), MOST_RESERVE)
    share = min(max(LEAST_RESERVE, int(policy.checkpoint_share * limit)), MOST_RESERVE)
    most = int(policy.instruction_share * limit)
    demand = min(_instruction_tokens(history, most), most)
    return min(share + demand, int(_largest_share(limit) * limit))


def _largest_share(limit: int) -> float:
    """Return the checkpoint's largest share: smaller if the limit is larger."""
    small, large = SMALL_LIMIT
    way = min(1.0, max(0.0, (limit - small) / (large - small)))
    return LARGEST_SHARE + way * (LARGE_LIMIT_SHARE - LARGEST_SHARE)


def _instruction_tokens(history: History, most: int) -> int:
    """Estimate the tokens of the user's instructions, up to a little over `most`."""
    total = 0
    for position in islice(history.persons(), MOST_PERSONS):
        total += history.instruction_tokens(position)
        if total > most:
            break
    return total


def counted(history: History, positions: Sequence[int]) -> int:
    """Return the tokens of the messages at these positions."""
    return sum(map(history.tokens, positions))


def parts_of(
    history: History, standing: Standing, policy: CompactPolicy, new: Sequence[int]
) -> list[tuple[Level, Sequence[int]]]:
    """Split newly covered messages into parts, oldest first. Each becomes a checkpoint. A session
    that was loaded whole is treated as if it had been compressed each time its window was full:
    each part has the level that it would have by now. Messages before the start of the last level
    are not counted.
    """
    if standing.live or standing.cut or standing.by_model:  # a model summarizes all at once
        return [(policy.new_level, new)]
    parts: list[tuple[Level, Sequence[int]]] = []
    after, end, lot = 0, len(new), max(1, int(standing.caps.usable * LOT))
    last = policy.new_level
    for place in range(len(new) - 1, -1, -1):
        level = older(policy.new_level, level_at(after // lot))
        if level != last and place + 1 < end:
            parts.append((last, new[place + 1 : end]))
            end = place + 1
        last = level
        if level == LEVELS[-1]:
            break
        after += history.tokens(new[place])
    parts.append((last, new[:end]))
    (level, oldest), *others = parts[::-1]
    if others and counted(history, oldest[: LEAST_CAP + 1]) <= LEAST_CAP:
        others[0] = (others[0][0], new[: len(oldest) + len(others[0][1])])  # it saves nothing
        return others
    return [(level, oldest), *others]
