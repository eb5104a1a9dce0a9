"""Commands whose modules are imported when they are called, or when their own help is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from compact.apps.cli.interrupts import ending_at_once

COMMANDS = "compact.apps.cli.commands"
"""The package that the modules are in."""
PLAIN: Mapping[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}


class LazyCommand(TyperCommand):
    """A command that is known by its name and one line of help until it is called.

    `place` is `module:function`, in the package of commands.
    """

    def __init__(self, name: str, place: str, line: str, settings: dict[str, Any]) -> None:
        super().__init__(name, help=line)
        self._place = place
        self._settings = settings

    def make_context(self, *arguments: Any, **more: Any) -> Any:  # noqa: ANN401 - Typer's own click
        """The context of the real command, which takes this one's place."""
        return self.load().make_context(*arguments, **more)

    def load(self) -> Any:  # noqa: ANN401 - Typer's own click
        """The real command."""
        module, _, function = self._place.partition(":")
        with ending_at_once():
            found = getattr(import_module(f"{COMMANDS}.{module}"), function)
        one = typer.Typer(**PLAIN)
        one.command(self.name, context_settings=self._settings)(found)
        return get_command(one)


class ListByDefault(TyperGroup):
    """A group in which what is no command is an argument of its command `list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer's own click
        """Put `list` before what is no command."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["list", *args]
        return super().parse_args(ctx, args)


def group_of(app: typer.Typer, commands: Mapping[str, Any]) -> TyperGroup:
    """The group that an app describes, with these commands."""
    group = get_group(app)
    group.commands.update(commands)
    return group
