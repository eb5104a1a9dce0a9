"""What the measurement of the gate itself promises."""

import json

import pytest

from compact import Message, wiring
from evals import data, gate

COUNTER = wiring.token_counter("chat_completions", tokenizer="o200k")


@pytest.mark.slow
def test_the_stories_by_hand_are_judged_as_they_were_published():
    """Without data the repository's own stories are measured (FR-6)."""
    found = gate.run(None)
    wrong = {row.session for row in found if not row.is_right}
    assert len(found) == 40
    assert wrong == {"keys-beside-tides", "spoken-key", "promoted-reader"}
    assert json.loads(json.dumps(gate.as_json(found)))[0]["kind"] == "good, by hand"


@pytest.fixture(scope="module")
def cases() -> list[gate.Case]:
    said = wiring.read_transcript(data.SAMPLE).messages
    talk = [
        Message.of(
            {"role": "user", "content": f"Bowl {n} of the Limoges glaze costs {n},450 euro."}
        )
        for n in range(40)
    ]
    text = (gate.STORIES / "first-two-days-long.md").read_text("utf-8")
    return [
        gate.case_of("harbour", "score", said[:196], text, COUNTER),
        gate.case_of(
            "bowls", "score", talk, "The bowls got dearer, one by one. All sold.", COUNTER
        ),
    ]


@pytest.mark.slow
def test_bad_stories_are_made_of_good_ones(cases: list[gate.Case]):
    """Each in another way, the same ones every time; nearly all are refused."""
    made = list(gate.bad_ones(cases[0], cases))
    assert made == list(gate.bad_ones(cases[0], cases))
    assert made[0][0] == "of another session"
    assert len({kind for kind, _ in made}) == len(made) == 8
    found = [gate.tried(cases[0], kind, text, COUNTER) for kind, text in made]
    assert {row.kind for row in found if not row.is_right} <= {"cut off"}
    assert gate.tried(cases[0], gate.GOOD, cases[0].text, COUNTER).accepted
