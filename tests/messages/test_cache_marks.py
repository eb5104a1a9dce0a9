"""Marks for Anthropic's prompt cache: few, at ends that stay (issue 4, "Prefix cache")."""

import copy
import json
from typing import Any

import pytest

from compact import ContextManager
from compact.engine.history import NOBODYS
from compact.messages.checkpoints import Checkpoint, Span
from compact.messages.formats.known import prompt_of
from compact.messages.own_text import headed
from compact.models.providers.anthropic_messages import MARK, MOST, with_marks

Dict = dict[str, Any]
HOUR = {"type": "ephemeral", "ttl": "1h"}
TOOLS = [{"name": n, "description": "runs", "input_schema": {"type": "object"}} for n in "ab"]
SYSTEM = "Be brief.\n\nGoals:\n- ship it"


def checkpoint(text: str = "What was said.") -> Dict:
    span = Span(first=0, last=3, messages=4)
    made = Checkpoint(id="ck-0123456789ab", span=span, summary=text)
    return {"role": "user", "content": made.text(NOBODYS)}


def talk(turns: int) -> list[Dict]:
    said: list[Dict] = []
    for i in range(turns):
        said.append({"role": "user", "content": f"question {i}"})
        said.append({"role": "assistant", "content": [{"type": "text", "text": f"answer {i}"}]})
    return [*said, {"role": "user", "content": "and now?"}]


def request(*messages: Dict, **fields: Any) -> Dict:
    return {"messages": list(messages), **fields}


def blocks(sent: Dict) -> list[tuple[str, Dict]]:
    """Every block of a request in the order the provider reads it, with where it stands."""
    out = [("tools", tool) for tool in sent.get("tools", ())]
    fields = [("system", sent.get("system") or [])]
    fields += [(f"{i} {m['role']}", m["content"]) for i, m in enumerate(sent["messages"])]
    for name, content in fields:
        listed = [{"type": "text", "text": content}] if isinstance(content, str) else content
        out += [(name, block) for block in listed]
    return out


def marks(sent: Dict) -> list[str]:
    """The words of the marked blocks."""
    found = [block for _, block in blocks(sent) if "cache_control" in block]
    return [str(b.get("text") or b.get("name") or b.get("content")) for b in found]


def unmarked(sent: Dict) -> list[str]:
    """The request's bytes, block by block, as they are cached: without the marks."""
    plain = [
        (name, {k: v for k, v in b.items() if k != "cache_control"}) for name, b in blocks(sent)
    ]
    return [json.dumps(one, sort_keys=True) for one in plain]


def mark_positions(sent: Dict) -> list[int]:
    return [i for i, (_, block) in enumerate(blocks(sent)) if "cache_control" in block]


def shared(one: Dict, other: Dict) -> int:
    """Blocks at the start that both have, byte for byte."""
    pairs = zip(unmarked(one), unmarked(other), strict=False)
    return next(
        (i for i, (a, b) in enumerate(pairs) if a != b), min(map(len, map(unmarked, (one, other))))
    )


def test_the_four_stable_ends() -> None:
    """Tools, system prompt, checkpoint, newest message: one mark each (issue 4)."""
    kept = checkpoint()
    sent = with_marks(request(kept, *talk(2), system=SYSTEM, tools=TOOLS), [kept["content"]])
    assert marks(sent) == ["b", SYSTEM, kept["content"], "and now?"]
    assert all(b["cache_control"] == MARK for _, b in blocks(sent) if "cache_control" in b)


def test_a_mark_that_is_left_goes_where_the_request_before_ended() -> None:
    """Entries are found where they were written, however long the reply was (issue 4)."""
    assert marks(with_marks(request(*talk(2), system=SYSTEM))) == [SYSTEM, "question 1", "and now?"]
    assert marks(with_marks(request(*talk(0)))) == ["and now?"]


def test_the_newest_of_several_checkpoints() -> None:
    """A later checkpoint closes a longer stable beginning (issue 4)."""
    newer = checkpoint("And then this.")
    sent = with_marks(
        request(checkpoint(), newer, *talk(1), system=SYSTEM, tools=TOOLS),
        [checkpoint()["content"], newer["content"]],
    )
    assert newer["content"] in marks(sent)
    assert checkpoint()["content"] not in marks(sent)


def test_a_heading_that_a_person_typed_is_no_checkpoint() -> None:
    """Only what the context says is a checkpoint is one (FR-3)."""
    typed = {"role": "user", "content": checkpoint()["content"] + " and more"}
    ours = [checkpoint()["content"]]
    sent = with_marks(request(typed, *talk(1), system=SYSTEM, tools=TOOLS), ours)
    assert typed["content"] not in marks(sent)


@pytest.mark.parametrize(
    "last",
    [
        [{"type": "text", "text": "so"}, {"type": "thinking", "thinking": "hm", "signature": "s"}],
        [{"type": "text", "text": "so"}, {"type": "redacted_thinking", "data": "x"}],
        [{"type": "text", "text": "so"}, {"type": "text", "text": " \n"}],
    ],
)
def test_what_the_provider_refuses_to_mark(last: list[Dict]) -> None:
    """Thinking and empty texts are never marked; what stands before them is (FR-6)."""
    sent = with_marks(
        request({"role": "user", "content": "go"}, {"role": "assistant", "content": last})
    )
    assert marks(sent) == ["go", "so"]


