"""The ledger of turns: what a person asked, what was said and done about it, what came of it.

A turn begins at a person's words and ends before the next ones. The assistant's last words in it
are its *closing*: the account that was given of the turn. What was said on the way is *narration*.
A fold over messages; memory is bounded by caps. What is told of it is decided in `story`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal, NamedTuple

from compact.core import anchors, sentences
from compact.core.lexicon import concedes, is_reply
from compact.core.messages import short_id
from compact.core.sentences import LONG_LINE

MOST_TURNS = 400
"""Turns of which more than the first words are remembered."""
MOST_STATEMENTS = 60
"""Statements of one answer, and of what was said on the way in one turn."""
MOST_PARAGRAPHS = 40
"""Sentences of a person in one turn."""
MOST_FILES, MOST_NAMES, MOST_WRITES = 40, 120, 200
"""Files of one turn, and names of and writes to one file."""
LONGEST_REPLY = 160
"""Characters of the longest first line that is taken for the answer to a question."""
LONGEST_QUESTION, FEW_WORDS = 400, 8
"""Characters that are kept of a question, of an option or of an answer; and words of a question
below which the sentence before it is kept with it."""
MOST_JUDGED = 40
"""Turns by which is judged who talks."""
LONG_TEXT = 2_000
"""Characters of a message from which its size is told, where most of it is not told."""
LONGEST_WHY = 140
"""Characters of what was said before a file was written, to be told with it."""
_OPTION = re.compile(r"^[\s>*_|-]*(?:(?P<kind>[^\W\d]{4,12}) )?\(?(?P<id>[1-9A-Da-d])[.:)][*_]*\s+")
"""How an option in a list of them opens: a number or letter, maybe behind a word like `Option`."""
_CHOICE = re.compile(
    r"(?:\b(?P<kind>[^\W\d]{4,12}) )?(?<![\w#./-])#?(?P<id>[1-9A-D])(?![\w/-]|\.\d)"
)
_ROW = re.compile(r"^\s*\|(.+)\|\s*$")
_ITEM = re.compile(r"^(?:[-*+•]|\(?\d{1,3}[.)])\s")
"""How an item of a list opens."""
_RULE = re.compile(r"^[\s|:=_*-]+$")
_HEADING = re.compile(r"^\s*#{1,6}\s")
_LEADS = re.compile(r"[:：][*_]*\s*$")
_BARE_COMMAND = re.compile(r"/[a-z][\w:-]*")
"""A word for the program itself, such as `/exit`."""
NAMED = re.compile(r"[A-ZÀ-ÞА-Я][\w'.-]*(?: [A-ZÀ-ÞА-Я][\w'.-]*){0,2}: ")
"""How words open that say themselves who speaks."""
_TASK_BOX = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+\[([ xX])\]\s+(.+)$")

Speaker = Literal["person", "assistant"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, a list item or a table's row that somebody said."""

    text: str
    names: tuple[str, ...] = ()
    """The facts in it that are kept word for word."""
    under: str = ""
    """The heading or the line that leads to it."""
    is_plan: bool = False
    """Whether it only announces what its speaker is about to do."""
    position: int = 0
    """Where in the log it was said."""

    @property
    def is_sentence(self) -> bool:
        """Whether it is more than a fragment."""
        return self.text.count(" ") >= 4 or not self.text.isascii()

    @property
    def asks(self) -> bool:
        """Whether it is a question."""
        return self.text.endswith(("?", "？"))


class Write(NamedTuple):
    """A file was written to."""

    position: int
    why: str
    """What was said just before."""
    why_at: int
    """Where that was said."""


@dataclass(slots=True)
class Touched:
    """A file that a turn was about."""

    writes: list[Write] = field(default_factory=list)
    """When and why it was written to, the newest last."""
    defined: dict[str, int] = field(default_factory=dict)
    """The names that were defined in what was written → where first."""
    edited: dict[str, int] = field(default_factory=dict)
    """The names in what was written → where first; the newest last."""
    names: dict[str, None] = field(default_factory=dict)
    """The names that were seen in it, the newest last."""

    def written(self, first: int, last: int) -> Write | None:
        """How it was written last from a position to before another one."""
        return next((w for w in reversed(self.writes) if first <= w.position < last), None)


