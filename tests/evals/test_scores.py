"""The scoring of the evaluations, on small cases of our own: a bad compression must score low."""

import hashlib
import json

import pytest

from compact.messages.messages import Message
from evals import __main__ as command
from evals import coverage, instructions, split

MEASURE = """
import json

COUNT = lambda text: len(text.split())


def anchors(text):
    return {word for word in text.split() if "_" in word or "/" in word}


def coverage(case, text, needed=None):
    needed = case["needed"] if needed is None else needed
    return sum(word in anchors(text) for word in needed) / len(needed)


def newest_text(before, max_tokens):
    return " ".join(before.read_text().split()[-max_tokens:])


def split(path, out):
    case = {"name": path.stem + ".0", "max_tokens": 400, "needed": ["a_b", "c/d"], "summary": "a_b"}
    (out / (path.stem + ".0.case.json")).write_text(json.dumps(case))
    (out / (path.stem + ".0.before.jsonl")).write_text(path.read_text())
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with one short session, and a measure of our own beside it."""
    monkeypatch.delenv("COMPACT_DATA", raising=False)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "future_reference.py").write_text(MEASURE)
    sessions = tmp_path / "data" / "claude_code_sessions"
    sessions.mkdir(parents=True)
    rows = [
        {
            "type": kind,
            "uuid": f"row-{number}",
            "sessionId": "s",
            "timestamp": f"2026-01-05T09:00:0{number}.000Z",
            "message": {"role": kind, "content": words},
        }
        for number, (kind, words) in enumerate(
            [("user", "Look at a_b please"), ("assistant", "It uses c/d ."), ("user", "and now?")]
        )
    ]
    (sessions / "one.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return tmp_path / "data"


def said(text: str) -> list[Message]:
    return [Message(role="user", content=text)]


def test_a_context_that_holds_everything_scores_one_and_an_empty_one_nothing(folder):
    cases = coverage.Cases(folder)
    [case] = cases
    half = coverage.score(cases.tool, case, said("only c/d"), said("all of a_b and c/d"))
    assert (half.coverage, half.missed, half.twice, half.drop) == (0.5, ("a_b",), 1, -0.5)
    assert coverage.score(cases.tool, case, said("neither"), ()).coverage == 0


def test_the_product_runs_on_the_cases_and_a_tie_is_not_above_the_newest_text(folder):
    [score] = coverage.run(coverage.Cases(folder))
    assert (score.coverage, score.summary, score.newest, score.half) == (1, 0.5, 1, "look")
    assert coverage.measured([score])["not above newest text (ties count)"]["look"] == 1
    assert "NOT above newest" in coverage.report([score], cases=True)


def test_a_session_s_name_decides_its_part_and_the_first_folder_is_looked_at():
    names = [f"session-{number}" for number in range(40)]
    halves = [split.half_of(name) for name in names]
    assert {"look", "score"} == set(halves)
    odd = [hashlib.sha256(name.encode()).hexdigest()[-1] in "13579bdf" for name in names]
    assert odd == [half == "score" for half in halves]
    assert {split.half_of(name, folder="claude_code_sessions") for name in names} == {"look"}


@pytest.mark.slow
def test_the_command_prints_and_writes_the_same_numbers(folder, tmp_path, capsys):
    out = tmp_path / "numbers.json"
    assert command.main(["coverage", "--data", str(folder), "--json", str(out)]) == 0
    assert json.loads(out.read_text())["coverage"]["measured"]["coverage"]["look"] == 1
    assert "future-reference coverage" in capsys.readouterr().out


RULES = [
    instructions.Sentence("a", "Never touch  the\nschema.", True, "m1"),
    instructions.Sentence("b", "We only support Linux.", False, "m2"),
]


def judged(context: str | None, *, budget: int = 300) -> instructions.Outcome:
    return instructions.outcome("x", context, RULES, tokens=3000, budget=budget, count=len)


def test_a_rule_is_kept_word_for_word_white_space_aside():
    assert judged("… Never touch the schema. We only\nsupport Linux.").share == 1
    assert judged("Never touch the schemas. We support Linux only.").share == 0


def test_a_missed_rule_is_referenced_only_by_the_whole_id():
    assert judged("more in m1, m2").referenced == 2
    assert judged("more in m11 and a-m2").referenced == 0


def test_shares_are_told_apart_by_keyword():
    outcomes = [judged("Never touch the schema.")]
    assert instructions.share(outcomes) == 0.5
    assert instructions.share(outcomes, keyword=True) == 1
    assert instructions.share(outcomes, keyword=False) == 0
    assert "x b" in instructions.report("title", outcomes)
