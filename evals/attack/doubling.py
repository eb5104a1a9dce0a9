"""Part `time`: texts that a careless search reads again and again, at one, two and four times their
length; what takes more than in proportion, or over a second for each megabyte, is bad.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from compact import ContextManager, ExtractiveSummarizer, compress, wiring
from compact.engine.gate.rules import judge
from compact.errors import CompactError
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.messages import Message
from compact.messages.tokens import TokenCounter
from evals.attack.found import Found

LENGTHS = {"tiny": 2_000, "small": 16_000, "full": 32_000}
"""Characters of a text, before it is doubled twice."""
EVERY = {"tiny": 200, "small": 8, "full": 2}
"""Each so manieth pattern is tried."""
GROWTH = 2.2
"""Times as long for twice the text: more than that twice in a row is bad."""
FLOOR = 0.05
"""Seconds below which the machine's own noise is measured, not growth."""
A_MEGABYTE = 1.0
"""Seconds for each of them, over what the same call takes with a short text."""
ROLES = ("user", "assistant", "tool", "call")

PATTERNS: dict[str, tuple[str, str, str]] = {}
"""Name → what stands before, what is repeated, what ends it."""
for _unit in (
    "<", "<a", "<a ", "<a b=", '<a b="', "<!--", "<![CDATA[", "</", "<a>", "<system-reminder>",
    "<tool_result>\n", "<think>", "<|im_start|>", "[INST]", "[[", "[a](", "![", "![a](", "[a]: ",
    " ", "\t", "\n", " \n", "\r\n", "\u00a0", "\u200b", "\u2003 ", " a", "a ", ". ", ".", "...",
    '"', "'", "“", "”", '\\"', "\\", "\\\\n", "`", "``` ", "```\n", "~~~\n", "``", "$$", "*", "**a",
    "- ", "- a\n", "* \n", "1. ", "1.", "1) a\n", "# ", "## a\n", "#", "> ", ">> a\n", "| a ",
    "|\n", "(", "((a", ")", "{", "}", '{"a":', '[{"a": [', "[", "]", '{"a": "b", ', "[1,", '"a": ',
    "http://", "http://a.", "https://a/b?c=", "//", "/a", "../", "C:\\a\\", "a/b.py:", "a.b.", "@",
    "a@b.", "a@", "a=", "A_B=", "password=", "token: ", "sk-", "eyJ.", "Bearer ", "AKIA",
    "-----BEGIN ", "a", "A", "aB", "a_", "a-", "a'", "0", "0x", "1,", "1:", "12:", "2024-", "é",
    "中", "字。", "？", "ก", "\U0001f600", "e\u0301", "\x1b[0m", "\x1b[", "\x00", "\x08", "\u202e",
    "\ud800", "+a\n", "-a\n", "@@ -1 +1 @@\n", "--- a\n+++ b\n", "diff --git a b\n",
    '  File "a.py", line 1\n', "at a.b(c.d:1)\n", "Traceback (most recent call last):\n", "Error: ",
    "Caused by: ", "QUJD", "QUJD\n", "YWJj+/", "[GOAL] ", "[NEXT] a\n", "[CHECKPOINT] a - ",
    "[Checkpoint ck-", " · digest ", "m1, ", "never ", "if a then ", "Please ", "and ", "not ",
    "1\t", "$ a\n", "exit code 1\n", "a;", "a,", ", ", "%20",
):  # fmt: skip
    PATTERNS[repr(_unit)] = ("", _unit, "")
PATTERNS |= {
    "quote never closed": ('He said: "', "word ", ""),
    "string never closed": ('{"a": "', "\\\\a", "\n"),
    "code never closed": ("```python\n", "x = 1\n", ""),
    "tag never closed": ("<system-reminder>", "word ", "<"),
    "comment never closed": ("<!-- ", "- ", "x"),
    "link never closed": ("[", "a b ", "]("),
    "key never ended": ("-----BEGIN RSA PRIVATE KEY-----\n", "QUJDREVG\n", "!"),
    "heading never ended": ("[Checkpoint ck-1 · ", "a ", "· digest 00"),
    "blanks, then a letter": ("a", " ", "b"),
    "lines of blanks, then a letter": ("a", "\n \t", "b"),
    "one long sentence": ("I ", "want and ", "it."),
    "one long path": ("/", "ab/", "c.py"),
    "one long number": ("", "9", "."),
    "one long name": ("", "a_b.", "("),
    "nested calls": ("", "f(", ")" * 99),
    "nested objects": ("", '{"a": {"b": [', "}"),
    "an address of dots": ("http://", "a.", "/"),
    "an address of names": ("postgres://", "a:b@", "/"),
}


