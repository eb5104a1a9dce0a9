"""`compactctl replay`: what each policy sends, told from conversations whose numbers are known."""

import json
import re
from itertools import pairwise

import pytest

from tests.cli.conftest import refused

RESULT = "lighthouse keepers count gulls by the hundred " * 30


def spoken(turns):
    """Rows of a conversation: a question, a call that names a file of long before, its
    result, an answer.
    """
    for turn in range(turns):
        yield {"role": "user", "content": f"Look into src/berth_{turn}.py, please."}
        call = {
            "name": "read_file",
            "arguments": json.dumps({"path": f"src/berth_{max(0, turn - 9)}.py"}),
        }
        calls = [{"id": f"c{turn}", "type": "function", "function": call}]
        yield {"role": "assistant", "content": None, "tool_calls": calls}
        yield {"role": "tool", "tool_call_id": f"c{turn}", "content": f"{turn} {RESULT}"}
        yield {"role": "assistant", "content": f"Berth {turn} is free."}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "berths.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in spoken(30)))
    return path


def replayed(run, file, *policies, options=()):
    given = [word for policy in policies for word in ("--policy", policy)]
    done = run("replay", str(file), *given, "--json", *options)
    assert done.code == 0, done.err
    report = json.loads(done.out)
    return report, {row["policy"]: row for row in report["policies"]}


def test_everything_is_sent_once_uncached_and_every_name_is_shown(run, file):
    report, rows = replayed(run, file, "all")
    row = rows["all"]
    assert report["calls"] == 60
    assert row["uncached"] == row["largest"]  # the last prompt: each message is new once
    assert row["tokens"] == sum(row["tokens_by_call"])
    assert all(a < b for a, b in pairwise(row["tokens_by_call"]))
    assert row["names_needed"] == row["names_shown"] == 30
    assert row["rewrites"] == row["did_not_fit"] == 0


def test_cutting_the_oldest_fits_rewrites_the_beginning_and_loses_names(run, file):
    _, rows = replayed(run, file, "all", "newest:1k", "newest:100k")
    row = rows["newest:1k"]
    assert 0 < row["largest"] <= 1_024
    assert row["rewrites"] > 20
    assert row["uncached"] > rows["all"]["uncached"]
    assert row["names_shown"] < row["names_needed"] == 30
    large, everything = rows["newest:100k"], rows["all"]
    assert {**large, "policy": "all"} == everything  # all of it fits


def test_compact_fits_keeps_its_beginning_longer_and_shows_more_names(run, file):
    _, rows = replayed(run, file, "newest:2k", "compact:2k")
    ours, cut = rows["compact:2k"], rows["newest:2k"]
    assert 0 < ours["largest"] <= 2_048
    assert 0 < ours["rewrites"] < cut["rewrites"]
    assert ours["cached_share"] > cut["cached_share"]
    assert ours["names_shown"] >= cut["names_shown"]
    assert ours["did_not_fit"] == 0


def test_a_cut_never_begins_within_an_exchange(file):
    from compact import wiring
    from compact.cli.jobs import Job
    from compact.cli.replaying import Replay, policy_named
    from compact.config import CompactConfig

    settings, transcript = CompactConfig(), wiring.read_transcript(str(file))
    job = Job(settings, transcript, wiring.token_counter_of(settings, transcript.wire))
    replay = Replay(job)
    with replay.prompts(policy_named("newest:1k")) as prompts:
        for at in replay.calls:
            assert not prompts(at)[0].tool_results


def test_what_does_not_fit_is_counted_and_left_out(run, tmp_path):
    path = tmp_path / "long.jsonl"
    rows = [
        *spoken(2),
        {"role": "user", "content": RESULT * 9},
        {"role": "assistant", "content": "."},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report, found = replayed(run, path, "newest:1k", "compact:1k")
    assert report["calls"] == 5
    for row in found.values():
        assert row["did_not_fit"] == 1
        assert len(row["tokens_by_call"]) == 4


def test_the_price_is_that_of_each_kind_of_token(run, file):
    _, rows = replayed(run, file, "all", options=("--price", "2,0.5,10"))
    row = rows["all"]
    answered = (
        row["dollars"] * 1e6 - 2 * row["uncached"] - 0.5 * (row["tokens"] - row["uncached"])
    ) / 10
    assert 200 < answered < 3_000  # 60 short answers
    named, typed = (
        replayed(run, file, "all", options=("--price", price))[1]["all"]["dollars"]
        for price in ("gpt-4.1", "2,0.5,8")
    )
    assert named == typed > 0
    _, rows = replayed(run, file, "all", options=("--price", "0,0,0"))
    assert rows["all"]["dollars"] == 0
    assert "dollars" not in replayed(run, file, "all")[1]["all"]


def test_a_person_sees_a_table_and_the_page_stands_alone(run, file, tmp_path):
    page = tmp_path / "plot.html"
    words = (
        "replay",
        str(file),
        "--policy",
        "all",
        "--policy",
        "compact:2k",
        "--price",
        "3,0.3,15",
    )
    done = run(*words, "--html", str(page))
    assert done.code == 0
    for word in ("all", "compact:2k", "uncached", "names", "$", "60 calls"):
        assert word in done.out
    text = page.read_text()
    assert text.count("<polyline") == 4
    assert len(re.findall(r'points="([^"]*)"', text)[0].split()) == 60
    assert "http" not in text.replace("http-equiv", "")
    assert "<script" not in text
    assert run(*words, "--html", str(page)).code == 0  # its own page may be replaced
    other = tmp_path / "mine.html"
    other.write_text("<p>mine")
    refused(run(*words, "--html", str(other)), "is no page of compact's")
    assert other.read_text() == "<p>mine"


@pytest.mark.parametrize("policy", ["newest", "all:8k", "newest:8", "oldest:8k", "compact:x", ""])
def test_a_policy_that_cannot_be_read_is_explained(run, file, policy):
    refused(run("replay", str(file), "--policy", policy), "--policy", "newest:SIZE")


def test_other_wrong_words_are_explained(run, file, tmp_path):
    refused(run("replay", str(file), "--price", "3,4"), "three numbers")
    silent = tmp_path / "silent.jsonl"
    silent.write_text('{"role": "user", "content": "Is anybody there?"}\n')
    refused(run("replay", str(silent)), "no answer of a model")
