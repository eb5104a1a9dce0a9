"""What compressions leave behind is kept outside of the store as well (K-7)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from compact import CompactConfig, CompactManager, ContextManager, Message
from compact.errors import InvalidArgument, StoreFailed
from compact.messages.events import Archival, ErrorRaised, Event
from compact.messages.sessions import Projection
from compact.session import archiving
from compact.transcripts import reading
from tests.session.test_compact_manager import talk

SECRET = "sk-proj-" + "Zx9Lq3Vb7Nf2Kd8Ws4Tg" * 2
CONFIG = CompactConfig(max_context_tokens=4_096, tokenizer="o200k")


def archived(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.glob("s/*"))}


def test_each_compression_leaves_a_transcript_and_a_summary(tmp_path: Path) -> None:
    seen: list[Event] = []
    config = CONFIG.model_copy(update={"archive": str(tmp_path)})
    with CompactManager(config, on_event=seen.append) as manager:
        for stop in range(10, 70, 2):
            manager.preflight("s", talk(0, stop))
        ctx = manager.session("s")
        times = ctx.compressions
        shown = [c.summary for c in ctx.checkpoints]
    found = archived(tmp_path)
    assert times >= 2
    names = [f"transcript-pre-compact-{i:03}.jsonl" for i in range(1, times + 1)]
    names += [f"summary-{i:03}.json" for i in range(1, times + 1)]
    assert sorted(found) == sorted(["events.jsonl", *names])
    last = reading.read(tmp_path / "s" / f"transcript-pre-compact-{times:03}.jsonl")
    whole = talk(0, 70)
    assert [m.text for m in last.messages] == [m["content"] for m in whole[: len(last.messages)]], (
        "the whole history, as it was"
    )
    said = json.loads(found[f"summary-{times:03}.json"])
    assert said["step"] == times
    assert shown
    for text in shown:
        assert text.partition("\n")[2] in said["summary"]
    assert "For reference only" not in said["summary"]
    events = [json.loads(line) for line in found["events.jsonl"].splitlines()]
    assert {"compact.summary_created", "compact.committed"} <= {event["name"] for event in events}
    assert {event["session_id"] for event in events} == {"s"}
    places = [event.place for event in seen if isinstance(event, Archival)]
    assert len(places) == 2 * times


def test_no_secret_is_archived(tmp_path: Path) -> None:
    """The session keeps every word; the copies do not."""
    messages = talk(0, 40)
    messages[3]["content"] += f"\nexport OPENAI_API_KEY={SECRET}\n"
    with ContextManager(window=4_096, archive=tmp_path, session_id="s") as ctx:
        ctx.sync(messages)
        ctx.get_context_for_model()
        assert ctx.compressions == 1
        assert SECRET in ctx.history[3].text
    found = archived(tmp_path)
    assert len(found) == 3
    assert not any(SECRET in text for text in found.values())
    assert "<REDACTED:" in found["transcript-pre-compact-001.jsonl"]


class Broken:
    """An adapter that keeps nothing, or nothing in time."""

    def __init__(self, opens: threading.Event | None = None) -> None:
        self._opens = opens

    def save_transcript(self, session_id: str, messages: Sequence[Message]) -> str:
        return self._fail()

    def save_summary(self, session_id: str, step: int, summary: str) -> str:
        return self._fail()

    def save_event(self, session_id: str, event: Event) -> str:
        return self._fail()

    def _fail(self) -> str:
        if self._opens is not None:
            self._opens.wait(60)
        raise StoreFailed("the tape is full")


def test_an_archive_that_fails_fails_no_call() -> None:
    seen: list[Event] = []
    with CompactManager(CONFIG, archive=Broken(), on_event=seen.append) as manager:
        sent = manager.preflight("s", talk(0, 40))
        assert sent[-1] == talk(39, 40)[-1]
    errors = [event for event in seen if isinstance(event, ErrorRaised)]
    assert {(event.stage, event.message) for event in errors} == {("archive", "the tape is full")}
    assert not any(isinstance(event, Archival) for event in seen)


def test_what_cannot_be_read_is_said_and_the_next_is_archived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store fails the thread once."""
    seen: list[Event] = []
    with ContextManager(
        window=4_096, archive=tmp_path, session_id="s", on_event=seen.append
    ) as ctx:
        real, failing = archiving.said_by, ["the disk is gone"]

        def said_by(projection: Projection) -> str:
            if failing:
                raise StoreFailed(failing.pop())
            return real(projection)

        monkeypatch.setattr(archiving, "said_by", said_by)
        for stop in range(10, 70, 2):
            ctx.sync(talk(0, stop))
            ctx.get_context_for_model()
        times = ctx.compressions
    assert times >= 2
    errors = [event for event in seen if isinstance(event, ErrorRaised)]
    assert [(event.stage, event.message) for event in errors] == [("archive", "the disk is gone")]
    found = archived(tmp_path)
    assert "summary-001.json" not in found
    assert f"summary-{times:03}.json" in found


def test_an_archive_that_hangs_delays_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits for it only so long, and says what was not written."""
    monkeypatch.setattr(archiving, "LONGEST_CLOSE", 0.05)
    opens, seen = threading.Event(), list[Event]()
    with CompactManager(CONFIG, archive=Broken(opens), on_event=seen.append) as manager:
        for stop in range(30, 50, 2):
            manager.preflight("s", talk(0, stop))
    left = [event for event in seen if isinstance(event, ErrorRaised)]
    opens.set()
    assert any("were not written within 0.05 seconds" in event.message for event in left)


ENDS = """
import sys
from compact import CompactConfig, CompactManager
from tests.session.test_archiving import Broken, archiving, threading
from tests.session.test_compact_manager import talk

archiving.LONGEST_CLOSE = float(sys.argv[2])
archive = sys.argv[1] or Broken(threading.Event())
config = CompactConfig(max_context_tokens=4_096, console_events=True)
manager = CompactManager(config, archive=archive)
manager.preflight("s", talk(0, 40))
"""


def ended(archive: str, seconds: float) -> str:
    """What a program says that ends without closing anything."""
    command = [sys.executable, "-c", ENDS, archive, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stderr


def test_a_program_that_ends_without_closing_has_archived_everything(tmp_path: Path) -> None:
    told = ended(str(tmp_path), 30)
    names = ["events.jsonl", "summary-001.json", "transcript-pre-compact-001.jsonl"]
    assert sorted(archived(tmp_path)) == names
    assert told.count('"compact.archival"') == 2, "exporters hear of it"


def test_a_program_ends_in_time_and_says_what_was_not_archived() -> None:
    assert '"stage": "archive", "error": "StoreFailed"' in ended("", 0.05)


def test_an_address_without_a_bucket_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="names no bucket"):
        ContextManager(archive="s3://")
