"""`compactctl sessions compress`: compresses a session now. With --review, a person edits the
summaries first, like the message of a commit.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from compact.cli.errors import Stop
from compact.cli.options import Keep, command, flag, quoted, text_option
from compact.cli.plans import result_line, rung_parts
from compact.cli.progress import Progress
from compact.cli.render import Aside, Part, Report, print_part
from compact.cli.stores import OpenOptions, entered
from compact.cli.views import checkpoint_json, standing_json, standing_line
from compact.cli.words import counted
from compact.engine.plan import Plan
from compact.errors import InvalidArgument, SummaryRejected
from compact.messages.checkpoints import Checkpoint
from compact.messages.sizes import share_in
from compact.session.context_manager import ContextManager
from compact.session.views.review import CompressionProposal, ProposedCheckpoint

MARK = "#> "
"""The beginning of the line above each summary."""
HEAD = """\
# Below each line that begins with "{mark}" stands a summary that would take the place of messages.
# Change what is wrong, save, and close the editor: the session is compressed with these texts.
# To refuse, delete everything. The messages themselves stay in the history in any case.
# {covered}, {before:,} > {after:,} tokens.
"""


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
            help="The share to keep of the messages that may be shortened, such as 0.4 or 40%. "
            "Default: compress to the target from the settings.",
        ),
    ] = None,
    summarizer: Annotated[
        str | None,
        text_option(
            "KEY",
            "The summarizer: a model such as ollama:qwen3:8b, or extractive. Default: from the "
            "settings.",
        ),
    ] = None,
    keep: Keep = None,
    review: Annotated[
        bool,
        flag("--review", "Open the new summaries in $EDITOR first, to read, edit or refuse them."),
    ] = False,
) -> Report:
    """Compress a session now, and report what was done.

    The history stays as it is; `undo` reverses the compression.

    Examples:
      compactctl sessions compress harbour
      compactctl sessions compress harbour --review
      compactctl sessions compress harbour --window 32000 --target-ratio 0.3
      compactctl sessions compress harbour --summarizer ollama:qwen3:8b --keep "the API discussion"
    """
    since, progress = monotonic(), Progress("Compressing context")
    own = {"summarizer": summarizer, "keep": keep}
    with entered(options, on_event=progress.on_event, **own) as (catalog, ctx):
        before = {each.id for each in ctx.checkpoints}
        is_known = catalog.known_window_of(ctx.store.session(ctx.id)) is not None
        default = None if is_known else ctx.window.size
        compressed = _review if review else _compress
        if (plan := compressed(ctx, progress, target_ratio, keep or "")) is None:
            print_part(Aside("nothing was compressed"))
            return
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
    if default is not None:
        yield f"for a window of {default:,} tokens (the default; --window N chooses another)"
    yield from rung_parts(plan)
    yield from (*_checkpoint_lines(made), line)


def _compress(ctx: ContextManager, progress: Progress, ratio: float | None, keep: str) -> Plan:
    with progress:
        return ctx.compress_conversation(ratio, guidance=keep)


def _review(ctx: ContextManager, progress: Progress, ratio: float | None, keep: str) -> Plan | None:
    with progress:
        proposal = ctx.propose_compression(target_ratio=ratio, guidance=keep)
    return _edit(ctx, proposal) if proposal.checkpoints else proposal.plan


def _checkpoint_lines(made: Sequence[Checkpoint]) -> Iterator[Part]:
    for checkpoint in made:
        span = checkpoint.span
        covered = f"{counted(span.messages, 'message')} of {span.first:,} to {span.last:,}"
        size = f"{span.tokens or 0:,} > {counted(checkpoint.token_count, 'token')}"
        yield f"{checkpoint.id}: {covered}, {size}"
    if len(made) > 1:
        total = counted(sum(checkpoint.span.messages for checkpoint in made), "message")
        before = sum(checkpoint.span.tokens or 0 for checkpoint in made)
        after = counted(sum(checkpoint.token_count for checkpoint in made), "token")
        yield f"together {counted(len(made), 'checkpoint')}: {total}, {before:,} > {after}"


# --- a proposal in an editor ----------------------------------------------------------------------


def _edit(ctx: ContextManager, proposal: CompressionProposal) -> Plan | None:
    """Put the proposal in force with the edited summaries; None if the person refused. A summary
    that cannot be used is edited again, with the reason, until it can or stays unchanged.
    """
    shown, why = "\n".join(map(_summary, proposal.checkpoints)), ""
    while True:
        edited = _in_editor(_head(proposal, why) + shown)
        _, mark, rest = edited.partition(MARK)
        texts = _texts(mark + rest)
        if not any(texts.values()):
            return None
        try:
            return ctx.accept(proposal, summaries=texts)
        except (SummaryRejected, InvalidArgument) as error:
            if why and mark + rest == shown:
                raise
            shown, why = mark + rest, str(error)


def _head(proposal: CompressionProposal, why: str) -> str:
    covered = counted(len(proposal.messages), "message")
    sizes = {"before": proposal.tokens_before, "after": proposal.tokens_after}
    refused = f"#\n# NOT USED: {' '.join(why.split())}\n" if why else ""
    return HEAD.format(mark=MARK.strip(), covered=covered, **sizes) + refused + "\n"


def _summary(made: ProposedCheckpoint) -> str:
    span = f"{made.messages[0]:,} to {made.messages[-1]:,}" if made.messages else "older ones"
    about = f"{counted(len(made.messages), 'message')} of {span}, at most {made.room:,} tokens"
    return f"{MARK}{made.id} · {about}\n{made.text}\n"


def _texts(text: str) -> dict[str, str]:
    texts = dict[str, str]()
    for part in f"\n{text}".split(f"\n{MARK}")[1:]:
        head, _, words = part.partition("\n")
        texts[head.partition(" ")[0]] = words.strip()
    return texts


def _in_editor(text: str) -> str:
    """The text after editing. The file is readable only for the user and removed afterwards."""
    default = "notepad" if os.name == "nt" else "vi"
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or default
    handle, name = tempfile.mkstemp(prefix="compact-review-", suffix=".md")
    file = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        process = subprocess.run([*shlex.split(command, posix=os.name != "nt"), name], check=False)
        if process.returncode:
            raise Stop(
                f"the editor {command!r} ended with {process.returncode}: nothing was changed"
            )
        return file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Stop(f"the editor {command!r} ($VISUAL, $EDITOR) cannot be run: {reason}") from None
    finally:
        file.unlink(missing_ok=True)
