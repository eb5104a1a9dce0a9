"""Notes: what is taken down of a history, message by message.

A fold that can be continued: reading the next message goes on where the last one ended, and memory
is bounded by caps, not by the history. What was said is taken down in `items`, what tools did in
`work`, what was named in a ledger; what of it is told is decided in `chronology`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from compact.engine.chronology.items import Items
from compact.engine.chronology.work import WorkLog
from compact.engine.history import FEW_MESSAGES, History
from compact.messages.checkpoints import summary_of
from compact.messages.messages import Message, ToolCall, ToolResult
from compact.text import anchors
from compact.text.anchors import Ledger, Use
from compact.text.outline import NAMES, NOW, sections_of
from compact.text.recalls import asks
from compact.text.said_within import verdict_of, words_within
from compact.text.speakers import host_instructions, own_words_of, person_text, speaker_of

MOST_READ = 1_000_000
"""Tokens of a history that are read where nothing of it was read yet, the newest ones."""
TRIM_EVERY = 64
"""Messages after which what is too much is forgotten."""
MOST_ANCHORS = 2_500
"""Names that are remembered, the likeliest: what is forgotten no checkpoint lists. More take
memory, and time to rank."""
RANKED = 1_500
"""Names that are ranked."""
FEW_PASTED = 20
"""Words that a person pasted, from which it is said that they did."""
PLAIN = 8
"""Things said for each call of a tool, from which it is plain talk."""


@dataclass(slots=True)
class Notes:
    """What was read so far."""

    position: int = 0
    """Where in the log the next message stands."""
    since: int = 0
    """Where in the log the first one stood that was read."""
    ledger: Ledger = field(default_factory=Ledger)
    items: Items = field(default_factory=Items)
    work: WorkLog = field(default_factory=WorkLog)
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
            while self.items.superseded:
                self.ledger.forget(*self.items.superseded.pop())
            self.position += 1
            if self.position % TRIM_EVERY == 0:  # by position, so that pauses change nothing
                self._trim()
        return self

    def _read(self, message: Message) -> None:
        self.items.host(host_instructions(message), message.id, self.position)
        match speaker_of(message):
            case "person":
                self._read_person(message)
            case "checkpoint":
                self._read_checkpoint(message)
            case "assistant":
                self.ledger.note(message.text, "assistant", self.position)
                self.items.assistant(message.text, message.id, self.position)
            case "system" | "injected":
                pass
            case _ if message.text:
                self.ledger.note(message.text, "result", self.position)
                self.work.observed(message.text, self.position)
        for call in message.tool_calls:
            if not asks(call):  # who asks for what was said before names nothing new
                self._read_call(call)
        said = self._read_words_within(message)
        for result in message.tool_results:
            if result.call_id not in message.metadata.recalled:  # else it was said before
                self._read_result(result, said_why=result.call_id in said)

    def _read_call(self, call: ToolCall) -> None:
        for _, value in anchors.strings_of(call.arguments):
            self.ledger.note(value, "arguments", self.position)
        for file in self.work.call(call, self.position):
            self.ledger.edited(file)

    def _read_person(self, message: Message) -> None:
        whole = person_text(message)
        self.ledger.note(whole, "person", self.position)
        words = own_words_of(message, opens=not self.items.rows)
        own = {line for line in words.splitlines() if line.strip()}
        pasted = "\n".join(line for line in whole.splitlines() if line not in own)
        is_much = len(pasted.split()) > FEW_PASTED
        self.items.person(words, message.id, self.position, pasted if is_much else "")

    def _read_words_within(self, message: Message) -> set[str]:
        """Take down what a person said inside results: answers, and why something was refused; the
        ids of the calls that they said it to.
        """
        names = {r.call_id: self.work.tool(r.call_id) for r in message.tool_results}
        for result in message.tool_results:
            if verdict := verdict_of(result, names[result.call_id]):
                self.work.decided(verdict)
        found = words_within(message, names) if names else ()
        for said in found:
            tried = self.work.tried(said.call_id) if said.kind == "refusal" else ""
            self.items.within(said, tried, message.id, self.position)
        return {said.call_id for said in found}

    def _read_result(self, result: ToolResult, *, said_why: bool) -> None:
        if verdict_of(result, self.work.tool(result.call_id)) == "refused":
            self.work.refused(result.call_id, self.position, said_why=said_why)
            return
        self.ledger.note(result.text, "result", self.position)
        self.work.result(result, self.position)

    def _read_checkpoint(self, message: Message) -> None:
        """Take over an earlier checkpoint: what it told stands before what follows; what stood then
        is no more.
        """
        for section, body in sections_of(summary_of(message.text)):
            self.ledger.note(body, "assistant", self.position)
            if section not in (NOW, NAMES):
                self.items.earlier(body, message.id, self.position)

    def _trim(self) -> None:
        self.ledger.trim(self.position, MOST_ANCHORS)
        self.work.trim()
        self.items.trim()

    @property
    def is_code(self) -> bool:
        """Whether commands are run here, or files are written."""
        return bool(self.work.commands or self.work.files)

    @property
    def is_plain_talk(self) -> bool:
        """Whether people only talk: hardly anything calls a tool."""
        if self.items.tells_work or self.work.commands:
            return False
        return self.work.calls * PLAIN <= len(self.items.rows)

    def ranked(self) -> list[tuple[str, Use, float]]:
        """The names by how likely they are needed."""
        if self._ranked is None:
            self._ranked = self.ledger.ranked(self.position, RANKED)
        return self._ranked


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
