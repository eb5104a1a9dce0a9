"""`compactctl memory forget`: a session is deleted for good, and it is looked for afterwards."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from compact.cli.errors import BAD_INPUT, Stop
from compact.cli.options import command, flag
from compact.cli.progress import Progress
from compact.cli.render import show
from compact.cli.stores import OneSessionOptions, SessionCatalog, memory_of, opened
from compact.cli.told import Aside, Table, Telling
from compact.cli.words import counted, visible, whole
from compact.messages.sessions import Session
from compact.store.reports import ForgottenReport


@command
def memory_forget(
    options: OneSessionOptions,
    *,
    yes: Annotated[bool, flag("--yes", "Do not ask. SESSION must then be the full id.")] = False,
) -> Telling:
    """Delete a session for good, after asking.

    Its messages, branches, checkpoints, snapshots, goals and notes, what was made of them, its
    archive, copies in the setting `archive`, and what other sessions recalled of it leave no trace.
    Exits with 2 where something is left. Without a terminal to ask on, --yes is required. Backups
    are not touched.

    Examples:
      compactctl memory forget harbour
      compactctl memory forget harbour --yes
    """
    with opened(options) as catalog:
        session = catalog.find(options.session)
        if not _is_wanted(catalog, session, options.session, yes=yes):
            show(Aside("nothing was deleted"))
            return
        total = _size_of(catalog, session)  # others may have written while the person thought
        with Progress("Deleting, and looking for what is left"):
            report = memory_of(catalog, session.scope).forget(session.id)
    told = report.model_dump(mode="json", exclude={"session_id"})
    yield {"deleted": session.id, "messages": total, **told, "complete": report.is_complete}
    yield Aside(f"deleted session {session.id!r}, {counted(total, 'message')}")
    yield Aside(_removed(report))
    for line in report.remains:
        yield Aside(line)
    if not report.is_complete:
        raise typer.Exit(BAD_INPUT)


def _removed(report: ForgottenReport) -> Table:
    """What was removed, and what was found afterwards."""
    rows: list[tuple[str, int]] = list(report.removed.items())
    rows += [(f"quotes in {whole(name)}", count) for name, count in report.quoted.items()]
    rows += [("left", len(report.remains))]
    return Table(("removed", ""), rows, right=("",))


def _size_of(catalog: SessionCatalog, session: Session) -> int:
    """How many messages a session has, those of all its branches."""
    return sum(each.messages - each.fork for each in catalog.store.branches(session.id))


def _is_wanted(catalog: SessionCatalog, session: Session, name: str, *, yes: bool) -> bool:
    """Whether the person says yes.

    Raises:
        Stop: nobody can be asked.
    """
    if yes:
        if name != session.id:
            raise Stop(f"--yes needs the full id: {session.id!r}")
        return True
    if not all(s is not None and s.isatty() for s in (sys.stdin, sys.stderr)):
        raise Stop("there is no terminal to ask on; --yes deletes without asking")
    parts = [counted(_size_of(catalog, session), "message")]
    kept = len(catalog.store.snapshots(session.id))
    parts += [counted(kept, "snapshot")] if kept else []
    title = f" ({session.title})" if session.title else ""
    question = f"Delete session {session.id!r}{title}, {', '.join(parts)}, for good? [y/N] "
    sys.stderr.write(visible(question))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
