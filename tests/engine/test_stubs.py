"""What stands in for tool output in view, what never gives way to it, and replies that go on after
a result (C-8, K-4)."""

import json
from typing import Any

import pytest

from compact import ContextManager, compress, wiring
from compact.engine.shorten import STUB_TOKENS, closed, masked, stub
from compact.messages.boundaries import ANTHROPIC, violations
from compact.messages.formats.known import format_named
from compact.messages.messages import Message, MessageMetadata, PersonWords, ToolCall, ToolResult

COUNTER = wiring.token_counter("anthropic", tokenizer="chars")
REASON = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was "
    "a file edit, the new_string was NOT written to the file). To tell you how to proceed, the "
    "user said:\n"
)
LINES = "\n".join(f"{n}: a line of the garden's book" for n in range(60))


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("a", name, json.dumps(arguments))


LONG = " ".join(f"a line of the garden's book, number {n}" for n in range(60))

STUBS = [
    (
        call("Bash", command="cd /garden && pytest -q | tail"),
        "FAILED tests/test_bed.py::test_rows - assert 1 == 2\n1 failed in 0.1s",
        "Bash `pytest -q | tail` · failed: tests/test_bed.py::test_rows - assert 1 == 2",
    ),
    (
        call("Bash", command="go vet ./..."),
        "# bed\n" + "garden/" * 12 + "a.go:2:1: undefined: seeds",
        "Bash `go vet ./...` · failed: a.go:2:1: undefined: seeds",
    ),
    (call("Bash", command="pytest"), "=== 3 passed in 1s ===", "Bash `pytest` · passed: 3 passed"),
    (call("Grep", pattern="bed"), "a.py:3:bed\na.py:9:bed", "Grep `bed`"),
    (call("Read", file_path="/garden/bed.py"), "1: rows\n2: seeds", "Read `/garden/bed.py`"),
    (
        call("Read", file_path="/srv/of/gardener/projects/garden/backend/src/beds/rows.py"),
        "1: rows",
        "Read `…rdener/projects/garden/backend/src/beds/rows.py`",
    ),
    (call("Bash", command="ls"), "bed.py\nshed.py", "Bash `ls` · begins: bed.py"),
    (call("Wait", seconds=3), "rested", "Wait · begins: rested"),
    (None, "rested\n", "tool · begins: rested"),
]


@pytest.mark.parametrize(("asked", "text", "said"), STUBS)
def test_a_stub_says_tool_target_and_outcome(asked, text, said):
    """What matters for going on without the output, and where it is found."""
    lines = len(text.strip().splitlines())
    expected = f"[output a masked · {said} · 1,234 tokens, {lines} lines]"
    assert stub(ToolResult("a", text), asked, 1234) == expected


def test_a_stub_is_one_short_line():
    asked = call("Bash", command="pytest " + "x " * 500)
    text = "FAILED tests/test_bed.py::test_rows - " + "y " * 500
    short = stub(ToolResult("a", text), asked, 1234)
    assert len(short) < 200
    assert "\n" not in short


def shown(text: str, *, is_error: bool = False, name: str = "Bash", **metadata: object) -> str:
    result = ToolResult("a", text, is_error=is_error)
    message = Message(role="user", content=(result,), metadata=MessageMetadata(**metadata))
    (part,) = masked(message, {"a": call(name)}, COUNTER).tool_results
    return part.text


def test_a_persons_words_in_a_result_are_never_masked():
    """C-8: an answer, the reason of a refusal, or what a file recorded."""
    assert shown(LINES) != LINES
    refused = PersonWords("refusal", LINES, call_id="a")
    assert shown(REASON + LINES, is_error=True, said=(refused,)) == REASON + LINES
    assert shown(REASON + LINES, is_error=True) != REASON + LINES, "any tool can fail like that"
    assert shown(LINES, is_error=True) != LINES
    answers = f'User has answered your questions: "Which?"="{LINES}". You can now continue.'
    assert shown(answers, name="AskUserQuestion") == answers
    assert shown(answers) != answers
    assert shown(LINES, said=(PersonWords("answer", "bed", "Which?", "a"),)) == LINES
    assert shown(LINES, said=(PersonWords("answer", "bed", "Which?", "b"),)) != LINES


