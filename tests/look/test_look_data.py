"""`compactctl look` agrees with an independent count on real sessions (issue 28).

The files are those of COMPACT_DATA, else of the shared folder beside the project. Names are judged
by the script that defines the measure, `tools/future_reference.py` beside the data.
"""

import importlib.util
import json
import os
from pathlib import Path

import pytest

from compact.look.lines import NameReader
from compact.look.measures import Conversation, numbers
from compact.transcripts.boundaries import Reader, find, has_compaction
from tests.look import naive

pytestmark = [pytest.mark.data, pytest.mark.slow]

NAMED = os.environ.get("COMPACT_DATA")
FOLDER = Path(NAMED) if NAMED else Path(__file__).resolve().parents[3] / "shared" / "data"
CLAUDE = ("claude_code_sessions", "claude_code_sessions_2", "claude_code_others")


def conversation_of(file):
    """The conversation of one file, without its sub-agents."""
    conversation = Conversation(NameReader(), len)
    for row in Reader(file).rows():
        if not row.chain:
            conversation.take(row)
    conversation.finish()
    return conversation


@pytest.fixture(scope="module")
def read():
    """The files, each with its conversation."""
    found = find([FOLDER / name for name in CLAUDE if (FOLDER / name).is_dir()])
    files = [(file, conversation_of(file)) for file in found if has_compaction(file)]
    if not files:
        pytest.skip("no real conversations here: set COMPACT_DATA to their folder")
    return files


def counts(window):
    told = numbers(window)
    return {
        "actions": window.actions,
        **{name: told[name] for name in ("again", "lookups", "refused", "repeated")},
    }


def test_all_is_counted_as_by_hand(read):
    compactions = controls = 0
    for file, own in read:
        items = naive.items_of(file.path)
        expected = naive.compactions(items)
        assert [(c.boundary.key, counts(c.window)) for c in own.compactions] == expected, file
        elsewhere = naive.controls(items)
        assert [counts(window) for window in own.controls] == elsewhere, file
        compactions, controls = compactions + len(expected), controls + len(elsewhere)
    assert compactions >= 35
    assert controls >= 30


def test_no_compaction_is_missed():
    for name in CLAUDE:
        for path in (FOLDER / name).rglob("*.jsonl"):
            (file,) = find([path])
            lines = path.read_text(encoding="utf-8").splitlines()
            has = any(
                json.loads(x).get("subtype") == "compact_boundary" for x in lines if "act_b" in x
            )
            assert has_compaction(file) == has, path


@pytest.fixture(scope="module")
def oracle():
    script = FOLDER.parent / "tools" / "future_reference.py"
    if not script.is_file():
        pytest.skip("the script that defines the measure of names is not here")
    spec = importlib.util.spec_from_file_location("future_reference", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_names_are_those_of_the_measure(read, oracle, tmp_path):
    seen = 0
    for number, (file, own) in enumerate(read):
        folder = tmp_path / str(number)
        folder.mkdir()
        oracle.split(file.path, folder)
        for case in folder.glob("*.case.json"):
            told = json.loads(case.read_text(encoding="utf-8"))
            window = own.compactions[int(told["name"].rpartition(".")[2])].window
            assert sorted(window.used) == told["needed"], told["name"]
            assert sorted(window.unseen) == told["from_memory"], told["name"]
            seen += 1
    assert seen >= 30
