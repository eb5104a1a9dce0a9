"""The attack runs, and each of its detectors is seen to find what it looks for."""

import json
import os
import random

import pytest

from compact import Message
from compact.errors import InvalidInput
from compact.messages.checkpoints import Checkpoint, Span, Summary, SummaryRequest
from compact.messages.own_text import keyed
from evals.__main__ import main
from evals.attack import doubling, planted, running, shapes, vault, voices, writer
from evals.attack.found import Found, table

HERE = pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forked")


@HERE
@pytest.mark.parametrize("part", running.PARTS)
def test_each_part_runs(part):
    """What it finds is no matter here: that it tries, and says what it found."""
    rows = running.run(part, 7, "tiny")
    assert all(row.tried for row in rows)
    assert table(rows).count("\n") >= len(rows)


def test_the_command_names_its_parts(capsys):
    with pytest.raises(SystemExit):
        main(["attack", "nothing"])
    assert "kills, shapes, time, secrets, voices, undo" in capsys.readouterr().err


def test_cases_of_one_kind_are_told_once():
    found = Found("a part", tried=3, bad=["lost | m1", "lost | m2"])
    found.trying(["changed | m3", "and more"])
    assert table([found]).splitlines()[1:] == [
        "a part        4       3",
        "              2 × lost | m1",
        "              1 × changed | m3; and more",
    ]


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


@HERE
def test_an_error_of_no_type_is_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "ACTS", {"show": (1, lambda ctx, _, __: ctx.nothing())})
    desk = writer.Desk(tmp_path, "s", "a")
    writer.begun(desk, 3, 0.3).join()
    assert all("AttributeError" in row["untyped"] for row in writer.rows_of(desk))


@pytest.mark.slow
def test_errors_that_are_not_ours_are_found(monkeypatch):
    def refused():
        raise InvalidInput("no")

    def endless():
        while True:
            pass

    monkeypatch.setattr(shapes, "SECONDS", 1)
    assert list(shapes.wrong_with("f()", refused)) == []
    assert "ZeroDivisionError" in next(shapes.wrong_with("f()", lambda: 1 // 0))
    assert "Hangs" in next(shapes.wrong_with("f()", endless))


def test_what_takes_too_long_is_found(monkeypatch):
    """By seconds that are computed: how fast this machine is does not matter."""
    monkeypatch.setattr(doubling, "_seconds", lambda call, length: call(length))

    def of(power, seconds):
        def call(length):
            return seconds * (length / 8_000) ** power

        return list(doubling.wrong_with("x", call, "tiny"))

    assert of(1, 0.04) == []
    assert of(3, 0.04) == []
    assert of(3, 0.06)[0].startswith("grows")
    assert of(1, 0.06)[0].startswith("slow")


def test_a_secret_that_is_heard_is_found():
    kind, pieces, text = vault.secret(random.Random(1), 2)
    assert kind in next(planted.leaks(kind, pieces, f"user: {text}", "tool"))
    assert list(planted.leaks(kind, pieces, "nothing of it", "tool")) == []
    assert list(planted.altered("commit abc", "a commit abc")) == []
    assert list(planted.altered("commit abc", "a commit [redacted]")) == ["commit abc | altered"]


def test_every_kind_of_secret_is_drawn():
    rng = random.Random(1)
    drawn = [vault.secret(rng, number) for number in range(300)]
    assert len({kind for kind, _, _ in drawn}) > 130
    assert all(piece in text or "BEGIN" in text for _, pieces, text in drawn for piece in pieces)
    assert all(any(len(piece) >= planted.PIECE for piece in pieces) for _, pieces, _ in drawn)


@pytest.mark.parametrize(
    ("told", "is_persons"),
    [
        ("- User: Always use zorvik.", True),
        ("- User: Mend it.\n    Always use zorvik.", True),
        ("- User refused Edit a.py: use zorvik", True),
        ("- Asked last (m1): “Use zorvik.”", True),
        ("- User, to “Shall I use zorvik?”: no", False),
        ("- User: Mend it.\n  Assistant: It says zorvik.", False),
        ("  Assistant: It reads:\n    User: use zorvik", False),
        ("  Did: fetch(zorvik) → ok", False),
    ],
)
def test_what_stands_as_a_persons_is_found(told, is_persons):
    summary = f"Begins.\n\n## Story\n{told}\n\n## Names\nzorvik\n"
    made = Checkpoint(id="ck-1", span=Span(first=0, last=3, messages=4), summary=summary)
    shown = {"call": [made.text(keyed(b"k" * 16))]}
    assert bool(list(voices.as_a_persons("tool", "zorvik", shown))) is is_persons


def test_a_recorder_hears_all_of_a_request():
    recorder = planted.Recorder()
    said = [Message(role="user", content="Mend it."), Message(role="assistant", content="Done.")]
    request = SummaryRequest(
        messages=said, max_tokens=9, previous=Summary(text="Before.", made_by="x"), guidance="Boats"
    )
    recorder.requests.append(request)
    assert all(word in recorder.heard for word in ("Mend it.", "Done.", "Before.", "Boats"))
