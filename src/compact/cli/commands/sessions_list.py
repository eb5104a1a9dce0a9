"""`compactctl sessions list`: the sessions of a store."""

from __future__ import annotations

from compact.cli.options import PAGE, Most, command
from compact.cli.render import Report, Styled, Table
from compact.cli.stores import StoreOptions, opened
from compact.cli.views import session_json, time_of
from compact.cli.words import counted, one_line, whole


@command
def sessions_list(options: StoreOptions, *, most: Most = PAGE) -> Report:
    """List the sessions, the most recently changed last.

    Examples:
      compactctl sessions list
      compactctl sessions list --store chat.db --scope alice --json
    """
    with opened(options) as catalog:
        sessions = catalog.sessions()
    page = sessions[:most][::-1]
    listed = [session_json(session) for session in page]
    yield {"store": catalog.file, "total": len(sessions), "sessions": listed}
    if not sessions:
        where = "" if options.scope is None else f" in scope {options.scope!r}"
        yield Styled(f"{catalog.file}: no sessions{where}")
        return
    if len(sessions) > len(page):
        older = counted(len(sessions) - len(page), "older one")
        yield f"{older}: --most {len(sessions)} shows all"
    rows = [
        (
            whole(session.id),
            one_line(session.title or "", 60),
            session.branch.messages,
            session.branch.tokens,
            time_of(session.updated_at),
            one_line(session.scope, 30),
        )
        for session in page
    ]
    names = ("session", "title", "messages", "tokens", "changed", "scope")
    yield Table(names, rows, right=("messages", "tokens"), whole=("session",), is_list=True)
