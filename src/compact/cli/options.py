"""Options that several commands share, each defined once.

A class holds the options of a group of commands. A command takes one value of such a class, and its
own options as further parameters.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated, Any, cast, get_type_hints

import typer
from typer.models import ArgumentInfo

from compact.cli.render import Report, print_report
from compact.cli.words import COLOUR, When
from compact.errors import InvalidArgument
from compact.messages import clock_and_ids
from compact.messages.budget import size_in
from compact.text.dates import limits

EXAMPLES = "Examples:"
"""The heading in a command's docstring. After it, help keeps the line breaks."""

PAGE = 50
"""How many rows are shown by default."""
FOUND = 10
"""How many search results are shown by default."""
LARGEST = 1_000_000_000
"""The largest number accepted for tokens, messages and rows."""


def whole_number(text: str | int, least: int = 1, example: str = "8000 or 8k") -> int:
    """Parse a number such as `8_000`, `8,000`, `8k` or `1.5m`. A default is already a number."""
    number = size_in(str(text))
    if number is not None and least <= number <= LARGEST:
        return number
    what = f"a whole number from {least} to {LARGEST:,}, such as {example}"
    raise typer.BadParameter(f"{quoted(text)} is not {what}")


def position(text: str | int) -> int:
    """Parse the position of a message, counted from 0."""
    return whole_number(text, least=0, example="120")


def count(text: str | int) -> int:
    """Parse a count, at least 1."""
    return whole_number(text, example="120")


def day(text: str, *, at_end: bool = False) -> datetime:
    """Parse a time such as `last week`. Return its first instant, or with `at_end` its last."""
    try:
        return cast("datetime", limits(text, text, clock_and_ids.now())[at_end])
    except InvalidArgument as error:
        raise typer.BadParameter(str(error).partition(": ")[2]) from None


def quoted(text: object) -> str:
    """Quote a value from the command line for an error. A long value becomes `this`."""
    return repr(text) if len(str(text)) < 40 else "this"


# --- kinds of options -----------------------------------------------------------------------------


def number_option(help: str, parser: Callable[[str], object] = whole_number) -> Any:  # noqa: ANN401
    """Define an option that takes a number, by default a number of tokens."""
    return typer.Option(parser=parser, metavar="N", help=help)


def day_option(help: str, *, at_end: bool = False) -> Any:  # noqa: ANN401
    """Define an option with a day, whose value is the day's first or last instant."""
    return typer.Option(parser=lambda text: day(text, at_end=at_end), metavar="DAY", help=help)


def text_option(metavar: str, help: str) -> Any:  # noqa: ANN401
    """Define an option that takes a text."""
    return typer.Option(metavar=metavar, help=help)


def flag(name: str, help: str) -> Any:  # noqa: ANN401
    """Define an option that has no value and no opposite."""
    return typer.Option(name, help=help)


def argument(metavar: str, help: str, completed: Callable[..., Any] | None = None) -> Any:  # noqa: ANN401
    """Define a positional argument. `completed` returns completions for a shell."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=completed)


# --- options of several commands ------------------------------------------------------------------

Json = Annotated[bool, flag("--json", "Print JSON instead, for machines.")]
Most = Annotated[int, number_option("How many to show.", count)]
Store = Annotated[
    str | None,
    text_option(
        "FILE", "The sessions' file. Default: the setting store, else .compact/sessions.db."
    ),
]
Keep = Annotated[str | None, text_option("TEXT", "What else a summarizing model should keep.")]
Summarizer = Annotated[
    str | None,
    text_option("KEY", "Who writes summaries: a model, extractive or off. Default: the settings'."),
]
Tokenizer = Annotated[
    str | None,
    text_option(
        "NAME",
        "o200k, cl100k (exact), claude, chars (estimates). Default: the session's or format's.",
    ),
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
        When, typer.Option(help="Colours: auto (on a terminal), always (for less -R), or never.")
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class SettingsOptions(JsonOptions):
    """Options of commands with settings."""

    config: Annotated[str | None, text_option("FILE", "Settings, as YAML or JSON.")] = None


@dataclass(frozen=True, kw_only=True)
class CountOptions(SettingsOptions):
    """Options of commands that count tokens."""

    model: Annotated[
        str | None,
        text_option(
            "KEY",
            "The model whose window and tokenizer count, such as gpt-4o. Default: the settings'.",
        ),
    ] = None
    tokenizer: Tokenizer = None


# --- from options to a command --------------------------------------------------------------------


def command(run: Callable[..., Report]) -> Callable[..., None]:
    """Turn a function into a command. The first parameter holds the options that the command shares
    with others. The other parameters are the command's own options, and come first in help. The
    output is printed as JSON or for people.
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
        print_report(run(value, **given), as_json=value.json)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by Typer
    called.__doc__ = (inspect.getdoc(run) or "").replace(EXAMPLES, f"\b\n{EXAMPLES}")
    called.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return called
