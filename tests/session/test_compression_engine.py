"""`CompressionEngine`, as its users know it (A-1)."""

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from compact import CompactConfig, CompressionEngine, Conversation, InvalidArgument
from compact.errors import BlockingCallInLoop, NotFound
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Entry, Session
from compact.store.sqlite.store import SQLiteManager
from compact.text.digests import CompressedConversation, CompressionLevel
from evals import data, formats

HARBOUR = formats.read(data.SAMPLE).messages[:150]
TALK = Conversation(id="harbour", title="The harbour", messages=tuple(HARBOUR))
LAST = max(message.timestamp for message in HARBOUR)
FULL, KEY_POINTS, SUMMARY, ARCHIVED, METADATA = CompressionLevel
BANDS = {KEY_POINTS: (0.6, 0.7), SUMMARY: (0.3, 0.4), ARCHIVED: (0.3, 0.4)}


@pytest.fixture
def engine() -> CompressionEngine:
    return CompressionEngine()


@pytest.mark.parametrize(
    ("days", "level"), [(7, FULL), (30, KEY_POINTS), (90, SUMMARY), (91, ARCHIVED), (365, METADATA)]
)
def test_a_conversation_is_compressed_by_its_age(
    engine: CompressionEngine, days: int, level: CompressionLevel
) -> None:
    assert engine.get_compression_level(days) is level
    made = engine.compress_by_age(TALK, now=LAST + timedelta(days=days))
    assert made.level is level
    assert made.about.messages == len(HARBOUR)
    low, high = BANDS.get(level, (0, 0) if level is METADATA else (1, 1))
    assert low <= made.ratio <= high
    assert bool(made.text) == (level in BANDS)


@pytest.mark.parametrize(
    ("words", "secret"),
    [('password: "hunter2"', "hunter2"), ("PIN: 4711", "4711"), ('apiKey: "zq81x"', "zq81x")],
)
def test_a_short_secret_is_in_no_digest(engine: CompressionEngine, words: str, secret: str) -> None:
    said = [
        Message(role="user", content=f"For berth {i} the portal has {words} and Quay {i} waits.")
        if i % 2
        else Message(role="assistant", content=f"Noted, berth {i} is for the Lisbon boats.")
        for i in range(48)
    ]
    talk = Conversation(id="berths", title="Berths", messages=tuple(said))
    for days in (30, 90):
        made = engine.compress_by_age(talk, now=said[-1].timestamp + timedelta(days=days))
        assert secret not in made.text


def test_settings_say_when_a_level_begins() -> None:
    settings = CompactConfig(age_full_days=1, age_key_points_days=2, age_summary_days=3)
    engine = CompressionEngine(settings=settings)
    assert [engine.get_compression_level(day) for day in range(1, 5)] == list(CompressionLevel)[:4]


def test_a_summary_has_the_ratio_that_was_asked_for(engine: CompressionEngine) -> None:
    made = engine.generate_summary(TALK)
    assert made.target_ratio == 0.4
    assert 0.36 <= made.ratio <= 0.4
    assert made.conversation_id == "harbour"
    assert made.kept.questions is not None
    assert engine.generate_summary(TALK, target_ratio=0.2).ratio < 0.2
    for wrong in (0, -1, 1.1):
        with pytest.raises(InvalidArgument, match="target_ratio"):
            engine.generate_summary(TALK, wrong)


TOLD = """
from compact import CompressionEngine, Conversation, Message
said = (Message(role="user", content=f"Berth{n} and mooring{n} by quay{n}.") for n in range(40))
about = CompressionEngine().extract_metadata_only(Conversation(messages=tuple(said)))
print(about.topics, about.entities)
"""


def test_every_process_tells_the_same_topics() -> None:
    told = set()
    for seed in ("0", "1", "2"):
        given = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", TOLD]
        done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
        told.add(done.stdout)
    assert len(told) == 1
    assert "berth" in told.pop()


def test_an_empty_conversation_has_levels_too(engine: CompressionEngine) -> None:
    for level in CompressionLevel:
        made = engine.compress(Conversation(id="none"), level)
        assert (made.text, made.ratio, made.about.messages) == ("", 1.0, 0)
    assert engine.extract_key_points(Conversation()) == ()


# --- and back -------------------------------------------------------------------------------------


def kept(folder: Path) -> SQLiteManager:
    store = SQLiteManager(folder / "chat.db")
    store.session(
        "harbour", create=Session(id="harbour", branch=Branch(id="b", session_id="harbour"))
    )
    store.append("b", [Entry(message) for message in HARBOUR])
    return store


def stored(made: CompressedConversation) -> CompressedConversation:
    """As it comes back from somewhere else: without the original."""
    return CompressedConversation.model_validate(made.model_dump())


def test_originals_come_back_word_for_word(engine: CompressionEngine, tmp_path: Path) -> None:
    made = engine.compress(TALK, SUMMARY)
    assert engine.decompress(made) is TALK
    assert "original" not in made.model_dump()
    with kept(tmp_path) as store:
        back = CompressionEngine(store).decompress(stored(made))
        assert back.messages == store.get_conversation("harbour").messages
        store.append("b", [Entry(HARBOUR[0].model_copy(update={"id": "later"}))])
        again = CompressionEngine(store).decompress(stored(made))
        assert len(again.messages) == len(HARBOUR), "what came later was not compressed"
    by_name = CompressionEngine(tmp_path / "chat.db")
    assert len(by_name.decompress(stored(made)).messages) == len(HARBOUR)
    by_name.close()


def test_what_is_not_there_is_said_with_where_it_is(
    engine: CompressionEngine, tmp_path: Path
) -> None:
    summary, archived = (stored(engine.compress(TALK, level)) for level in (SUMMARY, ARCHIVED))
    with pytest.raises(NotFound, match="store it was kept in"):
        engine.decompress(summary)
    with pytest.raises(NotFound, match="the archive"):
        engine.decompress(archived)
    with SQLiteManager(tmp_path / "chat.db") as store:
        with pytest.raises(NotFound, match="'harbour'"):
            CompressionEngine(store).decompress(summary)
        create = Session(id="harbour", branch=Branch(id="b", session_id="harbour"))
        store.session("harbour", create=create)
        store.append("b", [Entry(HARBOUR[0])])
        with pytest.raises(NotFound, match=r"1 of .* archive"):
            CompressionEngine(store).decompress(summary)


# --- with a model ---------------------------------------------------------------------------------


class Model:
    name, waits = "model", True

    async def summarize(self, request: SummaryRequest) -> Summary:
        await asyncio.sleep(0)
        raise RuntimeError("it is down")


def test_a_model_is_awaited_and_replaced_where_it_fails() -> None:
    engine = CompressionEngine(summarizer=Model())
    made = engine.compress(TALK, SUMMARY)
    assert made.made_by == "extractive"
    assert "it is down" in made.verdicts[0].detail

    async def within() -> CompressedConversation:
        with pytest.raises(BlockingCallInLoop, match="acompress"):
            engine.compress(TALK, SUMMARY)
        return await engine.acompress(TALK, SUMMARY)

    assert asyncio.run(within()).text == made.text


def test_the_age_counts_from_the_latest_message(engine: CompressionEngine) -> None:
    old = TALK.model_copy(update={"created_at": datetime(2001, 1, 1, tzinfo=UTC)})
    assert engine.compress_by_age(old, now=LAST).level is FULL
    assert engine.compress_by_age(old, now=LAST - timedelta(days=9)).level is FULL
