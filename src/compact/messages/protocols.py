"""The ports of compact: the protocols that the engine needs from the outside world.

A port that does only one thing is a callable. Implementations are in `models.providers`, `store`
and `telemetry`. Their conformance suites are in `compact.testing`. Memory needs more of a store
than these ports: a `SQLiteManager`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
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
    from compact.store.whole_session import WholeSession
    from compact.text.embedding import Numbers

Emit = Callable[["Event"], None]
"""Passes an event to the listeners. It returns at once and never raises."""


@runtime_checkable
class TokenEstimator(Protocol):
    """Counts the tokens of a text for one tokenizer."""

    @property
    def name(self) -> str:
        """The tokenizer's name, for example `o200k`."""

    @property
    def exact(self) -> bool:
        """Whether the model's own tokenizer counts. Otherwise it estimates with a margin."""

    def count(self, text: str) -> int:
        """Count the tokens of the text. An empty text has 0. Special tokens count as plain text."""


@runtime_checkable
class CutsLines(Protocol):
    """An estimator that can cut a text between lines without changing the count."""

    def lines(self, text: str) -> list[str]:
        """Split the text into pieces of one or more lines. Their tokens add up to the text's."""


@runtime_checkable
class Summarizer(Protocol):
    """Writes the summary that replaces a span of history in the prompt."""

    @property
    def name(self) -> str:
        """The writer's name, for example `extractive`."""

    @property
    def waits(self) -> bool:
        """Whether `summarize` may wait for something outside the process, such as a model."""

    def summarize(self, request: SummaryRequest) -> Awaitable[Summary]:
        """Summarize the request's messages in at most `max_tokens` tokens."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. Texts of similar meaning get vectors near each other."""

    @property
    def name(self) -> str:
        """The model's key, for example `minilm:all-MiniLM-L6-v2`."""

    @property
    def version(self) -> str:
        """A text that changes when new vectors cannot be compared with old ones. Reasons are other
        weights, another precision, or another prefix before each text.
        """

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[Numbers]:
        """Return the vector of each text, in order. It may wait for a model. `query` says that the
        texts are questions, not documents, because some models treat them differently.

        Raises:
            InvalidInput: a text is longer than the model's window. None is cut silently.
            ModelFailed: the model cannot be asked, or its answer cannot be used.
        """


@runtime_checkable
class CutsTexts(Protocol):
    """An embedder that knows how much of a text its model reads."""

    def pieces(self, text: str) -> list[str]:
        """Split the text into pieces that fit the model's window. Neighbours overlap."""


@runtime_checkable
class Exporter(Protocol):
    """Sends events to an observer, for example a file or a server. It may be slow or fail, because
    the event bus calls it from a thread of its own. Only one thread calls it.
    """

    def export(self, events: Sequence[Event]) -> int | None:
        """Take events, in order. Return how many events were lost since the last call; None means
        none. If this raises, all events of this call count as lost.
        """

    def close(self) -> None:
        """Send the events that are still queued, and release resources."""


@runtime_checkable
class StorageAdapter(Protocol):
    """Keeps transcripts, summaries and events outside the session's store.

    Each method returns the place as a path or an address.
    """

    def save_transcript(self, session_id: str, messages: Sequence[Message]) -> str:
        """Keep the full history as it was before a compression."""

    def save_summary(self, session_id: str, step: int, summary: str) -> str:
        """Keep a compression's summary. `step` is the compression's number, from 1."""

    def save_event(self, session_id: str, event: Event) -> str:
        """Keep one event."""


@runtime_checkable
class ChatModel(Protocol):
    """Answers a prompt. It takes only an active context, never a history or a snapshot."""

    @property
    def name(self) -> str:
        """The model's key, for example `openai:gpt-4o`."""

    @property
    def abilities(self) -> Abilities:
        """What the model can do, as far as it is known now."""

    def complete(self, context: ActiveContext, ask: Ask = ASK) -> Awaitable[Reply]:
        """Return the model's answer.

        Raises:
            ContextOverflow: the provider refused the prompt as too large.
            ModelUnavailable: the model is busy, down or too slow; it may answer later.
            ModelRefused: the key, the model's name or the request is refused.
            ModelFailed: the answer cannot be used.
        """

    def stream(self, context: ActiveContext, ask: Ask = ASK) -> AsyncIterator[Delta]:
        """Yield the answer piece by piece while it is written. The last piece carries the whole
        reply.

        Raises:
            ModelFailed: or what else `complete` raises, before the first piece or at a later one.
        """

    def count(self, context: ActiveContext) -> Awaitable[int | None]:
        """Return the prompt's tokens by the server's count, or None if it cannot count."""

    def limits(self) -> Awaitable[Limits]:
        """Return the limits that the server reports for the model.

        Raises:
            ModelUnavailable, ModelRefused: as `complete`.
        """


