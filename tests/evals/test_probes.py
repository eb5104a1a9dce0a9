"""The harness of issue 4 for summaries by any model: what it asks, how it judges answers, and that
a good model scores high in it and a bad one low (K-5, K-13).

The models are scripted and served over HTTP: one that really reads what it is sent, and some that
do not.
"""

import json
import re
from pathlib import Path

import pytest

from compact import wiring
from compact.errors import ModelRefused, UnknownModel
from compact.messages.checkpoints import Summary
from compact.messages.levels import LEVELS
from compact.messages.messages import Message
from evals import __main__ as command
from evals import answerers, data, probes, questions, retention
from evals.answerers import LONGEST_REPLY, Reader, Search, is_right
from evals.questions import BLANK, KINDS, Probe, probes_of
from tests.evals.test_scores import folder as folder  # a fixture
from tests.models import tiny_llama
from tests.scripted import Overflow, Received, ScriptedServer, WrongKey
from tests.sizes import at_night

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


def test_the_same_seed_asks_the_same_and_another_one_something_else():
    """Probes are drawn by their seed alone (K-5)."""
    assert probes_of(MESSAGES, "1") == probes_of(MESSAGES, "1")
    assert probes_of(MESSAGES, "1") != probes_of(MESSAGES, "2")


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


@pytest.mark.parametrize(
    ("probe", "text", "right"),
    [
        (CLOZE, "Since Monday the oven uses kiln_v2", True),
        (CLOZE, "The oven uses something\nNames: kiln_v2", False),
        (CLOZE, "The oven uses kiln_v22", False),
        (CHOICE, "written: a.py\nread: b.py", True),
        (CHOICE, "written: a.py, b.py", False),
        (CHOICE, "a.py\nwritten", False),
        (CHOICE, "", False),
    ],
)
def test_the_search_finds_an_answer_only_where_its_question_points(probe, text, right):
    """The answer has to stand in a line that shares words with the question (issue 4)."""
    [answer] = Search().answers([probe], text)
    assert answer.right is right


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
    assert probes.share(rows) >= 0.65, probes.report([found], missed=True)
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


@at_night
@pytest.mark.slow
def test_a_real_server_with_a_model_that_writes_garbage_scores_nothing(tmp_path):
    """llama.cpp's server answers every probe, and none of them right (issue 4)."""
    for package in ("xllamacpp", "gguf", "tokenizers", "numpy"):
        pytest.importorskip(package)
    tiny_llama.build(tmp_path)
    with tiny_llama.serving(tmp_path, 8_192) as url:
        named = f"{url}/v1#tiny"
        writer = wiring.summarizer(named, COUNTER)
        found = probes.checked("kiln", MESSAGES, SIZE, writer, Reader(named))
    assert found is not None
    assert found.stands_in
    assert len(found.rows) >= 8
    assert not any(row.answer.right or row.answer.failed for row in found.rows)
    assert any(row.answer.reply for row in found.rows)


@pytest.mark.slow
def test_no_request_exceeds_the_models_window():
    """What has no room in the answerer's window is not asked, and counts as no answer (issue 4)."""
    with ScriptedServer(reads, window=1_400) as server:
        found = probed(server)
        sizes = [request.tokens for request in server.prompts]
    assert max(sizes, default=0) <= 1_400
    assert all(row.answer.failed for row in found.rows)


def test_contexts_are_made_to_fit_the_answerers_window(monkeypatch):
    """A small model is asked about smaller contexts, none of them refused (issue 4)."""
    monkeypatch.setattr(data, "SAMPLE", KILN)
    with ScriptedServer(reads, window=2_700) as server:
        [one] = probes.run(None, model=key(server))
        assert max(request.tokens for request in server.prompts) <= 2_700
    assert one.size == int(answerers.ROOM * 2_700)
    assert not any(row.answer.failed for row in one.rows)


def test_no_answer_is_no_right_one_and_a_wrong_key_is_said():
    """Without an answer nothing is right; a key that never works ends the evaluation (issue 4)."""
    with ScriptedServer(Overflow()) as server:
        [answer] = Reader(key(server)).answers([CLOZE], "the oven uses kiln_v2 now")
    assert (answer.right, answer.failed) == (False, True)
    with ScriptedServer(WrongKey()) as server, pytest.raises(ModelRefused):
        Reader(key(server)).answers([CLOZE], "the oven uses kiln_v2 now")


@pytest.mark.parametrize(("verdict", "right"), [("Yes.", True), ("No, it does not.", False)])
def test_a_judge_decides_where_the_words_differ(verdict, right):
    """Only answers that code cannot judge go to the judge, if there is one (issue 4)."""
    with ScriptedServer("the second kiln") as server, ScriptedServer(verdict) as judge:
        reader = Reader(key(server), judge=key(judge))
        [answer] = reader.answers([CLOZE], "…")
        assert (answer.right, answer.judged) == (right, right)
        reader.answers([CHOICE], "…")
        assert len(judge.prompts) == 1


