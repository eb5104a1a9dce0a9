"""Probe questions: what of a covered span a reader is asked, made by code from its notes.

A probe is a sentence of the span with one word left out, or a choice of which one answer is right;
so an answer is judged without another model. Kinds: `recall` (what a person said, and wants held
to), `artifact` (which file), `continuation` (what is still to do), `decision` and `error`. The same
span and seed give the same probes.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from compact.compression.extraction.notes import Line, Notes
from compact.core import anchors, sentences
from compact.core.messages import Message, visible_texts
from compact.core.redaction import redact
from compact.core.voices import person_text, voice_of

Kind = Literal["recall", "artifact", "continuation", "decision", "error"]
KINDS: tuple[Kind, ...] = ("recall", "artifact", "continuation", "decision", "error")
OF_EACH = 4
"""Probes of a kind that are asked of one checkpoint at most."""
CHOICES, CHECKS = 4, 2
BLANK = "____"
CLEAR_RULE = 0.4
"""Least score of a sentence of a person that is asked for as a rule."""
RECENT = 0.25
"""Share of a span, its end, in which what is said to be open still counts as open."""
LONGEST, LEAST_WORDS, LEAST_LETTERS = 240, 5, 5

_ANSWERED = " — answered: “"
"""What the notes put between a proposal and its answer."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_WRITTEN = "edited written wrote write edit changed created updated added patch replace"


@dataclass(frozen=True)
class Probe:
    """One question about a span, and its answer."""

    kind: Kind
    question: str
    answer: str
    about: str
    """The words by which the place is found where the answer stands."""
    choices: tuple[str, ...] = ()
    """Of which one is the answer; none where a word is left out."""

    @property
    def chance(self) -> float:
        """The share of such probes that whoever chooses blindly gets right."""
        return 1 / len(self.choices) if self.choices else 0.0


def words_of(text: str) -> frozenset[str]:
    """The words of a text in lower case, those of one letter and numbers left out."""
    return frozenset(word.lower() for word in _WORD.findall(text))


def probes_of(messages: Sequence[Message], seed: str) -> list[Probe]:
    """The probes of a span: of each kind as many as there are, at most `OF_EACH`, evenly drawn."""
    maker = _Maker(messages, random.Random(seed))
    found: list[Probe] = []
    for kind in KINDS:
        made = [p for p in dict.fromkeys(maker.made(kind)) if not _has_secret(p)]
        chosen = maker.draw.sample(range(len(made)), min(OF_EACH, len(made)))
        found += [made[number] for number in sorted(chosen)]
    return found


