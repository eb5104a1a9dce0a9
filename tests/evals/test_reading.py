"""Packs for readers are blind, outside of the repository, and the same for the same seed."""

import json

import pytest

from compact import wiring
from evals import __main__ as command
from evals import data, reading
from evals import sources as sources_of
from evals.sources import Source

MESSAGES = wiring.read_transcript(data.SAMPLE).messages


def source(summary=None, name="harbour"):
    return Source("coding", name, "score", MESSAGES, 3_000, summary)


@pytest.fixture
def sources(monkeypatch):
    """Sources of the repository's own, a few of each kind."""
    made = [source("This session is being continued from before.\nThe real one.", "h.0")]
    made += [source("Another.", "i.0"), source("Another.", "i.1")]

    def of_kind(kind, folder):
        return iter(made if kind == "coding" else [source(None, f"{kind}-1")])

    monkeypatch.setattr(reading, "of_kind", of_kind)


@pytest.mark.slow
@pytest.mark.usefixtures("sources")
def test_packs_do_not_tell_whose_text_it_is(tmp_path):
    told = reading.packs(tmp_path, tmp_path / "out", count=4, seed=3)
    assert told.startswith("4 packs")
    key = json.loads((tmp_path / "out" / "key.json").read_text())
    assert sorted(row["source"].split(".")[0] for row in key.values()) == [
        *("h", "i", "service-1", "talk-1")
    ]
    for number, row in key.items():
        folder = tmp_path / "out" / "packs" / number
        texts = {name: (folder / f"{at}.md").read_text() for at, name in row.items() if at in "AB"}
        assert ("real" in texts) == (row["source"][0] in "hi")
        assert "[Checkpoint" not in texts["ours"]
        assert "word for word" in texts["ours"]
        assert "being continued" not in texts.get("real", "")
        assert "messages: 511" in (folder / "source.md").read_text()
    assert not (tmp_path / "out" / "packs" / "key.json").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("sources")
def test_marks_are_added_up_by_whose_text_it_was(tmp_path):
    reading.packs(tmp_path, tmp_path, count=4, seed=3)
    key = json.loads((tmp_path / "key.json").read_text())
    for number, row in key.items():
        given = {at: {"goal": 5 if name == "real" else 3} for at, name in row.items() if at in "AB"}
        (tmp_path / "packs" / number / "marks.json").write_text(json.dumps(given))
    assert reading.means(tmp_path).splitlines()[1].split() == [
        *("goal", "3.00", "of", "4", "5.00", "of", "2")
    ]


def test_nothing_is_written_into_the_repository():
    with pytest.raises(ValueError, match="within the repository"):
        reading.outside(data.REPO_ROOT / "packs")
    with pytest.raises(SystemExit):
        command.main(["reading"])
    with pytest.raises(SystemExit):
        command.main(["reading", "--to", str(data.REPO_ROOT / "packs")])


def test_a_system_prompt_that_stays_comes_on_top_of_the_tokens(tmp_path):
    path = tmp_path / sources_of.TAU
    path.parent.mkdir()
    system = {"role": "system", "content": "A policy of many words. " * 300}
    talk = [
        {"role": role, "content": f"Flight {n} is asked for and it leaves at {n} o'clock. " * 6}
        for n in range(40)
        for role in ("user", "assistant")
    ]
    rows = [{"task_id": n, "trial": 0, "traj": [system, *talk[:m]]} for n, m in ((1, 80), (2, 4))]
    path.write_text(json.dumps(rows))
    [source] = sources_of.of_kind("service", tmp_path)
    assert source.name == "1/0"
    assert 1_500 + sources_of.LEAST < source.max_tokens < 1_700 + sources_of.MOST
    assert "A policy" not in reading.bare(source.compressed())
    assert "Flight 39" in reading.bare(source.compressed())
