"""The harness of issue 4 for summaries by any model: what it asks, how it judges answers, and that
a good model scores high in it and a bad one low (K-5, K-13).

The models are scripted and served over HTTP: one that really reads what it is sent, and some that
do not.
"""

import re
from pathlib import Path

import pytest

from compact import wiring
from compact.messages.messages import Message
from evals import answerers, probes, questions
from evals.answerers import LONGEST_REPLY, Reader, is_right
from evals.questions import BLANK, KINDS, Probe, probes_of
from tests.evals.test_scores import folder as folder  # a fixture
from tests.scripted import Received, ScriptedServer

KILN = Path(__file__).parents[1] / "fixtures" / "golden" / "kiln.jsonl"
MESSAGES = wiring.read_transcript(KILN).messages
COUNTER = wiring.token_counter("chat_completions", tokenizer="o200k")
SIZE = 1_400
"""Tokens in which half of the kiln's session is covered."""
CLOZE = Probe(
    "decision", f"Which? “The oven uses {BLANK} now”", "kiln_v2", "The oven uses ____ now"
)
CHOICE = Probe("artifact", "Which file was written to?", "a.py", "written", ("b.py", "a.py"))
GOOD = """The firing curve must resume when the power fails, and the relay must not switch on for \
the first 30 s after a restart, because the thermocouple reads 0 °C until MAX31855 has settled \
(KILN-212), as Ofelia melted a shelf that way.

Storing the segment with each reading, and reading old lines without it as segment 0. \
src/kilnd/journal.py was edited.
Now the controller takes its position from last_position. src/kilnd/controller.py was edited.
The settle time is 45 s there, not 30. Guarding the relay with it. src/kilnd/relay.py was edited.

The simulator failed with `ValueError: invalid literal for int() with base 10: '212.5'`: the \
minutes are written as fractions. I decided to store whole seconds rather than minutes, so that no \
rounding can shorten a soak. edited tests/test_relay.py, src/kilnd/limits.py.
It broke with IndexError: list index out of range in kilnd/report.py:41."""


def reads(request: Received) -> str:
    """A model that summarizes well, and answers by reading: it looks for the words around the
    blank, or for the choice that stands in a line about writing.
    """
    if answerers.RULES not in request.instructions:
        return GOOD
    text, asked = request.prompt.split("<text>\n", 1)[1].rsplit("\n</text>\n\n", 1)
    if choices := re.findall(r"^- (.+)$", asked, re.MULTILINE):
        about = re.search("“(.+)”", asked)
        wanted = about[1] if about else "edited "
        lines = [line for line in text.splitlines() if wanted in line]
        return next((c for c in choices for line in lines if c in line), "unknown")
    said = re.search("“(.+)”", asked, re.DOTALL)
    assert said
    if BLANK not in said[1]:
        lines = [line for line in text.splitlines() if said[1] in line]
        found = re.search(r"[\w/]+\.py", lines[0]) if lines else None
        return found[0] if found else "unknown"
    before, after = said[1].split(BLANK, 1)
    ends = re.escape(after[:24]) or "$"
    found = re.search(f"{re.escape(before[-24:])}(.+?){ends}", text, re.MULTILINE)
    return f"**{found[1]}**" if found else "unknown"


def babbles(request: Received) -> str:
    return "qwx zzv " * 40


def key(server: ScriptedServer) -> str:
    return f"{server.url}/v1#scripted"


def probed(server: ScriptedServer, *, judge: str | None = None) -> probes.Checked:
    writer = wiring.summarizer(key(server), COUNTER)
    reader = Reader(key(server), judge=judge)
    found = probes.checked("kiln", MESSAGES, SIZE, writer, reader)
    assert found is not None
    return found


# --- the questions ---


def test_questions_of_all_kinds_are_made_of_a_span():
    """What is asked stands in the span, and no question gives its answer away (K-13)."""
    made = probes_of(MESSAGES, "1")
    text = "\n".join(str(m.content) + str(m.tool_calls) for m in MESSAGES)
    assert {probe.kind for probe in made} == set(KINDS)
    for kind in KINDS:
        assert len([p for p in made if p.kind == kind]) <= questions.OF_EACH
    for probe in made:
        if probe.choices:
            assert probe.answer in probe.choices
            assert len(set(probe.choices)) == len(probe.choices)
        else:
            assert probe.answer in text
            assert not answerers.says(probe.question, probe.answer)


def test_no_secret_is_asked_for_or_sent():
    """A summary must not hold secrets: nobody is asked for one, or shown one (issue 4)."""
    secret = "ghp" + "_" + "a8Kd02LmQz91XwVb73NcRt56YpSf40HgJe1u"
    words = (
        "We decided to keep {} for the old kiln board rather than another one.",
        "We decided to leave {} and the oven_two settings with the old kiln board.",
    )

    def asked(name: str) -> list[Probe]:
        rows = [{"role": "assistant", "content": each.format(name)} for each in words]
        messages = [Message.of(row) for row in rows]
        return [probe for seed in "12345678" for probe in probes_of(messages, seed)]

    assert {probe.answer for probe in asked("oven_one")} == {"oven_one", "oven_two"}
    assert not [p for p in asked(secret) if secret in p.answer or secret in p.question]


# --- how answers are judged ---


@pytest.mark.parametrize(
    ("probe", "reply", "right"),
    [
        (CLOZE, "`kiln_v2`", True),
        (CLOZE, "It uses **Kiln_V2**.", True),
        (CLOZE, "kiln_v22", False),
        (CLOZE, "unknown", False),
        (CLOZE, "x" * LONGEST_REPLY + " kiln_v2", False),
        (CHOICE, "a.py", True),
        (CHOICE, "b.py", False),
        (CHOICE, "a.py or b.py", False),
        (CHOICE, "", False),
    ],
)
def test_a_reply_is_judged_by_code(probe, reply, right):
    """The word itself is right; another one, both choices, or a whole text is not (issue 4)."""
    assert is_right(probe, reply) is right


# --- with models ---


@pytest.mark.slow
def test_a_good_model_scores_high_and_its_summary_stands():
    """The harness runs with a model that a user names, over HTTP (issue 4)."""
    with ScriptedServer(reads) as server:
        found = probed(server)
    assert not found.stands_in
    assert "scripted" in found.made_by
    rows = found.rows
    assert len(rows) >= 8
    assert probes.share(rows) >= 0.5, probes.report([found], missed=True)
    assert all(row.newest is None and row.source is None for row in rows)


@pytest.mark.slow
def test_garbage_scores_nothing_and_the_extractive_summary_stands_in():
    """A model that babbles neither summarizes nor answers; the gate has noticed (K-5)."""
    with ScriptedServer(babbles) as server:
        found = probed(server)
    assert found.stands_in
    assert found.made_by == "extractive"
    assert found.rows
    assert probes.share(found.rows) == 0
    assert not any(row.answer.failed for row in found.rows)