@dataclass(slots=True)
class Turn:
    """What a person said, and what came of it."""

    position: int
    message_id: str
    words: tuple[Statement, ...] = ()
    question: str = ""
    """What the words answer, where they only make sense as an answer."""
    closing: tuple[Statement, ...] = ()
    narration: list[Statement] = field(default_factory=list)
    touched: dict[str, Touched] = field(default_factory=dict)
    """What was read and written, by file; the newest last."""
    commits: list[Statement] = field(default_factory=list)
    calls: int = 0
    """Tools that were called."""
    outcomes: list[Statement] = field(default_factory=list)
    """What calls that are about no file and no command came to."""
    is_answered: bool = False
    """Whether words of the assistant stand after its last call."""
    concedes: bool = False
    """Whether its first answer takes back what was said before."""
    is_stopped: bool = False
    """Whether the person refused its last call."""
    last: int = 0
    """The position of its last message."""

    @property
    def said(self) -> str:
        """The words with which it began."""
        return " ".join(s.text for s in self.words if s.position == self.position)

    @property
    def is_empty(self) -> bool:
        """Whether nobody would miss it: a greeting, thanks, a ritual."""
        if not self.words:
            return not (self.calls or self.closing or self.narration)
        if self.question or self.calls or len(self.closing) > 1:
            return False
        said = " ".join(s.text for s in self.words)
        return is_reply(said) or _BARE_COMMAND.fullmatch(said) is not None

    def repeats(self, other: Turn) -> bool:
        """Whether it says again what the other one asked for, which was not answered."""
        if other.is_answered or other.calls:
            return False
        mine, theirs = _words_of(self), _words_of(other)
        return len(mine & theirs) > 0.7 * max(1, len(theirs))


def _sized(
    said: Sequence[Statement], text: str, whole: str, message_id: str, position: int
) -> Statement:
    """The first words of a long text, with its size and the id that brings it back."""
    first = said[0] if said else Statement(" ".join(text.strip().split("\n", 1)[0].split()))
    begins = first.text.rstrip(":： ")[: 2 * LONG_LINE]
    size = f"{1 + whole.count(chr(10)):,} lines, {len(whole):,} characters: {short_id(message_id)}"
    return Statement(f"{begins} [{size}]".strip(), first.names, first.under, position=position)


def _words_of(turn: Turn) -> set[str]:
    return set(" ".join(s.text for s in turn.words).lower().split())


