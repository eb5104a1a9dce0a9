"""`compactctl sessions compress`: compresses a session now."""

from __future__ import annotations

from time import monotonic
from typing import Annotated

import typer

from compact.cli.options import Keep, Summarizer, command, quoted
from compact.cli.plans import result_line, rung_parts
from compact.cli.progress import Progress
from compact.cli.render import Report
from compact.cli.stores import OpenOptions, entered
from compact.cli.views import checkpoint_json, standing_json, standing_line
from compact.cli.words import counted
from compact.messages.budget import share_in


def _share(text: str | float) -> float:
    number = share_in(str(text))
    if number is not None and 0 < number <= 1:
        return number
    raise typer.BadParameter(
        f"{quoted(text)} is not a share above 0 and at most 1, such as 0.4 or 40%"
    )


@command
def sessions_compress(
    options: OpenOptions,
    *,
    target_ratio: Annotated[
        float | None,
        typer.Option(
            parser=_share,
            metavar="SHARE",
            help="The share to keep of what may be shortened, such as 0.4 or 40%. Default: the "
            "settings' target.",
        ),
    ] = None,
    summarizer: Summarizer = None,
    keep: Keep = None,
) -> Report:
    """Compress a session now, and report what was done.

    The history stays as it is; `undo` reverses the compression. To read and edit summaries before
    they count: /review in the chat.

    Examples:
      compactctl sessions compress harbour
      compactctl sessions compress harbour --window 32000 --target-ratio 0.3
      compactctl sessions compress harbour --summarizer ollama:qwen3:8b --keep "the API discussion"
    """
    since, progress = monotonic(), Progress("Compressing context")
    own = {"summarizer": summarizer, "keep": keep}
    with entered(options, on_event=progress.on_event, **own) as (catalog, ctx):
        before = {each.id for each in ctx.checkpoints}
        is_known = catalog.known_window_of(ctx.store.session(ctx.id)) is not None
        with progress:
            plan = ctx.compress_conversation(target_ratio, guidance=keep or "")
        made = [each for each in ctx.checkpoints if each.id not in before]
        standing, line = standing_json(ctx), standing_line(ctx)
    yield {
        **standing,
        **plan.model_dump(mode="json", include={"tokens_before", "tokens_after", "why", "rungs"}),
        "unchanged": plan.unchanged,
        "made": [checkpoint_json(each, live=True) for each in made],
    }
    if not plan.unchanged:
        yield result_line(plan, since)
    if not is_known:
        size = standing["window"]
        yield f"for a window of {size:,} tokens (the default; --window N chooses another)"
    yield from rung_parts(plan)
    for checkpoint in made:
        span = checkpoint.span
        covered = f"{counted(span.messages, 'message')} of {span.first:,} to {span.last:,}"
        size = f"{span.tokens or 0:,} > {counted(checkpoint.token_count, 'token')}"
        yield f"{checkpoint.id}: {covered}, {size}"
    yield line
