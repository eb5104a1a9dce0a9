"""The early facts of ten chats: what the locators promise, and that they still point at the data.

The chats are those of COMPACT_DATA, else of the shared folder beside the project; without either
what needs them is skipped. A folder that was named but lacks a chat's file fails.
"""

import hashlib
import os
from collections import Counter
from pathlib import Path

import pytest

from evals import chats_source

NAMED = os.environ.get("COMPACT_DATA")
FOLDER = Path(NAMED) if NAMED else Path(__file__).resolve().parents[3] / "shared" / "data"
CHATS, FACTS = chats_source.rows()
NAMES = [chat["chat"] for chat in CHATS]


def facts_of(name):
    return [fact for fact in FACTS if fact["chat"] == name]


def test_there_are_twenty_facts_of_each_of_ten_chats():
    assert len(set(NAMES)) == len(NAMES) == 10
    assert Counter(fact["chat"] for fact in FACTS) == dict.fromkeys(NAMES, 20)
    assert Counter(chat["half"] for chat in CHATS) == {"look": 5, "score": 5}


@pytest.mark.parametrize("chat", CHATS, ids=NAMES)
def test_the_half_follows_from_the_conversation(chat):
    assert (chat["half"] == "score") is chats_source.is_scored(chat["conversation"])


@pytest.mark.data
@pytest.mark.parametrize("chat", CHATS, ids=NAMES)
def test_the_locators_point_at_what_was_read(chat):
    messages = read(chat)
    assert len(messages) == chat["listed"]
    for fact in facts_of(chat["chat"]):
        content = messages[fact["message"]]["content"]
        text = chats_source.text_of(fact, content)
        assert hashlib.sha256(text.encode()).hexdigest() == fact["sha256"], fact["question"]
        assert chats_source.found(chats_source.needed(fact, content), content)


@pytest.mark.data
@pytest.mark.parametrize("chat", CHATS, ids=NAMES)
def test_no_question_quotes_its_answer(chat):
    messages = read(chat)
    for fact in facts_of(chat["chat"]):
        strings = chats_source.needed(fact, messages[fact["message"]]["content"])
        assert not any(chats_source.found([string], fact["question"]) for string in strings)


def read(chat):
    if not NAMED and not FOLDER.is_dir():
        pytest.skip("no real conversations here: set COMPACT_DATA to their folder")
    return chats_source.messages(chat, FOLDER)