def text_of(pattern: tuple[str, str, str], length: int) -> str:
    """The pattern, so long."""
    before, unit, end = pattern
    return before + unit * ((length - len(before) - len(end)) // len(unit)) + end


def run(seed: int, size: str) -> list[Found]:
    """Measure each pattern in each place by each call; the seed says which ones are left out."""
    names = list(PATTERNS)[seed % EVERY[size] :: EVERY[size]]
    places = {
        **{f"compress, {role}": _compressing(role) for role in ROLES},
        **{f"session, {role}": _living(role) for role in ROLES},
        "gate": judging,
    }
    rows = [Found(f"time: {place}") for place in places]
    for row, call in zip(rows, places.values(), strict=True):
        for name in names:
            row.trying(wrong_with(name, partial(_called, call, PATTERNS[name]), size))
    return rows


def _called(call: Callable[[str], object], pattern: tuple[str, str, str], length: int) -> None:
    call(text_of(pattern, length))


def wrong_with(name: str, call: Callable[[int], object], size: str) -> Iterator[str]:
    """Whether the call takes too long for texts of such lengths."""
    length = LENGTHS[size]
    try:
        longest, base = _seconds(call, 4 * length), _seconds(call, 40)
        if longest - base <= FLOOR:
            return  # it is fast at its longest: however it grew, nobody waited
        middle, first = (min(_seconds(call, n * length) for _ in "12") for n in (2, 1))
        longest = min(longest, *(_seconds(call, 4 * length) for _ in "12"))
    except CompactError as error:
        yield f"{type(error).__name__}: {name} | {error}"
        return
    told = f"{name} | {longest:.2f} s for {4 * length:,} characters"
    if longest > FLOOR and longest > GROWTH * middle and middle > GROWTH * first:
        yield f"grows: {told}, {middle:.2f} s for half"
    elif longest - base > max(A_MEGABYTE * 4 * length / 1e6, FLOOR):
        yield f"slow: {told}"


def _seconds(call: Callable[[int], object], length: int) -> float:
    """Seconds of the processor that it takes."""
    start = time.process_time()
    call(length)
    return time.process_time() - start


def _around(role: str, text: str) -> list[dict[str, Any]]:
    """A conversation in which somebody says the text early on, so that it is summarized."""
    function = {"name": "run", "arguments": text if role == "call" else "{}"}
    call = {"id": "c1", "type": "function", "function": function}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": text if role == "user" else "Look at it."},
        {"role": "assistant", "content": text if role == "assistant" else "Looking.",
         "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": text if role == "tool" else "ok"},
    ]  # fmt: skip
    later = [
        {"role": ("assistant", "user")[n % 2], "content": f"Step {n} of the quay is done."}
        for n in range(70)
    ]
    return [{"role": "user", "content": "Mend the quay."}, *said, *later]


def _compressing(role: str) -> Callable[[str], object]:
    return lambda text: compress(_around(role, text), max_tokens=1_100)


def _living(role: str) -> Callable[[str], object]:
    def live(text: str) -> object:
        with ContextManager(window=2_000) as ctx:
            for message in _around(role, text):
                ctx.add_message(message)
            return ctx.get_context_for_model()

    return live


@cache
def _beside() -> tuple[SummaryRequest, Summary, TokenCounter]:
    """What a story is judged beside."""
    counter = wiring.token_counter("chat_completions", tokenizer="o200k")
    said = [Message(role="user", content=f"Step {n} of the quay is done.") for n in range(40)]
    request = SummaryRequest(messages=said, max_tokens=10_000_000)
    return request, ExtractiveSummarizer(counter).extracted(request), counter


def judging(text: str) -> object:
    """Have the gate judge it as a story."""
    request, extracted, counter = _beside()
    summary = Summary(text=text, made_by="model")
    return judge(summary, request, counter, extracted=extracted, source_tokens=10_000_000)
