"""`compactctl show`: shows a session as an overview, or one part of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from compact.cli.errors import Stop
from compact.cli.options import (
    PAGE,
    argument,
    command,
    count,
    flag,
    number_option,
    position,
    text_option,
)
from compact.cli.render import Aside, Bar, Data, Report, Shown, Styled, Table
from compact.cli.settings import check_choice
from compact.cli.stores import OpenOptions, SessionCatalog, context_of, one_of, opened
from compact.cli.views import (
    Row,
    checkpoint_json,
    messages_json,
    messages_parts,
    session_json,
    standing_json,
    standing_line,
    time_of,
    tokens_by_part,
)
from compact.cli.words import counted, one_line, whole
from compact.messages.checkpoints import Checkpoint
from compact.messages.context import ActiveContext
from compact.messages.formats.known import prompt_of
from compact.messages.goals import Goal
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Session, Snapshot
from compact.session.context_manager import ContextManager
from compact.session.history import SessionHistory

SHOWN_MESSAGES = 200
"""How many messages of a context are shown by default. Few contexts have more."""
DEEPEST = 100
"""How many generations of checkpoints the tree shows."""
MEASURED = frozenset(("retention",))
"""Rules of the gate whose verdicts are shown even if they passed."""
PURPOSES = {"recovery": "yours", "rollback": "before going back"}
"""Purpose of a snapshot → text for people. Other purposes are shown by their own name."""
PARTS: Mapping[str, frozenset[str]] = {
    "session": frozenset(),
    "context": frozenset(("at", "most", "full", "text", "recall")),
    "history": frozenset(("first", "most", "full", "branch")),
    "checkpoints": frozenset(("all",)),
    "goals": frozenset(),
}
"""Part of a session → the options that it takes."""


@dataclass(frozen=True, kw_only=True)
class ShowOptions(OpenOptions):
    """Options of `show`."""

    what: Annotated[
        str,
        argument(
            "[WHAT]",
            "context, history, checkpoints, goals, or the id of a checkpoint. Default: all.",
        ),
    ] = "session"
    at: Annotated[int | None, number_option("The context at N messages. Default: now.", count)] = (
        None
    )
    first: Annotated[
        int | None,
        typer.Option("--from", parser=position, metavar="N", help="The history from message N on."),
    ] = None
    most: Annotated[int | None, number_option("How many messages to show.", count)] = None
    full: Annotated[bool, flag("--full", "Every message word for word.")] = False
    text: Annotated[bool, flag("--text", "The context exactly as a model sees it.")] = False
    recall: Annotated[bool, flag("--recall", "The context with the old turns quoted in it.")] = (
        False
    )
    branch: Annotated[str | None, text_option("ID", "The history of this branch.")] = None
    all: Annotated[
        bool, flag("--all", "Checkpoints of other windows and branches too, and undone ones.")
    ] = False


@command
def show(options: ShowOptions) -> Report:
    """Show a session: an overview, or its context, history, checkpoints or goals.

    The context is what a model sees now, or saw at N messages; nothing is compressed for it. The
    history is complete, whatever was compressed. Checkpoints are a tree: below each are those it
    was made from; an id reads one, and expand shows its originals.

    Examples:
      compactctl show harbour
      compactctl show harbour context --at 120 --text | less
      compactctl show harbour history --from 0 --most 20 --full
      compactctl show harbour checkpoints
      compactctl show harbour ck-0aac85b0ed4c
    """
    what = "checkpoints" if options.what.startswith("ck-") else options.what
    check_choice("WHAT", what, list(PARTS))
    for name in sorted(frozenset().union(*PARTS.values()) - PARTS[what]):
        if getattr(options, name) not in (None, False):
            takes = " or ".join(part for part, names in PARTS.items() if name in names)
            option = "--from" if name == "first" else f"--{name}"
            raise Stop(f"{option} is for: show SESSION {takes}")
    with opened(options) as catalog:
        session = catalog.find(options.session)
        if what == "history":
            yield from _history(catalog, session, options)
            return
        ctx = context_of(catalog, session, recall=options.recall)
        if what == "session":
            yield from _overview(ctx, session)
        elif what == "context":
            yield from _context(ctx, session, options)
        elif what == "goals":
            yield from _goals(ctx)
        else:
            yield from _checkpoints(ctx, options.what, all=options.all)


# --- the overview ---------------------------------------------------------------------------------


def _overview(ctx: ContextManager, session: Session) -> Report:
    history, never = ctx.history, ctx.policy.roles_never_pruned
    metadata = {name: value for name, value in session.metadata.items() if name != "tools"}
    pinned = [place for place in sorted(history.fixed) if history[place].role not in never]
    branches, snapshots = ctx.time.branches(), ctx.time.snapshots()
    yield {
        **session_json(session),
        "metadata": metadata,
        "mode": ctx.mode,
        "pinned": pinned,
        "now": standing_json(ctx),
        "usable": ctx.window.usable,
        "trigger": ctx.window.trigger,
        "goals": [goal.model_dump(mode="json") for goal in ctx.goals],
        "branches": [branch.model_dump(mode="json") for branch in branches],
        "snapshots": [s.model_dump(mode="json", exclude={"policy", "goals"}) for s in snapshots],
    }
    yield Styled(one_line(session.title or session.id, 200), "bold")
    yield standing_line(ctx)
    facts = {
        "id": whole(session.id),
        "scope": whole(session.scope),
        "model": whole(session.model or ""),
        "format": session.wire,
        "tokenizer": whole(session.tokenizer or ""),
        "mode": ctx.mode,
        "created": time_of(session.created_at),
        "changed": time_of(session.updated_at),
        "whole history": counted(session.branch.tokens, "token"),
        "a prompt may use": counted(ctx.window.usable, "token"),
        "compressed from": f"{counted(ctx.window.trigger, 'token')} on",
        "important": "kept whole whatever its age" if metadata.get("important") else "",
        "tags": one_line(" ".join(f"#{tag}" for tag in metadata.get("tags") or ()), 200),
        "pinned": one_line(", ".join(map(str, pinned)), 200),
    }
    rows = [(name, value) for name, value in facts.items() if value]
    rows += [("goal", one_line(f"{goal.text} ({goal.status})", 200)) for goal in ctx.goals]
    yield Table(("", ""), rows)
    yield from _places(session, branches, snapshots)


def _places(session: Session, branches: list[Branch], snapshots: list[Snapshot]) -> Report:
    if len(branches) > 1:
        yield ""
        branch_rows = [
            (
                whole(branch.id) + " (open)" * (branch.id == session.branch.id),
                branch.messages,
                one_line(f"{branch.parent} at {branch.fork:,}") if branch.parent else "",
            )
            for branch in branches
        ]
        yield Table(("branch", "messages", "starts from"), branch_rows, right=("messages",))
    if snapshots:
        yield ""
        saved = [
            (whole(s.id), s.at, PURPOSES.get(s.purpose, s.purpose), one_line(s.note, 60))
            for s in snapshots
        ]
        yield Table(("snapshot", "at", "purpose", "note"), saved, right=("at",))


def _goals(ctx: ContextManager) -> Report:
    goals = ctx.goals
    yield [goal.model_dump(mode="json") for goal in goals]
    if not goals:
        yield Aside("this session has no goals")
        return
    ids = {goal.id for goal in goals}
    lengths = range(8, max(8, *map(len, ids)) + 1)
    length = next(n for n in lengths if len({id[:n] for id in ids}) == len(ids))
    rows = []
    for goal in goals:
        reached = sum(task.status == "completed" for task in goal.subtasks)
        steps = f"{reached} of {len(goal.subtasks)}" if goal.subtasks else ""
        status = goal.status if goal.priority == "medium" else f"{goal.status}, {goal.priority}"
        text = one_line(f"{'(set by a model) ' * goal.is_models}{goal.text}", 400)
        rows.append((one_line(goal.id[:length]), status, steps, "\n".join([text, *_steps(goal)])))
    yield Table(("id", "status", "steps", "goal"), rows)


def _steps(goal: Goal) -> list[str]:
    lines = [
        f"{task.status.replace('_', ' ')}: {task.text}{f' ({task.note})' if task.note else ''}"
        for task in goal.subtasks
    ]
    lines += [f"decided{' for good' * each.locked}: {each.text}" for each in goal.decisions]
    lines += [f"{file.action}: {file.path}" for file in goal.artifacts]
    lines += [f"next: {step}" for step in goal.next_steps]
    return [f"  {one_line(line, 200)}" for line in lines]


# --- the history ----------------------------------------------------------------------------------


def _history(catalog: SessionCatalog, session: Session, options: ShowOptions) -> Report:
    branch, most = catalog.branch(session, options.branch), options.most or PAGE
    start = max(0, branch.messages - most)
    if options.first is not None:
        start = min(options.first, branch.messages)
    entries = catalog.store.read(branch.id, start, start + most)
    rows = [(n, entry.message, entry.tokens) for n, entry in enumerate(entries, start)]
    place = {"session": session.id, "branch": branch.id, "total": branch.messages}
    yield {**place, "messages": messages_json(rows)}
    page = f"{start:,} to {start + len(rows) - 1:,}" if rows else "none"
    title = whole(session.title or session.id)
    line = f"{title} · branch {branch.id} · messages {page} of {branch.messages:,}"
    yield Styled(whole(line), "bold")
    yield from messages_parts(rows, full=options.full)


# --- the context ----------------------------------------------------------------------------------


def _context(ctx: ContextManager, session: Session, options: ShowOptions) -> Report:
    at = len(ctx.history) if options.at is None else options.at
    most = options.most or SHOWN_MESSAGES
    context = ctx.time.context_at(at)
    yield {
        "session": ctx.id,
        "branch": ctx.branch_id,
        "at": at,
        **({"system": context.system_text} if context.system else {}),
        "window": ctx.window.size,
        "usable": ctx.window.usable,
        "tokens": context.tokens,
        "checkpoints": [checkpoint.id for checkpoint in context.checkpoints],
        "messages": prompt_of(context, session.wire),
    }
    if options.text:
        yield Data(context.render_text())
        return
    of_all = counted(len(ctx.history), "message")
    when = f"now, with {of_all}" if at == len(ctx.history) else f"at {at:,} of {of_all}"
    yield Styled(one_line(f"{ctx.id} · {when}", 200), "bold")
    yield from _room(ctx, context, at)
    rows = list(_numbered(ctx.history, context.messages[-most:]))
    if left := len(context.messages) - len(rows):
        older = f"{counted(left, 'older message')} {'is' if left == 1 else 'are'} not shown"
        yield f"{older}: --most {len(context.messages)} shows all\n"
    if words := context.system_text if context.system else "":
        rows.insert(0, (None, Message(role="system", content=words), ctx.estimate_tokens(words)))
    yield from messages_parts(rows, full=options.full)


def _room(ctx: ContextManager, context: ActiveContext, at: int) -> Iterator[Shown]:
    window, system = ctx.window, context.system_text
    usable = f"the {window.usable:,} tokens a prompt may use of {window.size:,}"
    if (over := context.tokens - window.usable) > 0:
        yield Styled(f"{context.tokens:,} tokens: {over:,} more than {usable}", "bold red")
    else:
        yield f"{context.tokens:,} of {usable}"
    parts = tokens_by_part(context.messages, ctx.history.counter)
    del parts["pinned"]
    parts["system"] += ctx.estimate_tokens(system) if system else 0
    parts["tools and framing"] = max(0, context.tokens - sum(parts.values()))
    parts["free"] = max(0, window.usable - context.tokens)
    yield Bar(parts, max(window.usable, context.tokens))
    if at == len(ctx.history) and context.tokens > window.trigger:
        trigger = f"the trigger of {window.trigger:,} tokens was passed"
        yield Styled(f"{trigger}: the next prompt is compressed first", "yellow")
    yield ""


def _numbered(history: SessionHistory, messages: Sequence[Message]) -> Iterator[Row]:
    for message in messages:
        place = history.position_of(message.id)
        if place is None or message.edited:
            yield place, message, history.counter.message(message)
        else:
            yield place, message, history.tokens(place)


# --- checkpoints ----------------------------------------------------------------------------------


def _checkpoints(ctx: ContextManager, what: str, *, all: bool) -> Report:
    stored = {checkpoint.id: checkpoint for checkpoint in ctx.store.checkpoints(ctx.id)}
    live = [checkpoint.id for checkpoint in ctx.checkpoints]
    if what != "checkpoints":
        name = one_of(what, list(stored), what="checkpoint", where=f"session {ctx.id!r}")
        yield from _checkpoint(stored[name], live=name in live)
        return
    listed = [checkpoint_json(c, live=c.id in live) for c in stored.values()]
    yield {"session": ctx.id, "window": ctx.window.size, "checkpoints": listed}
    window = f"{ctx.window.size:,}"
    number = f"{len(live)} in the context for a window of {window}, {len(stored)} ever made"
    yield Styled(f"{whole(ctx.id)}: {number}", "bold")
    drawn: set[str] = set()
    for id in live:
        yield from _tree(id, stored, drawn)
    parents = {parent for checkpoint in stored.values() for parent in checkpoint.parents}
    others = [id for id in stored if id not in drawn and id not in parents]
    if all and others:
        yield "not in this context"
        for id in others:
            yield from _tree(id, stored, drawn, depth=1)


def _tree(
    id: str, known: Mapping[str, Checkpoint], drawn: set[str], depth: int = 0
) -> Iterator[Styled]:
    """Yield a checkpoint and, below it, its sources. One that was drawn before is only named."""
    indent = "    " * depth
    if id not in known:
        yield Styled(f"{indent}{one_line(id)} (not in this store)")
    elif id in drawn:
        yield Styled(f"{indent}{_line(known[id])}  (see above)", "bright_black")
    else:
        drawn.add(id)
        yield Styled(indent + _line(known[id]), "green" if depth == 0 else "")
        if depth == DEEPEST and known[id].parents:
            yield Styled(f"{indent}    …")
            return
        for parent in known[id].parents:
            yield from _tree(parent, known, drawn, depth + 1)


def _line(checkpoint: Checkpoint) -> str:
    span = checkpoint.span
    covered = "" if span.tokens is None else f", {counted(span.tokens, 'token')}"
    about = f"{span.messages:,} of messages {span.first:,} to {span.last:,}{covered}"
    return f"{one_line(checkpoint.id)}  {checkpoint.level}  {about} > {checkpoint.token_count:,}"


def _checkpoint(checkpoint: Checkpoint, *, live: bool) -> Report:
    verdicts = [verdict.model_dump(mode="json") for verdict in checkpoint.verdicts]
    more = {"anchors": list(checkpoint.anchors), "verdicts": verdicts}
    yield {**checkpoint_json(checkpoint, live=live), **more, "summary": checkpoint.summary}
    yield Styled(_line(checkpoint), "green")
    state = "in the context now" if live else "not in the context now"
    made_of = f"; made of {', '.join(checkpoint.parents)}" if checkpoint.parents else ""
    yield one_line(f"by {checkpoint.made_by}, {state}{made_of}", 2_000)
    for verdict in checkpoint.verdicts:
        if not verdict.passed or verdict.rule in MEASURED:
            style = "bright_black" if verdict.passed else "yellow"
            yield Styled(one_line(f"{verdict.rule}: {verdict.detail}", 200), style)
    yield Styled(f"\n{checkpoint.summary}")