class SessionIndex(Protocol):
    """Creates, lists, forks and deletes sessions."""

    def session(self, session_id: str, *, create: Session | None = None) -> Session:
        """Return the session with that id. If there is none, store `create` and return it.

        Raises:
            NotFound: there is none, and `create` is None.
        """

    def sessions(self, *, scope: str | None = None) -> list[Session]:
        """Return the sessions of a scope, or of all. The last changed one comes first."""

    def fork(self, branch_id: str, at: int) -> Branch:
        """Make a branch that continues another from position `at`, and make it active."""

    def delete_session(self, session_id: str) -> None:
        """Delete a session for good, with everything that belongs to it and its index entries."""


class SessionDescriptions(Protocol):
    """Titles and metadata of sessions."""

    def describe(
        self, session_id: str, *, title: str | None, metadata: Mapping[str, Any]
    ) -> Session:
        """Replace a session's title and metadata. Return the changed session.

        Raises:
            NotFound: there is no such session.
        """


class MessageLog(Protocol):
    """Histories of branches. They only grow."""

    def append(
        self, branch_id: str, entries: Sequence[Entry], *, expected: int | None = None
    ) -> int:
        """Append entries durably, either all or none. Return the branch's new number of messages.

        Raises:
            Superseded: the branch no longer has `expected` messages.
        """

    def read(self, branch_id: str, start: int, stop: int) -> list[Entry]:
        """Return the entries at positions `start` to `stop` (excluded), in order. There are fewer
        at the end of the branch. A negative start counts from the end.
        """

    def marked(self, branch_id: str, mark: int, *, before: int, most: int) -> list[int]:
        """Return positions below `before` of the newest entries with the mark, newest first."""

    def position_of(self, branch_id: str, message_id: str) -> int | None:
        """Return the position of the newest message with that id, or None. The id may be shortened
        to its first eight characters.
        """


class Lineage(Protocol):
    """Facts about a branch that are known without reading its messages."""

    def branch(self, branch_id: str) -> Branch:
        """Return the branch in its present state."""

    def branches(self, session_id: str) -> list[Branch]:
        """Return all branches of a session, the oldest first."""

    def chain(self, branch_id: str, length: int) -> bytes:
        """Return the hash chain's value (`messages.chain`) after that many messages."""

    def first_marked(self, branch_id: str, mark: int) -> int | None:
        """Return the position of the oldest entry with the mark, or None."""


class Projections(Protocol):
    """The active projection of each window, which tells what prompts show, and earlier ones."""

    def commit(self, step: Step) -> Move:
        """Store the step's projection and checkpoints, and make them active. Do all of it or
        nothing.

        Raises:
            Superseded: another move was made meanwhile.
        """

    def moves(self, session_id: str, window: int | None = None, *, most: int) -> list[Move]:
        """Return the newest moves (committed steps) of one or all windows, newest first."""

    def projection(self, projection_id: str) -> Projection:
        """Return a projection with its checkpoints."""

    def checkpoints(self, session_id: str) -> list[Checkpoint]:
        """Return all checkpoints that were ever committed, oldest first."""


class SnapshotLog(Protocol):
    """The snapshots of sessions."""

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot."""

    def snapshots(self, session_id: str) -> list[Snapshot]:
        """Return the session's snapshots, the oldest first."""

    def delete_snapshots(self, session_id: str, ids: Collection[str]) -> None:
        """Remove the session's snapshots with these ids. Snapshots of other sessions stay."""


class SessionMetadata(Protocol):
    """Notes: small named values of a session."""

    def note(self, session_id: str, name: str, value: Mapping[str, Any] | None) -> None:
        """Set the note with that name. None removes the note."""

    def notes(self, session_id: str) -> dict[str, Mapping[str, Any]]:
        """Return the session's notes: name → value."""


class ChangeLog(Protocol):
    """The entries of a session's log that are not messages, such as goals and pins."""

    def record(
        self, session_id: str, changes: Sequence[Change], *, instead_of: Collection[int] = ()
    ) -> None:
        """Append changes with the next numbers, and remove the entries numbered `instead_of`. Do
        both or neither.
        """

    def changes(self, session_id: str, *, after: int = 0) -> list[Change]:
        """Return the session's entries with numbers greater than `after`, in order."""


