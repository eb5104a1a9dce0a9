"""Follows one conversation and measures what comes after each compaction, and after other moments.

The same window is laid over both: 40 actions, and 60 messages for names. An action is a tool call
with its result. Another moment is a control: at least 60 actions came before it, 40 come after it,
no compaction is within 40, and every 20th action is one. The conversation is read as a stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from compact.look.lines import NameReader, digests, with_file_names
from compact.look.tools import is_lookup, subject_of, written_by

if TYPE_CHECKING:
    from compact.transcripts.boundaries import Boundary, Call, Result, Row

AFTER, BEFORE, STEP = 40, 60, 20
"""Actions after a moment that count; actions that must come before one; actions between controls"""
REMEMBERED = 100
"""Actions before a moment whose results count as known."""
MESSAGES = 60
"""Messages after a moment in which names count."""
ALIKE = 0.8
"""The share of a result's lines that must be known. Below, it brought something new."""
QUOTED = 50
"""Letters of a person's message that must stand in a summary."""
FEWEST = 12
"""Letters of the shortest message that counts: `yes` stands everywhere."""
_LONGEST = 4_000
"""Characters that are kept of a message."""
_UNREAD = "has not been read yet"
"""How Claude Code refuses an edit of a file that the agent has not read, as far as it knows."""
_REJECTED = "The user doesn't want to"
"""How the result of a call begins that a person refused: no error of the agent."""


class Action(NamedTuple):
    """A tool call with its result."""

    tool: str
    subject: str
    looks: bool
    """Whether it only looks something up."""
    lines: set[int]
    written: set[int]
    error: str
    """The error's text without its numbers; empty if it did not fail."""
    text: str
    row: str
    at: int


class Seen(NamedTuple):
    """An action that is told: what it was, its size in tokens, and where its result stands."""

    tool: str
    subject: str
    tokens: int
    at: int


class Spoken(NamedTuple):
    """Words of a person or of the agent."""

    text: str
    time: str
    at: int
    by_person: bool


@dataclass(slots=True)
class Window:
    """What happens after one moment."""

    key: str
    known: set[int]
    """Lines that were seen or written before, and not since."""
    errors: set[str]
    first_seen: Mapping[str, int]
    moment: float
    """Names that were first seen in a message before this one were known."""
    shown: Mapping[str, int] = field(default_factory=dict)
    """Name → the message that showed it last."""
    opened: int = 0
    """The number of the first message after it."""
    actions: int = 0
    messages: int = 0
    lookups: int = 0
    again: list[Seen] = field(default_factory=list)
    refused: list[Seen] = field(default_factory=list)
    repeated: list[Seen] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Names that the agent uses and that had occurred before the moment."""
    unseen: set[str] = field(default_factory=set)
    """Those that it used before anything had shown them again."""

    @property
    def is_full(self) -> bool:
        """Whether enough came after it to be compared."""
        return self.actions >= AFTER

    def take(self, action: Action, tokens: Callable[[str], int]) -> None:
        """Take the next action."""
        if self.actions >= AFTER:
            return
        self.actions += 1
        told: Callable[[], Seen] = lambda: Seen(  # noqa: E731
            action.tool, action.subject, tokens(action.text), action.at
        )
        if action.looks:
            self.lookups += 1
            if action.lines and len(action.lines & self.known) >= ALIKE * len(action.lines):
                self.again.append(told())
        if _UNREAD in action.error:
            self.refused.append(told())
        elif action.error in self.errors:
            self.repeated.append(told())
        self.known -= action.lines
        self.known -= action.written

    def hear(self, names: set[str], *, by_agent: bool) -> None:
        """Take the names of the next message."""
        if self.messages >= MESSAGES:
            return
        self.messages += 1
        if by_agent:
            seen, shown = self.first_seen, self.shown
            new = {name for name in names - self.used if seen.get(name, inf) < self.moment}
            self.unseen.update(name for name in new if shown.get(name, -1) < self.opened)
            self.used |= new

    def end(self) -> None:
        """Keep only what is counted."""
        self.known, self.errors, self.first_seen, self.shown = set(), set(), {}, {}


@dataclass(slots=True)
class Message:
    """A person's message before a compaction, and which summaries quote it."""

    spoken: Spoken
    in_summary: bool
    in_next: bool | None = None
    """None if no other compaction came."""


@dataclass(slots=True)
class Compaction:
    """One compaction and what came after it."""

    boundary: Boundary
    chain: str
    at: int
    """Where its row begins in the file."""
    seconds: float | None
    """The pause, if it is known."""
    window: Window
    messages: list[Message]
    number: int
    """It is the conversation's n-th, from 1."""
    before: str
    """Key of the row before it."""
    spoken_before: int
    """How much had been said by then, of the conversation's `spoken`."""
    summary: str = ""
    named: set[str] = field(default_factory=set)
    """Names in the summary."""
    cached: int | None = None
    """Tokens that the first request after it wrote into the provider's cache."""


