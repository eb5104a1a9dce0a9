"""How a model's answer is read as a story: nothing of it is lost or changed (issue 10, item 11)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compact.engine.stories import reading

STORY = "The user asked for a kiln.\nThe assistant built it - 250) bricks and 200. of clay."


@pytest.mark.parametrize(
    "answer",
    [
        STORY,
        f"<think>What a day.\n\nA kiln?</think>\n\n{STORY}",
        f"What a day. A kiln?</think>{STORY}",
        f"{STORY}\n<think>Was that all?",
        f"<summary>\n{STORY}\n</summary>",
        f"```markdown\n{STORY}\n```",
        f"## Summary\n\n{STORY}",
        f"**Story**\n{STORY}",
        f"## What was built\n{STORY}",
        f"# The kiln\n\n1. **Work so far**:\n{STORY}",
        f"2. Work so far:\n{STORY}",
        f"## Rules\n{STORY}",
        f"**Next steps**:\n{STORY}",
        f"2. Open work:\n{STORY}",
        f"Here is the story of the conversation:\n\n{STORY}",
        f"{STORY}<|im_end|></s>",
        json.dumps({"story": STORY.split("\n")}),
        "```json\n" + json.dumps({"story": STORY.split("\n")}, indent=2) + "\n```",
        json.dumps(STORY.split("\n")),
        json.dumps({"story": STORY}),
    ],
)
def test_what_is_no_part_of_an_answer_is_taken_off(answer: str):
    """Reasoning, fences, tags, announcements, tokens at the end, and the JSON around it."""
    assert reading.story_of(answer) == STORY


@pytest.mark.parametrize(
    "answer",
    [
        "The user asked for three things:\n- a kiln\n- a wheel\n- a shelf",
        "The story of the harbour was told to the user. It was long.\nThen they went on.",
        "- 1. first\n- 2. second\n\n\n- 2. second",
        "Sure! The kiln works.",
        "They compared a < b and List[int].",
        "",
    ],
)
def test_everything_else_stays_as_it_was_written(answer: str):
    """No bullet, number or repeated line is touched: the gate judges what was written."""
    assert reading.story_of(answer) == answer


@given(st.lists(st.text(max_size=30), max_size=6), st.integers(0, 200))
def test_json_that_breaks_off_gets_its_brackets_closed(lines: list[str], place: int):
    """Of a truncated answer all that was written is read, in its order (item 11)."""
    whole = json.dumps({"story": lines}, ensure_ascii=False)
    cut = whole[: max(len('{"story":'), min(place, len(whole)))]
    told = reading.read_json(cut)
    assert told is not None
    assert "".join(lines).startswith("".join(told).rstrip("\ufffd"))
    assert len(told) <= len(lines)


@pytest.mark.parametrize("cut", ['{"sto', '{"story"', "{", '{"story": ["a", ', '{"a": {"b": "c"'])
def test_json_may_break_off_anywhere(cut: str):
    """Behind a key, a comma, a bracket."""
    assert reading.read_json(cut) is not None


@pytest.mark.parametrize("text", ['{"error": {"code": 500, "message": "down"}}', "{1: 2", "{%s}"])
def test_an_error_and_what_is_no_json_stay_as_they_are(text: str):
    """The gate then refuses them for what they are."""
    assert reading.story_of(text) == text


def test_a_schema_bounds_what_a_server_lets_a_model_write():
    """A list of strings, as many as the cap has room for (item 11)."""
    small, large = (reading.schema(tokens)["properties"]["story"] for tokens in (40, 40_000))
    assert small["maxItems"] == reading.FEWEST_LINES
    assert large["maxItems"] == reading.MOST_LINES
    assert small["items"] == {"type": "string", "maxLength": reading.LONGEST_LINE}


def test_reading_is_linear():
    """Other people's text cannot make it slow."""
    for text in (
        "<think>" * 40_000,
        "</think>" * 40_000,
        "{" * 100_000,
        '["' * 100_000,
        "`" * 99_999,
    ):
        reading.story_of(text)


@pytest.mark.parametrize("title", ["## Said", "**Names**:", "### User", "2. Now:"])
def test_a_title_of_another_voice_stays_for_the_gate(title: str):
    """A section that code writes, or a speaker: their words would lose who said them."""
    assert reading.story_of(f"{title}\n{STORY}") == f"{title}\n{STORY}"
