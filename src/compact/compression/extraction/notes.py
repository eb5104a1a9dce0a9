"""Notes: what the extractive summarizer takes down while it reads a span, message by message.

A fold that can be continued: reading the next span goes on where the last one ended, and memory is
bounded by caps, not by the history. What tools did is taken down in `compression.work`; what is
written from the notes is decided in `compression.extractive`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from compact.compression.extraction.work import EDIT_KEYS, WorkLog
from compact.core import anchors, sentences
from compact.core.anchors import Ledger
from compact.core.checkpoints import summary_of
from compact.core.instructions import Instruction, find_instructions, score_of
from compact.core.messages import Message, ToolCall, ToolResult
from compact.core.own_text import kind_of
from compact.core.recalls import asks
from compact.core.sentences import Topic
from compact.core.voices import person_text, voice_of

MOST_ANCHORS = 2_500
MOST_SENTENCES = 1_000
MOST_INSTRUCTIONS = 1_000
SENTENCE_FADE = 80.0
"""Messages after which a sentence counts 1/e of a fresh one (above `OLD_SENTENCES`)."""
PLAN_FADE = 12.0
"""The same for a step that was only announced: it is done by then, or overtaken."""
OLD_SENTENCES = 0.25
DECIDED = 2.2
"""Weight of what a person agreed to, chose or refused."""
_TOPIC_WEIGHT: Mapping[Topic, float] = {
    "decisions": 1.6,
    "open": 1.3,
    "plan": 1.0,
    "done": 1.2,
    "errors": 1.1,
    "facts": 0.9,
}
GOAL, INSTRUCTIONS = "Goal", "Instructions"
GOAL_LABEL = re.compile(r"^- (?:First asked|Last asked here) \([^)]*\): ", re.MULTILINE)
"""How the lines of a summary's goal begin."""
LISTED = frozenset(("Commands", "Tools", "Files", "Names", "Now"))
"""Sections of a summary of ours that hold no prose."""
SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
REFERENCE = re.compile(r"\d+ more, ")
"""How the line begins that names the messages of rules that found no room."""
KEPT_RULE = 0.6
"""Least score of an instruction that an earlier summary has kept."""
_LONGEST_ANSWER = 160
_ANSWER = re.compile(
    r"(?:yes|yep|yeah|yup|ok(?:ay)?|sure|agreed|perfect|great|good|exactly|do (?:it|that|this)|"
    r"go (?:ahead|with|for)|let's|sounds good|no|nope|don't|not |stop|wait|leave it|skip|"
    r"ja|nein|gut|einverstanden|mach|好|是|不|可以|同意)\b|(?:好|是|不|可以|同意)|"
    r"[^.?!]{0,40}\b(?:option|approach|fix|variant|version|number|way)\s*#?[0-9A-Da-d]\b",
    re.IGNORECASE,
)
_CHOICE = re.compile(r"\b(?:option|approach|fix|variant|version|number|way)?\s*#?([1-9A-D])\b")
_OPTION = re.compile(
    r"^\s*(?:\*\*)?(?:option|approach|variant)?\s*([1-9A-D])\s*[.:)]", re.IGNORECASE
)
_PROPOSAL = re.compile(
    r"[?？]\s*$|\b(?:recommend|suggest|propos(?:e|al)|would you like|shall i|should i|i'd go with|"
    r"want me to|empfehle|soll ich|schlage vor)\b|建议|要不要",
    re.IGNORECASE,
)
_QUOTED_WORDS = re.compile(r"\b(?:the )?user said:?\s*", re.IGNORECASE)
"""How a tool's refusal introduces the words a person gave as the reason."""


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
    work: WorkLog = field(default_factory=WorkLog)
    announced: tuple[int, str] = (0, "")
    """Where, and what the assistant said it would do next."""
    _proposal: str = ""
    _options: dict[str, str] = field(default_factory=dict)

    def read(self, messages: Iterable[Message], answers: Mapping[str, str] | None = None) -> None:
        """Take down what the next messages hold, and what was answered to them elsewhere."""
        for message in messages:
            self._read(message)
            if answers and message.id in answers:
                self._read_answer(answers[message.id])
            self.position += 1
        self.ledger.trim(self.position, MOST_ANCHORS)
        self.work.trim()
        self._trim()

    def _read(self, message: Message) -> None:
        match voice_of(message):
            case "person":
                self._read_person(message)
            case "checkpoint":
                self._read_checkpoint(summary_of(message.text), message.id)
            case "assistant":
                self._read_prose(message.text, 1.0)
                self._remember_proposals(message.text)
            case "system" | "injected":
                pass
            case _ if message.text:
                self.ledger.note(message.text, "result", self.position)
                self.work.observed(message.text, self.position)
        for call in message.tool_calls:
            if asks(call):
                continue
            note_call(self.ledger, call, self.position)
            for file in self.work.call(call, self.position):
                self.ledger.edited(file)
        for result in message.tool_results:
            self._read_result(result, message.id)

    def _read_person(self, message: Message) -> None:
        words = person_text(message)
        self.ledger.note(words, "person", self.position)
        self.instructions.extend(find_instructions(words, message.id, self.position))
        if len(self.requests) > 1:
            self.requests.pop()
        self.requests.append((message.id, words))
        self._read_answer(words)

    def _read_checkpoint(self, text: str, message_id: str) -> None:
        """Take over an earlier summary: what our sections say keeps its place, else it is prose."""
        parts = SECTION.split(text)
        if len(parts) == 1:
            self._read_prose(text, 1.2)
        for title, body in zip(parts[1::2], parts[2::2], strict=True):
            if title in (GOAL, INSTRUCTIONS):
                self._take_over_rules(GOAL_LABEL.sub("- ", body), message_id)
            elif title in LISTED:
                self.ledger.note(body, "assistant", self.position)
            else:
                self._read_prose(body, 1.2)

    def _take_over_rules(self, body: str, message_id: str) -> None:
        for line in body.splitlines():
            words = line.removeprefix("- ").strip()
            if not words or REFERENCE.match(words):
                continue
            score = max(KEPT_RULE, score_of(words))
            same = " ".join(words.lower().split())
            self.instructions.append(Instruction(words, score, message_id, self.position, same))

    def _read_answer(self, words: str) -> None:
        """A person's short answer to a proposal decides it: both are told together."""
        answer = words.strip().splitlines()[0] if words.strip() else ""
        if self._proposal and len(answer) <= _LONGEST_ANSWER and _ANSWER.match(answer):
            chosen = _CHOICE.search(answer)
            proposal = self._options.get(chosen[1].upper() if chosen else "", self._proposal)
            text = f"{proposal} — answered: “{answer}”"
            named = tuple(a.text for a in anchors.find(text))
            self.lines.append(Line(text, "decisions", DECIDED, self.position, named))
        self._proposal, self._options = "", {}

    def _remember_proposals(self, text: str) -> None:
        for raw in text.splitlines():
            if option := _OPTION.match(raw):
                self._options[option[1].upper()] = sentences.bare(raw)
        for line in sentences.lines_of(text):
            if sentences.is_filler(line):
                self.announced = self.position, line
            if _PROPOSAL.search(line) and len(line) <= 2 * _LONGEST_ANSWER:
                self._proposal = line

    def _read_prose(self, text: str, worth: float) -> None:
        self.ledger.note(text, "assistant", self.position)
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

    def _read_result(self, result: ToolResult, message_id: str) -> None:
        if kind_of(result.text):  # it was said before, and taken down there
            return
        note_result(self.ledger, result, self.position)
        self.work.result(result, self.position)
        if result.is_error and (said := _QUOTED_WORDS.search(result.text)):
            words = result.text[said.end() :]
            self.instructions.extend(find_instructions(words, message_id, self.position))

    def _trim(self) -> None:
        if len(self.lines) > 2 * MOST_SENTENCES:
            ranked = sorted(self.lines, key=lambda x: -self.worth(x))
            self.lines = sorted(ranked[:MOST_SENTENCES], key=lambda x: x.position)
        if len(self.instructions) > 2 * MOST_INSTRUCTIONS:
            best = sorted(self.instructions, key=lambda x: (-x.score, -x.position))
            self.instructions = sorted(best[:MOST_INSTRUCTIONS], key=lambda x: x.position)

    def worth(self, line: Line) -> float:
        """A line's weight, faded by its age; without regard to what it names."""
        age = self.position - line.position
        if line.topic == "plan":
            return line.weight * math.exp(-age / PLAN_FADE)
        return line.weight * (OLD_SENTENCES + math.exp(-age / SENTENCE_FADE))

    def freshness(self, position: int) -> float:
        """How much something said at a position counts now, `OLD_SENTENCES` to about 1."""
        return OLD_SENTENCES + math.exp((position - self.position) / SENTENCE_FADE)


def note_call(ledger: Ledger, call: ToolCall, position: int) -> None:
    """Note the anchors of a tool call's arguments; what is written to files weighs as an edit. Who
    asks for what was said before names nothing new.
    """
    if asks(call):
        return
    for key, value in anchors.strings_of(call.arguments):
        ledger.note(value, "edit" if key in EDIT_KEYS else "arguments", position)


def note_result(ledger: Ledger, result: ToolResult, position: int) -> None:
    """Note the anchors of a tool's output; not of what was recalled, which was said before."""
    if kind_of(result.text) is None:
        ledger.note(result.text, "result", position)


def note_all(ledger: Ledger, messages: Iterable[Message], position: int) -> None:
    """Note every anchor of messages that a reader sees shortened only, as of one position."""
    for message in messages:
        ledger.note(message.text, "person" if message.role == "user" else "assistant", position)
        for call in message.tool_calls:
            note_call(ledger, call, position)
        for result in message.tool_results:
            note_result(ledger, result, position)
