"""Help: what Typer writes, with every command's sentence whole, and in colours where they are
wanted.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand, TyperGroup

from compact.apps import cli
from compact.apps.cli.colours import HEADING, NAME, are_wanted, painted

LISTS = ("Arguments:", "Options:", "Commands:")
"""The parts of help that hold two columns."""


class OneCommand(TyperCommand):
    """A command with such help."""

    def get_help(self, ctx: Any) -> str:  # noqa: ANN401 - Typer's own click
        """The help as it is printed."""
        return _shown(super().get_help(ctx), ctx)


class CommandGroup(TyperGroup):
    """A group of commands with such help."""

    def get_help(self, ctx: Any) -> str:  # noqa: ANN401 - Typer's own click
        """The help as it is printed."""
        return _shown(super().get_help(ctx), ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - as above
        """The command that is named first; a file's name is none, and it is said what is done with
        files.
        """
        name = args[0]
        if ctx.parent is None and name not in self.commands and os.path.isfile(name):
            file = shlex.quote(name)
            raise cli.errors.Stop(
                f"{name} is a file, and no command stands before it. To count: compactctl tokens "
                f"{file}; to compress it: compactctl compact {file} --max-tokens 8000; to make a "
                f"session of it: compactctl sessions import {file}"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as above
        """List the commands, each with its first sentence."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, each.get_short_help_str(sys.maxsize))
                    for name, each in self.commands.items()
                ]
            )


class ListByDefault(CommandGroup):
    """A group in which what is no command is an argument of its command `list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as above
        """Put `list` before what is no command."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["list", *args]
        return super().parse_args(ctx, args)


def _shown(text: str, ctx: Any) -> str:  # noqa: ANN401 - Typer's own click
    if not are_wanted(sys.stdout):
        return text
    ctx.color = True  # else Typer takes the colours out again where it prints to a pipe
    return "\n".join(_coloured(text))


def _coloured(text: str) -> Iterator[str]:
    """The lines of help: headings, what is typed, and what is said of it."""
    in_list = False
    for line in text.split("\n"):
        words = line.strip()
        if not line.startswith(" "):
            in_list = words in LISTS
            head, colon, rest = line.partition(":")
            yield f"{painted(head + colon, HEADING)}{rest}" if colon else line
        elif words == "Examples:":
            yield painted(line, HEADING)
        elif words.startswith("compactctl ") or (in_list and not line.startswith("   ")):
            first, gap, rest = words.partition("  ")
            indent = line[: len(line) - len(line.lstrip())]
            yield f"{indent}{painted(first, NAME)}{gap}{rest}"
        else:
            yield line