@dataclass(slots=True)
class Turns:
    """The turns so far, in the order of the log."""

    rows: list[Turn] = field(default_factory=list)
    asked: str = ""
    """The question or proposal with which the assistant's last words end."""
    options: dict[str, str] = field(default_factory=dict)
    """What could be chosen there, by letter or number."""
    said_last: str = ""
    """The last sentence of the assistant, unless it only announces."""
    said_at: int = 0
    """Where it was said."""
    boxes: dict[str, bool] = field(default_factory=dict)
    """The newest Markdown checklist: item → whether it is done."""

    def said_by_person(
        self, text: str, message_id: str, position: int, *, whole: str = ""
    ) -> tuple[Turn, str]:
        """A person speaks: a turn begins. Returns it and the option that was chosen, if any.

        `whole` is their message with what they pasted: its size is told where it is long.
        """
        said = tuple(statements(text, position))[:MOST_PARAGRAPHS]
        if len(whole) > LONG_TEXT and 2 * sum(len(each.text) for each in said) < len(whole):
            said = (_sized(said, text, whole, message_id, position), *said[1:])
        turn = Turn(position, message_id, said)
        turn.last = position
        first = text.strip().splitlines()[0] if text.strip() else ""
        chosen = ""
        if self.asked and len(first) <= LONGEST_REPLY and self._answers(first):
            chosen = self._chosen(first)
            turn.question = f"{self.asked} → {chosen}" if chosen else self.asked
        if self.rows and turn.repeats(self.rows[-1]):
            self.rows.pop()
        self.rows.append(turn)
        self.asked, self.options = "", {}
        return turn, chosen

    def _chosen(self, first: str) -> str:
        """The option that words name, by its kind and number, else by its number alone."""
        found = _CHOICE.search(first)
        if found is None:
            return ""
        name = f"{found['kind'] or ''} {found['id']}".upper()
        return self.options.get(name) or self.options.get(f" {found['id'].upper()}", "")

    def steered(self, text: str, position: int) -> None:
        """A person says something in the middle of a turn, in a tool's result."""
        turn = self._current(position)
        turn.words = (*turn.words, *statements(text, position))[:MOST_PARAGRAPHS]
        turn.last = position

    def _answers(self, first: str) -> bool:
        """Whether words answer the open question: a bare reply, a choice, or words of its own."""
        if is_reply(first) or (self.options and _CHOICE.search(first)):
            return True
        asked = set(re.findall(r"\w{4,}", self.asked.lower()))
        return len(asked & set(re.findall(r"\w{4,}", first.lower()))) >= 2

    def said_by_assistant(self, text: str, position: int) -> None:
        """The assistant speaks: the newest words of a turn are its closing until others come."""
        turn = self._current(position)
        if not (turn.closing or turn.narration or turn.calls):
            turn.concedes = concedes(text)
        turn.is_stopped = False
        turn.narration += [s for s in turn.closing if not s.is_plan]
        if len(turn.narration) > 2 * MOST_STATEMENTS:
            turn.narration = turn.narration[-MOST_STATEMENTS:]
        turn.closing = tuple(statements(text, position))[:MOST_STATEMENTS]
        turn.is_answered, turn.last = True, position
        said = [s.text for s in turn.closing if not s.is_plan]
        self.said_last, self.said_at = said[-1] if said else "", position
        self._remember_question(text, turn.closing)
        boxes = [_TASK_BOX.match(line) for line in text.splitlines()]
        if found := [box for box in boxes if box]:
            self.boxes = {sentences.plain(box[2]).strip(): box[1] != " " for box in found}

    def called(self, position: int, files: Sequence[tuple[str, Sequence[str]]] = ()) -> None:
        """The assistant calls a tool; `files` it writes to, with the names that it defines."""
        turn = self._current(position)
        turn.calls += 1
        turn.is_stopped = False
        turn.is_answered, turn.last = False, position
        for file, defined in files:
            self.touched(file, (), position, is_written=True)
            known = turn.touched[file].defined
            known |= {name: known.get(name, position) for name in defined}

    def touched(
        self,
        file: str,
        names: Sequence[str],
        position: int,
        *,
        is_written: bool = False,
        is_edit: bool = False,
    ) -> None:
        """A tool read a file or wrote to it, and these names were seen there."""
        touched = self._current(position).touched
        it = touched.pop(file, None) or Touched()
        for name in names:
            it.names.pop(name, None)
        it.names |= dict.fromkeys(names)
        if is_edit:
            it.edited |= {name: it.edited.pop(name, position) for name in names}
        while len(it.names) > MOST_NAMES:
            del it.names[next(iter(it.names))]
        if is_written:
            is_why = 0 < len(self.said_last) <= LONGEST_WHY
            why, self.said_last = (self.said_last, "") if is_why else ("", self.said_last)
            it.writes.append(Write(position, why, self.said_at))  # of one file it says why
            del it.writes[:-MOST_WRITES]
        touched[file] = it
        if len(touched) > MOST_FILES:
            del touched[next(iter(touched))]

    def not_written(self, files: Sequence[str]) -> None:
        """A call that was to write these files failed, or was refused."""
        touched = self.rows[-1].touched if self.rows else {}
        for file in files:
            if (it := touched.get(file)) and it.writes:
                it.writes.pop()
                if not it.writes:
                    it.defined.clear()

    def stopped(self) -> None:
        """The person refused the newest call."""
        if self.rows:
            self.rows[-1].is_stopped = True

    def came_to(self, said: str, position: int) -> None:
        """A call came to something, in one line."""
        turn = self._current(position)
        turn.outcomes += statements_of_call(said, position)
        del turn.outcomes[:-MOST_STATEMENTS]
        turn.last = position

    def committed(self, commit: str, position: int) -> None:
        """A commit was made."""
        turn = self._current(position)
        turn.commits.append(Statement(commit, (commit.partition(" ")[0],), position=position))
        turn.last = position

    def _current(self, position: int) -> Turn:
        if not self.rows:
            self.rows.append(Turn(position, ""))
        return self.rows[-1]

    def _remember_question(self, text: str, said: Sequence[Statement]) -> None:
        self.options = {}
        for raw in text.splitlines():
            if option := _OPTION.match(raw):
                words = _row_of(raw) or sentences.bare(raw)
                name = f"{option['kind'] or ''} {option['id']}".upper()
                self.options[name] = words[:LONGEST_QUESTION]
        last = [i for i, s in enumerate(said) if s.asks and i >= len(said) - 4 - len(self.options)]
        asked = said[last[-1]].text if last else ""
        if last and last[-1] and len(asked.split()) < FEW_WORDS:
            asked = f"{said[last[-1] - 1].text} {asked}"  # what it asks about stands before it
        self.asked = asked[-LONGEST_QUESTION:]

    @property
    def is_record(self) -> bool:
        """Whether it is a record of what people said to each other: most words name who speaks."""
        newest = [turn.said for turn in self.rows[-MOST_JUDGED:] if turn.words]
        return len(newest) > 1 and 2 * sum(map(bool, map(NAMED.match, newest))) > len(newest)

    @property
    def detailed_from(self) -> int:
        """Where the turns begin of which more than the first words are remembered."""
        return self.rows[-MOST_TURNS].position if len(self.rows) > MOST_TURNS else 0

    def trim(self) -> None:
        """Forget what was said in the oldest turns, so that memory stays bounded."""
        for turn in self.rows[:-MOST_TURNS]:
            turn.narration, turn.touched, turn.outcomes = [], {}, []
            turn.words, turn.closing = turn.words[:1], turn.closing[:1]
        del self.rows[: -4 * MOST_TURNS]


