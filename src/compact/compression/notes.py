"""Notes: what the extractive summarizer takes down while it reads a span, message by message.

A fold that can be continued: reading the next span goes on where the last one ended, and memory is
bounded by caps, not by the history. What is written from the notes is decided in
`compression.extractive`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compact.core import anchors, sentences
from compact.core.anchors import Ledger
from compact.core.checkpoints import summary_of
from compact.core.instructions import Instruction, find_instructions
from compact.core.messages import Message, ToolCall, ToolResult
from compact.core.sentences import Topic
from compact.core.voices import person_text, voice_of

MOST_ANCHORS = 2_500
MOST_SENTENCES = 1_000
MOST_INSTRUCTIONS = 1_000
MOST_ERRORS = 40
MOST_COMMANDS = 200
SENTENCE_FADE = 80.0
"""Messages after which a sentence counts 1/e of a fresh one (above `OLD_SENTENCES`)."""
OLD_SENTENCES = 0.25
_TOPIC_WEIGHT: Mapping[Topic, float] = {
    "decisions": 1.6,
    "open": 1.3,
    "done": 1.2,
    "errors": 1.1,
    "facts": 0.9,
}
_EDIT_KEYS = frozenset(
    ("old_string", "new_string", "content", "patch", "diff", "new_str", "old_str")
)
_COMMAND_KEYS = frozenset(("command", "cmd", "script"))
_LONGEST_PATH = 300
_DONE = frozenset(("completed", "complete", "done", "finished"))


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence that may be told again."""

    text: str
    topic: Topic
    weight: float
    position: int
    anchors: tuple[str, ...]


@dataclass(slots=True)
class Notes:
    """What was read so far."""

    position: int = 0
    """How many messages were read."""
    ledger: Ledger = field(default_factory=Ledger)
    lines: list[Line] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Id and words of the first and the newest messages of a person."""
    errors: dict[str, int] = field(default_factory=dict)
    commands: dict[str, list[int]] = field(default_factory=dict)
    tools: dict[str, Counter[str]] = field(default_factory=dict)
    """Tool name → how often it was called (under the empty key) and with which arguments."""
    tasks: list[tuple[str, bool]] = field(default_factory=list)
    """The newest task list a tool was given: words and whether done."""

    def read(self, messages: Iterable[Message]) -> None:
        """Take down what the next messages hold."""
        for message in messages:
            self._read(message)
            self.position += 1
        self.ledger.trim(self.position, MOST_ANCHORS)
        self._trim()

    def _read(self, message: Message) -> None:
        match voice_of(message):
            case "person":
                self._read_person(message)
            case "checkpoint":
                self._read_prose(summary_of(message.text), "assistant", 1.5)
            case "assistant":
                self._read_prose(message.text, "assistant", 1.0)
            case "system" | "injected":
                pass
            case _ if message.text:
                self._read_output(message.text, failed=False)
        for call in message.tool_calls:
            self._read_call(call)
        for result in message.tool_results:
            self._read_result(result)

    def _read_person(self, message: Message) -> None:
        words = person_text(message)
        self.ledger.note(words, "person", self.position)
        self.instructions.extend(find_instructions(words, message.id, self.position))
        if len(self.requests) > 1:
            self.requests.pop()
        self.requests.append((message.id, words))

    def _read_prose(self, text: str, origin: anchors.Origin, worth: float) -> None:
        self.ledger.note(text, origin, self.position)
        for sentence in sentences.tells(text):
            if len(sentence) > 2 * sentences.LONG_LINE:
                continue
            topic = sentences.topic_of(sentence)
            weight = worth * _TOPIC_WEIGHT[topic]
            if sentences.is_filler(sentence):
                weight *= 0.25
            if sentence.endswith(("?", "？")):
                weight *= 0.5
            named = tuple(a.text for a in anchors.find(sentence))
            self.lines.append(Line(sentence, topic, weight, self.position, named))

    def _read_call(self, call: ToolCall) -> None:
        tool = self.tools.setdefault(call.name, Counter())
        tool[""] += 1
        tool.update(anchors.keys_of(call.arguments))
        values = list(anchors.strings_of(call.arguments))
        note_call(self.ledger, call, self.position)
        if any(key in _EDIT_KEYS for key, _ in values):
            for key, value in values:
                if key not in _EDIT_KEYS and len(value) < _LONGEST_PATH:
                    self.ledger.edited(value)
        for key, value in values:
            if key in _COMMAND_KEYS and value.strip():
                line = value.strip().splitlines()[0][:160]
                self.commands.setdefault(line, []).append(self.position)
        if '"status"' in call.arguments:
            self.tasks = _task_list(call) or self.tasks

    def _read_result(self, result: ToolResult) -> None:
        self._read_output(result.text, failed=result.is_error)

    def _read_output(self, text: str, *, failed: bool) -> None:
        self.ledger.note(text, "result", self.position)
        found = anchors.error_lines(text, most=3)
        if failed and not found:
            found = [line for line in (anchors.failure(text),) if line]
        for line in found:
            self.errors.pop(line, None)
            self.errors[line] = self.position

    def _trim(self) -> None:
        if len(self.lines) > 2 * MOST_SENTENCES:
            ranked = sorted(self.lines, key=lambda x: -self.freshness(x.position) * x.weight)
            self.lines = sorted(ranked[:MOST_SENTENCES], key=lambda x: x.position)
        if len(self.instructions) > 2 * MOST_INSTRUCTIONS:
            best = sorted(self.instructions, key=lambda x: (-x.score, -x.position))
            self.instructions = sorted(best[:MOST_INSTRUCTIONS], key=lambda x: x.position)
        while len(self.errors) > MOST_ERRORS:
            del self.errors[next(iter(self.errors))]
        while len(self.commands) > MOST_COMMANDS:
            del self.commands[min(self.commands, key=lambda c: self.commands[c][-1])]

    def freshness(self, position: int) -> float:
        """How much something said at a position counts now, `OLD_SENTENCES` to about 1."""
        return OLD_SENTENCES + math.exp((position - self.position) / SENTENCE_FADE)


def note_call(ledger: Ledger, call: ToolCall, position: int) -> None:
    """Note the anchors of a tool call's arguments; what is written to files weighs as an edit."""
    for key, value in anchors.strings_of(call.arguments):
        ledger.note(value, "edit" if key in _EDIT_KEYS else "arguments", position)


def note_all(ledger: Ledger, messages: Iterable[Message], position: int) -> None:
    """Note every anchor of messages that a reader sees shortened only, as of one position."""
    for message in messages:
        ledger.note(message.text, "person" if message.role == "user" else "assistant", position)
        for call in message.tool_calls:
            note_call(ledger, call, position)
        for result in message.tool_results:
            ledger.note(result.text, "result", position)


def _task_list(call: ToolCall) -> list[tuple[str, bool]]:
    """The tasks of a tool call that keeps a list of them: objects with a status and some words."""
    import json

    try:
        arguments: Any = json.loads(call.arguments)
    except ValueError:
        return []
    if not isinstance(arguments, dict):
        return []
    for value in arguments.values():
        if (
            isinstance(value, list)
            and value
            and all(isinstance(x, dict) and "status" in x for x in value)
        ):
            tasks = [
                (
                    str(
                        x.get("content")
                        or x.get("title")
                        or x.get("step")
                        or x.get("description")
                        or ""
                    ),
                    x,
                )
                for x in value
            ]
            return [(words, str(x["status"]).lower() in _DONE) for words, x in tasks if words]
    return []
