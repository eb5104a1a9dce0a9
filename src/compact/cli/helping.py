"""Help texts of commands and groups, and errors for removed commands that name the replacement."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Any

from typer.core import TyperCommand, TyperGroup

from compact.cli.words import HEADING, NAME, painted, wants_colour

GONE: Mapping[str, str] = {
    "branch": "ContextManager.time.branch(at=N)",
    "checkpoints": "compactctl show SESSION checkpoints",
    "context": "compactctl show SESSION context",
    "goals": "compactctl show SESSION goals, and compactctl mark SESSION --goal TEXT, --done ID, "
    "--drop ID",
    "history": "compactctl show SESSION history",
    "memory archived": "compactctl memory status",
    "memory embed": "compactctl memory age",
    "memory enrich": "compactctl mark SESSION --title TEXT; topics are in the digest",
    "memory restore": "MemoryManager.restore(); a session goes on without it",
    "memory schedule": "compactctl memory age as a job of cron, and MemoryManager.run_schedule()",
    "memory verify": "compactctl doctor --check",
    "memory why": "compactctl memory age --dry-run, and MemoryManager.importance()",
    "models": "compactctl doctor --model KEY, and /model in compactctl chat",
    "redo": "/redo in compactctl chat, and ContextManager.time.redo()",
    "restore": "compactctl undo SESSION --to SNAPSHOT",
    "sessions delete": "compactctl memory forget SESSION",
    "sessions describe": "compactctl mark SESSION --title TEXT, --important, --tag TAG",
    "sessions mode": "compactctl mark SESSION --mode MODE",
    "sessions pin": "compactctl mark SESSION --pin MESSAGE",
    "sessions put-aside": "compactctl mark SESSION --put-aside MESSAGE",
    "sessions show": "compactctl show SESSION",
    "sessions unpin": "compactctl mark SESSION --unpin MESSAGE",
    "snapshot": "/snapshot in compactctl chat, and ContextManager.time.snapshot()",
}
"""Command of 0.1 that was removed → its replacement. The next release drops this table."""

GONE_OPTIONS: Mapping[str, str] = {
    "sessions compress --review": "/review in compactctl chat",
    "view --open": "any browser, with the file that is written",
    "demo --max-tokens": "compactctl demo --save FILE, and compactctl compact FILE",
    "demo --model": "compactctl demo --save FILE, and compactctl compact FILE",
    "demo --tokenizer": "compactctl demo --save FILE, and compactctl tokens FILE",
}
"""Option of 0.1 that was removed → its replacement. The next release drops this table."""


class OneCommand(TyperCommand):
    """A command with coloured help. The error for a removed option names the replacement."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer's own click
        """Parse the options. Removed options are refused first."""
        for word in args:
            name = f"{ctx.command_path} {word.partition('=')[0]}".partition(" ")[2]
            if name in GONE_OPTIONS:
                raise _stop(f"the option {name} is gone; use instead: {GONE_OPTIONS[name]}")
        return super().parse_args(ctx, args)

    def get_help(self, ctx: Any) -> str:  # noqa: ANN401 - Typer's own click
        """Return the text of the help."""
        return _help_text(super().get_help(ctx), ctx)


class CommandGroup(TyperGroup):
    """A group of commands. A command is imported when it runs."""

    lines: Mapping[str, str]
    """Command → its line in the list of commands."""
    load: Callable[[str], Any]
    """Imports and returns the command with a name."""

    def hold(self, lines: Mapping[str, str], load: Callable[[str], Any]) -> None:
        """Set the commands of the group."""
        self.lines, self.load = lines, load
        self.commands = {name: TyperCommand(name, help=line) for name, line in lines.items()}
        self.is_naming = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - as above
        """Return the command with this name."""
        if self.is_naming or cmd_name not in self.lines:
            return self.commands.get(cmd_name)
        return self.load(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - as above
        """Return the command that the first argument names."""
        name = args[0]
        path = f"{ctx.command_path} {name}".partition(" ")[2]
        if path in GONE:
            raise _stop(f"the command {path} is gone; use instead: {GONE[path]}")
        if ctx.parent is None and name not in self.lines and os.path.isfile(name):
            file = shlex.quote(name)
            raise _stop(
                f"{name} is a file, and no command stands before it. To count: compactctl tokens "
                f"{file}; to compress it: compactctl compact {file} --max-tokens 8000; to make a "
                f"session of it: compactctl sessions import {file}"
            )
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:  # noqa: ANN401 - as above
        """Return names of commands and options for a shell, without importing a command."""
        self.is_naming = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.is_naming = False

    def get_help(self, ctx: Any) -> str:  # noqa: ANN401 - as above
        """Return the text of the help."""
        return _help_text(super().get_help(ctx), ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as above
        """List only the commands, because the usage line already shows the options."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.lines.items()))


def _stop(line: str) -> Exception:
    from compact.cli.errors import Stop

    return Stop(line)


def _help_text(text: str, ctx: Any) -> str:  # noqa: ANN401 - Typer's own click
    if not wants_colour(sys.stdout):
        return text
    ctx.color = True  # otherwise Typer removes the colours again when it prints to a pipe
    text = re.sub(r"^(\w+:)|^ +Examples:$", lambda m: painted(m[0], HEADING), text, flags=re.M)
    name = r"(?<=^  )\S.*?(?=  )|(?<=^    )compactctl .*"  # a row of two columns, or an example
    return re.sub(name, lambda m: painted(m[0], NAME), text, flags=re.M)
