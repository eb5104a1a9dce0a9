"""Which checkpoints are rewritten, and at which level: the decision alone (FR-4)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from compact.engine.checkpoint_levels import Ageing, Pressure, Rewrite, age
from compact.messages.checkpoints import Caps, Checkpoint, Level, Span

ORDER: Sequence[Level] = ("detailed", "moderate", "compact", "merged")
FROM: Mapping[Level, int] = {"detailed": 0, "moderate": 3, "compact": 6, "merged": 10}
LARGE = Caps(100_000)


def due(age_: int) -> int:
    """The level of the schedule after so many compressions, as a number."""
    return max(i for i, level in enumerate(ORDER) if age_ >= FROM[level])


def checkpoint(place: int, number: int, tokens: int, level: Level = "detailed") -> Checkpoint:
    return Checkpoint(
        id=f"ck-{place:012}",
        span=Span(first=10 * place, last=10 * place + 9, messages=10),
        summary=f"what was said at {place}",
        level=level,
        number=number,
        token_count=tokens,
    )


@st.composite
def lives(draw: st.DrawFn) -> list[Checkpoint]:
    numbers = sorted(draw(st.lists(st.integers(1, 40), max_size=12)))
    levels = sorted(draw(st.tuples(*(st.sampled_from(range(4)) for _ in numbers))), reverse=True)
    return [
        checkpoint(i, number, draw(st.integers(20, 6_000)), ORDER[level])
        for i, (number, level) in enumerate(zip(numbers, levels, strict=True))
    ]


def sources(step: Checkpoint | Rewrite) -> tuple[Checkpoint, ...]:
    return step.sources if isinstance(step, Rewrite) else (step,)


@given(
    live=lives(),
    later=st.integers(0, 30),
    usable=st.integers(1_500, 200_000),
    share=st.floats(0.01, 1),
    pressure=st.sampled_from(("none", "lower", "merge")),
)
def test_any_checkpoints_age_within_their_room(
    live: list[Checkpoint], later: int, usable: int, share: float, pressure: Pressure
) -> None:
    """Each stays or is rewritten once, in order, at the level that is due or a later one; together
    they fit, or are one (FR-4).
    """
    caps, number = Caps(usable), max((c.number for c in live), default=0) + later
    room = int(share * caps.together)
    ageing = age(live, number=number, caps=caps, room=room, pressure=pressure)
    assert [c.id for step in ageing.steps for c in sources(step)] == [c.id for c in live]
    known = {c.id: c for c in live}
    for step in ageing.steps:
        for source in sources(step):
            before = known[source.id]
            assert source.summary == before.summary
            least = max(ORDER.index(before.level), due(number - before.number))
            assert ORDER.index(step.level) >= least
        if isinstance(step, Rewrite):
            assert len(step.sources) == 1 or step.level == "merged"
            assert step.cap <= max(96, caps.of(step.level))
        elif step.level != known[step.id].level:
            assert step.token_count <= max(caps.of(x) for x in ORDER[ORDER.index(step.level) :])
        else:
            assert step == known[step.id], "what keeps its level keeps its words"
    assert sum(1 for s in ageing.steps if len(sources(s)) > 1) <= 1
    assert ageing.tokens <= room or len(ageing.steps) <= 1
    rewritten = [ORDER.index(s.level) for s in ageing.steps if isinstance(s, Rewrite)]
    assert all(a >= b for a, b in pairwise(rewritten)), "what is older is not more detailed"


def levels_of(ageing: Ageing) -> list[tuple[str, int]]:
    return [(step.level, len(sources(step))) for step in ageing.steps]


def test_levels_follow_the_schedule_where_there_is_room() -> None:
    """After 3, 6 and 10 compressions; what is merged becomes one (FR-4)."""
    for number in range(1, 15):
        live = [checkpoint(i, i + 1, 4_000 if i > number - 4 else 600) for i in range(number)]
        ageing = age(live, number=number, caps=LARGE, room=LARGE.together)
        told = [level for level, size in levels_of(ageing) for _ in range(size)]
        assert told == [ORDER[due(number - c.number)] for c in live]
    assert levels_of(ageing)[0] == ("merged", 4)


def test_the_oldest_ages_first_where_there_is_no_room() -> None:
    """Step by step down to one merged checkpoint (FR-4)."""
    live = [checkpoint(i, 9, 4_000) for i in range(4)]

    def told(room: int) -> list[str]:
        return [f"{x} {n}" for x, n in levels_of(age(live, number=9, caps=LARGE, room=room))]

    assert told(16_000) == ["detailed 1"] * 4
    assert told(15_999) == ["moderate 1", *["detailed 1"] * 3]
    assert told(13_999) == ["compact 1", *["detailed 1"] * 3]
    assert told(12_999) == ["merged 1", "compact 1", *["detailed 1"] * 2]
    assert told(11_999) == ["merged 2", *["detailed 1"] * 2]
    assert told(10_999) == ["merged 2", "moderate 1", "detailed 1"]
    assert told(7_999) == ["merged 3", "detailed 1"]
    assert told(6_999) == ["merged 3", "moderate 1"]
    assert told(3_999) == ["merged 4"]
    (one,) = age(live, number=9, caps=LARGE, room=1_000).rewrites
    assert one.cap == 1_000, "never more than the room there is"


def test_what_stands_before_a_merged_one_is_merged() -> None:
    """Levels never grow younger towards the past (FR-4)."""
    live = [checkpoint(0, 9, 9_000), checkpoint(1, 9, 9_000, "merged"), checkpoint(2, 9, 900)]
    ageing = age(live, number=9, caps=LARGE, room=LARGE.together)
    assert levels_of(ageing) == [("merged", 2), ("detailed", 1)]


def test_all_together_have_a_cap() -> None:
    """20 % of the usable window; no level may take more than half of that (FR-4)."""
    for usable in (800, 3_584, 28_672, 1_000_000):
        assert Caps(usable).together == usable // 5
        assert all(Caps(usable).of(level) <= usable // 10 for level in ORDER)
        assert Caps(usable).record == int(usable * 0.12)


def test_a_new_one_may_be_larger_than_its_level() -> None:
    """What was written where there was room keeps its words while its level stays; a rewrite has
    the cap of its level (FR-4).
    """
    live = [checkpoint(i, i + 1, 2 * LARGE.of("detailed")) for i in range(2)]
    assert age(live, number=3, caps=LARGE, room=LARGE.together).steps == tuple(live)
    rewritten, kept = age(live, number=4, caps=LARGE, room=LARGE.together).steps
    assert isinstance(rewritten, Rewrite)
    assert (rewritten.level, rewritten.cap) == ("moderate", LARGE.of("moderate"))
    assert [c.id for c in rewritten.sources] == [live[0].id]
    assert kept == live[1]


def test_a_text_within_its_new_cap_keeps_its_words() -> None:
    """What a model has seen changes only where room must be freed (decision 012)."""
    live = [checkpoint(0, 1, LARGE.of("compact")), checkpoint(1, 1, LARGE.of("compact") + 1)]
    kept, rewritten = age(live, number=7, caps=LARGE, room=LARGE.together).steps
    assert isinstance(kept, Checkpoint)
    assert (kept.id, kept.level) == (live[0].id, "compact")
    assert isinstance(rewritten, Rewrite)
    assert rewritten.cap == LARGE.of("compact")


def test_an_emergency_lowers_each_or_merges_all() -> None:
    """Whatever the schedule says (FR-10)."""
    live = [checkpoint(0, 9, 9_000, "compact"), *(checkpoint(i, 9, 9_000) for i in (1, 2))]
    lowered = age(live, number=9, caps=LARGE, room=LARGE.together, pressure="lower")
    assert levels_of(lowered) == [("merged", 1), ("moderate", 1), ("moderate", 1)]
    merged = age(live, number=9, caps=LARGE, room=LARGE.together, pressure="merge")
    assert levels_of(merged) == [("merged", 3)]
    assert age((), number=3, caps=LARGE, room=0, pressure="merge").steps == ()