def test_what_a_stub_would_not_shorten_stays():
    result = ToolResult("toolu_" + "0Z" * 120, " ".join(["bed"] * 60))
    message = Message(role="user", content=(result,))
    assert COUNTER.text(result.text) > STUB_TOKENS
    assert masked(message, {}, COUNTER) is message


def test_their_words_are_in_view_where_other_output_is_masked():
    """C-8: in a whole compression, under the ids of a provider's format."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Plant the garden."}]
    for n in range(30):
        block = {"type": "tool_use", "id": f"c{n}", "name": "Edit", "input": {"file_path": "bed"}}
        text, failed = (REASON + "never dig by night", True) if n == 20 else (LINES, False)
        answer: dict[str, Any] = {"type": "tool_result", "tool_use_id": f"c{n}"}
        answer |= {"content": text, "is_error": failed}
        messages += [
            {"role": "assistant", "content": [block]},
            {"role": "user", "content": [answer]},
        ]
    fitted = str(compress(messages, max_tokens=6_000, format="anthropic"))
    assert "masked ·" in fitted
    assert "the user said:\\nnever dig by night" in fitted


# --- replies that go on ---------------------------------------------------------------------------


def uses(*ids: str, reply: str = "r") -> dict:
    blocks = [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in ids]
    return {"role": "assistant", "id": reply, "content": blocks}


def answers(call_id: str, text: str = "fine") -> dict:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
    return {"role": "user", "content": [block]}


WORDS = {"role": "assistant", "id": "r", "content": [{"type": "text", "text": "so"}]}
SPLIT = [
    [uses("a", "b"), answers("a"), uses("c"), answers("b"), answers("c")],
    [uses("a"), uses("b"), answers("a"), uses("c"), answers("c"), answers("b")],
    [uses("a", "b"), answers("a"), WORDS, answers("b")],
    [uses("a", "b"), answers("a"), uses("c"), answers("b"), uses("d"), answers("c"), answers("d")],
]
WHOLE = [
    [uses("a"), answers("a"), uses("b"), answers("b")],
    [uses("a"), uses("b"), answers("a"), answers("b")],
    [uses("a"), answers("a"), uses("b", reply="s"), answers("b")],
]


def read(messages: list[dict]) -> list[Message]:
    return [format_named("anthropic").parse(m, i) for i, m in enumerate(messages)]


@pytest.mark.parametrize("messages", SPLIT)
def test_parallel_calls_of_one_reply_come_before_their_results(messages):
    """K-4: no provider takes words or calls between a reply's calls and their results."""
    before = read(messages)
    assert violations(before, ANTHROPIC)[1:] != []
    after = closed(before)
    assert violations(after, ANTHROPIC)[1:] == []
    assert sorted(m.id for m in after) == [m.id for m in before]


@pytest.mark.parametrize("messages", WHOLE)
def test_whole_replies_stay_as_they_are(messages):
    before = read(messages)
    assert all(a is b for a, b in zip(closed(before), before, strict=True))


@pytest.mark.parametrize("messages", SPLIT)
@pytest.mark.parametrize("window", [128_000, 8_000, 4_000])
def test_such_replies_fit_into_any_window(messages, window):
    """K-4: nothing is refused, and a session shows them the same way."""
    talk = [{"role": "user", "content": "go"}]
    for n in range(8):
        text = json.dumps(messages).replace("fine", LONG)
        for letter in "abcd":
            text = text.replace(f'"{letter}"', f'"{letter}{n}"')
        talk += [*json.loads(text.replace('"r"', f'"r{n}"')), {"role": "user", "content": "more"}]
    fitted = compress(talk, max_tokens=window, format="anthropic")
    assert violations(read(fitted), ANTHROPIC) == []
    session = ContextManager(window=1_000_000, format="anthropic")
    session.add_messages(talk)
    assert violations(read(session.get_context_for_model()), ANTHROPIC) == []
