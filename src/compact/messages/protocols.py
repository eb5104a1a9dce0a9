"""The ports of compact on one page: what the engine asks of the outside world.

Each has at most four methods; single-method ports are callables. Implementations live in providers,
storage and telemetry; their conformance suites in `compact.testing`. `messages.memory_protocols`
has what memory asks of a store beyond these.
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
"""Hand an event to whoever listens; returns at once and never raises."""


@runtime_checkable
class TokenEstimator(Protocol):
    """Counts the tokens of a text for one tokenizer."""

    @property
    def name(self) -> str:
        """The tokenizer's name, for example `o200k`."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the counts are the real tokenizer's (else an estimate with a margin)."""
        ...

    def count(self, text: str) -> int:
        """Tokens of the text, 0 of the empty one; special tokens are plain text."""
        ...


@runtime_checkable
class CutsLines(Protocol):
    """An estimator that knows where a text can be cut between lines and counts the same."""

    def lines(self, text: str) -> list[str]:
        """The text in pieces of a line or more; their tokens add up to those of the text."""
        ...


@runtime_checkable
class Summarizer(Protocol):
    """Writes the summary that stands in for a span of history."""

    @property
    def name(self) -> str:
        """Who writes, for example `extractive`."""
        ...

    @property
    def waits(self) -> bool:
        """Whether summarizing may wait for something outside, such as a model."""
        ...

    def summarize(self, request: SummaryRequest) -> Awaitable[Summary]:
        """Summarize the request's messages within its token cap."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors that lie near each other where the texts mean the same."""

    @property
    def name(self) -> str:
        """The model's key, for example `minilm:all-MiniLM-L6-v2`."""
        ...

    @property
    def version(self) -> str:
        """Changes where vectors are no longer comparable: with other weights, another precision or
        another text before each text.
        """
        ...

    @property
    def dimensions(self) -> int:
        """Numbers in each vector."""
        ...

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[Numbers]:
        """The vector of each text, in order; `query` where they are questions and no documents,
        since some models tell these apart. May wait for a model.

        Raises:
            InvalidInput: a text is longer than the model's window; none is cut in silence.
            ModelFailed: the model cannot be asked, or its answer cannot be used.
        """
        ...


@runtime_checkable
class CutsTexts(Protocol):
    """An embedder that knows how much of a text its model reads."""

    def pieces(self, text: str) -> list[str]:
        """The text in pieces that fit the model's window, in order; neighbours overlap."""
        ...


@runtime_checkable
class Exporter(Protocol):
    """Carries events to an observer. May be slow or fail: the bus protects its caller, and calls it
    from one thread.
    """

    def export(self, events: Sequence[Event]) -> int | None:
        """Take events, in order; how many were lost (None for none), those among them that it had
        taken before and could not tell of until now. Raising loses all of these.
        """
        ...

    def close(self) -> None:
        """Send what is still queued and let go of resources."""
        ...


@runtime_checkable
class StorageAdapter(Protocol):
    """Keeps outside of the session's store what a compression leaves behind. Each says where it
    kept it, as a path or an address.

    Raises, from each method:
        StoreFailed: it could not be kept.
    """

    def save_transcript(self, session_id: str, messages: Sequence[Message]) -> str:
        """Keep the full history as it was before a compression."""
        ...

    def save_summary(self, session_id: str, step: int, summary: str) -> str:
        """Keep what a compression said, by its number in the session, counted from 1."""
        ...

    def save_event(self, session_id: str, event: Event) -> str:
        """Keep one event."""
        ...


@runtime_checkable
class ChatModel(Protocol):
    """Answers a prompt: an active context and nothing else, no history and no snapshot."""

    @property
    def name(self) -> str:
        """The model's key, for example `openai:gpt-4o`."""
        ...

    @property
    def abilities(self) -> Abilities:
        """What it can do, as far as that is known now."""
        ...

    def complete(self, context: ActiveContext, ask: Ask = ASK) -> Awaitable[Reply]:
        """The model's answer.

        Raises:
            ContextOverflow: the provider refused the prompt as too large.
            ModelUnavailable: it may answer later: busy, down, too slow.
            ModelRefused: it will not answer this: the key, the name, the request.
            ModelFailed: its answer cannot be used.
        """
        ...

    def stream(self, context: ActiveContext, ask: Ask = ASK) -> AsyncIterator[Delta]:
        """The answer as it is written; the last piece carries the whole reply.

        Raises:
            ModelFailed: and what else `complete` raises, before the first piece or at a later one.
        """
        ...

    def count(self, context: ActiveContext) -> Awaitable[int | None]:
        """Tokens of the prompt as the server counts them; None where it does not count."""
        ...

    def limits(self) -> Awaitable[Limits]:
        """What the server says of the model's limits.

        Raises:
            ModelUnavailable, ModelRefused: as `complete`.
        """
        ...


