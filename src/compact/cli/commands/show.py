"""`compactctl show`: a session as an overview, or one part of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

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
from compact.messages.sessions import Session
from compact.session.context_manager import ContextManager
from compact.session.history import SessionHistory

SEEN = 200
"""Messages of a context shown by default. Few contexts have more."""
DEEPEST = 100
"""Generations of checkpoints in the tree."""
MEASURED = frozenset(("retention",))
"""Rules whose verdicts are shown even if they passed."""
LEAST_ID = 8
"""The fewest characters of a goal's id."""
PURPOSES = {"recovery": "yours", "rollback": "before going back"}
"""Purpose of a snapshot → words for people, where the store's differ."""
PARTS: Mapping[str, frozenset[str]] = {
    "session": frozenset(),
    "context": frozenset(("at", "most", "full", "text", "recall")),
    "history": frozenset(("first", "most", "full", "branch")),
    "checkpoints": frozenset(("all",)),
    "goals": frozenset(),
}
"""Part of a session → options that it takes."""


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
        typer.Option(
            "--from",
            parser=position,
            metavar="N",
            help="The first message of the history to show. Default: the newest ones.",
        ),
    ] = None
    most: Annotated[int | None, number_option("How many messages to show.", count)] = None
    full: Annotated[bool, flag("--full", "Every message word for word.")] = False
    text: Annotated[bool, flag("--text", "The context exactly as a model sees it.")] = False
    recall: Annotated[
        bool, flag("--recall", "The context with the old turns that are quoted for its newest one.")
    ] = False
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
    what = options.what
    _check(options)
    with opened(options) as catalog:
        session = catalog.find(options.session)
        if what == "history":
            yield from _history(catalog, session, options)
            return
        ctx = context_of(catalog, session, recall=options.recall)
        match what:
            case "session":
                yield from _overview(ctx, session)
            case "context":
                yield from _context(ctx, session, options)
            case "goals":
                yield from _goals(ctx)
            case _:
                yield from _checkpoints(ctx, what, all=options.all)


def _check(options: ShowOptions) -> None:
    what = "checkpoints" if options.what.startswith("ck-") else options.what
    check_choice("WHAT", what, list(PARTS))
    for name in sorted(frozenset().union(*PARTS.values()) - PARTS[what]):
        if getattr(options, name) not in (None, False):
            takes = " or ".join(part for part, names in PARTS.items() if name in names)
            option = "--from" if name == "first" else f"--{name}"
            raise Stop(f"{option} is for: show SESSION {takes}")


# --- the overview ---------------------------------------------------------------------------------


def _overview(ctx: ContextManager, session: Session) -> Report:
    overview: dict[str, Any] = {
        **session_json(session),
        "metadata": dict(session.metadata),
        "mode": ctx.mode,
        "pinned": _pinned(ctx),
        "now": standing_json(ctx),
        "usable": ctx.window.usable,
        "trigger": ctx.window.trigger,
        "goals": [goal.model_dump(mode="json") for goal in ctx.goals],
        "branches": [branch.model_dump(mode="json") for branch in ctx.branches()],
        "snapshots": [
            snapshot.model_dump(mode="json", exclude={"policy", "goals"})
            for snapshot in ctx.snapshots()
        ],
    }
    overview["metadata"].pop("tools", None)
    yield overview
    yield Styled(one_line(session.title or session.id, 200), "bold")
    yield standing_line(ctx)
    yield _facts(overview, session)
    if len(overview["branches"]) > 1:
        yield ""
        yield _branches(overview)
    if overview["snapshots"]:
        yield ""
        yield _snapshots(overview)


def _pinned(ctx: ContextManager) -> list[int]:
    never, history = ctx.policy.roles_never_pruned, ctx.history
    return [place for place in sorted(history.fixed) if history[place].role not in never]


