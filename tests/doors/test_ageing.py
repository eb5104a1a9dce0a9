"""A-1, A-4, A-6 as they are written: what age leaves of a conversation, and what is kept."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from compact import (
    CompactConfig,
    CompressionEngine,
    CompressionLevel,
    ContextManager,
    Conversation,
    MemoryManager,
    Message,
    RetentionPolicy,
)
from compact.errors import NotFound

DAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
FULL, KEY_POINTS, SUMMARY, ARCHIVED, METADATA = CompressionLevel
SAID = (
    "We decided to move the harbour office to Quay {n} Street. Berta carries the archive boxes.",
    "Never order crane number {n} without asking me first. When does the ferry {n} leave?",
    "The insurance of berth {n} costs 4,{n}00 € a year, and Mr. Tan pays it on 14 June.",
)


def talk(turns: int = 30) -> Conversation:
    """People who plan."""
    messages = []
    for n in range(turns):
        at = DAY + timedelta(minutes=2 * n)
        messages.append(Message(role="user", content=SAID[n % 3].format(n=n), timestamp=at))
        answer = f"Done: berth {n} is entered in plan_{n}.md, and the quay master has been told."
        messages.append(Message(role="assistant", content=answer, timestamp=at))
    return Conversation(title="The quay", messages=tuple(messages))


def test_a_conversation_is_compressed_by_its_age():
    """A-1: "`get_compression_level(age_days)`, `compress_by_age(conversation)`"."""
    engine = CompressionEngine()
    levels = [engine.get_compression_level(days) for days in (0, 8, 31, 91, 365)]
    assert levels == [FULL, KEY_POINTS, SUMMARY, ARCHIVED, METADATA]
    made = engine.compress_by_age(talk(), now=DAY + timedelta(days=40))
    assert (made.level, made.about.title) == (SUMMARY, "The quay")


def test_key_points_a_summary_and_metadata_are_extracted_and_it_comes_back():
    """A-1: "`extract_key_points`, `generate_summary(conversation, target_ratio=0.4)`,
    `extract_metadata_only`, `decompress`".
    """
    engine, conversation = CompressionEngine(), talk()
    assert any("Berta" in point.text for point in engine.extract_key_points(conversation))
    summary = engine.generate_summary(conversation, target_ratio=0.4)
    assert 0.3 < summary.ratio <= 0.4
    about = engine.extract_metadata_only(conversation)
    assert (about.messages, about.begun, about.roles["user"]) == (60, DAY, 30)
    assert "plan_29.md" in about.entities
    small = engine.compress(conversation, SUMMARY)
    assert engine.decompress(small) == conversation
    elsewhere = type(small).model_validate_json(small.model_dump_json())
    with pytest.raises(NotFound, match="originals"):
        engine.decompress(elsewhere)


def test_what_a_digest_keeps_is_measured():
    """A-4: "information retention score, compression ratio, quality checks. Never a constant"."""
    engine = CompressionEngine()
    more, less = (engine.compress(talk(), level) for level in (KEY_POINTS, SUMMARY))
    other = engine.compress(talk(turns=50), SUMMARY)
    assert 0.6 <= more.ratio <= 0.7
    assert 0.3 <= less.ratio <= 0.4
    assert 1 >= (more.kept.entities or 0) > (less.kept.entities or 0) > 0
    assert less.ratio != other.ratio
    assert less.kept != other.kept


def test_value_decides_what_must_be_kept():
    """A-6: "`calculate_importance_score()`, `should_retain_full()`, `update_retention_policy()`;
    … what must be kept overrides age".
    """
    policy = RetentionPolicy()
    chore = Conversation(messages=(Message(role="user", content="Fix the typo.", timestamp=DAY),))
    high, low = (policy.calculate_importance_score(each).score for each in (talk(), chore))
    assert high > low
    assert policy.should_retain_full(talk(), age_days=4_000)
    assert not policy.should_retain_full(chore, age_days=8)
    marked = chore.model_copy(update={"metadata": {"important": True}})
    assert policy.should_retain_full(marked, age_days=4_000)
    lenient = policy.update_retention_policy(keep_score=low)
    assert lenient.should_retain_full(chore, age_days=8)


def test_memory_ages_and_why_something_is_kept_is_shown(tmp_path, run):
    """A-2, A-6: by hand, with a dry run, on the command line."""
    settings = CompactConfig(retain_score=1.0)
    with MemoryManager(tmp_path / "chat.db", settings=settings) as memory:
        ctx = ContextManager(window=16_000, store=memory.store, session_id="chore")
        ctx.add_messages([{"role": "user", "content": f"File {n} is written."} for n in range(40)])
        later = datetime.now(UTC) + timedelta(days=20)
        assert memory.age(later, dry_run=True).rows[0].due is KEY_POINTS
        assert memory.age(later).written == 1
        digest = memory.digest("chore")
        assert digest is not None
        assert digest.level is KEY_POINTS
        memory.describe("chore", important=True)
        assert memory.age(later).rows[0].action == "drop"
    given = ("--dry-run", "--now", later.date(), "--store", tmp_path / "chat.db", "--json")
    (row,) = json.loads(run("memory", "age", *given).out)["rows"]
    assert "important" in row["why"]
