"""`compactctl demo`: compresses the sample conversation that comes with compact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from compact import wiring
from compact.cli import output
from compact.cli.errors import Stop
from compact.cli.jobs import Job, plan_of
from compact.cli.options import SettingsOptions, command, text_option
from compact.cli.plans import plan_json, plan_parts
from compact.cli.render import Aside, Report, Styled
from compact.cli.settings import settings_of

SAMPLE = "harbour.jsonl"
LIMIT = 8_000
"""The most tokens of the compressed sample."""
KEY = b"a key for all to see"
"""The key is fixed, so that the output is the same everywhere."""
SHOWN_LINES = 24
"""How many lines of the checkpoint are shown: about a screen."""
NEXT = """Try next, with your own conversation (Claude Code, Codex CLI, ChatGPT, chat JSON, …):
  compactctl demo --save harbour.jsonl                    or this one, as a file
  compactctl tokens FILE                                  where the tokens go
  compactctl dry-run FILE --max-tokens 8000               what would be done, and why
  compactctl diff FILE --max-tokens 8000                  message by message
  compactctl compact FILE --max-tokens 8000 -o OUT        do it"""


@command
def demo(
    options: SettingsOptions,
    *,
    save: Annotated[
        str | None, text_option("FILE", "Only write the sample to FILE, to try commands with.")
    ] = None,
) -> Report:
    """Compress the bundled sample of 511 messages.

    A developer and an assistant build a harbour's booking service. Works offline, with no key and
    no model.

    Examples:
      compactctl demo
      compactctl demo --save harbour.jsonl
    """
    data = Path(__file__).parents[1].joinpath("sample", SAMPLE).read_bytes()
    if save is not None:
        output.check_name("--save", save)
        start = output.beginning_of(save, len(data) + 1)
        if start and start != data:
            raise Stop(f"{save} already exists and is not the sample; give another name")
        output.write(save, data.decode())
        yield {"saved": save, "bytes": len(data)}
        yield Aside(f"wrote {save} ({len(data):,} bytes)")
        return
    settings = settings_of(options)
    transcript = wiring.read_transcript(SAMPLE, data=data)
    job = Job(settings, transcript, wiring.token_counter_of(settings, transcript.wire))
    plan = plan_of(job, LIMIT, key=KEY)
    yield plan_json(plan, job)
    yield from plan_parts(plan, job)
    if plan.checkpoint is not None:
        message = next(m for m in plan.context.messages if m.id == plan.checkpoint.id)
        lines = message.text.splitlines()
        yield f"\nThe checkpoint begins ({len(lines)} lines):\n"
        yield from (Styled(line, is_row=True) for line in lines[:SHOWN_LINES])
        yield "…" if len(lines) > SHOWN_LINES else ""
    yield NEXT
