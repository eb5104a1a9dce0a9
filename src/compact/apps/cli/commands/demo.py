"""`compactctl demo`: the main job on the sample conversation that comes with the package."""

from __future__ import annotations

from importlib import resources
from typing import Annotated

from compact.apps.cli import output, render
from compact.apps.cli.errors import Stop
from compact.apps.cli.jobs import Job, plan_of
from compact.apps.cli.options import CountOptions, command, number_option, text_option
from compact.apps.cli.settings import settings_of
from compact.apps.cli.words import visible
from compact.wiring import read_transcript, token_counter_of

SAMPLE = "harbour.jsonl"
KEY = b"a key for all to see"
"""Fixed, so that the output is the same everywhere."""
SHOWN_LINES = 24
"""Lines of the checkpoint that are shown: about a screen; an ellipsis stands for the rest."""
NEXT = """Try next, with your own conversation (Claude Code, SpecStory, Gemini CLI, chat JSON, …):
  compactctl demo --save harbour.jsonl                    or this one, as a file
  compactctl tokens FILE                                  where the tokens go
  compactctl dry-run FILE --max-tokens 8000               what would be done, and why
  compactctl diff FILE --max-tokens 8000                  message by message
  compactctl compact FILE --max-tokens 8000 -o OUT        do it"""


@command
def demo(
    options: CountOptions,
    *,
    max_tokens: Annotated[int, number_option("The most tokens the result may have.")] = 8_000,
    save: Annotated[
        str | None, text_option("FILE", "Only write the sample to FILE, to try commands with.")
    ] = None,
) -> None:
    """Compress the bundled sample of 511 messages.

    A developer and an assistant build a harbour's booking service. Works offline, with no key and
    no model.

    Examples:
      compactctl demo
      compactctl demo --max-tokens 4000
      compactctl demo --save harbour.jsonl
    """
    settings = settings_of(options)
    data = resources.files("compact.apps.cli").joinpath("sample", SAMPLE).read_bytes()
    if save is not None:
        _save(save, data, as_json=options.json)
        return
    transcript = read_transcript(SAMPLE, data=data)
    job = Job(settings, transcript, token_counter_of(settings, transcript.wire))
    plan = plan_of(job, max_tokens, key=KEY)
    if options.json:
        output.print_json(render.plan_json(plan, job))
        return
    out = render.console()
    render.show_plan(out, plan, job)
    if plan.checkpoint is not None:
        shown = next(m for m in plan.context.messages if m.id == plan.checkpoint.id)
        lines = visible(shown.text).splitlines()
        out.print(f"\n[bold]The checkpoint begins[/bold] ({len(lines)} lines):\n")
        for line in lines[:SHOWN_LINES]:
            out.print(render.Text(line), overflow="ellipsis", no_wrap=True)
        out.print("…" if len(lines) > SHOWN_LINES else "")
    out.print(render.Text(NEXT))


def _save(file: str, data: bytes, *, as_json: bool) -> None:
    """Write the sample, but never over another file.

    Raises:
        Stop: there is a file of that name which holds something else.
    """
    output.check_name("--save", file)
    start = output.beginning_of(file, len(data) + 1)
    if start and start != data:
        raise Stop(f"{file} already exists and is not the sample; give another name")
    size = output.write_file(file, data.decode())
    if as_json:
        output.print_json({"saved": file, "bytes": size})
    else:
        render.tell(f"wrote {file} ({size:,} bytes)")
