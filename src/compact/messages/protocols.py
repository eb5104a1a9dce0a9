"""The ports of compact on one page: what the engine asks of the outside world.

Each has at most four methods. A port with a single method is a callable. Implementations live in
`models.providers`, `store` and `telemetry`, their conformance suites in `compact.testing`.
`messages.memory_protocols` has what memory asks of a store beyond these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from compact.messages.asking import ASK

if TYPE_CHECKING:
    from compact.messages.asking import Abilities, Ask, Limits
    from compact.messages.changes import Change
    from compact.messages.checkpoints import Checkpoint, Summary, SummaryRequest
    from compact.messages.context import ActiveContext
    from compact.messages.events import Event
    from compact.messages.messages import Message
    from compact.messages.replies import Delta, Reply
    from compact.messages.sessions import (
        Branch,
        Entry,
        Found,
        Move,
        Projection,
        Session,
        Snapshot,
        Step,
    )
    from compact.text.embedding import Numbers

Emit = Callable[["Event"], None]
"""Hands an event to the listeners; returns at once and never raises."""


@runtime_checkable
class TokenEstimator(Protocol):
    """Counts the tokens of a text for one tokenizer."""

    @property
    def name(self) -> str:
        """The tokenizer's name, for example `o200k`."""

    @property
    def exact(self) -> bool:
        """Whether the counts are the real tokenizer's. Else they are estimates with a margin."""

    def count(self, text: str) -> int:
        """Tokens of the text, 0 of an empty one. Special tokens count as plain text."""


@runtime_checkable
class CutsLines(Protocol):
    """An estimator that can cut a text between lines without changing the count."""

    def lines(self, text: str) -> list[str]:
        """The text in pieces of a line or more. Their tokens add up to those of the text."""


@runtime_checkable
class Summarizer(Protocol):
    """Writes the summary that replaces a span of history in the prompt."""

    @property
    def name(self) -> str:
        """The writer's name, for example `extractive`."""

    @property
    def waits(self) -> bool:
        """Whether summarizing may wait for something outside, such as a model."""

    def summarize(self, request: SummaryRequest) -> Awaitable[Summary]:
        """Summarize the request's messages within its token cap."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors; texts of similar meaning get vectors near each other."""

    @property
    def name(self) -> str:
        """The model's key, for example `minilm:all-MiniLM-L6-v2`."""

    @property
    def version(self) -> str:
        """Changes when new vectors cannot be compared with old ones: other weights, another
        precision, or another prefix before each text.
        """

    @property
    def dimensions(self) -> int:
        """Numbers in each vector."""

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[Numbers]:
        """The vector of each text, in order. `query` says that the texts are questions and not
        documents, which some models treat differently. May wait for a model.

        Raises:
            InvalidInput: a text is longer than the model's window; none is cut in silence.
            ModelFailed: the model cannot be asked, or its answer cannot be used.
        """


@runtime_checkable
class CutsTexts(Protocol):
    """An embedder that knows how much of a text its model reads."""

    def pieces(self, text: str) -> list[str]:
        """The text in pieces that fit the model's window, in order; neighbours overlap."""


@runtime_checkable
class Exporter(Protocol):
    """Carries events to an observer. It may be slow or fail: the bus protects its caller, and calls
    the exporter from one thread only.
    """

    def export(self, events: Sequence[Event]) -> int | None:
        """Take events, in order. Returns how many events were lost, earlier ones included that were
        not reported yet; None means none. If it raises, all events of this call count as lost.
        """

    def close(self) -> None:
        """Send what is still queued and let go of resources."""


@runtime_checkable
class StorageAdapter(Protocol):
    """Keeps what a compression leaves behind, outside of the session's store. Each method returns
    where, as a path or an address.

    Raises, from each method:
        StoreFailed: it could not be kept.
    """

    def save_transcript(self, session_id: str, messages: Sequence[Message]) -> str:
        """Keep the full history as it was before a compression."""

    def save_summary(self, session_id: str, step: int, summary: str) -> str:
        """Keep a compression's summary. `step` is its number in the session, from 1."""

    def save_event(self, session_id: str, event: Event) -> str:
        """Keep one event."""


@runtime_checkable
class ChatModel(Protocol):
    """Answers a prompt. It takes an active context only, never a history or a snapshot."""

    @property
    def name(self) -> str:
        """The model's key, for example `openai:gpt-4o`."""

    @property
    def abilities(self) -> Abilities:
        """What it can do, as far as that is known now."""

    def complete(self, context: ActiveContext, ask: Ask = ASK) -> Awaitable[Reply]:
        """The model's answer.

        Raises:
            ContextOverflow: the provider refused the prompt as too large.
            ModelUnavailable: it may answer later: busy, down, too slow.
            ModelRefused: it will not answer this: the key, the name, the request.
            ModelFailed: its answer cannot be used.
        """

    def stream(self, context: ActiveContext, ask: Ask = ASK) -> AsyncIterator[Delta]:
        """The answer as it is written. The last piece carries the whole reply.

        Raises:
            ModelFailed: and what else `complete` raises, before the first piece or at a later one.
        """

    def count(self, context: ActiveContext) -> Awaitable[int | None]:
        """Tokens of the prompt as the server counts them. None if the server does not count."""

    def limits(self) -> Awaitable[Limits]:
        """What the server reports of the model's limits.

        Raises:
            ModelUnavailable, ModelRefused: as `complete`.
        """


