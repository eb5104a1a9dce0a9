"""Notes: what is taken down of a history, message by message.

A fold that can be continued: reading the next message goes on where the last one ended, and memory
is bounded by caps, not by the history. Turns are taken down in `turns`, what tools did in `work`;
what is written from the notes is decided in `story` and `compression.composition`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from compact.compression.extraction.turns import LONGEST_QUESTION, Statement, Turns, statements
from compact.compression.extraction.work import EDIT_KEYS, WorkLog
from compact.core import anchors
from compact.core.anchors import Anchor, AnchorKind, Ledger, NameUse, Use
from compact.core.checkpoints import REFERENCE_LINE, summary_of
from compact.core.history import History
from compact.core.instructions import Instruction, find_instructions, score_of
from compact.core.messages import Message, ToolCall, ToolResult
from compact.core.outline import DECISIONS, FACTS, LISTS, OPEN, RULES, sections_of
from compact.core.recalls import asks
from compact.core.said_within import verdict_of, words_within
from compact.core.sentences import beginning, lines_of
from compact.core.speakers import host_instructions, own_words_of, person_text, speaker_of

MOST_READ, FEW_MESSAGES = 1_000_000, 1_000
"""Tokens of a history that are read where nothing of it was read yet, the newest ones; and messages
up to which it is read whole without being counted."""
TRIM_EVERY = 64
"""Messages after which what is too much is forgotten."""
MOST_ANCHORS = 2_500
"""Names that are remembered, the likeliest: what is forgotten no checkpoint lists. More take
memory, and time to rank."""
RANKED, WEIGHED = 1_500, 800
"""Names that are ranked, and those of them that make a statement worth more."""
TYPICAL = 60
"""Rank of the name whose weight counts as one."""
MOST_RULES, MOST_FACTS, MOST_EXCHANGES = 400, 600, 200
"""Rules, other statements and answered questions of a person that are remembered: of the former two
the best, once there are twice as many, of the latter the newest. It is a bound of memory: what is
forgotten no checkpoint can say."""
MOST_TOUCHED = 60
"""Names that one tool saw in a file."""
PLAIN = 8
"""Turns for each call of a tool, from which it is plain talk."""
FADE, OLD = 80.0, 0.25
"""Messages after which something counts 1/e of a fresh one, and what it counts besides however old
it is: a longer time, or more besides, tells more of the beginning."""
SPOKE = ("User: ", "Assistant: ")
"""How lines begin by which plain talk is told."""
REFERENCE = re.compile(r"\d+ more, ")
"""How the line begins that names the messages of rules that found no room."""
_HEADING = re.compile(r"^#{1,6} .*$", re.MULTILINE)
HOST = "Host: "
"""How a rule begins that the host's standing instructions hold."""
KEPT_RULE = 0.6
"""Least score of a rule that an earlier checkpoint has kept."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What was asked or proposed, and what a person said to it."""

    question: str
    answer: str
    position: int
    is_refusal: bool = False


