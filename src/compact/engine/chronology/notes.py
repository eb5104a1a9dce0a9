"""Notes: what is recorded from a history, message by message.

Reading continues where it ended. Limits bound the memory. `items` holds what was said, `work` what
tools did, `ledger` the names. `chronology` decides which notes a checkpoint includes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from compact.engine.chronology.items import Items
from compact.engine.chronology.work import WorkLog
from compact.engine.history import FEW_MESSAGES, History, newest
from compact.messages.checkpoints import summary_of
from compact.messages.messages import Message, ToolCall, ToolResult
from compact.text import anchors
from compact.text.anchors import Ledger, Use
from compact.text.outline import NAMES, NOW, sections_of
from compact.text.recalls import asks
from compact.text.said_within import verdict_of, words_within
from compact.text.speakers import host_instructions, own_words_of, person_text, speaker_of

MOST_READ = 1_000_000
"""How many tokens of a long new history are read, the newest ones. This bounds the time."""
TRIM_EVERY = 64
"""The notes are trimmed each time after this many messages: after each, it would take long."""
MOST_ANCHORS = 2_500
"""Most names kept, those most likely to be needed. Forgotten names are never listed. More would
take memory, and time to rank."""
RANKED = 1_500
"""Most names that are ranked. This bounds the time."""
FEW_PASTED = 20
"""If the user pasted more words than this, the checkpoint mentions it."""
PLAIN = 8
"""With at least this many items per tool call, the history is plain talk."""


@dataclass(slots=True)
class Notes:
    """The notes on the messages read so far."""

    position: int = 0
    """Position of the next message."""
    since: int = 0
    """Position of the first message that was read."""
    ledger: Ledger = field(default_factory=Ledger)
    items: Items = field(default_factory=Items)
    work: WorkLog = field(default_factory=WorkLog)
    marked: set[int] = field(default_factory=set)
    """Positions of important messages."""

    def read(self, messages: Iterable[Message]) -> Notes:
        """Read the next messages; return the notes."""
        for message in messages:
            if message.is_important:
                self.marked.add(self.position)
            self._read(message)
            while self.items.superseded:
                self.ledger.forget(*self.items.superseded.pop())
            self.position += 1
            if self.position % TRIM_EVERY == 0:  # by position: pauses change nothing
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
            if not asks(call):  # a request for old messages names nothing new
                self._read_call(call)
        said = self._read_words_within(message)
        for result in message.tool_results:
            if result.call_id not in message.metadata.recalled:  # else it repeats old messages
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
        """Record what the user said inside tool results; return the ids of those calls."""
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
        while self.work.gone:
            self.ledger.deleted(self.work.gone.pop())
        if self.work.cleared:
            self.ledger.forget_results(self.work.cleared)
            self.work.cleared = set()

    def _read_checkpoint(self, message: Message) -> None:
        """Read an earlier checkpoint, except its sections on the present and on names."""
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
        """Whether commands were run or files written."""
        return bool(self.work.commands or self.work.files)

    @property
    def is_plain_talk(self) -> bool:
        """Whether there are hardly any tool calls."""
        if self.items.tells_work or self.work.commands:
            return False
        return self.work.calls * PLAIN <= len(self.items.rows)

    def ranked(self) -> list[tuple[str, Use, float]]:
        """Return the names, those most likely to be needed first."""
        return self.ledger.ranked(self.position, RANKED)

    def likeliest(self) -> Iterator[tuple[str, float]]:
        """Yield the names with their odds, those most likely to be needed first."""
        return islice(self.ledger.likeliest(self.position), RANKED)


def notes_of(history: History, *, known: Message | None = None, until: int | None = None) -> Notes:
    """Return the notes of a history, up to `until`, or further if they were already read further.
    No message is read twice. Of a very long history only the newest messages are read, after
    `known`, which tells what came before.
    """
    notes, history.notes = history.notes, None  # no second reader may continue the same notes
    if notes is None or notes.position > len(history):
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
    if len(history) <= FEW_MESSAGES:
        return 0
    return newest(history, range(len(history)), MOST_READ)[0].start
