"""compress and plan: one call, no set-up (C-7, C-8, K-4, FR-3)."""

import asyncio
import json
import re

import pytest

import compact
from compact import CannotFit, CompactPolicy, acompress, aplan, compress, plan
from compact.errors import BlockingCallInLoop, InvalidMessage, NotFound
from compact.messages.checkpoints import is_checkpoint_text
from compact.testing import ScriptedSummarizer
from tests.doors.talking import verbatim


def talk(turns: int) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = [{"role": "system", "content": "You are a roofer."}]
    for i in range(turns):
        messages.append({"role": "user", "content": f"Question {i}: what about the roof?"})
        messages.append({"role": "assistant", "content": f"Answer {i}: " + "it holds well. " * 40})
    return [*messages, {"role": "user", "content": "And now?"}]


def test_pins_stay_word_for_word() -> None:
    """By position, from either end, and by mark; beyond the list is an error (C-8, K-4)."""
    messages = talk(60)
    pinned = messages[41] = {**messages[41], "content": "the pinned words"}
    assert verbatim([pinned], compress(messages, max_tokens=2_000, pin=[41]))
    assert verbatim([pinned], compress(messages, max_tokens=2_000, pin=[41 - len(messages)]))
    assert not verbatim([pinned], compress(messages, max_tokens=2_000))
    marked = [*messages]
    marked[41] = {**pinned, "metadata": {"pinned": True}}
    (found,) = [m for m in compress(marked, max_tokens=2_000) if "metadata" in m]
    assert found["metadata"] == {"pinned": True}
    assert verbatim([pinned], [found])
    with pytest.raises(InvalidMessage, match=r"pin\[999\]"):
        compress(messages, max_tokens=2_000, pin=[999])


def test_what_stands_beside_the_messages_is_counted() -> None:
    """A system field and tool schemas take room and are never changed (K-3)."""
    messages = talk(60)
    tool = {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look at the roof.",
            "parameters": {"type": "object", "properties": {"where": {"type": "string"}}},
        },
    }
    alone = plan(messages, max_tokens=2_000)
    beside = plan(messages, max_tokens=2_000, system="rule " * 300, tools=[tool] * 10)
    assert beside.floor["tools"] > alone.floor["tools"] + 200
    assert beside.floor["system prompt"] >= alone.floor["system prompt"] + 300
    assert beside.tokens_after <= 2_000
    assert len(beside.context) < len(alone.context)


@pytest.mark.parametrize(
    ("floor", "ways"),
    [
        ({"pins": 0, "goals": 90, "tools": 0}, ["end goals"]),
        ({"pins": 70, "goals": 80, "tools": 60}, ["end goals", "and pin fewer", "and offer fewer"]),
        ({"pins": 10, "goals": 120, "tools": 130}, ["offer fewer", "and end goals"]),
        ({"pins": 900, "tools": 1}, ["pin fewer"]),
        ({"tools": 5, "room for a checkpoint": 96}, []),
    ],
)
def test_cannot_fit_names_what_is_there_and_what_is_enough(
    floor: dict[str, int], ways: list[str]
) -> None:
    """No part without tokens, and several together where none is enough alone (FR-3)."""
    text = str(CannotFit(floor, 10 if len(ways) < 2 else 40))
    named = text.partition("Raise the limit")[2]
    places = [named.find(way) for way in ways]
    assert -1 not in places
    assert places == sorted(places)
    assert named.count(", or ") == bool(ways)
    assert named.count(", and ") == max(0, len(ways) - 1)


def test_without_a_summarizer_a_receipt_says_what_is_missing() -> None:
    """A sliding window, and one line for what is not shown."""
    planned = plan(talk(200), max_tokens=3_000, summarizer=None)
    assert planned.checkpoint is not None
    assert planned.checkpoint.made_by == "receipt"
    assert planned.covered + len(planned.fates) == 402
    assert planned.tokens_before is None, "what is covered was not counted"
    assert planned.tokens_after >= 0.9 * 3_000


def test_a_plan_says_why_of_every_message() -> None:
    """FR-11, K-11."""
    talked = [*talk(200)]
    talked[20] = {**talked[20], "metadata": {"pinned": True}}
    planned = plan(talked, max_tokens=3_000)
    assert planned.checkpoint is not None
    said = [planned.why_of(position) for position in range(len(talked))]
    assert said[0] == "pinned: the system prompt stays word for word"
    assert said[20] == "pinned: it is pinned"
    size = f"{planned.covered} messages in {planned.checkpoint.token_count:,} of 3,000 tokens"
    assert said[40] == f"covered: {planned.checkpoint.id} stands in for {size}"
    assert said[-1] == "kept: a person's newest message stays word for word"
    with pytest.raises(NotFound, match="there were 402 messages, none at 402"):
        planned.why_of(402)
    everything = plan(talk(2), max_tokens=3_000)
    assert everything.why_of(1) == "kept: everything fits"


