"""Options that several commands take, each defined once.

Each class holds the options of a group of commands. A command takes one such value, and its own
options as further parameters.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import ArgumentInfo

from compact.cli.parts import Telling
from compact.cli.render import tell
from compact.cli.words import COLOUR, When
from compact.messages.sizes import size_in

EXAMPLES = "Examples:"
"""Where the part of a command's docstring begins that help shows line by line."""

PAGE = 50
"""Rows that are shown unless more are asked for."""
FOUND = 10
"""Messages that are found unless more are asked for."""
LARGEST = 1_000_000_000
"""The largest number that means something: of tokens, of messages, of rows."""


def whole_number(text: str | int, least: int = 1, example: str = "8000 or 8k") -> int:
    """The number that a text means, `8_000`, `8,000`, `8k` and `1.5m` included (a default is a
    number already).

    Raises:
        typer.BadParameter: it is none, less than `least`, or more than anything here can have.
    """
    number = size_in(str(text))
    if number is not None and least <= number <= LARGEST:
        return number
    what = f"a whole number from {least} to {LARGEST:,}, such as {example}"
    raise typer.BadParameter(f"{_named(text)} is not {what}")


def position(text: str | int) -> int:
    """The number of a message that a text means, counted from 0.

    Raises:
        typer.BadParameter: it is none.
    """
    return whole_number(text, least=0, example="120")


def count(text: str | int) -> int:
    """How many of something, from 1, a text means.

    Raises:
        typer.BadParameter: it is no such number.
    """
    return whole_number(text, example="120")


def day(text: str) -> datetime:
    """The time that a text means: a day, or a day with its time.

    Raises:
        typer.BadParameter: it is none.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        example = "2026-05-17 or 2026-05-17T09:30"
        raise typer.BadParameter(f"{text[:40]!r} is no day, such as {example}") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _named(text: object) -> str:
    return repr(text) if len(str(text)) < 40 else "this"


# --- kinds of options -----------------------------------------------------------------------------


def number_option(help: str, parser: Callable[[str], object] = whole_number) -> Any:  # noqa: ANN401
    """An option that takes a number: of tokens, unless another reader is given."""
    return typer.Option(parser=parser, metavar="N", help=help)


def text_option(metavar: str, help: str) -> Any:  # noqa: ANN401
    """An option that takes a text."""
    return typer.Option(metavar=metavar, help=help)


def flag(name: str, help: str) -> Any:  # noqa: ANN401
    """An option that is given or not, and has no opposite."""
    return typer.Option(name, help=help)


def argument(
    metavar: str,
    help: str,
    completed: Callable[[typer.Context, str], list[str]] | None = None,
) -> Any:  # noqa: ANN401
    """What is given by its place; `completed` says how what was typed of it may go on."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=completed)


# --- options of several commands ------------------------------------------------------------------

Json = Annotated[bool, flag("--json", "Print JSON instead, for machines.")]
Most = Annotated[int, number_option("How many to show.", count)]
Store = Annotated[
    str | None,
    text_option(
        "FILE",
        "The file that holds the sessions. Default: the setting `store`, else "
        ".compact/sessions.db in this folder.",
    ),
]
Keep = Annotated[
    str | None,
    text_option("TEXT", "What else a summarizing model should keep, in your words."),
]
Out = Annotated[
    str | None,
    typer.Option("--out", "-o", metavar="OUT", help="The file for the result. Default: stdout."),
]


# --- commands with settings -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class JsonOptions:
    """Options of every command."""

    json: Json = False
    color: Annotated[
        When,
        typer.Option(
            help="When to use colours: auto (on a terminal; NO_COLOR and FORCE_COLOR are heard), "
            "always (for less -R), or never.",
        ),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class SettingsOptions(JsonOptions):
    """Options of every command with settings."""

    config: Annotated[str | None, text_option("FILE", "Settings, as YAML or JSON.")] = None


@dataclass(frozen=True, kw_only=True)
class CountOptions(SettingsOptions):
    """Options of every command that counts tokens."""

    model: Annotated[
        str | None,
        text_option(
            "KEY",
            "The model to fit for, such as gpt-4o or ollama:qwen3:8b; gives the window and the "
            "tokenizer. Default: from the settings.",
        ),
    ] = None
    tokenizer: Annotated[
        str | None,
        text_option(
            "NAME",
            "o200k or cl100k (exact), claude or chars (estimates). Default: the model's, "
            "else o200k for chat completions and claude for Anthropic messages.",
        ),
    ] = None


# --- from options to a command --------------------------------------------------------------------


def command(run: Callable[..., Telling]) -> Callable[..., None]:
    """Make a function a command. Its first parameter is a value of the options that it has in
    common with others; the other parameters are options of its own, which help shows first. What
    it tells is printed, as JSON or for a person.
    """
    hints = get_type_hints(run, include_extras=True)
    first, *own = inspect.signature(run).parameters.values()
    kind = hints[first.name]
    hints |= get_type_hints(kind, include_extras=True)
    shared = [each.name for each in fields(kind)]
    defaults = {name: getattr(kind, name, inspect.Parameter.empty) for name in shared}
    defaults |= {each.name: each.default for each in own}
    in_order = (name for each in kind.__mro__ for name in inspect.get_annotations(each))
    named = dict.fromkeys((*(each.name for each in own), *in_order))
    places = {name for name in defaults if isinstance(hints[name].__metadata__[0], ArgumentInfo)}
    names = [name for name in defaults if name in places]
    names += [name for name in named if name not in places]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, keyword, default=defaults[name], annotation=hints[name])
        for name in names
    ]

    @functools.wraps(run)
    def called(**given: Any) -> None:  # noqa: ANN401 - Typer has checked them against the hints
        value = kind(**{name: given.pop(name) for name in shared})
        COLOUR.set(value.color)
        tell(run(value, **given), as_json=value.json)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by Typer
    called.__doc__ = (inspect.getdoc(run) or "").replace(EXAMPLES, f"\b\n{EXAMPLES}")
    called.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return called
