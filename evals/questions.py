"""Probe questions: what of a covered span a reader is asked, made by code from our own notes.

What stood in the span is asked from notes of it; where it stands now, tasks and checks, from notes
that are read over the whole session, since a later message may have finished what the span left
open. A probe is a sentence with one word left out, or a choice of which one answer is right; so an
answer is judged without another model. Kinds: `recall` (what a person said),
`artifact` (which file), `continuation` (what is still to do), `decision` and `error`. The same span
and seed give the same probes.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from compact.engine.chronology.notes import Notes
from compact.engine.chronology.work import WorkLog
from compact.messages.messages import Message, visible_texts
from compact.secrets.redaction import redact
from compact.text import anchors, sentences
from compact.text.speakers import person_text, speaker_of

Kind = Literal["recall", "artifact", "continuation", "decision", "error"]
KINDS: tuple[Kind, ...] = ("recall", "artifact", "continuation", "decision", "error")
OF_EACH = 4
"""Probes of a kind that are asked of one checkpoint at most."""
CHOICES, CHECKS = 4, 2
BLANK = "____"
RECENT = 0.25
"""Share of a span, its end, in which what is said to be open still counts as open."""
LONGEST, LEAST_WORDS, LEAST_LETTERS = 240, 5, 5

_WORD = re.compile(r"[^\W\d_]{2,}(?![\w'’])")
"""A whole word, and no part of one with an apostrophe."""
_HEADING = re.compile(r"^\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$)|[:：]\s*$")
"""A heading, or a line that only announces the lines below it."""
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


def probes_of(
    messages: Sequence[Message], seed: str, *, session: Sequence[Message] | None = None
) -> list[Probe]:
    """The probes of a span: of each kind as many as there are, at most `OF_EACH`, evenly drawn;
    `session` is all that the span is a part of, None where it is the whole.
    """
    maker = _Maker(messages, session or messages, random.Random(seed))
    found: list[Probe] = []
    for kind in KINDS:
        made = [p for p in dict.fromkeys(maker.made(kind)) if not _has_secret(p)]
        chosen = maker.draw.sample(range(len(made)), min(OF_EACH, len(made)))
        found += [made[number] for number in sorted(chosen)]
    return found


class _Maker:
    """What is known of a span, and how questions are made of it."""

    def __init__(
        self, messages: Sequence[Message], session: Sequence[Message], draw: random.Random
    ) -> None:
        self.draw = draw
        self._messages = messages
        self._notes = Notes().read(messages)
        self._now = Notes().read(session)
        self._frequency = Counter(
            word.lower() for text in visible_texts(messages) for word in _WORD.findall(text)
        )

    def made(self, kind: Kind) -> Iterator[Probe]:
        """All probes of a kind, in the order of the span."""
        match kind:
            case "recall":
                said = (x for m in self._messages for x in _tells(_words(m)))
                yield from self._clozes(kind, "The person said", said)
            case "artifact":
                yield from self._files()
            case "continuation":
                yield from self._clozes(kind, "This is still to be done", self._open())
            case "decision":
                lead = "This was decided, or put to the person"
                yield from self._clozes(kind, lead, self._decided())
            case "error":
                yield from self._clozes(kind, "This error came", self._failing())
                yield from self._clozes(kind, "This was said to be wrong", self._told("errors"))
                yield from self._checks()

    def _failing(self) -> Iterator[str]:
        """What failed in the span and did not go well since."""
        last = {deed.what: deed.kind for deed in self._now.work.deeds}
        for deed in self._notes.work.deeds:
            if deed.kind == "failed" == last.get(deed.what):
                yield deed.came_to

    def _told(self, topic: sentences.Topic, since: float = 0) -> Iterator[str]:
        """What the assistant said about it."""
        for position, message in enumerate(self._messages):
            if position >= since and speaker_of(message) == "assistant":
                for line in _tells(message.text):
                    for said in sentences.sentences_of(line):
                        if sentences.topic_of(said) == topic:
                            yield said

    def _decided(self) -> Iterator[str]:
        """What persons answered or refused, with what was asked, and what the assistant decided."""
        for item in self._notes.items.rows:
            if item.before:
                yield item.before
                yield item.text
        yield from self._told("decisions")

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
        work = self._notes.work
        edited = {_name(file) for file in work.files}
        others = sorted({_name(file) for file in work.read} - edited)
        for file in sorted(edited):
            if len(others) < CHOICES - 1:
                break
            choices = [file, *self.draw.sample(others, CHOICES - 1)]
            self.draw.shuffle(choices)
            question = "Which of these files was written to?"
            yield Probe("artifact", question, file, _WRITTEN, tuple(choices))
        yield from self._written_after()

    def _written_after(self) -> Iterator[Probe]:
        log = WorkLog()
        for position, message in enumerate(self._messages):
            files = [file for call in message.tool_calls for file in log.call(call, position)]
            said = list(_tells(message.text)) if len(set(files)) == 1 else []
            if not said or len(said[-1]) > LONGEST:
                continue
            name = _name(files[0])
            if name and name.lower() not in said[-1].lower():
                question = f"Which file was written to right after saying this? “{said[-1]}”"
                yield Probe("artifact", question, name, said[-1])

    def _open(self) -> Iterator[str]:
        """What was left to do at the end of the span, and is not done since."""
        still = self._now.work.open_tasks()
        yield from (words for words in self._notes.work.open_tasks() if words in still)
        yield from self._told("open", self._notes.position * (1 - RECENT))

    def _checks(self) -> Iterator[Probe]:
        """How the last run of a command ended that tests, builds or lints."""
        now = self._now.work.checked
        checked = [now[kind] for kind in self._notes.work.checked if kind in now]
        for check in checked[-CHECKS:]:
            outcome = "passed" if check.passed else "failed"
            question = f"Had the last run of this command passed or failed? “{check.step}”"
            yield Probe("error", question, outcome, check.step, ("passed", "failed"))


def _tells(text: str) -> Iterator[str]:
    """Lines of prose that say something by themselves: no headings, no announcements, no scraps."""
    kept = "\n".join(line for line in text.splitlines() if not _HEADING.search(line))
    for line in sentences.lines_of(kept):
        if len(line) >= sentences.SHORTEST and (line.count(" ") >= 4 or not line.isascii()):
            yield line


def _has_secret(probe: Probe) -> bool:
    """Whether a secret would be asked for, or sent in a question."""
    return any(redact(text).found for text in (probe.answer, probe.question, *probe.choices))


def _words(message: Message) -> str:
    """What a person said; nothing where it is not a person's message."""
    return person_text(message) if speaker_of(message) == "person" else ""


def _name(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]


def _whole(answer: str) -> str:
    """A pattern of the answer where it is not a part of a longer word."""
    return rf"(?<!\w){re.escape(answer)}(?!\w)"
