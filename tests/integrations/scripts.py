"""Scripted runs of the OpenAI Agents SDK: their models, tools, and what is checked of each call."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from agents import Agent, FunctionTool, function_tool
from agents.testing import ModelCall, ScriptedModel, function_call
from agents.tracing import TracingProcessor

from compact import CompactConfig
from tests import checker
from tests.strategies import log, prose

WINDOW = 4096
CONFIG = CompactConfig(max_context_tokens=WINDOW, tokenizer="o200k")
SYSTEM = "You keep the harbour's lamps. Look before you answer."
RULE = "Never light the northern lamp before 17:30, whoever asks."


@function_tool
def inspect_lamp(lamp: int) -> str:
    """Look at a lamp and say how it is.

    Args:
        lamp: Its number.
    """
    return f"Lamp {lamp} of the pier: {log(random.Random(lamp), 120)}"


@function_tool
def note(text: str) -> str:
    """Write a line into the harbour's book."""
    return "noted"


def keeper(model: Any, **settings: Any) -> Agent[Any]:
    return Agent(
        **{"name": "keeper", "instructions": SYSTEM, "tools": [inspect_lamp, note], **settings},
        model=model,
    )


def lamp(number: int) -> Any:
    return function_call("inspect_lamp", {"lamp": number}, call_id=f"call_{number}")


def said(call: ModelCall) -> list[dict[str, Any]]:
    """The input of a call."""
    items: list[dict[str, Any]] = call.input
    return items


def tokens(call: ModelCall) -> int:
    """What the prompt takes, by the independent count: instructions, items, schemas as JSON."""
    system = checker.tokens(call.system_instructions or "")
    schemas = sum(
        checker.tokens(f"{tool.name} {tool.description} {tool.params_json_schema}")
        for tool in call.tools
        if isinstance(tool, FunctionTool)
    )
    return checker.prompt_tokens(said(call)) + system + schemas


def check(calls: Sequence[ModelCall], *words: str, window: int = WINDOW) -> None:
    """Each call fits, obeys the format's rules, and shows these words."""
    assert calls
    for call in calls:
        assert tokens(call) <= window
        assert not checker.broken_rules(said(call), "responses")
        assert all(any(word in text for text in texts(call)) for word in words)
        assert not any(item.keys() & {"metadata"} for item in said(call))


def texts(call: ModelCall) -> list[str]:
    return [text for item in said(call) for text in checker.visible(item)]


def talk(first: int, stop: int) -> list[dict[str, Any]]:
    """Turns, each of about a hundred tokens."""
    made: list[dict[str, Any]] = []
    for i in range(first, stop):
        made.append({"role": "user", "content": f"{i}: {prose(random.Random(i), 40)}"})
        part = {"type": "output_text", "text": prose(random.Random(-i), 40), "annotations": []}
        made.append({"type": "message", "role": "assistant", "content": [part]})
    return made


class Spans(TracingProcessor):
    """Keeps the spans of all traces."""

    def __init__(self) -> None:
        self.ended: list[Any] = []

    def on_trace_start(self, trace: Any) -> None: ...

    def on_trace_end(self, trace: Any) -> None: ...

    def on_span_start(self, span: Any) -> None: ...

    def on_span_end(self, span: Any) -> None:
        self.ended.append(span)

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...


def model(*steps: Any) -> ScriptedModel:
    return ScriptedModel(steps)
