"""Events become spans, each once, at its end (K-15)."""

from datetime import timedelta
from itertools import count

import pytest

from compact import plan
from compact.messages.events import (
    STAGES,
    Archival,
    Committed,
    DraftMade,
    ErrorRaised,
    Event,
    GoalsChanged,
    PrunedMessages,
    StageStarted,
    StoryAsked,
    TriggerDecision,
)
from compact.telemetry import spans as spans_module
from compact.telemetry.spans import EndedSpan, Spans
from tests.telemetry.talking import TURNS
from tests.telemetry.test_bus import EVENT

TRIGGER = TriggerDecision(triggered=True, tokens=9, trigger=5, reason="above the trigger")
BELOW = TRIGGER.model_copy(update={"triggered": False})
COMMIT = Committed(move=1, window=10, checkpoints=1)
PRUNED = PrunedMessages(covered=1, masked=0, clipped=0, tokens_before=9, tokens_after=4)
FAILED = ErrorRaised(stage="commit", error="StoreFailed", message="full")
STAGES_RUN = [StageStarted(stage=stage, done=0.0) for stage in STAGES]


def told(*events: Event, session_id: str = "s") -> list[EndedSpan]:
    """Their spans, a second between two events."""
    made, seconds = Spans(), count()
    timed = [
        event.model_copy(
            update={"at": EVENT.at + timedelta(seconds=next(seconds)), "session_id": session_id}
        )
        for event in events
    ]
    found = [span for event in timed for span in made.of([event])]
    found += made.close()
    assert len({span.id for span in found}) == len(found), "each once"
    assert sum(span.events for span in found) == len(events), "each event is told by one of them"
    known = {span.id for span in found}
    assert all(span.parent in {None, *known} for span in found)
    return found


def drawn(found: list[EndedSpan]) -> dict[str, str | None]:
    """Name → the name of its parent."""
    names = {span.id: span.name for span in found}
    return {span.name: names[span.parent] if span.parent else None for span in found}


def seconds(found: list[EndedSpan], name: str) -> list[float]:
    return [(span.end - span.start).total_seconds() for span in found if span.name == name]


def test_a_compression_holds_its_stages_and_what_happens_in_it():
    found = told(BELOW, TRIGGER, EVENT, *STAGES_RUN, PRUNED, COMMIT, BELOW)
    tree = drawn(found)
    assert tree.pop("compact.compression") is None
    assert tree.pop("compact.trigger_decision") is None, "the last one is below the trigger"
    assert {*tree.values()} == {"compact.compression"}
    assert seconds(found, "compact.compression") == [9.0]
    assert [seconds(found, f"compact.stage.{stage}") for stage in STAGES] == [[1.0]] * 6
    (whole,) = (span for span in found if span.kind == "compression")
    assert whole.data["outcome"] == "committed"
    assert (whole.data["tokens_before"], whole.data["tokens_after"]) == (9, 4)


def test_what_happens_beside_a_draft_is_no_part_of_it():
    """A draft in the background has no trigger; turns go on meanwhile."""
    story = StoryAsked(model="m", part=1, parts=1, elapsed=0.0, limit=None)
    goals = GoalsChanged(changes=("x",))
    found = told(
        *STAGES_RUN[:3], BELOW, goals, story, *STAGES_RUN[3:], DraftMade(window=1, tokens=1)
    )
    tree = drawn(found)
    assert tree["compact.trigger_decision"] is tree["compact.goals_changed"] is None
    assert tree["compact.story_asked"] == "compact.compression"
    assert seconds(found, "compact.stage.summarize") == [4.0]
    assert found[-1].data["outcome"] == "drafted"


@pytest.mark.parametrize("stage", ["summarize", "track", "sync", "archive"])
def test_an_error_after_which_a_compression_goes_on_does_not_end_it(stage):
    error = FAILED.model_copy(update={"stage": stage})
    found = told(TRIGGER, STAGES_RUN[0], error, STAGES_RUN[1], COMMIT)
    assert seconds(found, "compact.compression") == [4.0]
    assert [span.error for span in found if span.kind == "compression"] == [""]
    assert [span.error for span in found if span.name == "compact.error"] == ["StoreFailed"]


def test_an_error_ends_it():
    found = told(TRIGGER, *STAGES_RUN[:2], FAILED, Archival(what="summary", place="x"))
    (whole,) = (span for span in found if span.kind == "compression")
    assert (whole.error, whole.data["outcome"]) == ("StoreFailed", "failed")
    assert drawn(found)["compact.archival"] is None


def test_what_does_not_end_is_ended_by_the_next_one_or_at_the_close():
    found = told(TRIGGER, *STAGES_RUN[:2], TRIGGER, STAGES_RUN[0])
    assert [s.data["outcome"] for s in found if s.kind == "compression"] == ["left", "left"]
    assert seconds(found, "compact.compression") == [2.0, 1.0]


def test_sessions_do_not_mix_and_calls_have_a_trace_of_their_own():
    made = Spans()
    found = made.of(
        [
            TRIGGER.model_copy(update={"session_id": "a"}),
            TRIGGER.model_copy(update={"session_id": "b"}),
            PRUNED,
        ]
    )
    found += made.of(
        [
            COMMIT.model_copy(update={"session_id": "b"}),
            COMMIT.model_copy(update={"session_id": "a"}),
        ]
    )
    assert [s.trace.id for s in found if s.kind == "compression"] == ["b", "a"]
    (call,) = (s for s in found if s.name == PRUNED.name)
    assert (call.trace.name, call.parent) == ("calls", None)
    assert call.trace.id.startswith("calls-")


def test_a_call_ends_when_its_result_is_told():
    made, found = Spans(), []
    plan(TURNS, max_tokens=2_000, on_event=lambda event: found.extend(made.of([event])))
    assert not made.close()
    assert [s.data["outcome"] for s in found if s.kind == "compression"] == ["returned"]


def test_open_compressions_are_bounded(monkeypatch):
    monkeypatch.setattr(spans_module, "MOST_OPEN", 3)
    made = Spans()
    found = made.of([TRIGGER.model_copy(update={"session_id": str(i)}) for i in range(5)])
    assert [s.trace.id for s in found if s.kind == "compression"] == ["0", "1"]
    assert len(made.close()) == 3


def test_a_clock_that_goes_back_makes_no_span_of_less_than_nothing():
    made = Spans()
    back = EVENT.at - timedelta(hours=1)
    events = [
        TRIGGER.model_copy(update={"at": EVENT.at}),
        STAGES_RUN[0].model_copy(update={"at": back}),
        PRUNED.model_copy(update={"at": back}),
    ]
    found = made.of(events)
    assert all(span.start <= span.end for span in found)
