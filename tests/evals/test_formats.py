"""The benchmarks' files are found by content and read, beside the product's (MIG, NFR-2)."""

from pathlib import Path

import pytest

from compact.errors import InvalidTranscript
from compact.messages.messages import Message
from compact.text.speakers import speaker_of
from compact.transcripts import reading
from compact.transcripts.writing import write
from evals.formats import BENCHMARKS, detect, read
from tests.store import making

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "benchmarks"
PRODUCT = sorted((FIXTURES.parent / "transcripts").iterdir())
FORMAT_OF = {
    "longmemeval.json": "longmemeval",
    "mini_swe_agent.traj.json": "mini_swe_agent",
    "swe_agent.traj": "swe_agent",
    "swe_agent_tools.traj": "swe_agent",
    "tau2_bench.json": "tau2_bench",
    "tau_bench.json": "tau_bench",
}
REFUSED = {
    "qmsum": (b'{"meeting_transcripts": []}', "a meeting of several people"),
    "locomo": (b'[{"conversation": {"speaker_a": "Ann"}}]', "a dialogue of two people"),
}
"""What is recognized as no conversation with an assistant."""


def calls(messages: tuple[Message, ...]) -> list[tuple[str, str, str]]:
    return [(c.id, c.name, c.arguments) for m in messages for c in m.tool_calls]


def results(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [(r.call_id, r.text) for m in messages for r in m.tool_results]


# --- finding the format ---------------------------------------------------------------------------


def test_each_fixture_has_its_format():
    found = {path.name: detect(path) for path in FIXTURES.iterdir()}
    assert found == FORMAT_OF
    assert {*found.values(), *REFUSED} == {known.name for known in BENCHMARKS}


@pytest.mark.parametrize("path", PRODUCT, ids=lambda path: path.name)
def test_what_the_product_reads_is_read_the_same(path):
    assert detect(path) == making.detect(path)
    number = 2 if path.name == "claude_export.json" else 1  # its first is empty, thus refused
    ours, products = (each(path, conversation=number) for each in (read, reading.read))
    assert ours.messages
    assert [m.content for m in ours.messages] == [m.content for m in products.messages]


BROKEN = [
    *REFUSED.values(),
    (b'{"history": [{"role": "user", "content": "x"}, {"content": 1}]}', r"history\[1\]"),
    (b'{"history": [{"role": "user", "content": "x"}, 3]}', r"history\[1\]: expected"),
]


@pytest.mark.parametrize(("data", "reason"), BROKEN, ids=[x[1] for x in BROKEN])
def test_a_broken_file_is_refused_with_a_reason(data, reason):
    """NFR-2: one clear reason each."""
    with pytest.raises(InvalidTranscript, match=reason) as caught:
        read(data, source="a file")
    assert caught.value.line is None
    assert str(caught.value).startswith("a file: ")
    assert "\n" not in str(caught.value)


# --- the formats ----------------------------------------------------------------------------------


def test_only_the_task_of_a_swe_agent_is_a_persons():
    """C-8, K-4: observations and demonstrations are not a person's words."""
    messages = read(FIXTURES / "swe_agent.traj").messages
    speakers = ["system", "injected", "person", "assistant", "observation"]
    assert [speaker_of(m) for m in messages] == speakers
    messages = read(FIXTURES / "swe_agent_tools.traj").messages
    assert [speaker_of(m) for m in messages] == [
        "system", "person", "assistant", "tool", "observation",
    ]  # fmt: skip
    assert calls(messages) == [("call_9", "open", '{"path": "parser.py"}')]
    assert results(messages) == [("call_9", "1:import re")]


def test_tau2_leaves_the_customers_own_side_out():
    transcript = read(FIXTURES / "tau2_bench.json")
    assert [c[1] for c in calls(transcript.messages)] == ["find_line", "find_plan"]
    assert results(transcript.messages) == [("a1", "line 1"), ("a2", "plan 2")]
    assert transcript.notes == ("2 tool calls and results of the customer's own side",)


# --- writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMAT_OF)
def test_they_come_out_as_chat_completions_lines(name):
    """C-3: and the product reads such a file, with the same words, calls and results."""
    transcript = read(FIXTURES / name, conversation=1)
    again = reading.read(write(transcript, transcript.messages).encode())
    assert (again.format, again.container.shape) == ("chat", "lines")
    assert [m.text for m in again.messages] == [m.text for m in transcript.messages]
    assert calls(again.messages) == calls(transcript.messages)
    assert results(again.messages) == results(transcript.messages)
