"""The scoring of the evaluations, on small cases of our own: a bad compression must score low."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from compact.messages.messages import Message
from evals import __main__ as command
from evals import coverage, data, generated, instructions, rule_sentences, split, stats

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


def test_the_lists_of_a_checkpoint_are_told_from_its_prose(folder):
    cases = coverage.Cases(folder)
    [case] = cases
    text = "[Checkpoint ck-1]\n\n## Story\n- It uses c/d now\n\n## Names\na_b\n"
    found = coverage.score(cases.tool, case, said(text), ())
    assert (found.coverage, found.prose) == (1, 0.5)
    assert found.lists == pytest.approx(1 / 12)
    plain = coverage.score(cases.tool, case, said("## Names\na_b"), ())
    assert (plain.prose, plain.lists) == (0.5, 0)


def test_a_context_larger_than_the_summary_is_no_score(folder):
    cases = coverage.Cases(folder)
    [case] = cases
    with pytest.raises(AssertionError, match="402 tokens, allowed are 400"):
        coverage.score(cases.tool, case, said("word " * 401), ())


def test_the_product_runs_on_the_cases_and_a_tie_is_not_above_the_newest_text(folder):
    [score] = coverage.run(coverage.Cases(folder))
    assert (score.coverage, score.summary, score.newest, score.half) == (1, 0.5, 1, "look")
    assert coverage.measured([score])["not above newest text (ties count)"]["look"] == 1
    assert "NOT above newest" in coverage.report([score], cases=True)


@pytest.mark.slow
def test_what_a_scored_case_lacks_is_counted_and_not_told(folder):
    [case] = coverage.Cases(folder)
    tool = coverage.Cases(folder).tool
    halves: dict[split.Half, bool] = {"look": True, "score": False}
    for half, told in halves.items():
        found = coverage.score(tool, replace(case, half=half), said("only c/d"), ())
        both = coverage.report([found], missed=True) + json.dumps(coverage.as_json([found]))
        assert ("a_b" in both) is told


def test_a_session_s_name_decides_its_part_and_the_first_folder_is_looked_at():
    names = [f"session-{number}" for number in range(40)]
    halves = [split.half_of(name) for name in names]
    assert {"look", "score"} == set(halves)
    odd = [hashlib.sha256(name.encode()).hexdigest()[-1] in "13579bdf" for name in names]
    assert odd == [half == "score" for half in halves]
    assert {split.half_of(name, folder="claude_code_sessions") for name in names} == {"look"}


def test_a_table_keeps_the_two_parts_apart():
    @dataclass(frozen=True)
    class One:
        half: split.Half
        value: float

    found = split.columns(
        [One("look", 0.5), One("look", 1.0)], {"mean": lambda x: sum(y.value for y in x) / len(x)}
    )
    assert found == {"mean": {"look": 0.75, "score": None}}
    title, line = split.table("title", found).splitlines()
    assert title.split() == ["title", "look", "score"]
    assert line.split() == ["mean", "0.750", "–"]


def test_without_data_the_command_says_skipped(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("COMPACT_DATA", raising=False)
    monkeypatch.setattr(data, "REPO_ROOT", tmp_path / "repo")
    assert command.main(["coverage"]) == 0
    assert "skipped: the data folder is not there" in capsys.readouterr().err


@pytest.mark.parametrize("made", [True, False])
def test_a_named_folder_without_conversations_fails(tmp_path, monkeypatch, capsys, made):
    named = tmp_path / "data"
    if made:
        named.mkdir()
    monkeypatch.setenv("COMPACT_DATA", str(named))
    assert command.main(["coverage"]) == 1
    assert "failed: the data folder" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_prints_and_writes_the_same_numbers(folder, tmp_path, capsys):
    out = tmp_path / "numbers.json"
    assert command.main(["coverage", "--data", str(folder), "--json", str(out)]) == 0
    assert json.loads(out.read_text())["coverage"]["measured"]["coverage"]["look"] == 1
    assert "future-reference coverage" in capsys.readouterr().out


def test_an_unknown_evaluation_is_refused(capsys):
    with pytest.raises(SystemExit):
        command.main(["covrage"])
    assert "no evaluation 'covrage'" in capsys.readouterr().err


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


def test_a_short_id_is_a_reference_only_where_it_is_the_only_one():
    def reached(*ids: str) -> int:
        words = "We only support Linux. " + "pad " * 400
        rows = [{"role": "user", "content": words, "id": each} for each in ids]
        rule = [instructions.Sentence("", "No such words.", False, ids[0])]
        missed = instructions.compressed("x", [Message.of(row) for row in rows], rule).missed
        shown = instructions.outcome("x", ids[0][:8], missed, tokens=1, budget=9, count=len)
        return shown.referenced

    assert reached("0a1b2c3d-1", "4e5f6a7b-2") == 1
    assert reached("message-01", "message-02") == 0


def test_rules_that_take_more_than_a_third_do_not_fit_and_a_refusal_never_does():
    assert judged("").fits
    assert not judged("", budget=60).fits
    assert not judged(None).fits


def test_shares_are_told_apart_by_keyword():
    outcomes = [judged("Never touch the schema.")]
    assert instructions.share(outcomes) == 0.5
    assert instructions.share(outcomes, keyword=True) == 1
    assert instructions.share(outcomes, keyword=False) == 0
    assert "x b" in instructions.report("title", outcomes)


@pytest.mark.parametrize("seed", instructions.SEEDS)
def test_a_generated_session_is_as_described(seed):
    session = generated.scattered(seed)
    asked = [m for m in session.messages if m.role == "user"]
    plain = [r for r in session.rules if not r.keyword]
    holders = {m.id: m.text for m in asked}
    assert len(asked) == 200
    assert 40 <= len(session.rules) <= 60
    assert len(plain) * 2 == len(session.rules)
    assert all(rule.text in holders[rule.message_id] for rule in session.rules)
    assert generated.scattered(seed) == session


def test_only_rules_with_a_keyword_have_one():
    from evals.labels.check import KEYWORD

    assert not [rule for rule in rule_sentences.PLAIN if KEYWORD.search(rule)]
    english = [rule for rule in rule_sentences.KEYWORD if rule.isascii()]
    assert len([rule for rule in english if KEYWORD.search(rule)]) >= 12


def test_keeping_the_newest_tenth_of_a_generated_session_loses_most_rules():
    session = generated.scattered(1)
    newest = "\n".join(m.text for m in session.messages)[-40_000:]
    rules = [instructions.Sentence("", r.text, r.keyword, r.message_id) for r in session.rules]
    outcome = instructions.outcome("x", newest, rules, tokens=1, budget=10_000, count=len)
    assert outcome.share < 0.4


def test_intervals_hold_the_mean_and_widen_with_the_clusters():
    values = [0.5, 0.6, 0.7, 0.9, 1.0, 0.4]
    low, high = stats.interval(values)
    assert low < sum(values) / len(values) < high
    wide_low, wide_high = stats.clustered_interval([[0.4, 0.5, 0.6], [0.7, 0.9, 1.0]])
    assert (wide_low, wide_high) == pytest.approx((0.5, 0.8667), abs=1e-4)
    assert stats.quantile([1, 2, 3, 4], 0.5) == 2.5


def test_the_measure_is_looked_for_beside_the_data(tmp_path: Path):
    (tmp_path / "data").mkdir()
    with pytest.raises(data.NoData, match="not beside"):
        data.measure(tmp_path / "data")
