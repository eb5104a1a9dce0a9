"""`compactctl checkpoints`: the checkpoints of a session as a tree, or the text of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from compact.apps.cli import output, render, stores
from compact.apps.cli.options import OpenOptions, argument, command, flag
from compact.apps.cli.words import counted, one_line, whole
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
) -> None:
    """Show a session's checkpoints as a tree, or read one.

    Checkpoints in the current context come first; below each are those it was made from. Each line
    shows the level, the messages it replaces, and tokens. `expand` shows the original messages.

    Examples:
      compactctl checkpoints harbour
      compactctl checkpoints harbour ck-0aac
      compactctl expand harbour ck-0aac85b0ed4c
    """
    with stores.entered(options) as ctx:
        known = {each.id: each for each in ctx.store.checkpoints(ctx.id)}
        live = [each.id for each in ctx.checkpoints]
        name, window = ctx.id, ctx.window.size
    if checkpoint is not None:
        where = f"session {name!r}"
        wanted = stores.one_of(checkpoint, list(known), what="checkpoint", where=where)
        _read(known[wanted], live=wanted in live, as_json=options.json)
        return
    if options.json:
        listed = [render.checkpoint_json(c, live=c.id in live) for c in known.values()]
        output.print_json({"session": name, "window": window, "checkpoints": listed})
        return
    out = render.console()
    count = f"{len(live)} in the context for a window of {window:,}, {len(known)} ever made"
    out.print(Text(f"{whole(name)}: {count}", style="bold"))
    drawn = _show(out, "", live, known)
    if all:
        parents = {parent for each in known.values() for parent in each.parents}
        others = [id for id in known if id not in drawn and id not in parents]
        _show(out, "not in this context", others, known)


def _show(out: Console, title: str, roots: list[str], known: Mapping[str, Checkpoint]) -> set[str]:
    """Draw trees; the ids of all that stand in them."""
    drawn: set[str] = set()
    if not roots:
        return drawn
    tree = Tree(title, hide_root=not title)
    for root in roots:
        _grow(tree, root, known, drawn, 0)
    out.print(tree)
    return drawn


def _grow(
    tree: Tree, id: str, known: Mapping[str, Checkpoint], drawn: set[str], depth: int
) -> None:
    """Add a checkpoint, and below it those it was made of; one that stands twice is not repeated
    whole.
    """
    checkpoint = known.get(id)
    if checkpoint is None:
        tree.add(Text(f"{one_line(id)} (not in this store)"))
        return
    again = id in drawn
    twig = tree.add(_line(checkpoint, again=again))
    drawn.add(id)
    if again:
        return
    if depth == DEEPEST and checkpoint.parents:
        twig.add(Text("…"))
        return
    for parent in checkpoint.parents:
        _grow(twig, parent, known, drawn, depth + 1)


def _line(checkpoint: Checkpoint, *, again: bool = False) -> Text:
    span = checkpoint.span
    text = Text(one_line(checkpoint.id), style="green")
    text.append(f"  {checkpoint.level}", style="bold")
    covered = "" if span.tokens is None else f", {counted(span.tokens, 'token')}"
    about = f"  {span.messages:,} of messages {span.first:,} to {span.last:,}{covered}"
    text.append(f"{about} > {checkpoint.token_count:,}", style="none")
    if again:
        text.append("  (see above)", style="bright_black")
    return text


def _read(checkpoint: Checkpoint, *, live: bool, as_json: bool) -> None:
    if as_json:
        facts = render.checkpoint_json(checkpoint, live=live)
        verdicts = [verdict.model_dump(mode="json") for verdict in checkpoint.verdicts]
        more = {"anchors": list(checkpoint.anchors), "verdicts": verdicts}
        output.print_json({**facts, **more, "summary": checkpoint.summary})
        return
    out = render.console()
    out.print(_line(checkpoint), soft_wrap=True)
    state = "in the context now" if live else "not in the context now"
    made_of = f"; made of {', '.join(checkpoint.parents)}" if checkpoint.parents else ""
    render.show_line(out, f"by {checkpoint.made_by}, {state}{made_of}", most=2_000)
    for verdict in checkpoint.verdicts:
        if not verdict.passed or verdict.rule in MEASURED:
            style = "bright_black" if verdict.passed else "yellow"
            render.show_line(out, f"{verdict.rule}: {verdict.detail}", style=style, most=200)
    out.print()
    render.show(out, checkpoint.summary)