@dataclass(slots=True)
class Notes:
    """What was read so far."""

    position: int = 0
    """Where in the log the next message stands."""
    since: int = 0
    """Where in the log the first one stood that was read."""
    ledger: Ledger = field(default_factory=Ledger)
    turns: Turns = field(default_factory=Turns)
    work: WorkLog = field(default_factory=WorkLog)
    rules: list[Instruction] = field(default_factory=list)
    facts: list[Instruction] = field(default_factory=list)
    """What persons said that is no clear rule, no question and no fragment."""
    exchanges: list[Exchange] = field(default_factory=list)
    earlier: list[Statement] = field(default_factory=list)
    """What an earlier checkpoint told, which was read in place of its messages."""
    carried: list[str] = field(default_factory=list)
    """Open work that an earlier checkpoint named."""

    marked: set[int] = field(default_factory=set)
    """Positions of messages that are marked important."""
    _ranked: list[tuple[str, Use, float]] | None = field(default=None, repr=False)
    """The names by how likely they are needed, until more is read."""

    def read(self, messages: Iterable[Message]) -> Notes:
        """Take down what the next messages hold; the notes themselves."""
        self._ranked = None
        for message in messages:
            if message.is_important:
                self.marked.add(self.position)
            self._read(message)
            self.position += 1
            if self.position % TRIM_EVERY == 0:  # by position, so that pauses change nothing
                self._trim()
        return self

    def _read(self, message: Message) -> None:
        self._read_host(host_instructions(message), message.id)
        match speaker_of(message):
            case "person":
                self._read_person(message)
            case "checkpoint":
                self._read_checkpoint(summary_of(message.text), message.id)
            case "assistant":
                self._read_assistant(message.text)
            case "system" | "injected":
                pass
            case _ if message.text:
                self.turns.called(self.position)  # in the plain text before it
                self.ledger.note(message.text, "result", self.position)
                self.work.observed(message.text, self.position)
        for call in message.tool_calls:
            if asks(call):
                continue
            found = note_call(self.ledger, call, self.position)
            written = self.work.call(call, self.position)
            self._touch(self.work.subject(call.id), found, is_edit=True)
            self.turns.called(self.position, written)
            for file, _ in written:
                self.ledger.edited(file)
        self._read_words_within(message)
        self._read_results(message)

    def _read_results(self, message: Message) -> None:
        for result in message.tool_results:
            if result.call_id not in message.metadata.recalled:  # else it was said before
                self._read_result(result)

    def _read_person(self, message: Message) -> None:
        whole = person_text(message)
        self.ledger.note(whole, "person", self.position)
        words = own_words_of(message, opens=not self.turns.rows)
        turn, _ = self.turns.said_by_person(words, message.id, self.position, whole=whole)
        if turn.question:
            answer = beginning(words, LONGEST_QUESTION)
            self.exchanges.append(Exchange(turn.question, answer, self.position))
        told = turn.question and len(words) <= LONGEST_QUESTION
        self._hear(words, message.id, is_answer=bool(told))

    def _hear(self, words: str, message_id: str, *, is_answer: bool = False) -> None:
        """Take down what a person said: rules, and what else is no question and no chatter; what
        answers a question is told with it.
        """
        for said in find_instructions(words, message_id, self.position):
            if said.is_rule:
                self.rules.append(said)
            elif not (is_answer or said.is_fragment or said.text.endswith(("?", "？"))):
                self.facts.append(said)

    def _read_assistant(self, text: str) -> None:
        if not text.strip():
            return
        self.ledger.note(text, "assistant", self.position)
        self.turns.said_by_assistant(text, self.position)

    def _read_result(self, result: ToolResult) -> None:
        if result.is_error:
            self.turns.not_written(self.work.writes(result.call_id))
        if verdict_of(result, self.work.tool(result.call_id)) == "refused":
            self.turns.stopped()
            return  # nothing was tried: it is told as what the person decided
        subject = self.work.subject(result.call_id)
        self._touch(subject, self.ledger.note(result.text, "result", self.position))
        self.work.result(result, self.position)
        if self.work.outcome:
            self.turns.came_to(self.work.outcome, self.position)
            self.work.outcome = ""
        for commit in self.work.commits:
            self.turns.committed(commit, self.position)
        self.work.commits.clear()

    def _read_host(self, text: str, message_id: str) -> None:
        """Take down a host's standing instructions, line by line: each is a rule."""
        for line in lines_of(_HEADING.sub("", text)):
            if not line.endswith(":"):
                words = HOST + line
                same = " ".join(words.lower().split())
                self.rules.append(Instruction(words, 1.0, message_id, self.position, same))

    def _read_words_within(self, message: Message) -> None:
        """Take down what a person said inside results: answers, and why something was refused."""
        if not message.tool_results:
            return
        names = {r.call_id: self.work.tool(r.call_id) for r in message.tool_results}
        for result in message.tool_results:
            if verdict := verdict_of(result, names[result.call_id]):
                self.work.decided(verdict)
        for said in words_within(message, names):
            self._hear(said.words, message.id, is_answer=said.kind != "note")
            refused = self.work.tried(said.call_id) if said.kind == "refusal" else ""
            words = beginning(said.words, LONGEST_QUESTION)
            asked = said.question or refused
            self.exchanges.append(Exchange(asked, words, self.position, bool(refused)))
            self.turns.steered(said.words, self.position)

    def _touch(self, file: str, found: Iterable[Anchor], *, is_edit: bool = False) -> None:
        """Take down which names a tool saw in a file, or wrote to it."""
        if not file:
            return
        names = [a.text for a in found if a.kind == "identifier"]
        self.turns.touched(file, names[:MOST_TOUCHED], self.position, is_edit=is_edit)

    def _read_checkpoint(self, text: str, message_id: str) -> None:
        """Take over an earlier checkpoint: its rules, decisions, facts and open work keep their
        place, what it told stands before the turns that follow.
        """
        for section, body in sections_of(text.replace(REFERENCE_LINE, "")):
            title = section.title if section else ""
            self.ledger.note(body, "assistant", self.position)
            lines = [line.strip().removeprefix("- ") for line in body.splitlines()]
            lines = [line for line in lines if line and not REFERENCE.match(line)]
            if title == RULES:
                self.rules += [_kept_rule(x, message_id, self.position) for x in lines]
            elif title == OPEN:
                self.carried = lines
            elif title == DECISIONS:
                self.exchanges += [Exchange(x, "", self.position) for x in lines]
            elif title == FACTS:
                said = [x.strip("“”") for x in lines]
                self.facts += [_kept_rule(x, message_id, self.position) for x in said]
            elif title not in LISTS:
                self.earlier += statements(body, self.position)

    def _trim(self) -> None:
        self.ledger.trim(self.position, MOST_ANCHORS)
        self.work.trim()
        self.turns.trim()
        if len(self.rules) > 2 * MOST_RULES:
            best = sorted(self.rules, key=lambda x: (-x.score, -x.position))
            self.rules = sorted(best[:MOST_RULES], key=lambda x: x.position)
        if len(self.facts) > 2 * MOST_FACTS:
            telling = sorted(self.facts, key=lambda x: (-x.score, -x.position))
            self.facts = sorted(telling[:MOST_FACTS], key=lambda x: x.position)
        self.marked = set(sorted(self.marked)[-MOST_FACTS:])
        del self.exchanges[:-MOST_EXCHANGES]
        del self.earlier[:-MOST_FACTS]

    @property
    def is_plain_talk(self) -> bool:
        """Whether people only talk: hardly any turn calls a tool, nor is it told of earlier."""
        rows = self.turns.rows
        if not rows or (self.earlier and not any(s.text.startswith(SPOKE) for s in self.earlier)):
            return False
        return not self.work.commands and sum(t.calls for t in rows) * PLAIN <= len(rows)

    def ranked(self) -> list[tuple[str, Use, float]]:
        """The names by how likely they are needed."""
        if self._ranked is None:
            self._ranked = self.ledger.ranked(self.position, RANKED)
        return self._ranked

    def freshness(self, position: int) -> float:
        """How much something said at a position counts now, `OLD` to one more."""
        return OLD + math.exp((position - self.position) / FADE)