class _Maker:
    """What is known of a span, and how questions are made of it."""

    def __init__(self, messages: Sequence[Message], draw: random.Random) -> None:
        self.draw = draw
        self._messages = messages
        self._notes = Notes()
        self._notes.read(messages)
        self._frequency = Counter(
            word.lower() for text in visible_texts(messages) for word in _WORD.findall(text)
        )

    def made(self, kind: Kind) -> Iterator[Probe]:
        """All probes of a kind, in the order of the span."""
        match kind:
            case "recall":
                rules = [x.text for x in self._notes.instructions if x.score >= CLEAR_RULE]
                yield from self._clozes(kind, "The person set a rule", rules)
                said = (x for m in self._messages for x in sentences.tells(_words(m)))
                others = (x for x in said if x not in rules)
                yield from self._clozes(kind, "The person said", others)
            case "artifact":
                yield from self._files()
            case "continuation":
                yield from self._clozes(kind, "This is still to be done", self._open())
            case "decision":
                told = (x.text.split(_ANSWERED)[0] for x in self._told("decisions"))
                yield from self._clozes(kind, "This was decided, or put to the person", told)
            case "error":
                lines = (x.text for x in self._told("errors"))
                yield from self._clozes(kind, "This error came", self._notes.work.errors)
                yield from self._clozes(kind, "This was said to be wrong", lines)
                yield from self._checks()

    def _told(self, topic: sentences.Topic) -> Iterator[Line]:
        """What was said about it, mere announcements left out."""
        for line in self._notes.lines:
            if line.topic == topic and not sentences.is_filler(line.text):
                yield line

    def _clozes(self, kind: Kind, lead: str, lines: Iterable[str]) -> Iterator[Probe]:
        for line in lines:
            said = " ".join(line.split())
            answer = self._telling(said) if len(said) <= LONGEST else None
            if answer is None:
                continue
            about = re.sub(_whole(answer), BLANK, said)
            if len(words_of(about)) < LEAST_WORDS:
                continue
            question = f"{lead}. What stood at {BLANK}? “{about}”"
            yield Probe(kind, question, answer, about)

    def _telling(self, line: str) -> str | None:
        """The part of a line that says most: a name, else its rarest word; None where there is
        none.
        """
        named = sorted(a.text for a in anchors.find_all(line) if a.kind not in ("pair", "flag"))
        if named:
            return self.draw.choice(named)
        words = {word for word in _WORD.findall(line) if len(word) >= LEAST_LETTERS}
        plain = [word for word in words if word.isascii()]
        rarest = sorted(plain, key=lambda w: (self._frequency[w.lower()], -len(w), w))
        return rarest[0] if rarest else None

    def _files(self) -> Iterator[Probe]:
        """Which file was written to, and which one after something was said."""
        uses = self._notes.ledger.uses
        paths = {text: use for text, use in uses.items() if use.kind in ("path", "file")}
        edited = [text for text, use in paths.items() if use.edits]
        names = {_name(text) for text in edited}
        others = sorted(
            text
            for text in paths
            if _name(text) not in names and "." in _name(text) and ":" not in text
        )
        for file in edited:
            if len(others) < CHOICES - 1:
                break
            choices = [file, *self.draw.sample(others, CHOICES - 1)]
            self.draw.shuffle(choices)
            question = "Which of these files was written to?"
            yield Probe("artifact", question, file, _WRITTEN, tuple(choices))
        yield from self._written_after()

    def _written_after(self) -> Iterator[Probe]:
        log = Notes().work
        for position, message in enumerate(self._messages):
            files = [file for call in message.tool_calls for file in log.call(call, position)]
            said = list(sentences.tells(message.text)) if len(set(files)) == 1 else []
            if not said or len(said[-1]) > LONGEST:
                continue
            name = _name(files[0])
            if name and name.lower() not in said[-1].lower():
                question = f"Which file was written to right after saying this? “{said[-1]}”"
                yield Probe("artifact", question, name, said[-1])

    def _open(self) -> Iterator[str]:
        """What was left to do at the end of the span."""
        yield from (words for words, done in self._notes.work.tasks if not done)
        since = self._notes.position * (1 - RECENT)
        yield from (line.text for line in self._told("open") if line.position >= since)
        if self._notes.announced[0] >= since:
            yield self._notes.announced[1]

    def _checks(self) -> Iterator[Probe]:
        """How the last run of a command ended that tests, builds or lints."""
        for command, run in self._notes.work.checks()[:CHECKS]:
            outcome = "passed" if run.outcome is None else "failed"
            question = f"Had the last run of this command passed or failed? “{command}”"
            yield Probe("error", question, outcome, command, ("passed", "failed"))


def _has_secret(probe: Probe) -> bool:
    """Whether a secret would be asked for, or sent in a question."""
    return any(redact(text).found for text in (probe.answer, probe.question, *probe.choices))


def _words(message: Message) -> str:
    """What a person said; nothing where it is not a person's message."""
    return person_text(message) if voice_of(message) == "person" else ""


def _name(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]


def _whole(answer: str) -> str:
    """A pattern of the answer where it is not a part of a longer word."""
    return rf"(?<!\w){re.escape(answer)}(?!\w)"
