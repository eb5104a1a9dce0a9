"""Exports of sessions: checks which files may be written, and builds their content."""

from __future__ import annotations

from compact.cli import output, session_markdown
from compact.cli.errors import Stop
from compact.cli.stores import SessionCatalog, context_of
from compact.exchange import exporting
from compact.files import named_path
from compact.messages.sessions import Branch, Session
from compact.models.effective_settings import DEFAULT_WINDOW
from compact.store import session_file
from compact.store.session_file import SessionFile


def check_out(out: str, catalog: SessionCatalog, *, force: bool) -> None:
    """Refuse files that an export must not replace. It is called before any work is done."""
    output.refuse_store(out)
    store = str(named_path(catalog.file))
    if any(output.is_same_file(out, store + ending) for ending in ("", *output.SIDE_FILES)):
        raise Stop(f"{out} belongs to the store itself; give another name")
    start = output.beginning_of(out, session_markdown.SNIFFED)
    is_export = session_file.is_session_file(start) or session_markdown.is_session_markdown(start)
    if start and not is_export and not force:
        raise Stop(f"{out} exists and is not an exported session; --force replaces it")


def file_of(catalog: SessionCatalog, session: Session, branch: Branch | None = None) -> SessionFile:
    """Return the content of an export: a whole session, or one of its branches. Goals and pins
    belong to the open branch: exports of others have none. The window does not matter.
    """
    with context_of(catalog, session, window=DEFAULT_WINDOW) as ctx:
        chosen = session.branch if branch is None else branch
        is_open = chosen.id == ctx.branch_id
        never = ctx.policy.roles_never_pruned
        fixed = ((position, ctx.history[position]) for position in ctx.history.fixed)
        pins = [p for p, message in fixed if not message.is_pinned and message.role not in never]
        goals = ctx.goals
    whole = exporting.whole_session(catalog.store, session.id) if branch is None else None
    if whole is not None:
        session, messages = whole.session, [e.message for e in whole.line(chosen.id)]
        checkpoints = whole.checkpoints
    else:
        messages = [e.message for e in catalog.store.read(chosen.id, 0, chosen.messages)]
        session = session.model_copy(update={"branch": chosen})
        checkpoints = catalog.store.checkpoints(session.id)
    return SessionFile(
        session,
        messages,
        goals=goals if is_open else (),
        pins=pins if is_open else (),
        checkpoints=checkpoints,
        whole=whole,
    )


def text_of(file: SessionFile, *, as_text: bool) -> str:
    """Return the text of an export: Markdown for reading, or JSON for importing."""
    if as_text:
        return "".join(session_markdown.markdown_of(file.session, file.messages))
    return "".join(session_file.written(file))
