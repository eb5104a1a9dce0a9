"""The index of the stories by hand agrees with their files and with what they tell of."""

import json
from collections import Counter
from pathlib import Path

import pytest

from compact import wiring
from evals.data import SAMPLE

FIXTURES = Path(__file__).parents[1] / "fixtures"
FOLDER = FIXTURES / "stories"
STORIES = json.loads((FOLDER / "stories.json").read_text(encoding="utf-8"))
SOURCES = {"harbour": SAMPLE, "kiln": FIXTURES / "golden" / "kiln.jsonl"}
COUNTER = wiring.token_counter("chat_completions", tokenizer="o200k")
LENGTHS = {name: len(wiring.read_transcript(path).messages) for name, path in SOURCES.items()}


def text_of(story):
    return (FOLDER / f"{story['name']}.md").read_text(encoding="utf-8").removesuffix("\n")


def test_there_are_twenty_of_each_and_every_file_is_listed():
    assert Counter(story["verdict"] for story in STORIES) == {"good": 20, "bad": 20}
    names = sorted(story["name"] for story in STORIES)
    assert names == sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story["name"])
def test_a_story_tells_of_messages_that_exist_and_fits_its_cap(story):
    assert 0 <= story["first"] < story["last"] < LENGTHS[story["source"]]
    assert ("flaw" in story) is (story["verdict"] == "bad")
    length = COUNTER.text(text_of(story))
    if story["finish"] == "length":
        assert length == story["max_tokens"]
    else:
        assert length < story["max_tokens"] <= 3 * length
