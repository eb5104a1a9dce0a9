"""The attack runs, and each of its detectors is seen to find what it looks for."""

import json
import os
import random

import pytest

from evals.attack import planted, running, vault, writer
from evals.attack.found import table

HERE = pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forked")


@HERE
@pytest.mark.parametrize("part", running.PARTS)
def test_each_part_runs(part):
    """What it finds is no matter here: that it tries, and says what it found."""
    rows = running.run(part, 7, "tiny")
    assert all(row.tried for row in rows)
    assert table(rows).count("\n") >= len(rows)


@pytest.mark.slow
@HERE
def test_a_message_that_is_gone_is_found(tmp_path):
    desk = writer.Desk(tmp_path, "s", "a")
    writer.begun(desk, 3, 0.5).join()
    assert list(writer.wrong_in([desk])) == []
    kept = next(row["kept"] for row in writer.rows_of(desk) if row.get("kept"))
    with desk.ledger.open("a") as file:
        changed = dict.fromkeys(kept, "other")
        file.write(json.dumps({"did": "append", "kept": {**changed, "⟦a.9 0/1⟧": "0"}}) + "\n")
        file.write(json.dumps({"did": "snapshot", "snapshot": "none"}) + "\n")
    wrong = {line.partition(" |")[0] for line in writer.wrong_in([desk])}
    assert wrong == {"changed: a message", "lost: a message", "lost: a snapshot"}


def test_a_secret_that_is_heard_is_found():
    kind, pieces, text = vault.secret(random.Random(1), 2)
    assert kind in next(planted.leaks(kind, pieces, f"user: {text}", "tool"))
    assert list(planted.leaks(kind, pieces, "nothing of it", "tool")) == []
    assert list(planted.altered("commit abc", "a commit abc")) == []
    assert list(planted.altered("commit abc", "a commit [redacted]")) == ["commit abc | altered"]
