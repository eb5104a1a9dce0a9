"""`compactctl`: the console entry, its commands, and the one place that catches everything."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, TextIO

import typer

from compact.apps.cli import (
    checkpoint_tree,
    compacting,
    demonstration,
    differences,
    doctor,
    goals,
    measuring,
    models,
    reviewing,
    sessions,
    settings_command,
    travelling,
)
from compact.apps.cli.ending import DONE, ending_of, say, wants_traceback

HELP = """Fit any conversation into any model's window, and keep every word reachable.

Reads Claude Code, Codex CLI, Gemini CLI, SpecStory and chat files, with no key and no network.
Exit codes: 0 done, 1 cannot fit, 2 bad input or usage.

\b
Examples:
  compactctl demo
  compactctl tokens session.jsonl
  compactctl dry-run session.jsonl --max-tokens 8000
  compactctl compact session.jsonl --max-tokens 8000 -o out.jsonl
  compactctl sessions import session.jsonl
  compactctl context session
"""

NEGATIVE = {"ignore_unknown_options": True}
"""A message's number may be negative, and is no option then."""

app = typer.Typer(
    name="compactctl",
    help=HELP,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("compact")(compacting.compact)
app.command("dry-run")(compacting.dry_run)
app.command("diff")(differences.diff)
app.command("tokens")(measuring.tokens)
app.command("validate-config")(settings_command.validate_config)
app.command("models")(models.models)
app.command("demo")(demonstration.demo)
app.add_typer(sessions.group, name="sessions")
app.command("history")(reviewing.history)
app.command("context")(reviewing.context)
app.command("recall")(reviewing.recall)
app.command("expand", context_settings=NEGATIVE)(reviewing.expand)
app.command("checkpoints")(checkpoint_tree.checkpoints)
app.add_typer(goals.group, name="goals")
app.command("snapshot")(travelling.snapshot)
app.command("restore")(travelling.restore)
app.command("undo")(travelling.undo)
app.command("redo")(travelling.redo)
app.command("branch")(travelling.branch)
app.command("doctor")(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"compactctl {version('compactctl')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code. Prints one line on stderr where it fails, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a letter gets a `?`
            stream.reconfigure(errors="replace")
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        code = app(given, prog_name="compactctl", standalone_mode=False)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except BaseException as error:
        if wants_traceback():
            raise
        code, line = ending_of(error)
        if line is not None:
            say(line)
        _let_go_of(sys.stdout)
        _let_go_of(sys.stderr)
    return code if isinstance(code, int) else DONE


def _let_go_of(stream: TextIO | None) -> None:
    """What is still buffered for a reader who left is dropped, not complained about at exit."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        stream.flush()
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())