class SessionIndex(Protocol):
    """Which sessions there are."""

    def session(self, session_id: str, *, create: Session | None = None) -> Session:
        """The session of that id, as it stands; `create` is stored where there is none.

        Raises:
            NotFound: there is none, and none is to be made.
        """
        ...

    def sessions(self, *, scope: str | None = None) -> list[Session]:
        """The sessions of a scope, or of all, the one that changed last first."""
        ...

    def fork(self, branch_id: str, at: int) -> Branch:
        """A new branch that goes on from a position of another one, and is in force from now on."""
        ...

    def delete_session(self, session_id: str) -> None:
        """Remove a session for good, with whatever belongs to it and was indexed."""
        ...


class SessionDescriptions(Protocol):
    """What is said of a session beside its messages."""

    def describe(
        self, session_id: str, *, title: str | None, metadata: Mapping[str, Any]
    ) -> Session:
        """Give a session a title and metadata in the place of its own; it as it stands then.

        Raises:
            NotFound: there is no such session.
        """
        ...


class MessageLog(Protocol):
    """Histories: they only grow."""

    def append(
        self, branch_id: str, entries: Sequence[Entry], *, expected: int | None = None
    ) -> int:
        """Append entries, durably and all or none; how many messages the branch has afterwards.

        Raises:
            Superseded: the branch does not have `expected` messages any more.
        """
        ...

    def read(self, branch_id: str, start: int, stop: int) -> list[Entry]:
        """The entries at these positions, in order; fewer where there are no more. A negative start
        counts from the end.
        """
        ...

    def marked(self, branch_id: str, mark: int, *, before: int, most: int) -> list[int]:
        """Positions below `before` of the newest entries with the mark, newest first."""
        ...

    def position_of(self, branch_id: str, message_id: str) -> int | None:
        """Where the newest message of that id stands; None where there is none. An id may be
        shortened to its first eight characters.
        """
        ...


class Lineage(Protocol):
    """What of a branch is told without reading it."""

    def branch(self, branch_id: str) -> Branch:
        """The branch as it stands now."""
        ...

    def branches(self, session_id: str) -> list[Branch]:
        """All branches of a session, the oldest first."""
        ...

    def chain(self, branch_id: str, length: int) -> bytes:
        """The chain's hash (`messages.chain`) after so many messages."""
        ...

    def first_marked(self, branch_id: str, mark: int) -> int | None:
        """The position of the oldest entry with the mark."""
        ...


class Projections(Protocol):
    """What is in force for a window, and what was."""

    def commit(self, step: Step) -> Move:
        """Store the step's projection and checkpoints, and put it in force: all or nothing.

        Raises:
            Superseded: another move came in between.
        """
        ...

    def moves(self, session_id: str, window: int | None = None, *, most: int) -> list[Move]:
        """The newest moves, for a window or for all, newest first."""
        ...

    def projection(self, projection_id: str) -> Projection:
        """A projection with its checkpoints."""
        ...

    def checkpoints(self, session_id: str) -> list[Checkpoint]:
        """All checkpoints that were ever committed, the oldest first."""
        ...


class SnapshotLog(Protocol):
    """The snapshots of sessions."""

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot."""
        ...

    def snapshots(self, session_id: str) -> list[Snapshot]:
        """The session's snapshots, the oldest first."""
        ...

    def delete_snapshots(self, session_id: str, ids: Collection[str]) -> None:
        """Remove the session's snapshots of these ids; of others nothing is done."""
        ...


class SessionMetadata(Protocol):
    """Notes: small named values of a session."""

    def note(self, session_id: str, name: str, value: Mapping[str, Any] | None) -> None:
        """Keep a note in the place of the one of that name; None removes it."""
        ...

    def notes(self, session_id: str) -> dict[str, Mapping[str, Any]]:
        """The session's notes by name."""
        ...


class ChangeLog(Protocol):
    """What a session's log says beside its messages."""

    def record(
        self, session_id: str, changes: Sequence[Change], *, instead_of: Collection[int] = ()
    ) -> None:
        """Append changes with the next numbers, and remove these entries, all or nothing."""
        ...

    def changes(self, session_id: str, *, after: int = 0) -> list[Change]:
        """The session's entries with greater numbers, in their order."""
        ...


class Finder(Protocol):
    """Search by words."""

    def search(self, branch_id: str, text: str, *, most: int) -> list[Found]:
        """Messages of a branch, ancestors' too, that share words with the text; best first."""
        ...


Version = tuple[int, int]


@runtime_checkable
class Versioned(Protocol):
    """A store that tells whether anything was stored since."""

    def version(self) -> Version | None:
        """What is another one once something was stored: by others, and by how many transactions of
        this store's own, of which an append is one. None where that cannot be told now.
        """
        ...


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
    """Everything a session needs of a store. Safe from many threads. Of one that is `Versioned` as
    well only what may have changed is read.
    """

    def close(self) -> None:
        """Let go of files; closing twice is no error."""
        ...