class Finder(Protocol):
    """Search by words."""

    def search(self, branch_id: str, text: str, *, most: int) -> list[Found]:
        """Return messages of a branch that share words with the text, the best first."""


Version = tuple[int, int]


@runtime_checkable
class Versioned(Protocol):
    """A store that can tell whether anything was stored since it was last asked."""

    def version(self, branch_id: str) -> Version | None:
        """Return two counters. One of them changes with every stored transaction on the session of
        that branch, and perhaps on others. The second one counts appends by this store, and may
        count more. None if unknown now.
        """


@runtime_checkable
class ReadsAtOnce(Protocol):
    """A store that can read several things together."""

    def at_once(self) -> AbstractContextManager[None]:
        """Within the block, the store may answer this thread from one moment, until it writes. Its
        version is not newer than that moment.
        """


@runtime_checkable
class ReadsAhead(ReadsAtOnce, Protocol):
    """A store for which each answer is a round trip."""

    def read_ahead(self, *calls: Callable[[], object]) -> None:
        """Ask in one round trip what the calls of this store ask first. They are not answered."""

    def newest(self, session_id: str, window: int) -> Projection | None:
        """Return the projection of a window's newest move. The block's version is that of now."""


@runtime_checkable
class FindsChains(Protocol):
    """A store that finds sessions by a hash of their first messages (`messages.chain`)."""

    def beginning(self, chain: bytes, *, scope: str, most: int) -> list[tuple[str, bool]]:
        """Return the newest sessions of a scope that have a branch with that hash, at most `most`.
        Each has its id, and whether the branch ends at that hash.
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
    """Everything that a session needs from a store. It must be safe to use from many threads. If
    the store is also `Versioned`, a session reads again only what may have changed.
    """

    def close(self) -> None:
        """Release files. Closing twice is no error."""


@runtime_checkable
class BlobStore(Protocol):
    """Keeps whole files under names such as `2026/05/roof.json`, in a folder, a bucket or
    elsewhere. It must be safe to use from many threads and processes.
    """

    def put(self, name: str, data: bytes, *, replaces: bool = False) -> None:
        """Keep data under a name, all or nothing. The data are durable when this returns. If
        several callers use one name at once, one succeeds. With `replaces`, all succeed.

        Raises:
            FileExistsError: something is kept under that name, and `replaces` is off.
            FileNotFoundError: another caller deleted that name meanwhile.
            StoreFailed: the data could not be kept.
        """

    def get(self, name: str) -> bytes:
        """Return the data under a name.

        Raises:
            FileNotFoundError: there are none.
            StoreFailed: the data cannot be read now, or not with this key.
            StoreDamaged: the data are not what was put there.
        """

    def delete(self, name: str) -> None:
        """Remove the data under a name. Nothing happens if there are none.

        Raises:
            StoreFailed: the data could not be removed.
        """

    def address(self, name: str) -> str:
        """Return the place of the data, as text for people."""


class SessionTransfer(Protocol):
    """Copies sessions from elsewhere into a store. Each method stores everything or nothing."""

    def put_session(self, whole: WholeSession, *, replaces: Version | None = None) -> Session:
        """Store a new session with everything that belongs to it. Return the stored session. If it
        `replaces`, a session of that id is deleted in the same step.

        Raises:
            Superseded: a session with that id exists.
            InvalidInput: another session has a branch or a projection of one of its ids.
        """

    def add_from_source(
        self,
        branch_id: str,
        entries: Sequence[Entry],
        *,
        expected: int,
        metadata: Mapping[str, Any],
    ) -> None:
        """Append the new entries of a session's source, and merge the metadata into the session's
        own.

        Raises:
            Superseded: the branch does not have `expected` messages any more.
        """


@runtime_checkable
class CopiesInFolders(Protocol):
    """A `StorageAdapter` that keeps its copies of a session in one folder."""

    def place_of(self, session_id: str) -> str:
        """Return the folder of a session. It need not exist."""


@runtime_checkable
class ForgetsCopies(Protocol):
    """A `StorageAdapter` that can delete its copies of a session."""

    def forget(self, session_id: str) -> int:
        """Delete everything that is kept of a session. Return how many items were deleted.

        Raises:
            StoreFailed: something could not be deleted.
        """
