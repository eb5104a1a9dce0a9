"""`compactctl`: the list of its commands, and the one place that catches every error."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Annotated, Any, TextIO, cast

import typer
from typer.main import get_command, get_group, get_install_completion_arguments

import compact as package
from compact.cli.helping import CommandGroup, OneCommand
from compact.cli.interrupts import TRACEBACK, ending_at_once

HELP = """Fit any conversation into any model's window, and keep every word reachable.
`compactctl demo` shows it; `compactctl COMMAND --help` has examples.
"""
COMMANDS: Mapping[str, str] = {
    "compact": "Fit a conversation into a number of tokens.",
    "dry-run": "Show what compact would do, and why.",
    "diff": "Show before and after, message by message.",
    "tokens": "Show where the tokens go.",
    "replay": "Show what a conversation costs and loses under policies.",
    "view": "Write a session as one HTML page with its compressions.",
    "look": "Show what your coding agent forgot: reads its transcripts.",
    "chat": "Talk to a model in a conversation that never overflows.",
    "serve": "Stand before a server, so that no prompt is too large.",
    "show": "Show a session: its context, history, checkpoints, goals.",
    "search": "Search all sessions for an answer to a question.",
    "recall": "Search one session's whole history by words.",
    "expand": "Show the originals behind a checkpoint or a message.",
    "mark": "Set a session's title, mode, pins, goals, importance.",
    "undo": "Undo the last compression, or go back to a snapshot.",
    "sessions list": "List the sessions, the newest last.",
    "sessions import": "Import a conversation from a file as a new session.",
    "sessions export": "Write a session to a file, in full.",
    "sessions compress": "Compress a session now, and report what was done.",
    "memory status": "Show what a memory holds, its archive, and what is due.",
    "memory age": "Write the digests that are due, archive the oldest sessions, embed.",
    "memory archive": "Move old sessions into files, out of the database.",
    "memory forget": "Delete a session, or all of a person, for good.",
    "memory backup": "Back up the whole store, while it is in use.",
    "memory restore-backup": "Restore a backup into a new file.",
    "move": "Move all sessions from a file to a server, or back.",
    "store init": "Make a server's tables; distribute them; guard their rows.",
    "work": "Do a server store's jobs: age, embed, index, compress.",
    "mcp": "Serve sessions, or a transcript, to an agent as MCP tools.",
    "migrate": "Import all conversations from files and folders.",
    "install": "Add hooks to Claude Code or Codex that give things back.",
    "uninstall": "Take the hooks out again.",
    "hook": "Answer Claude Code or Codex; they call it (see install).",
    "doctor": "Check what is installed, and whether it works.",
    "validate-config": "Check the settings, and show where each came from.",
    "demo": "Compress the bundled sample of 511 messages.",
}
"""Command → its line in help, in the order of help. A command is a function of its name in a module
of `commands`, which has the same name unless `SHARED` names another."""
SHARED: Mapping[str, str] = {
    "dry-run": "compact",
    "expand": "recall",
    "store init": "move",
    "uninstall": "install",
    **{name: "memory" for name in COMMANDS if name.startswith("memory ")},
}
"""Command → the module that it shares with others."""
GROUPS: Mapping[str, str] = {
    "sessions": """Stored conversations: list, import, export, compress.

They are in one file: --store FILE, the setting `store` (COMPACT_STORE), else .compact/sessions.db
in this folder, which import, migrate and chat create. A session is named by its id, or a unique
prefix of it.
""",
    "memory": """All sessions as they grow old: digests, archives, backups.

Digests and archives are those of one scope; a backup holds the whole store.
""",
    "store": """A store on a PostgreSQL server.
""",
}
"""Group → its help text."""
TAKES_NUMBERS = {"expand"}
"""Commands that take a message number. So a negative number is not parsed as an option."""
PLAIN: Mapping[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}


def _version(wanted: bool) -> None:
    if wanted:
        print(f"compactctl {package.__version__}")
        raise typer.Exit


def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), color=context.color)


def _root(
    context: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    _help(context)


def command_line() -> CommandGroup:
    """Build the group of all commands."""
    options = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    app = typer.Typer(
        name="compactctl",
        cls=CommandGroup,
        help=HELP,
        options_metavar="[--version] [--help]",
        context_settings=options,
        **PLAIN,
    )
    return _group(app, _root, "")


def _group(app: typer.Typer, start: Callable[..., None], name: str) -> CommandGroup:
    app.callback(invoke_without_command=True)(start)
    group = cast("CommandGroup", get_group(app))
    lines: dict[str, str] = {}
    for path, line in COMMANDS.items():
        first, _, rest = path.partition(" ")
        if name:
            lines |= {rest: line} if first == name else {}
        else:
            lines[first] = GROUPS[first].partition("\n")[0] if rest else line
    group.hold(lines, partial(_load, name))
    if not name:
        group.params.extend(get_install_completion_arguments())
    return group


def _load(group: str, name: str) -> Any:  # noqa: ANN401 - Typer's own click
    if name in GROUPS:
        app = typer.Typer(
            name=name, cls=CommandGroup, help=GROUPS[name], options_metavar="[--help]", **PLAIN
        )
        return _group(app, _help, name)
    one = typer.Typer(**PLAIN)
    settings = {"ignore_unknown_options": name in TAKES_NUMBERS}
    run = function_of(f"{group} {name}".strip())
    one.command(name, cls=OneCommand, context_settings=settings)(run)
    return get_command(one)


def function_of(path: str) -> Callable[..., None]:
    """Return the function of a command such as `sessions list`."""
    name = path.replace("-", "_").replace(" ", "_")
    with ending_at_once():
        module = import_module(f"compact.cli.commands.{SHARED.get(path, name)}")
    return cast("Callable[..., None]", getattr(module, name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. After an error, print one line on stderr.
    `COMPACT_TRACEBACK` turns tracebacks on.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a letter shows `?`
            stream.reconfigure(errors="replace")
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        code = command_line()(words, prog_name="compactctl", standalone_mode=False)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except BaseException as error:  # noqa: BLE001 - the one place that catches everything
        with ending_at_once():
            from compact.cli import errors
        if os.environ.get(TRACEBACK):
            errors.say_where(error)
        code, line = errors.ending_of(error)
        if line is not None:
            errors.say(line, is_error=True)
        _drop_buffer(sys.stdout)
        _drop_buffer(sys.stderr)
    return code if isinstance(code, int) else 0


def _drop_buffer(stream: TextIO | None) -> None:
    """Drop buffered output if the reader closed the pipe, or Python prints an error at exit."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        stream.flush()
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())
