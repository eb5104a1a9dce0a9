"""`compactctl checkpoints`: the checkpoints of a session as a tree, or the text of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

from compact.apps import cli
from compact.apps.cli.options import OpenOptions, argument, command, flag
from compact.apps.cli.told import Styled, Telling
from compact.apps.cli.words import counted, one_line, whole

if TYPE_CHECKING:
    from compact.core.checkpoints import Checkpoint

DEEPEST = 100
"""Generations of checkpoints that are drawn: each is one level of the tree."""
MEASURED = frozenset(("retention",))
"""Rules whose verdicts are shown also where nothing is wrong."""


@command
def checkpoints(
    options: OpenOptions,
    *,
    checkpoint: Annotated[
        str | None, argument("[CHECKPOINT]", "Read this one: its id, or a unique prefix of it.")
    ] = None,
    all: Annotated[
        bool, flag("--all", "Include those of other windows and branches, and undone ones.")
    ] = False,
) -> Telling:
    """Show a session's checkpoints as a tree, or read one.

    Checkpoints in the current context come first; below each are those it was made from. Each line
    shows the level, the messages it replaces, and tokens. `expand` shows the original messages.

    Examples:
      compactctl checkpoints harbour
      compactctl checkpoints harbour ck-0aac
      compactctl expand harbour ck-0aac85b0ed4c
    """
    with cli.stores.entered(options) as ctx:
        known = {each.id: each for each in ctx.store.checkpoints(ctx.id)}
        live = [each.id for each in ctx.checkpoints]
        name, window = ctx.id, ctx.window.size
    if checkpoint is not None:
        where = f"session {name!r}"
        wanted = cli.stores.one_of(checkpoint, list(known), what="checkpoint", where=where)
        yield from _read(known[wanted], live=wanted in live)
        return
    listed = [cli.views.checkpoint_json(c, live=c.id in live) for c in known.values()]
    yield {"session": name, "window": window, "checkpoints": listed}
    count = f"{len(live)} in the context for a window of {window:,}, {len(known)} ever made"
    yield Styled(f"{whole(name)}: {count}", "bold")
    drawn: set[str] = set()
    for id in live:
        yield from _tree(id, known, drawn)
    parents = {parent for each in known.values() for parent in each.parents}
    others = [id for id in known if id not in drawn and id not in parents]
    if all and others:
        yield "not in this context"
        for id in others:
            yield from _tree(id, known, drawn, depth=1)


def _tree(
    id: str, known: Mapping[str, Checkpoint], drawn: set[str], depth: int = 0
) -> Iterator[Styled]:
    """A checkpoint, and below it those it was made of; one that stands twice is not repeated
    whole.
    """
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


def _read(checkpoint: Checkpoint, *, live: bool) -> Telling:
    facts = cli.views.checkpoint_json(checkpoint, live=live)
    verdicts = [verdict.model_dump(mode="json") for verdict in checkpoint.verdicts]
    more = {"anchors": list(checkpoint.anchors), "verdicts": verdicts}
    yield {**facts, **more, "summary": checkpoint.summary}
    yield Styled(_line(checkpoint), "green")
    state = "in the context now" if live else "not in the context now"
    made_of = f"; made of {', '.join(checkpoint.parents)}" if checkpoint.parents else ""
    yield one_line(f"by {checkpoint.made_by}, {state}{made_of}", 2_000)
    for verdict in checkpoint.verdicts:
        if not verdict.passed or verdict.rule in MEASURED:
            style = "bright_black" if verdict.passed else "yellow"
            yield Styled(one_line(f"{verdict.rule}: {verdict.detail}", 200), style)
    yield Styled(f"\n{checkpoint.summary}")
