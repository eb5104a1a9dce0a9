"""`compactctl`: the table of its commands, and the one place that catches everything."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, TextIO

import typer
from typer.core import TyperGroup

from compact.apps.cli.interrupts import TRACEBACK
from compact.apps.cli.lazy import PLAIN, LazyCommand, ListByDefault, group_of

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

COMMANDS: Mapping[str, tuple[str, str]] = {
    "compact": ("compact", "Fit a conversation into a number of tokens."),
    "dry-run": ("compact", "Show what compact would do, and why."),
    "diff": ("diff", "Show before and after, message by message."),
    "tokens": ("tokens", "Show where the tokens go."),
    "validate-config": ("validate_config", "Check the settings, and show where each came from."),
    "models": ("models", "Show what is known about models."),
    "demo": ("demo", "Compress the bundled sample of 511 messages."),
    "history": ("history", "Read a session's history, the newest message last."),
    "context": (
        "context",
        "Show a session as a model sees it now, or saw it at N messages.",
    ),
    "recall": ("history", "Search a session's whole history by words, the best match first."),
    "expand": (
        "history",
        "Show the original messages behind a checkpoint, a message or a tool call.",
    ),
    "checkpoints": ("checkpoints", "Show a session's checkpoints as a tree, or read one."),
    "snapshot": ("snapshots", "Save the state of a session, to restore it later."),
    "restore": (
        "snapshots",
        "Continue from a snapshot: its messages, checkpoints, goals and policy.",
    ),
    "undo": ("snapshots", "Undo the last compression, restore or branch of a session."),
    "redo": ("snapshots", "Reverse the last undo."),
    "branch": ("snapshots", "Start a new branch from a session's first N messages."),
    "doctor": ("doctor", "Check what is installed, and prove that it works."),
    "sessions list": ("sessions", "List the sessions, the most recently changed last."),
    "sessions show": ("sessions", "Show an overview of a session."),
    "sessions import": (
        "sessions_import",
        "Import a conversation from a file as a new session.",
    ),
    "sessions export": (
        "sessions_export",
        "Write one branch of a session to a file, in full, whatever was compressed.",
    ),
    "sessions compress": ("sessions", "Compress a session now, and report what was done."),
    "sessions put-aside": (
        "sessions",
        "Show models only the head and tail of a message that fits in no window.",
    ),
    "sessions delete": ("sessions", "Delete a session for good, after asking."),
    "goals list": ("goals", "List a session's goals and their progress."),
    "goals add": ("goals", "Add a goal to a session: it is in every prompt from now on."),
    "goals done": (
        "goals",
        "Mark a goal as reached: it leaves the prompts and stays in the list.",
    ),
    "goals drop": ("goals", "Give up a goal: it leaves the prompts and stays in the list."),
    "goals pause": ("goals", "Pause a goal: it leaves the prompts until `goals resume`."),
    "goals resume": ("goals", "Make a goal active again, whatever its status."),
    "goals confirm": (
        "goals",
        "Confirm a goal that a model set: prompts show it as yours, and no model can end it.",
    ),
}
"""Command → its module in `commands`, and the first sentence of its help. The function is called as
the command is: `sessions put-aside` is `sessions_put_aside`.
"""

GROUPS: Mapping[str, tuple[type[TyperGroup], str]] = {
    "sessions": (
        TyperGroup,
        """Stored conversations: list, show, import, export, compress, put-aside, delete.

They are in one file: --store FILE, the setting `store` (COMPACT_STORE), else .compact/sessions.db
in this folder, which only import creates. A session is named by its id, or a unique prefix of it.

\b
Examples:
  compactctl sessions import session.jsonl
  compactctl sessions list
  compactctl sessions export session -o session.md
""",
    ),
    "goals": (
        ListByDefault,
        """The goals of a session: active goals are in every prompt, word for word.

`goals SESSION` lists them. A goal is named by its id, or a unique prefix of it.

\b
Examples:
  compactctl goals harbour
  compactctl goals add harbour "Mend the roof before week 42."
  compactctl goals done harbour 3f2a81b0
""",
    ),
}
"""Group → what it does with its arguments, and its help."""

TAKES_NUMBERS = {"expand", "sessions put-aside"}
"""Commands that are given a message's number, which may be negative and is no option then."""


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # takes a while

        print(f"compactctl {version('compactctl')}")
        raise typer.Exit


def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _root(
    context: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    _help(context)


def command_line() -> TyperGroup:
    """All commands; none of their modules is imported yet."""
    found: dict[str, dict[str, LazyCommand]] = {"": {}, **{name: {} for name in GROUPS}}
    for full_name, (module, line) in COMMANDS.items():
        group, _, name = full_name.rpartition(" ")
        settings = {"ignore_unknown_options": True} if full_name in TAKES_NUMBERS else {}
        place = f"{module}:{full_name.replace(' ', '_').replace('-', '_')}"
        found[group][name] = LazyCommand(name, place, line, settings)
    groups = {}
    for name, (kind, text) in GROUPS.items():
        app = typer.Typer(name=name, cls=kind, help=text, **PLAIN)
        app.callback(invoke_without_command=True)(_help)
        groups[name] = group_of(app, found[name])
    options = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    app = typer.Typer(name="compactctl", help=HELP, context_settings=options, **PLAIN)
    app.callback(invoke_without_command=True)(_root)
    return group_of(app, {**found[""], **groups})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code. Prints one line on stderr where it fails, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a letter gets a `?`
            stream.reconfigure(errors="replace")
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        code = command_line()(given, prog_name="compactctl", standalone_mode=False)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except BaseException as error:
        if os.environ.get(TRACEBACK):
            raise
        from compact.apps.cli.errors import ending_of, say  # takes a while: what hides secrets

        code, line = ending_of(error)
        if line is not None:
            say(line)
        _let_go_of(sys.stdout)
        _let_go_of(sys.stderr)
    return code if isinstance(code, int) else 0


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
