"""Counts for the bench: cold counters, the tail count that plans are held against, and the judge
of every result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.histories import LAST_REQUEST, Record
from compact.messages.tokens import OPENAI_FRAMING
from compact.models.providers.tokenizers import TiktokenEstimator

O200K = TiktokenEstimator("o200k")
PER_MESSAGE = OPENAI_FRAMING.per_message
PER_CALL = OPENAI_FRAMING.per_call
REPLY_PRIMING = OPENAI_FRAMING.priming
"""Framing, the same for everybody and as compact counts it."""


class ColdEstimator:
    """The exact o200k tokenizer, not shared: counters made for it have counted nothing yet."""

    name = "o200k"
    exact = True
    is_pure = True
    lines = staticmethod(O200K.lines)

    def count(self, text: str) -> int:
        """Tokens of the text."""
        return O200K.count(text)


def tail_count(messages: Sequence[Record], budget: int) -> tuple[int, list[int]]:
    """The least work that finds an exact window: one scan of the roles, then counting from the end.

    Returns how many of the newest messages fit, and the positions of the system messages.
    """
    system = [i for i, message in enumerate(messages) if message["role"] in ("system", "developer")]
    count, left = O200K.count, budget - REPLY_PRIMING
    for i in system:
        left -= PER_MESSAGE + count(messages[i]["content"])
    kept = 0
    for message in reversed(messages):
        left -= PER_MESSAGE + count(message["content"] or "")
        for call in message.get("tool_calls", ()):
            function = call["function"]
            left -= PER_CALL + count(function["name"]) + count(function["arguments"])
        if message["role"] == "tool":
            left -= PER_CALL
        if left < 0:
            break
        kept += 1
    return kept, system


def common_count(messages: Sequence[Mapping[str, Any]]) -> int:
    """One count for everybody: o200k of content, tool names and arguments, 4 a message."""
    return tokenizer_pass(messages) + PER_MESSAGE * len(messages)


def tokenizer_pass(messages: Sequence[Mapping[str, Any]]) -> int:
    """Every text of the messages counted once: the floor of what reads them all."""
    return sum(map(tokens_of, messages))


def count_and_keep(kept: list[Mapping[str, Any]], message: Mapping[str, Any]) -> int:
    """The floor of a turn: the new texts are counted once, and the message is kept in a list."""
    kept.append(message)
    return tokens_of(message)


def tokens_of(message: Mapping[str, Any]) -> int:
    """o200k of a message's content, and of the names and arguments of its calls."""
    total = O200K.count(_text(message.get("content")))
    for call in message.get("tool_calls") or ():
        function = call["function"]
        total += O200K.count(function["name"]) + O200K.count(function["arguments"])
    return total


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a shortened prompt is one that may be sent."""

    tokens: int
    fits: bool
    pairs: bool
    system: bool
    newest: bool
    messages: int

    def cells(self) -> tuple[str, ...]:
        marks = (self.fits, self.pairs, self.system, self.newest)
        return (
            f"{self.messages:,}",
            f"{self.tokens:,}",
            *("yes" if mark else "NO" for mark in marks),
        )


VERDICT_HEAD = ("messages kept", "tokens", "fits", "pairs whole", "system kept", "newest user kept")


def verdict(result: Sequence[Mapping[str, Any]], history: Sequence[Record], budget: int) -> Verdict:
    """Judge a result in chat-completions form."""
    tokens = common_count(result)
    texts = {(message["role"], _text(message.get("content"))) for message in result}
    return Verdict(
        tokens=tokens,
        fits=tokens <= budget,
        pairs=pairs_whole(result),
        system=("system", history[0]["content"]) in texts,
        newest=("user", LAST_REQUEST) in texts,
        messages=len(result),
    )


def pairs_whole(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every call is answered right after it, and every result answers a call."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return False
            waiting.discard(str(message["tool_call_id"]))
            continue
        if waiting:
            return False
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
    return not waiting
