"""No text takes more than linear time, whoever said it and through whichever door it comes (FR-6).

Each input is an opener, and something small many times; what takes long is compared with a part of
it (`tests.pace`).
"""

import json
from collections.abc import Callable
from contextlib import suppress

import pytest

from compact import ContextManager, compress, plan
from compact.engine.gate.rules import judge
from compact.engine.stories.reading import story_of
from compact.errors import CannotFit
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.messages import Message
from compact.messages.tokens import TokenCounter
from compact.models.providers.tokenizers import tokenizer
from compact.secrets.disguises import disguised
from compact.secrets.redaction import redact, secrets_of
from compact.transcripts.reading import read
from tests.pace import is_linear
from tests.sizes import size

OPENERS = (
    *("", "<", "[", "(", "{", "`", "```\n", '"', "'", "\\", "#", "**", "- ", "1. ", "| ", "> "),
    *("<think>", "<system-reminder>", "<system-reminder", "[Checkpoint ", "[GOAL] ", "User: "),
    *("Error: ", "https://a", "/a", "a@", "password=", "-----BEGIN PRIVATE KEY-----", "cd "),
    *("{,", "![", "«", "$", "We decided. ", "Option A. "),
)
REPEATED = (
    *(" ", "\n", "\t", " \n", "a", "A", "1", ".", "-", "_", "/", "\\", '"', "'", "`", "#", "*"),
    *(
        "<",
        ">",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "|",
        "=",
        ":",
        "a ",
        "A ",
        "Aa",
        "a_",
        "a-",
        "a.",
        "1.",
    ),
    *("中", "é", "\u3000", "。", "?", '\\"', "<a>", "</a>", "<a ", "<think>", "</think>", "</s>"),
    *("<system-reminder>", "<command-args>a", "[Goals ", "[Checkpoint ck-0 · ", "```\n", "- a\n"),
    *("| a ", "> a\n", "**a", "[a](", '{"a":', "[a (\n", "key: a", "eyJ", "sk-a", "://a:", "a=b&"),
    *("Cookie: a=", "curl -u a:", "</details>", "\n\n```text\n", "Error: a\n", "1. a\n", "a, "),
    *("„\n", "Observation: a\n\n"),
)


TOOL = '<tool-use data-tool-type="shell" data-tool-name="B"><details>\n'
TOOL += "<summary>Tool use: **B** x</summary>\n"
PAIRS = (
    ("password=", "ABCDEFG"),
    (f"{TOOL}a</details></tool-use>\n\n", TOOL),
    (f"{TOOL}", "**"),
    ("a\n# ", " "),
    ("a\n\n", "Tool output: x\n\n"),
    ("Tool output x", ":"),
)
"""What took long before."""


def texts(*, every: int) -> list[tuple[str, str]]:
    """What is repeated by itself, and behind each opener one of it in turn."""
    pairs = [("", each) for each in REPEATED]
    pairs += [
        (o, REPEATED[(7 * i + k) % len(REPEATED)]) for i, o in enumerate(OPENERS) for k in (0, 3)
    ]
    pairs += [(o, " ") for o in OPENERS]
    return [*PAIRS, *pairs[::every]]


def of_length(opener: str, piece: str, length: int) -> str:
    return opener + piece * (length // len(piece))


def talk(role: str, text: str) -> list[dict]:
    arguments = json.dumps({"command": text, "path": "a.py"}) if role == "arguments" else "{}"
    function = {"name": "run", "arguments": arguments}
    call = {"id": "c1", "type": "function", "function": function}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    came = {"role": "tool", "tool_call_id": "c1", "content": text if role == "tool" else "ok"}
    said = [asked, came] if role in ("arguments", "tool") else [{"role": role, "content": text}]
    after = {"role": "assistant", "content": "Done, and it works. " * 40}
    return [
        {"role": "user", "content": "Set up a.py"},
        *said,
        *[{"role": "user", "content": "Go on"}, after] * 4,
    ]


def compressed(role: str) -> Callable[[str], object]:
    return lambda text: compress(talk(role, text), max_tokens=600)


def added(text: str) -> None:
    ctx = ContextManager(window=200_000)
    for row in (*talk("user", text)[1:2], *talk("assistant", text)[1:2]):
        ctx.add_message(row)


def judged(text: str) -> object:
    counter = TokenCounter(tokenizer("o200k"))
    request = SummaryRequest(messages=[Message(role="user", content="Go on.")], max_tokens=500)
    summary = Summary(text=story_of(text), made_by="a model")
    return judge(summary, request, counter, extracted=None, source_tokens=900)


def unmasked(text: str) -> object:
    return disguised(redact(text).text, secrets_of([text, "password=hun" + "ter2xy"]))


SPECSTORY = "<!-- Claude Code Session 1 (2025-01-01 00:00:00Z) -->\n\n_**User**_\n\ngo\n\n---\n\n"
SPECSTORY += "_**Agent**_\n\n"
DOORS: dict[str, Callable[[str], object]] = {
    "redact": unmasked,
    "add_message": added,
    "plan": lambda text: plan(talk("user", text), max_tokens=600),
    "compress what a person says": compressed("user"),
    "compress what an assistant says": compressed("assistant"),
    "compress what a tool says": compressed("tool"),
    "compress what a tool is told": compressed("arguments"),
    "gate": judged,
    "transcript": lambda text: read((SPECSTORY + text).encode()),
    "JSON transcript": lambda text: read(json.dumps([{"role": "user", "content": text}]).encode()),
}


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.parametrize("name", DOORS)
def test_time_grows_as_the_text_does(name):
    """By day a part of the texts; at night all of them, three times as long."""

    def opened(text):
        with suppress(CannotFit):  # what is refused takes its time, too
            DOORS[name](text + "!")

    cases, length = texts(every=size(6, 1)), size(20_000, 60_000)
    slow = [(o, piece) for o, piece in cases if not is_linear(opened, of_length(o, piece, length))]
    assert slow == []