class SessionIndex(Protocol):
    """Lists and finds sessions."""

    def session(self, session_id: str, *, create: Session | None = None) -> Session:
        """The session of that id. If there is none, `create` is stored and returned.

        Raises:
            NotFound: there is none, and none is to be made.
        """

    def sessions(self, *, scope: str | None = None) -> list[Session]:
        """The sessions of a scope, or of all scopes; the last changed one comes first."""

    def fork(self, branch_id: str, at: int) -> Branch:
        """Make a branch that continues another one from a position, and put it in force."""

    def delete_session(self, session_id: str) -> None:
        """Remove a session for good, with all that belongs to it and its index entries."""


class SessionDescriptions(Protocol):
    """Titles and metadata of sessions."""

    def describe(
        self, session_id: str, *, title: str | None, metadata: Mapping[str, Any]
    ) -> Session:
        """Replace a session's title and metadata; returns the changed session.

        Raises:
            NotFound: there is no such session.
        """


class MessageLog(Protocol):
    """Histories. They only grow."""

    def append(
        self, branch_id: str, entries: Sequence[Entry], *, expected: int | None = None
    ) -> int:
        """Append entries durably, all or none. Returns the branch's new number of messages.

        Raises:
            Superseded: the branch does not have `expected` messages any more.
        """

    def read(self, branch_id: str, start: int, stop: int) -> list[Entry]:
        """The entries at these positions, in order; fewer at the end of the branch. A negative
        start counts from the end.
        """

    def marked(self, branch_id: str, mark: int, *, before: int, most: int) -> list[int]:
        """Positions below `before` of the newest entries with the mark, newest first."""

    def position_of(self, branch_id: str, message_id: str) -> int | None:
        """The position of the newest message of that id, or None. An id may be shortened to its
        first eight characters.
        """


class Lineage(Protocol):
    """Facts of a branch that need no reading of its messages."""

    def branch(self, branch_id: str) -> Branch:
        """The branch as it stands now."""

    def branches(self, session_id: str) -> list[Branch]:
        """All branches of a session, the oldest first."""

    def chain(self, branch_id: str, length: int) -> bytes:
        """The chain's hash (`messages.chain`) after that many messages."""

    def first_marked(self, branch_id: str, mark: int) -> int | None:
        """The position of the oldest entry with the mark."""


class Projections(Protocol):
    """The projection in force for each window, and the earlier ones."""

    def commit(self, step: Step) -> Move:
        """Store the step's projection and checkpoints and put it in force, all or nothing.

        Raises:
            Superseded: another move came in between.
        """

    def moves(self, session_id: str, window: int | None = None, *, most: int) -> list[Move]:
        """The newest moves of one window or of all, newest first."""

    def projection(self, projection_id: str) -> Projection:
        """A projection with its checkpoints."""

    def checkpoints(self, session_id: str) -> list[Checkpoint]:
        """All checkpoints that were ever committed, oldest first."""


class SnapshotLog(Protocol):
    """The snapshots of sessions."""

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot."""

    def snapshots(self, session_id: str) -> list[Snapshot]:
        """The session's snapshots, the oldest first."""

    def delete_snapshots(self, session_id: str, ids: Collection[str]) -> None:
        """Remove the session's snapshots of these ids. Snapshots of other sessions stay."""


class SessionMetadata(Protocol):
    """Notes: small named values of a session."""

    def note(self, session_id: str, name: str, value: Mapping[str, Any] | None) -> None:
        """Set the note of that name; None removes it."""

    def notes(self, session_id: str) -> dict[str, Mapping[str, Any]]:
        """The session's notes by name."""


class ChangeLog(Protocol):
    """The entries of a session's log that are no messages."""

    def record(
        self, session_id: str, changes: Sequence[Change], *, instead_of: Collection[int] = ()
    ) -> None:
        """Append changes with the next numbers and remove the entries of `instead_of`, all or
        nothing.
        """

    def changes(self, session_id: str, *, after: int = 0) -> list[Change]:
        """The session's entries with numbers greater than `after`, in order."""


class Finder(Protocol):
    """Search by words."""

    def search(self, branch_id: str, text: str, *, most: int) -> list[Found]:
        """Messages of a branch and its ancestors that share words with the text; best first."""


Version = tuple[int, int]


@runtime_checkable
class Versioned(Protocol):
    """A store that can tell whether anything was stored since."""

    def version(self) -> Version | None:
        """A value that changes with every stored transaction: a counter of other writers, and one
        of this store's own transactions (an append is one). None if it cannot be told now.
        """


class SessionStore(
    SessionIndex,
    SessionDescriptions,
    MessageLog,
    Lineage,
    Projections,
    ChangeLog,
    SnapshotLog,
    SessionMetadata,
    Finder,
    Protocol,
):
    """Everything a session needs of a store. Safe to use from many threads. If the store is also
    `Versioned`, only what may have changed is read again.
    """

    def close(self) -> None:
        """Release files. Closing twice is no error."""