def read_files(count: int) -> list[dict[str, object]]:
    """A person asks for as many files, each read by a call of its own."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Read the files."}]
    for number in range(count):
        function = {"name": "read", "arguments": json.dumps({"path": f"src/part{number}.py"})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        output = f"line {number} of the file is fine\n" * 30
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": output})
    return [*messages, {"role": "user", "content": "And now?"}]


def test_a_plan_says_which_rung_masked_a_message_and_by_which_tokens() -> None:
    """FR-11: the rung and its numbers, not only that a message is new."""
    policy = CompactPolicy(keep_tool_pairs=2, keep_recent_turns=1)
    planned = plan(read_files(20), max_tokens=3_500, policy=policy)
    said = [planned.why_of(position) for position in range(planned.messages_before)]
    old = [x for x in said if x.startswith("masked: tool output older than the newest 2 pairs; ")]
    assert old
    assert all(re.fullmatch(r".*; [\d,]+ of [\d,]+ tokens were needed", x) for x in old), old[0]
    assert said[-3].startswith("kept: among the newest messages that fit; ")


def test_a_plan_explains_itself() -> None:
    """Every rung says why and what it freed; parts add up (K-4, K-11)."""
    planned = plan(talk(200), max_tokens=3_000)
    words = planned.explain()
    for rung in planned.rungs:
        assert rung.name in words
        assert rung.why in words
    assert sum(planned.parts.values()) == planned.messages_before == 402
    assert json.loads(planned.model_dump_json())["limit"] == 3_000


def test_async_forms_and_waiting_summarizers() -> None:
    """`acompress` and `aplan` await; in a loop the blocking form names them."""
    messages = talk(60)
    assert asyncio.run(acompress(messages, max_tokens=2_000)) == compress(
        messages, max_tokens=2_000
    )
    script = ScriptedSummarizer(
        "It was asked about the roof: question 0 was what about the roof, and answer 0 was that it "
        "holds well. Question 1 went about the roof too: it holds, by answer 1. With question 2 "
        "and question 3 the answers were that it holds well; about the roof went question 4, and "
        "well the roof holds in answer 4 as in answer 5."
    )
    assert "asked about the roof" in str(compress(messages, max_tokens=2_000, summarizer=script))

    async def inside() -> str:
        with pytest.raises(BlockingCallInLoop, match="acompress"):
            compress(messages, max_tokens=2_000, summarizer=script)
        return (await aplan(messages, max_tokens=2_000, summarizer=script)).explain()

    assert "scripted" in asyncio.run(inside())


def test_the_public_names_are_these() -> None:
    """At most 39, each importable, sorted; the list changes only on purpose (K-2)."""
    assert sorted(compact.__all__) == list(compact.__all__)
    assert len(compact.__all__) <= 39
    for name in compact.__all__:
        assert getattr(compact, name) is not None
    assert set(compact.__all__) <= set(dir(compact))
    with pytest.raises(AttributeError, match="no attribute"):
        _ = compact.nothing
    assert compact.__all__ == [
        "ActiveContext",
        "ArchivalManager",
        "CannotFit",
        "Checkpoint",
        "CompactConfig",
        "CompactError",
        "CompactManager",
        "CompactPolicy",
        "CompressionEngine",
        "CompressionLevel",
        "ContextBudget",
        "ContextManager",
        "ContextWindow",
        "Conversation",
        "EventBus",
        "ExtractiveSummarizer",
        "Goal",
        "InvalidArgument",
        "MemoryManager",
        "Message",
        "MessageMetadata",
        "NoopEstimator",
        "Patience",
        "Plan",
        "PromptParts",
        "Redactor",
        "RetentionPolicy",
        "SQLiteManager",
        "TiktokenEstimator",
        "VectorStore",
        "acompress",
        "aplan",
        "chat_model",
        "compress",
        "embedder",
        "handover",
        "mark_protected",
        "migrate",
        "plan",
    ]


def test_a_sliding_window_keeps_an_earlier_checkpoint() -> None:
    """Nobody summarizes there, so nothing replaces what an earlier summary said."""
    messages = compress(talk(60), max_tokens=2_500)
    checkpoint = messages[1]["content"].partition("\n\nQuestion 0: ")[0]
    assert is_checkpoint_text(checkpoint)
    longer = messages + talk(60)[1:]
    out = compress(longer, max_tokens=6_000, summarizer=None)
    assert len(out) < len(longer)
    assert verbatim([{"role": "user", "content": checkpoint}], out)


def test_a_newest_message_that_leaves_little_room_is_told_so() -> None:
    """FR-8: it is never shortened, and the plan says what that costs."""
    newest = "\n\n".join(f"Paragraph {i}: please look at this part of the log." for i in range(150))
    messages: list[dict[str, object]] = [*talk(40)[:-1], {"role": "user", "content": newest}]
    planned = plan(messages, max_tokens=3_000)
    assert planned.context.messages[-1].text == newest
    assert planned.checkpoint is not None
    assert "is never shortened" in planned.explain()
    assert "is never shortened" not in plan(messages, max_tokens=5_000).explain()