def _facts(overview: dict[str, Any], session: Session) -> Table:
    names = ("id", "scope", "model", "format", "tokenizer", "mode")
    rows = [(name, whole(str(overview[name]))) for name in names if overview[name]]
    rows += [
        ("created", time_of(session.created_at)),
        ("changed", time_of(session.updated_at)),
        ("whole history", counted(overview["tokens"], "token")),
        ("a prompt may use", counted(overview["usable"], "token")),
        ("compressed from", f"{counted(overview['trigger'], 'token')} on"),
    ]
    if overview["metadata"].get("important"):
        rows.append(("important", "kept whole whatever its age"))
    if tags := overview["metadata"].get("tags"):
        rows.append(("tags", one_line(" ".join(f"#{tag}" for tag in tags), 200)))
    if overview["pinned"]:
        rows.append(("pinned", one_line(", ".join(map(str, overview["pinned"])), 200)))
    for goal in overview["goals"]:
        rows.append(("goal", one_line(f"{goal['text']} ({goal['status']})", 200)))
    return Table(("", ""), rows)


def _branches(overview: dict[str, Any]) -> Table:
    rows = []
    for branch in overview["branches"]:
        start = f"{branch['parent']} at {branch['fork']:,}" if branch["parent"] else ""
        mark = " (open)" if branch["id"] == overview["branch"] else ""
        rows.append((whole(branch["id"]) + mark, branch["messages"], one_line(start)))
    return Table(("branch", "messages", "starts from"), rows, right=("messages",))


def _snapshots(overview: dict[str, Any]) -> Table:
    rows = []
    for snapshot in overview["snapshots"]:
        purpose = PURPOSES.get(snapshot["purpose"], snapshot["purpose"])
        note = one_line(snapshot["note"], 60)
        rows.append((whole(snapshot["id"]), snapshot["at"], purpose, note))
    return Table(("snapshot", "at", "purpose", "note"), rows, right=("at",))


def _goals(ctx: ContextManager) -> Report:
    goals = ctx.goals
    yield [goal.model_dump(mode="json") for goal in goals]
    if goals:
        yield Table(("id", "status", "steps", "goal"), _goal_rows(goals))
    else:
        yield Aside("this session has no goals")


def _goal_rows(goals: Sequence[Goal]) -> list[tuple[str, str, str, str]]:
    longest, ids = max(len(goal.id) for goal in goals), {goal.id for goal in goals}
    lengths = range(min(LEAST_ID, longest), longest + 1)
    length = next(n for n in lengths if len({id[:n] for id in ids}) == len(ids))
    rows = []
    for goal in goals:
        reached = sum(task.status == "completed" for task in goal.subtasks)
        steps = f"{reached} of {len(goal.subtasks)}" if goal.subtasks else ""
        status = goal.status if goal.priority == "medium" else f"{goal.status}, {goal.priority}"
        text = f"{'(set by a model) ' * goal.is_models}{goal.text}"
        words = "\n".join([one_line(text, 400), *_steps_of(goal)])
        rows.append((one_line(goal.id[:length]), status, steps, words))
    return rows


def _steps_of(goal: Goal) -> list[str]:
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
    most = options.most or SEEN
    context = ctx.context_at(at)
    system = {"system": context.system_text} if context.system else {}
    yield {
        "session": ctx.id,
        "branch": ctx.branch_id,
        "at": at,
        **system,
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
        verb = "is" if left == 1 else "are"
        older = counted(left, "older message")
        yield f"{older} {verb} not shown: --most {len(context.messages)} shows all\n"
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
    """The messages of a context with their numbers and tokens. The next message is mostly the next
    of the history, so that position is tried first.
    """
    after = 0
    for message in messages:
        place: int | None = after
        if after >= len(history) or history[after].id != message.id:
            place = history.position_of(message.id)
        if place is None:
            yield None, message, history.counter.message(message)
            continue
        after = place + 1
        is_whole = not message.edited
        tokens = history.tokens(place) if is_whole else history.counter.message(message)
        yield place, message, tokens


# --- checkpoints ----------------------------------------------------------------------------------


def _checkpoints(ctx: ContextManager, what: str, *, all: bool) -> Report:
    stored = {checkpoint.id: checkpoint for checkpoint in ctx.store.checkpoints(ctx.id)}
    live = [checkpoint.id for checkpoint in ctx.checkpoints]
    if what != "checkpoints":
        where = f"session {ctx.id!r}"
        name = one_of(what, list(stored), what="checkpoint", where=where)
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
    """A checkpoint and, below it, its parents. A checkpoint that was drawn before is only named."""
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