class Conversation:
    """Follows the rows of one session, or of one sub-agent in it."""

    def __init__(self, reader: NameReader, tokens: Callable[[str], int]) -> None:
        self.compactions: list[Compaction] = []
        self.controls: list[Window] = []
        self.spoken: list[Spoken] = []
        self.actions = 0
        self._reader, self._tokens = reader, tokens
        self._recent: deque[Action] = deque(maxlen=REMEMBERED)
        self._calls: dict[str, Call] = {}
        self._open: list[Window] = []
        self._first_seen: dict[str, int] = {}
        self._shown: dict[str, int] = {}
        self._messages = 0
        self._last_boundary = -inf
        self._time = self._row = ""
        self._said: list[Spoken] = []

    def take(self, row: Row) -> None:
        """Take the next row."""
        match row.kind:
            case "boundary":
                assert row.boundary is not None
                self._compacted(row, row.boundary)
            case "given":
                self._give(digests((row.said,)))
            case "typed":
                self._speak(row, row.person, by_person=True)
            case "user" if row.is_summary and self.compactions:
                self._summarized(row)
            case _:
                self._message(row)

    def finish(self) -> None:
        """Close what is open at the end of the file."""
        self._close()

    def _compacted(self, row: Row, boundary: Boundary) -> None:
        self._close()
        seconds = boundary.seconds
        if seconds is None and boundary.automatic:
            seconds = seconds_between(self._time, boundary.time)
        window = self._window(boundary.key, inf)
        for action in self._recent:
            if action.row in boundary.kept:
                window.known -= action.lines | action.written
        self._open = [window]
        said = [each for each in self._said if len(letters(each.text)) >= FEWEST]
        messages = [Message(each, in_summary=False) for each in said]
        self.compactions.append(
            Compaction(
                boundary=boundary,
                chain=row.chain,
                at=row.at,
                seconds=seconds,
                window=window,
                messages=messages,
                number=len(self.compactions) + 1,
                before=self._row,
                spoken_before=len(self.spoken),
            )
        )
        self._first_seen, self._said = {}, []
        self._last_boundary = self.actions
        if boundary.summary:
            self._summarized(row._replace(said=boundary.summary))

    def _summarized(self, row: Row) -> None:
        """Take the summary. A file may say it twice, or in pieces."""
        now = self.compactions[-1]
        now.summary = f"{now.summary}\n{row.said}".strip()
        names = self._reader.names((row.said,))
        now.named |= with_file_names(names)
        self._learn(names)
        text = letters(now.summary)
        for message in now.messages:
            message.in_summary |= beginning(message.spoken.text) in text
        if len(self.compactions) > 1:
            for message in self.compactions[-2].messages:
                quoted = beginning(message.spoken.text) in text
                message.in_next = quoted or bool(message.in_next)

    def _message(self, row: Row) -> None:
        by_agent = row.kind == "agent"
        named = self._reader.names((row.said, *row.texts))
        if self._open and not by_agent:
            self._shown |= dict.fromkeys(with_file_names(named), self._messages)
        for window in self._open:
            window.hear(named, by_agent=by_agent)
        self._learn(named)
        self._messages += 1
        self._time, self._row = row.time or self._time, row.key
        if by_agent:
            self._speak(row, row.said, by_person=False)
            self._calls |= {call.id: call for call in row.calls}
            if self.compactions and self.compactions[-1].cached is None:
                self.compactions[-1].cached = row.cached
            return
        self._speak(row, row.person, by_person=True)
        before = self.actions
        for result in row.results:
            self._act(result, row)
        is_step = self.actions // STEP > before // STEP and self.actions >= BEFORE
        if is_step and self.actions - self._last_boundary >= AFTER:
            self._open.append(self._window(row.results[-1].call_id, self._messages))

    def _act(self, result: Result, row: Row) -> None:
        call = self._calls.pop(result.call_id, None)
        if call is None:
            return
        failed = result.is_error and not result.text.startswith(_REJECTED)
        error = "".join(c for c in result.text[:400] if not c.isdigit()) if failed else ""
        written = () if result.is_error else written_by(call)
        action = Action(
            tool=call.tool,
            subject=subject_of(call),
            looks=is_lookup(call),
            lines=digests((result.text,)),
            written=digests(written),
            error=error,
            text=result.text,
            row=row.key,
            at=row.at,
        )
        self.actions += 1
        for window in self._open:
            window.take(action, self._tokens)
        self._recent.append(action._replace(text=""))

    def _window(self, key: str, moment: float) -> Window:
        known = set[int]().union(*(a.lines | a.written for a in self._recent))
        errors = {a.error for a in self._recent if a.error}
        return Window(key, known, errors, self._first_seen, moment, self._shown, self._messages)

    def _learn(self, names: set[str]) -> None:
        self._first_seen |= dict.fromkeys(names.difference(self._first_seen), self._messages)

    def _give(self, lines: set[int]) -> None:
        for window in self._open:
            window.known -= lines

    def _speak(self, row: Row, text: str, *, by_person: bool) -> None:
        if text.strip():
            self.spoken.append(Spoken(text[:_LONGEST], row.time, row.at, by_person))
            if by_person:
                self._said.append(self.spoken[-1])

    def _close(self) -> None:
        """End all open windows. A control that a compaction cuts short is none."""
        compacted = {id(each.window) for each in self.compactions[-1:]}
        ended = [each for each in self._open if id(each) not in compacted]
        self.controls += [each for each in ended if each.is_full]
        for window in self._open:
            window.end()
        self._open, self._shown = [], {}


def letters(text: str) -> str:
    """Return a text's letters and digits in lower case: what is left of a quotation."""
    return "".join(filter(str.isalnum, text.lower()))


def beginning(text: str) -> str:
    """Return the first letters of a message, by which its quotation is found."""
    return letters(text[: 8 * QUOTED])[:QUOTED]


def seconds_between(earlier: str, later: str) -> float | None:
    """Return the seconds between two times of a file; None if one is no time."""
    try:
        between = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    except (TypeError, ValueError):
        return None
    return between.total_seconds()


def numbers(window: Window) -> dict[str, Any]:
    """Return a window's numbers, as they are compared and written."""
    return {
        "again": len(window.again),
        "again_tokens": sum(seen.tokens for seen in window.again),
        "lookups": window.lookups,
        "refused": len(window.refused),
        "repeated": len(window.repeated),
        "names_used": len(window.used),
        "names_shown": len(window.used - window.unseen),
    }