# --- key entities ---


def test_retention_is_what_stands_in_the_story_alone():
    """All of the key entities, or none of them (K-13)."""
    span = MESSAGES[1:]
    every = " ".join(str(m.content) + str(m.tool_calls) for m in span)

    class Writer:
        name, waits = "writer", False

        def __init__(self, text: str) -> None:
            self.text = text

        async def summarize(self, request: object) -> Summary:
            return Summary(text=self.text, made_by=self.name)

    request = retention.request_of(span, 9_000, "detailed")
    assert retention.summarized("k", 1, "detailed", request, Writer(every)).share == 1
    nothing = retention.summarized("k", 1, "detailed", request, Writer("Nothing was said."))
    assert nothing.share == 0
    assert not nothing.accepted


@pytest.mark.slow
def test_a_level_keeps_less_than_the_one_before_and_the_context_more():
    """By session and level; a larger cap keeps more (K-13)."""
    sample = wiring.read_transcript(data.SAMPLE).messages
    writer = wiring.summarizer(None, COUNTER)
    rows = {row.level: row for row in retention.kept("harbour", sample, 32_768, writer, COUNTER)}
    assert set(rows) == {None, *LEVELS}
    assert rows[None].share > retention.GOOD  # the lists in it hold names as well
    assert rows[None].share >= rows["detailed"].share > rows["compact"].share
    assert all(row.accepted for row in rows.values())
    assert "above 90 %" in retention.report(list(rows.values()))


# --- the command ---


@pytest.fixture
def without_data(tmp_path, monkeypatch):
    monkeypatch.delenv("COMPACT_DATA", raising=False)
    monkeypatch.setattr(data, "REPO_ROOT", tmp_path / "repo")


@pytest.mark.slow
@pytest.mark.usefixtures("without_data")
def test_the_extractive_path_is_measured_on_the_sample_without_data(capsys, tmp_path):
    """It tells more of what is covered than a sliding window does, the same at every run (K-5)."""
    out = tmp_path / "numbers.json"
    assert command.main(["probes", "--json", str(out)]) == 0
    first = json.loads(out.read_text())["probes"]
    assert "by extractive (2)" in capsys.readouterr().out
    found = probes.run(None)
    assert probes.as_json(found) == first
    rows = probes.rows_of(found)
    newest = sum(bool(row.newest) for row in rows)
    assert probes.share(rows) * len(rows) > newest + 0.2 * len(rows)
    said = [row for row in rows if row.probe.kind != "artifact"]  # calls name files in other lines
    source = [row.source for row in said if row.source is not None]
    assert sum(source) >= 0.9 * len(source)


@pytest.mark.slow
@pytest.mark.usefixtures("without_data")
def test_the_command_takes_a_model_for_probes_and_retention(monkeypatch, capsys):
    """`--model KEY` summarizes and answers; `--judge` needs it (issue 4)."""
    monkeypatch.setattr(data, "SAMPLE", KILN)
    with ScriptedServer(reads, model="good") as server:
        named = f"{server.url}/v1#good"
        names = ["probes", "retention", "--sizes", str(SIZE)]
        assert command.main([*names, "--model", named, "--missed"]) == 0
        assert len(server.prompts) > 10
    told = capsys.readouterr().out
    assert "# probes\n1 sessions, 1 checkpoints by " in told
    assert "the extractive one stands in for 0" in told
    with pytest.raises(SystemExit):
        command.main(["probes", "--judge", named])
    assert command.main(["probes", "--model", "no such key"]) == 1
    with pytest.raises(UnknownModel):
        probes.run(None, model="no such key")


@pytest.mark.slow
def test_future_reference_coverage_takes_a_model(folder, capsys):
    """The summary that a model writes is what is scored (issue 4)."""
    session = folder / "claude_code_sessions" / "one.jsonl"
    first = json.loads(session.read_text().splitlines()[0])
    rows = [first]
    for number in range(40):
        words = f"Oven number {number} is warm; its door, lamp, thermometer and bell work as well."
        rows.append({**first, "uuid": f"more-{number}", "type": "assistant"})
        rows[-1]["message"] = {"role": "assistant", "content": words}
    rows.append({**first, "uuid": "last", "message": {"role": "user", "content": "and now?"}})
    session.write_text("\n".join(map(json.dumps, rows)) + "\n")
    story = (
        "The ovens were warm, number after number. The door, the lamp, the thermometer and the "
        "bell of each oven work as well, see c/d and a_b. Warm ovens: each number. Door, lamp, "
        "bell and thermometer work on each oven of each number."
    )
    with ScriptedServer(story) as server:
        assert command.main(["coverage", "--data", str(folder), "--model", key(server)]) == 0
        assert server.prompts
    assert re.search(r"^coverage +1\.000 ", capsys.readouterr().out, re.MULTILINE)