def statements(text: str, position: int) -> Iterator[Statement]:
    """What a text says, statement by statement: sentences of prose, list items with the items below
    them, rows of tables, each with what leads to it. No code, no logs, no rules of tables.
    """
    for under, said in _joined(text):
        named = tuple(a.text for a in anchors.find(said))
        yield Statement(said, named, under, sentences.is_filler(said), position)


def _joined(text: str) -> Iterator[tuple[str, str]]:
    """What leads to a statement, and its words."""
    under, item = "", ""
    for line in _lines(text):
        said, listed = _row_of(line) or sentences.bare(line), _ITEM.match(line)
        if not said:
            continue
        if item and line[:2].isspace() and len(item) + len(said) < 2 * LONG_LINE:
            item += f"{' ' if item.endswith(':') else '; '}{said}"
            continue
        if item:
            yield under, item
        item = said if listed and len(said) < LONG_LINE else ""
        if item:
            continue
        if not listed and len(said) < LONG_LINE and _leads(line):
            under = said.rstrip(":： ")
            continue
        yield from ((under, sentence) for sentence in _sentences(said))
        if not (listed or line[:1].isspace() or line.startswith("|")):
            under = ""
    if item:
        yield under, item


def _leads(line: str) -> bool:
    """Whether a line is a heading, or leads to the lines below it."""
    is_bold = line.startswith("**") and line.rstrip().endswith("**")
    return bool(is_bold or _HEADING.match(line) or _LEADS.search(line))


def _sentences(said: str) -> Iterator[str]:
    """The sentences of a line, very long ones cut."""
    for sentence in sentences.sentences_of(said):
        if len(sentence) > 2 * LONG_LINE:
            sentence = sentence[: 2 * LONG_LINE].rsplit(" ", 1)[0] + " …"
        yield sentence


def statements_of_call(said: str, position: int) -> list[Statement]:
    """What a call came to, as a statement."""
    names = tuple(a.text for a in anchors.find(said))
    return [Statement(said, names, position=position)]


def _lines(text: str) -> Iterator[str]:
    """The lines of a text, without what stands in code fences and the head rows of tables."""
    fenced, lines = False, text.splitlines()
    for line, after in zip_longest(lines, lines[1:], fillvalue=""):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif fenced or not line.strip() or _RULE.match(line):
            continue
        elif _ROW.match(line):
            if not ("|" in after and _RULE.match(after)):
                yield line
        elif not sentences.is_log_line(line):
            yield line


def _row_of(line: str) -> str:
    """A table's row as a line; empty where it is none."""
    row = _ROW.match(line)
    if row is None:
        return ""
    cells = [sentences.plain(cell).strip() for cell in row[1].split("|")]
    return " — ".join(cell for cell in cells if cell and not _RULE.match(cell))
