"""`run_job` does a piece of work on a memory, wherever a worker runs: `compactctl work`, or another
job system (docs/guides/workers.md).

    run_job({"kind": "age", "scope": "tenant-7"}, store="postgresql://db.internal/chats")

Each effect is stored by a comparison with what it was made from. So a job that is done twice, or at
once by two workers, or again after a kill, has one effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from datetime import timedelta
from typing import Any

from compact import wiring
from compact.config import CompactConfig
from compact.errors import InvalidArgument, NotFound, StoreFailed
from compact.memory.ageing import day_of
from compact.memory.memory_manager import MemoryManager
from compact.messages import clock_and_ids
from compact.messages.protocols import SessionStore
from compact.session.compact_manager import CompactManager
from compact.text.jobs import Job as Job

GONE = "the session was deleted"


def run_job(
    job: Job | Mapping[str, Any] | str | bytes,
    *,
    store: str | SessionStore | None = None,
    settings: CompactConfig | None = None,
) -> str:
    """Do a job, and return what was done, in words. `job` is a job, its fields, or JSON.

    `store` is an open store, or the name of one. The default is the setting `store`. `settings` are
    by default those of the environment. A job of a session that was deleted does nothing.

    Raises:
        InvalidArgument: it is no job, or there is no store, embedder or window for it.
        CompactError: it failed. Do it again later.
    """
    job, settings = Job.read(job), settings or CompactConfig.load()
    given = store or settings.store
    if given is None:
        raise InvalidArgument("store", "a job needs a store: name one, or set COMPACT_STORE")
    with ExitStack() as stack:
        if isinstance(given, str):
            given = stack.enter_context(closing(wiring.store_at(given)))
        within: SessionStore = wiring.memory_store(given, job.scope)
        if job.kind == "compress":
            return _compress(job, within, settings)
        memory = MemoryManager(within, scope=job.scope, settings=settings)
        match job.kind:
            case "age":
                return _age(job, memory)
            case "embed":
                return f"{memory.embed():,} messages embedded"
            case "index":
                return _index(memory)


def _age(job: Job, memory: MemoryManager) -> str:
    try:
        report = memory.age(session_id=job.session)
    except NotFound:
        return GONE
    if job.session is None:
        now, store = clock_and_ids.now(), wiring.memory_store(memory.store, job.scope)
        store.hold_lease(day_of(job.scope), now=now, until=now + timedelta(days=1))
    return f"{report.written:,} digests written"


def _index(memory: MemoryManager) -> str:
    if not memory.catch_up():
        raise StoreFailed("the words of some messages could not be stored")
    return "all messages have words"


def _compress(job: Job, store: SessionStore, settings: CompactConfig) -> str:
    """Make the prompt that the next turn would make, so that it need not wait for a model."""
    try:
        session = store.session(job.session or "")
    except NotFound:
        return GONE
    window = job.arguments.get("window") or settings.max_context_tokens
    if window is None and settings.model is None:
        moves = store.moves(session.id, None, most=1)
        if not moves:
            reason = "give the window in tokens: this session was never compressed"
            raise InvalidArgument("window", reason)
        window = moves[0].window
    settings = settings.model_copy(update={"max_context_tokens": window})
    with CompactManager(settings, store=store, scope=job.scope) as manager:
        ctx = manager.session(session.id, create=False)
        before = ctx.compressions
        ctx.active_context()
        return f"{ctx.compressions - before:,} compressions"
