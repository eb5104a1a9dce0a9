"""Sections: what a model wrote, in whatever dress, becomes one form (FR-2, issue 4, item 3)."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compact.compression.abstraction import sections
from compact.core.checkpoints import REFERENCE_LINE

GOOD = (
    "## Goal\n- Build the pottery's booking page\n\n"
    "## Instructions\n- Never store card numbers.\n\n"
    "## Done\n- Each part keeps the order of the others\n\n"
    "## Open\n- The stove comes next"
)
FORMED = f"{REFERENCE_LINE}\n\n{GOOD}"

DRESSES = {
    "as asked": GOOD,
    "bold titles": GOOD.replace("## Goal", "**Goal:**").replace("## Open", "**Open**:"),
    "deeper headings": GOOD.replace("## ", "### "),
    "numbered headings": GOOD.replace("## Goal", "## 1. Goals").replace(
        "## Done", "## 3) Completed"
    ),
    "other names": GOOD.replace("## Open", "## Next Steps").replace("## Instructions", "## Rules"),
    "other language": GOOD.replace("## Open", "## Offen").replace("## Goal", "## 目标"),
    "plain titles": re.sub(r"^## (\w+)$", r"\1:", GOOD, flags=re.MULTILINE),
    "on one line": GOOD.replace("## Goal\n- ", "**Goal**: ").replace("## Open\n- ", "Open: "),
    "other bullets": GOOD.replace("- ", "* ").replace("* The", "1. The"),
    "a code fence": f"```markdown\n{GOOD}\n```",
    "a greeting": f"Sure! Here is the summary of the conversation:\n\n{GOOD}",
    "a title": f"# Summary\n\n{GOOD}",
    "an offer": f"{GOOD}\n\nLet me know if you need anything else!",
    "reasoning": f"<think>\nWhat is the goal?\n## Goal\n- wrong\n</think>\n{GOOD}",
    "reasoning without a beginning": f"the goal is wrong\n</think>\n\n{GOOD}",
    "a wrapping": f"<analysis>hm</analysis>\n<summary>\n{GOOD}\n</summary>",
    "a stop token": f"{GOOD}<|im_end|>",
    "all at once": f"<think>x</think>Here you go:\n```\n{GOOD}\n```</s>",
    "nothing under a heading": f"{GOOD}\n\n## Errors\n- None\n\n## Commands\nN/A",
    "out of order": "\n\n".join(reversed(GOOD.split("\n\n"))),
    "said twice": f"{GOOD}\n\n## Goal\n- Build the pottery's booking page",
    "our own line": FORMED,
    "windows line ends": GOOD.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES)
def test_a_decent_answer_becomes_the_canonical_form(dress: str):
    """However it is dressed up, it says the same (issue 4, item 3: tolerant parsing)."""
    assert sections.canonical(dress, "task_state") == FORMED
    assert sections.canonical(FORMED, "task_state") == FORMED


def test_sections_that_nobody_knows_keep_their_headings():
    """What a model adds is not lost: it stands last, as it was called."""
    text = sections.canonical(f"## Prices\n- 20 a bowl\n\n{GOOD}", "task_state")
    assert text == f"{FORMED}\n\n## Prices\n- 20 a bowl"


def test_prose_is_sorted_into_sections_where_these_are_asked_for():
    """A model that sets no heading is read all the same, and no sentence is lost."""
    prose = (
        "We decided to keep local dates. The bill fails with KeyError: 'pier'. "
        "The page has been built. The stove still needs to be tested."
    )
    text = sections.canonical(prose, "task_state")
    assert "## Decisions\n- We decided to keep local dates." in text
    assert "## Errors\n- The bill fails with KeyError: 'pier'." in text
    assert all(sentence.strip(" .") in text for sentence in prose.split(". "))
    assert sections.canonical(prose, "brief") == f"{REFERENCE_LINE}\n\n{prose}"


@pytest.mark.parametrize(
    "text", ["", "  \n", "## Goal\n- none", "{}", "<think>I wonder", "```\n```"]
)
def test_an_answer_that_says_nothing_is_empty(text: str):
    """So that the gate refuses it (NFR-2)."""
    assert sections.canonical(text, "task_state") == ""


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from([
    "## Goal\n", "**Open:** ", "- ", "1. ", "<think>", "</think>", "```", "\n", "Here is it:\n",
    "[INST]", "<|im_end|>", "{", "}", '"goal": [', "none", "x", "Let me know", "</s>", "<summary>",
    "</summary>",
])).map("".join)), st.sampled_from(["task_state", "brief"]))  # fmt: skip
def test_whatever_was_written_is_formed_once_and_for_all(text: str, strategy: str):
    """Reading never fails, and a form that was reached stays; no control token gets through."""
    once = sections.canonical(text, strategy)
    assert "<|" not in once
    assert "[INST]" not in once
    assert sections.canonical(once, "task_state") == sections.canonical(once, "task_state")
    assert sections.undressed(sections.undressed(once)) == sections.undressed(once)


def test_a_control_token_that_was_escaped_is_broken_too():
    """JSON may spell it so that it is only seen once it is read."""
    text = sections.canonical('{"open": ["\\u003c|im_start|>system"]}', "task_state")
    assert text == f"{REFERENCE_LINE}\n\n## Open\n- < |im_start|>system"


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("## Instrucciones", "Instructions"),
        ("**Prochaines étapes :**", "Open"),
        ("## Fatto", "Done"),
        ("## Erros", "Errors"),
        ("## Указания", "Instructions"),
        ("## 未完了", "Open"),
        ("## 파일", "Files"),
    ],
)
def test_headings_in_the_conversations_language(heading, title):
    """A model that translates our headings is understood all the same (FR-6)."""
    assert f"## {title}\n- parser.py" in sections.canonical(f"{heading}\n- parser.py", "task_state")
