"""Packs for readers whose stories are written by hand: first the requests, then the packs."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path

import pytest

from compact.messages.messages import Message
from evals import reading
from evals.sources import Kind, Source

STORY = (
    "The user had one shelf of the kiln after the other looked at, and the assistant wrote down "
    "each of them: shelf 1 as row 7 says, shelf 2 as row 14 says, and so on until shelf 20 and "
    "row 140. At the end the next shelf was to be looked at."
)
TALK = [
    Message(role=role, content=f"{text} {number} of the kiln, as row {number * 7} says.")
    for number in range(60)
    for role, text in (("user", "Look at shelf"), ("assistant", "I wrote down shelf"))
]


def test_requests_are_written_first_and_packs_once_each_has_its_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(_: Path, kind: Kind, count: int, draw: random.Random) -> list[Source]:
        return [Source(kind, "a/b", "score", tuple(TALK), 700)] if kind == "service" else []

    monkeypatch.setattr(reading, "chosen", chosen)
    to, replies = tmp_path / "to", tmp_path / "replies"
    asked = partial(reading.packs, tmp_path, to, count=4, seed=1, replies=replies)
    assert "1 requests" in asked()
    request = (replies / "a_b.1.request.txt").read_text("utf-8")
    assert "hand-over" in request
    assert "Look at shelf 3 of the kiln" in request
    assert not (to / "packs").exists()
    (replies / "a_b.1.reply.txt").write_text(STORY, "utf-8")
    assert "1 packs" in asked()
    letters = json.loads((to / "key.json").read_text("utf-8"))["01"]
    assert letters == {"source": "a/b", "A": "ours"}
    assert STORY in (to / "packs" / "01" / "A.md").read_text("utf-8")
