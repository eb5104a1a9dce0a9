"""`compactctl search`: searches all sessions of a scope."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, cast

from compact.cli.options import FOUND, Most, argument, command, day_option, flag, text_option
from compact.cli.progress import Progress, counting
from compact.cli.render import Aside, Part, Report, Styled, Table
from compact.cli.stores import StoreOptions, memory_of, opened
from compact.cli.views import archived_table, time_of
from compact.cli.words import one_line, whole
from compact.messages.messages import Role
from compact.text.found import FoundSession, Hit


@dataclass(frozen=True, kw_only=True)
class FindOptions(StoreOptions):
    """Options that limit the search."""

    session: Annotated[
        list[str] | None, text_option("SESSION", "Only this session; may be repeated.")
    ] = None
    role: Annotated[
        list[str] | None,
        text_option("ROLE", "Only what user, assistant, tool or system said; may be repeated."),
    ] = None
    since: Annotated[datetime | None, day_option("Only from this time on, as 'last week'.")] = None
    until: Annotated[datetime | None, day_option("Only until its end.", at_end=True)] = None
    recent: Annotated[bool, flag("--recent", "Prefer newer messages a little.")] = False


@command
def search(
    options: FindOptions,
    *,
    query: Annotated[list[str], argument("QUERY...", "A question, words, or '' for all.")],
    most: Most = FOUND,
    sessions: Annotated[bool, flag("--sessions", "List the sessions, not the messages.")] = False,
) -> Report:
    """Search all sessions for an answer to a question, the best match first.

    A message is found by its words in any form, by the messages beside it, and by its time, as in
    "yesterday". Without --scope, the scope default is searched; others are never found.

    Examples:
      compactctl search when did we move the harbour office
      compactctl search "winter berths" --since 2026-01-01 --role user
      compactctl search boat licence --sessions --json
      compactctl search "" --since "3 March" --until "3 March"
    """
    with opened(options) as catalog, Progress("Searching") as progress:
        memory = memory_of(catalog)
        memory.catch_up(counting(progress, "Indexing"))
        result = memory.search(
            " ".join(query),
            limit=most,
            sessions=[catalog.find(name).id for name in options.session or ()],
            roles=[cast("Role", name) for name in options.role or ()],
            since=options.since,
            until=options.until,
            recent=options.recent,
        )
        scope, empty = memory.scope, not memory.sessions()
    yield {"scope": scope, **result.model_dump(mode="json")}
    if not result.complete:
        yield Aside("the index could not catch up: the newest messages were not searched")
    if result.failed:
        yield Aside(Styled(f"searched by words alone: {result.failed}", "yellow"))
    if result.unread:
        more = f" (and {len(result.unread) - 1:,} more)" if len(result.unread) > 1 else ""
        yield Aside(Styled(f"messages were left out: {result.unread[0]}{more}", "yellow"))
    if empty:
        yield Aside(f"{catalog.file}: no sessions in scope {scope!r}")
    elif not result.hits and not result.unread:
        yield Aside(f"no message in scope {scope!r} answers {result.query!r}")
    if sessions and result.sessions:
        yield _session_table(result.sessions)
    elif not sessions:
        yield from _hits(result.hits)
    if result.archived:
        yield Styled("In the archive:", "bold")
        yield archived_table(result.archived)


def _hits(hits: tuple[Hit, ...]) -> Iterator[Part]:
    for hit in hits:
        name, who = one_line(hit.title or hit.session_id, 60), one_line(hit.speaker or hit.role, 40)
        where = " · archived" if hit.archived else ""
        yield Styled(f"{name} · {hit.position:,} · {time_of(hit.timestamp)} · {who}{where}", "bold")
        yield Styled(f"{hit.text}\n")


def _session_table(found: Sequence[FoundSession]) -> Table:
    rows = [
        (
            whole(each.session_id),
            one_line(each.title or "", 60),
            f"{each.score:4.2f}",
            f"{time_of(each.begun):.10}",
            f"{time_of(each.ended):.10}",
            each.messages,
        )
        for each in found
    ]
    names, days = ("session", "title", "score", "from", "to", "messages"), ("from", "to")
    right = ("score", "messages")
    return Table(names, rows, right=right, whole=("session", *days), is_list=True)