def test_nothing_to_mark() -> None:
    """An empty text and a tool that is loaded later carry no mark (FR-6)."""
    later = {**TOOLS[0], "defer_loading": True}
    sent = with_marks(request({"role": "user", "content": ""}, system=" ", tools=[later]))
    assert marks(sent) == []
    assert marks(with_marks(request(*talk(0), tools=[TOOLS[1], later]))) == ["b", "and now?"]


def test_marks_of_the_caller_stay_and_count() -> None:
    """Never more than four together, and theirs are not moved (issue 4)."""
    said = talk(6)
    for i in (1, 3, 5):
        said[i]["content"][0]["cache_control"] = MARK
    sent = with_marks(request(*said, system=SYSTEM, tools=TOOLS))
    assert marks(sent) == ["answer 0", "answer 1", "answer 2", "and now?"]
    said[7]["content"][0]["cache_control"] = MARK
    full = request(*said, system=SYSTEM, tools=TOOLS)
    assert with_marks(full) == full
    three = request(*talk(6), system=SYSTEM, tools=TOOLS, cache_control=MARK)
    assert len(marks(with_marks(three))) == 3


def test_a_mark_inside_a_tool_result_counts() -> None:
    """The provider counts every mark, wherever it stands (issue 4)."""
    inner = {"type": "text", "text": "out", "cache_control": MARK}
    results = [
        {"type": "tool_result", "tool_use_id": f"c{i}", "content": [dict(inner)]} for i in range(4)
    ]
    full = request({"role": "user", "content": results}, *talk(1)[1:], system=SYSTEM)
    assert with_marks(full) == full


def test_ours_live_as_long_as_theirs_behind() -> None:
    """The provider refuses a short-lived mark before a long-lived one (FR-6)."""
    said = talk(2)
    said[3]["content"][0]["cache_control"] = HOUR
    sent = with_marks(request(*said, system=SYSTEM, tools=TOOLS))
    lives = [b["cache_control"] for _, b in blocks(sent) if "cache_control" in b]
    assert lives == [HOUR, HOUR, HOUR, MARK]


def test_nothing_else_changes_and_what_was_given_stays() -> None:
    """The caller's dictionaries are the stored history's: they never carry our marks (FR-1)."""
    result = {"type": "tool_result", "tool_use_id": "c", "content": "fine"}
    said = [checkpoint(), *talk(2), {"role": "user", "content": [result], "extra": 1}]
    given = request(*said, system=[{"type": "text", "text": SYSTEM}], tools=TOOLS, top_k=3)
    before = copy.deepcopy(given)
    sent = with_marks(given)
    assert given == before
    assert unmarked(sent) == unmarked(before)
    assert len(marks(sent)) == MOST
    assert sent["top_k"] == 3
    assert sent["messages"][-1]["extra"] == 1


@pytest.mark.slow
def test_two_turns_share_their_beginning_up_to_a_mark() -> None:
    """Each turn finds what the one before it had cached, byte for byte; over a compression too, up
    to the system prompt or to the checkpoints that stayed (issue 4, "Prefix cache").
    """
    ctx = ContextManager(window=6_000, tokenizer="o200k", format="anthropic", system=SYSTEM)
    before: Dict | None = None
    compressed, plain, stayed, aged = 0, 0, 0, 0
    ctx.add_message(role="user", content="See whether the roof holds, beam by beam.")
    for turn in range(150):
        look = {"type": "tool_use", "id": f"t{turn}", "name": "a", "input": {"beam": turn}}
        ctx.add_message(role="assistant", content=[look])
        seen = {"type": "tool_result", "tool_use_id": look["id"], "content": "It holds. " * 60}
        ctx.add_message(role="user", content=[seen])
        context = ctx.active_context()
        said = prompt_of(context, "anthropic")
        ours = [m.text for m in context.messages if m.id in {c.id for c in context.checkpoints}]
        sent = with_marks({"system": context.system, "tools": TOOLS, "messages": said}, ours)
        if before is not None:
            common, at = shared(before, sent), mark_positions(before)
            known = checkpoints(before)
            if ctx.compressions == compressed:
                plain += 1
                assert common > at[-1], "the whole request before was cached"
            elif known and known == checkpoints(sent)[: len(known)]:
                stayed += 1
                assert common > at[2], "tools, system prompt and checkpoints were cached"
            else:
                aged += 1
                assert common > at[1], "tools and system prompt were cached"
        before, compressed = sent, ctx.compressions
    assert plain > 100
    assert stayed > 5
    assert aged >= 2, "the first one, and one that re-worded what was there"
    assert "cache_control" not in json.dumps([m.wire for m in ctx.history], default=str)


def checkpoints(sent: Dict) -> list[str]:
    texts = [str(block.get("text", "")) for _, block in blocks(sent)]
    return [text for text in texts if headed(text) == "Checkpoint"]
