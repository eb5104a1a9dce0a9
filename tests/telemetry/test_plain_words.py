"""What a person is told of an event (FR-6, US-5)."""

from datetime import UTC, datetime

import pytest

from compact.messages.events import (
    STAGES,
    BreakerOpened,
    ErrorRaised,
    Event,
    EventsDropped,
    MemoryAged,
    ModelAskedAgain,
    ModelReplaced,
    RedactionOff,
    StageStarted,
    SummaryReplaced,
    WindowCapped,
)
from compact.telemetry.plain_words import LONGEST, compressed, sentence, stage_of

TOLD: dict[str, Event] = {
    "qwen is asked again: it was busy": ModelAskedAgain(
        model="qwen", attempt=1, wait=0.2, reason="it was busy"
    ),
    "qwen is asked in 12 seconds: it was busy": ModelAskedAgain(
        model="qwen", attempt=1, wait=12.3, reason="it was busy"
    ),
    "phi is asked instead of qwen: down": ModelReplaced(model="qwen", by="phi", reason="down"),
    "The summary was not used, an extracted one is: echo": SummaryReplaced(
        made_by="extractive", reason="echo"
    ),
    "The summarizer failed 3 times in a row; until 09:05 UTC summaries are extracted without it": (
        BreakerOpened(failures=3, until=datetime(2026, 5, 1, 9, 5, tzinfo=UTC))
    ),
    "Memory has aged: 2 digests written, 1 archived": MemoryAged(digests=2, archived=1, failed=0),
    "Memory has aged: 0 digests written, 0 archived; it failed: the disk is full": MemoryAged(
        digests=0, archived=0, failed=0, problem="the disk is full"
    ),
    "The model takes 2,048 tokens, not 8,192; prompts are kept within that": WindowCapped(
        asked=8_192, size=2_048
    ),
    "1,200 events did not reach AriadneExporter; nothing else is affected": EventsDropped(
        exporter="AriadneExporter", count=1_200
    ),
    "WARNING: redaction is off; secrets leave in reports and copies as they are": RedactionOff(),
    "": StageStarted(stage="identify", done=0),
}


@pytest.mark.parametrize("told", TOLD)
def test_an_event_is_one_sentence(told: str) -> None:
    """What happened, and what is done about it (FR-6)."""
    assert sentence(TOLD[told]) == told


def test_whatever_others_raise_becomes_one_line() -> None:
    """No traceback, and no page, in a person's face (US-5)."""
    error = ErrorRaised(stage="summarize", error="E", message="Traceback\n  File x\n" + "y" * 9_000)
    told = sentence(error)
    assert "\n" not in told
    assert told.startswith("The summarizer failed, and the conversation goes on: Traceback File x")
    assert len(told) < LONGEST + 100


def test_a_person_sees_how_far_a_compression_is() -> None:
    """Each stage by its number, in words (FR-9)."""
    told = [stage_of(StageStarted(stage=stage, done=0)) for stage in STAGES]
    assert told[2] == "stage 3 of 6, summarizing"
    assert len(set(told)) == len(STAGES)


def test_a_person_is_told_what_a_compression_freed() -> None:
    """(FR-9, US-7)"""
    assert compressed(42, 9_310) == "Compressed 42 messages, freed 9,310 tokens"
    assert compressed(1, 1) == "Compressed 1 message, freed 1 token"
    assert compressed(0, 300) == "Shortened what is in view, freed 300 tokens"
    assert compressed(3, 0) == "Compressed 3 messages; the prompt is no smaller for it"
