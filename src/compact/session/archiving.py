"""Archives copies, without secrets, of what a compression takes out of prompts.

The copies are the history before the compression, the summaries and the events. They are kept
outside the session's store.

A thread writes them, so that no call of a model waits for a disk or a server. If a copy fails, the
event `compact.error` says so, and the copy is not tried again. The session continues: its own store
has everything. At its end the program waits until the copies are written, even if the session was
not closed.
"""

from __future__ import annotations

import atexit
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from threading import Thread
from weakref import WeakSet

from compact import forks
from compact.errors import StoreFailed
from compact.messages.checkpoints import REFERENCE_LINE
from compact.messages.events import (
    Archival,
    Committed,
    ErrorRaised,
    Event,
    PrunedMessages,
    SummaryCreated,
    SummaryReplaced,
)
from compact.messages.message_redaction import redact_messages, redact_text
from compact.messages.messages import Message
from compact.messages.own_text import below
from compact.messages.protocols import Emit, SessionStore, StorageAdapter
from compact.messages.sessions import CheckpointRef, Projection, Shown
from compact.secrets.redaction import Known
from compact.secrets.redactor import NOTHING_ELSE, Redactor
from compact.telemetry.plain_words import redacted

PAGE = 256
"""How many messages to read from the store at once."""
LONGEST_CLOSE = 30.0
"""How long closing waits for the remaining copies, in seconds."""
KEPT = (SummaryCreated, SummaryReplaced, PrunedMessages, Committed, ErrorRaised)
"""The kinds of events that are archived: those of a compression."""
STAGE = "archive"
"""The name of the stage in errors of archiving."""
SOURCE = "checkpoint"
"""The source of messages whose text is a summary."""


class Archive:
    """Writes copies of what a session's compressions take out of prompts."""

    def __init__(
        self,
        adapter: StorageAdapter,
        store: SessionStore,
        session_id: str,
        emit: Emit,
        redactor: Redactor = NOTHING_ELSE,
    ) -> None:
        self._adapter = adapter
        self._store = store
        self._session_id = session_id
        self._tell = emit
        self._redactor = redactor
        self._left: deque[Callable[[], None]] = deque()
        self._lock = forks.Lock()
        self._thread: Thread | None = None

    def emit(self, event: Event) -> None:
        """Pass the event to the listener, and archive it if it is about a compression."""
        self._tell(event)
        if isinstance(event, KEPT):
            self._later(lambda: self._save("event", lambda: self._event(event)))
        if isinstance(event, Committed):
            self._later(lambda: self._compression(event))

    def close(self, until: float | None = None) -> None:
        """Wait until all copies are written, at most until `until` (monotonic clock) or for
        `LONGEST_CLOSE` seconds. An event reports how many copies are left.
        """
        if self._lock.is_inherited:
            return
        thread = self._thread
        if thread is not None:
            thread.join(LONGEST_CLOSE if until is None else max(0.0, until - time.monotonic()))
        _writing().discard(self)
        if self._left:
            reason = f"{len(self._left)} of them were not written within {LONGEST_CLOSE:g} seconds"
            self._failed(StoreFailed(reason))

    # --- in the thread ----------------------------------------------------------------------------

    def _later(self, work: Callable[[], None]) -> None:
        with self._lock:
            self._left.append(work)
            _writing().add(self)
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._work, name="compact-archive", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._left:
                    self._thread = None
                    return
                work = self._left[0]
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - what cannot be read is not archived
                self._failed(error)
            self._left.popleft()

    def _compression(self, event: Committed) -> None:
        moves = self._store.moves(self._session_id, event.window, most=PAGE)
        move = next((move for move in moves if move.number == event.move), None)
        if move is None or move.projection_id is None:
            return
        projection = self._store.projection(move.projection_id)
        secrets = Known(redactor=self._redactor)
        history = redact_messages(self._messages(move.branch_id, projection.at), secrets)
        self._save("transcript", lambda: self._adapter.save_transcript(self._session_id, history))
        words = redact_text(said_by(projection), secrets)
        step = projection.number
        self._save("summary", lambda: self._adapter.save_summary(self._session_id, step, words))

    def _messages(self, branch_id: str, stop: int) -> Iterator[Message]:
        for start in range(0, stop, PAGE):
            for entry in self._store.read(branch_id, start, min(start + PAGE, stop)):
                yield entry.message

    def _event(self, event: Event) -> str:
        named = event.model_copy(update={"session_id": self._session_id})
        return self._adapter.save_event(self._session_id, redacted(named, self._redactor))

    def _save(self, what: str, save: Callable[[], str]) -> None:
        try:
            place = save()
        except BaseException as error:  # noqa: BLE001 - else Python prints all that it says
            self._failed(error)
            return
        if what != "event":
            self._tell(Archival(what=what, place=place))

    def _failed(self, error: BaseException) -> None:
        self._tell(
            ErrorRaised(
                stage=STAGE,
                error=type(error).__name__,
                message=str(error),
                serves="the session, which has it all in its store",
            )
        )


def said_by(projection: Projection) -> str:
    """Return the texts that replace messages in a prompt: checkpoints and record, in order."""
    texts = {checkpoint.id: checkpoint.summary for checkpoint in projection.checkpoints}
    words: list[str] = []
    for piece in projection.pieces:
        match piece:
            case CheckpointRef(checkpoint_id):
                words.append(texts[checkpoint_id])
            case Shown(message, None) if message.metadata.source == SOURCE:
                words.append(below(message.text))
    return "\n\n".join(text.replace(REFERENCE_LINE, "").strip() for text in words)


@cache
def _writing() -> WeakSet[Archive]:
    """Return the archives that may still have copies to write. The first call registers an exit
    handler that waits for them. It runs before the exporters' handlers, which were registered
    earlier, so exporters still get its events.
    """
    archives: WeakSet[Archive] = WeakSet()

    @atexit.register
    def finish() -> None:
        """Wait before the interpreter ends: a thread that is ended in native code can abort."""
        until = time.monotonic() + LONGEST_CLOSE
        for archive in list(archives):
            archive.close(until)

    return archives
