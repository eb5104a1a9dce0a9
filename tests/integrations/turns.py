"""A hundred turns that any host goes through, and their judge: the server that it asks.

A turn is a question, a call of a tool, its result and an answer. The server speaks chat completions
and Responses, says what is next by the last message, and notes what each request held.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import httpx

from tests import checker
from tests.scripted import Call, Calls, Received, ScriptedServer
from tests.strategies import log

TURNS = 100
WINDOW, ANSWER = 4096, 64
SYSTEM = "You keep the harbour's lamps. Look before you answer."
HUGE = frozenset((20, 45, 70, 93))
"""Turns whose results are larger than the window."""
NEEDS: Mapping[int, str] = {
    3: "Never light the northern lamp before 17:30, whoever asks.",
    17: "The spare key hangs behind the blue door of shed 14.",
    42: "Write every date as 2031-05-17, never in words.",
    66: "We decided to buy the lenses in Kalmar, not in Visby.",
}
"""What the person says once, by turn."""
_WORDS = ("pier", "lens", "wick", "oil", "rain", "boat", "net", "wind", "grey", "water", "late")
Dicts = list[dict[str, Any]]


def question(turn: int) -> str:
    """What the person says in a turn."""
    said = f"Turn {turn}: how is lamp {turn} {_words(turn, 12)}?"
    return f"{said} {NEEDS[turn]}" if turn in NEEDS else said


def _words(seed: int, number: int) -> str:
    return " ".join(random.Random(seed).choices(_WORDS, k=number))


def inspect_lamp(lamp: int) -> str:
    """Look at a lamp and say how it is."""
    return f"Lamp {lamp}: {log(random.Random(lamp), 1_600 if lamp in HUGE else 24)}"


def _next(request: Received) -> Calls | str:
    """Call the tool after a question, answer after a result, sum up where that is asked."""
    last = request.messages[-1]
    if last.get("role") == "tool" or last.get("type") == "function_call_output":
        turn = sum("Turn " in text for text in _said(request))
        return f"It burns {_words(-turn, 16)}."
    found = [text for text in _said(request) if "Turn " in text]
    if not found or "Turn " not in str(last):
        return "They looked at lamps."  # a host's own summary
    number = int(found[-1].rpartition("Turn ")[2].partition(":")[0])
    return Calls([Call("inspect_lamp", {"lamp": number})])


def _said(request: Received) -> list[str]:
    return [text for m in request.messages if m.get("role") == "user" for text in _texts(m)]


def _texts(message: Mapping[str, Any]) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return [str(part.get("text", "")) for part in content or ()]


def tokens(body: Mapping[str, Any]) -> int:
    """Tokens of a request by the independent count: messages, instructions, schemas as JSON."""
    listed = body.get("messages", body.get("input"))
    messages = [{"role": "user", "content": listed}] if isinstance(listed, str) else listed
    tools = sum(checker.tokens(json.dumps(tool)) for tool in body.get("tools") or ())
    return checker.prompt_tokens(messages) + checker.tokens(body.get("instructions") or "") + tools


def asked_of(url: str) -> Callable[[Mapping[str, Any]], int]:
    """Return a count by a real llama.cpp server: what it takes, or refuses."""

    def count(body: Mapping[str, Any]) -> int:
        face = "responses" if "input" in body else "chat/completions"
        least = {"max_tokens": 1, "max_output_tokens": 1, "max_completion_tokens": 1}
        sent = {**body, **{k: v for k, v in least.items() if k in body}, "stream": False}
        sent["tool_choice"] = "none"
        answer = httpx.post(f"{url}/v1/{face}", json=sent, timeout=60).json()
        if "error" in answer:
            return int(answer["error"].get("n_prompt_tokens") or 0)
        usage = answer["usage"]
        return int(usage.get("prompt_tokens") or usage["input_tokens"])

    return count


class Judge(ScriptedServer):
    """The model that hosts ask. Nothing is refused, so that all go the whole way."""

    def __init__(self, window: int = WINDOW, count: Callable[[Any], int] = tokens) -> None:
        super().__init__(_next, count=count)
        self.limit = window

    @property
    def asked(self) -> list[Received]:
        """The requests of the conversation, without a host's own summaries."""
        return [each for each in self.prompts if each.body.get("tools")]

    @property
    def overflows(self) -> int:
        """How many requests are larger than the window."""
        return sum(each.tokens > self.limit for each in self.prompts)

    @property
    def broken_rules(self) -> list[str]:
        """What no provider takes, of all requests."""
        return [rule for each in self.prompts for rule in _broken(each)]

    @property
    def stable(self) -> float:
        """The share of each prompt that the next one begins with."""
        prompts = [json.dumps(_cached_part(each.body)) for each in self.asked]
        pairs = list(pairwise(prompts))
        same = sum(_common(*pair) for pair in pairs)
        return same / sum(len(before) for before, _ in pairs)

    def needs(self, request: Received) -> int:
        """How many of the planted sentences a request holds."""
        text = request.prompt
        return sum(said in text for said in NEEDS.values())


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    differ = (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differ, min(len(one), len(other)))


def _broken(request: Received) -> list[str]:
    wire = "responses" if "input" in request.body else "chat_completions"
    return checker.broken_rules(request.messages, wire)


def _cached_part(body: Mapping[str, Any]) -> list[Any]:
    """What a provider's cache begins with, in its order."""
    return [body.get(key) for key in ("tools", "instructions", "messages", "input") if key in body]