def weights_of(
    ranked: Sequence[tuple[str, Use, float]], kinds: Mapping[AnchorKind, float]
) -> dict[str, float]:
    """What a name counts, about 1 for a typical one; those of some kinds more."""
    typical = ranked[min(len(ranked) - 1, TYPICAL)][2] if ranked else 1.0
    return {
        text: weight / (typical or 1.0) * kinds.get(use.kind, 1.0)
        for text, use, weight in ranked[:WEIGHED]
    }


def notes_of(history: History, *, known: Message | None = None, until: int | None = None) -> Notes:
    """The notes of a history as it is now, or of its first messages up to `until`, unless more were
    read. What was read before is not read again.

    Of a history that is very long only the newest messages are read at first, behind `known`: what
    is known of those before.
    """
    notes, history.notes = history.notes, None  # nobody else may carry on the same ones
    if not isinstance(notes, Notes) or notes.position > len(history):
        start = _start(history)
        notes = Notes(position=start)
        if start and known is not None:
            notes.read([known])
            notes.position = start
        notes.since = start
    stop = len(history) if until is None else until
    notes.read(history.redacted(i) for i in range(notes.position, stop))
    history.notes = notes
    return notes


def _start(history: History) -> int:
    """Where the newest messages begin that are read of a history: `MOST_READ` tokens."""
    if len(history) <= FEW_MESSAGES:
        return 0
    position, total = len(history), 0
    while position > 0 and total <= MOST_READ:
        position -= 1
        total += history.tokens(position)
    return position


def _kept_rule(words: str, message_id: str, position: int) -> Instruction:
    same = " ".join(words.lower().split())
    return Instruction(words, max(KEPT_RULE, score_of(words)), message_id, position, same)


def note_call(ledger: Ledger, call: ToolCall, position: int) -> list[Anchor]:
    """Note the anchors of a tool call's arguments, and return those of what it writes to files,
    which weigh as an edit. Who asks for what was said before names nothing new.
    """
    written: list[Anchor] = []
    for key, value in anchors.strings_of(call.arguments) if not asks(call) else ():
        found = ledger.note(value, "edit" if key in EDIT_KEYS else "arguments", position)
        written += found if key in EDIT_KEYS else ()
    return written


def names_used(messages: Iterable[Message], ledger: Ledger) -> list[NameUse]:
    """Every use of a name in messages, in order; the ledger may know of them."""
    uses: list[NameUse] = []
    for message in messages:
        uses += ledger.uses_in(message.text, "person" if message.role == "user" else "assistant")
        for call in message.tool_calls:
            for key, value in anchors.strings_of(call.arguments) if not asks(call) else ():
                uses += ledger.uses_in(value, "edit" if key in EDIT_KEYS else "arguments")
        for result in message.tool_results:
            if result.call_id not in message.metadata.recalled:
                uses += ledger.uses_in(result.text, "result")
    return uses
