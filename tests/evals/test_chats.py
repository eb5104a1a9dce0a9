"""What a chat's context answers is counted: one call, a lived session, and the newest words."""

import json

import pytest

from evals import chats


def dialogue():
    turns = [
        {"speaker": "Ada", "dia_id": f"D1:{n}", "text": f"Loaf number {n} came out well today."}
        for n in range(400)
    ]
    turns[3]["text"] = "My oven is called Brunhilde."
    turns[398]["text"] = "The new peel is made of ashwood."
    questions = [
        {"question": "What is the oven called?", "answer": "Brunhilde", "evidence": ["D1:3"]},
        {"question": "What is the peel made of?", "answer": "ashwood", "evidence": ["D1:398"]},
        {"question": "When was that?", "answer": "7 May", "evidence": ["D1:3"]},
    ]
    talk = {"speaker_a": "Ada", "session_1": turns, "session_1_date_time": "today"}
    return {"sample_id": "conv-x", "conversation": talk, "qa": questions}


@pytest.mark.slow
def test_only_what_its_evidence_says_is_asked_and_the_newest_words_lack_what_is_old(tmp_path):
    path = tmp_path / chats.LOCOMO
    path.parent.mkdir()
    path.write_text(json.dumps([dialogue()]))
    rows = chats.locomo(tmp_path)
    assert {row.asked for row in rows} == {2}
    assert {row.size for row in rows} == set(chats.SMALL)
    newest = [row for row in rows if row.way == "newest messages"]
    assert {row.missed for row in newest} == {("What is the oven called?",)}
    assert all(0 < row.tokens <= row.size for row in rows)
    half = rows[0].half
    assert str(chats.measured(newest)["1,000, newest messages"][half]).startswith("0.500 at ")
