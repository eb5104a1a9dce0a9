"""Checks what is stored: each message against the chain of its branch."""

from __future__ import annotations

from collections.abc import Iterator

from compact.errors import StoreDamaged
from compact.messages import chain
from compact.messages.sessions import Branch
from compact.store.postgres.connection import Query, encoded
from compact.store.postgres.rows import ENTRY, entry_of

BATCH = 1_000
"""How many messages to read at once."""
_READ = f"""
    SELECT {ENTRY}, m.hash FROM compact.messages m
    WHERE m.scope = %(scope)s AND m.branch = %(branch)s AND m.position >= %(at)s
    ORDER BY m.position LIMIT {BATCH}
"""


def faults_of(query: Query, scope: str, branch: Branch, before: bytes) -> Iterator[str]:
    """Yield what is wrong with a branch's own messages. `before` is the chain's hash before them.
    Messages that are appended meanwhile are left out.
    """
    name, at, last = f"branch {branch.id!r} of scope {scope!r}", branch.fork, before
    while rows := query(_READ, {"scope": scope, "branch": encoded(branch.id), "at": at}):
        for *row, hash in rows:
            if row[0] != at:
                yield f"{name}: message {at} is missing"
                return
            try:
                last = chain.link(last, entry_of(row).message)
            except (StoreDamaged, ValueError) as error:
                yield f"{name}: message {at} cannot be read: {error}"
                return
            if last != bytes(hash):
                yield f"{name}: message {at} is not the one that was stored"
                return
            at += 1
            if at == branch.messages:
                return
    if at != branch.messages:
        yield f"{name}: {branch.messages} messages are named, and {at} are there"
