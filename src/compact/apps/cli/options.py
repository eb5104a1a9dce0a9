"""What may be asked for on the command line: options that several commands take, each once.

The classes are what groups of commands have in common: a command takes one such value, and its own
options as parameters beside it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import ArgumentInfo

from compact.core.sizes import share_in, size_in

EXAMPLES = "Examples:"
"""Where the part of a command's docstring begins that help shows line by line."""

PAGE = 50
"""Rows that are shown unless more are asked for."""
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


def share(text: str | float) -> float:
    """The share above 0 and at most 1 that a text means: `0.4` or `40%`.

    Raises:
        typer.BadParameter: it is none.
    """
    number = share_in(str(text))
    if number is not None and 0 < number <= 1:
        return number
    raise typer.BadParameter(
        f"{_named(text)} is no share above 0 and at most 1, such as 0.4 or 40%"
    )


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


def argument(metavar: str, help: str) -> Any:  # noqa: ANN401
    """What is given by its place."""
    return typer.Argument(metavar=metavar, help=help)


# --- options of several commands ------------------------------------------------------------------

Json = Annotated[bool, flag("--json", "Print JSON instead, for machines.")]
Most = Annotated[int, number_option("How many are shown.", count)]
Store = Annotated[
    str | None,
    text_option(
        "FILE",
        "The file that sessions are kept in. Default: the settings' store, else "
        ".compact/sessions.db in this folder.",
    ),
]
Keep = Annotated[
    str | None,
    text_option("TEXT", "What a model that summarizes shall keep beside the usual, in your words."),
]
Out = Annotated[
    str | None,
    typer.Option("--out", "-o", metavar="OUT", help="Where the result goes. Default: stdout."),
]


# --- commands with settings -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class JsonOptions:
    """What every command takes."""

    json: Json = False


@dataclass(frozen=True, kw_only=True)
class SettingsOptions(JsonOptions):
    """What every command that has settings takes."""

    config: Annotated[str | None, text_option("FILE", "Settings, as YAML or JSON.")] = None


@dataclass(frozen=True, kw_only=True)
class CountOptions(SettingsOptions):
    """What every command that counts tokens takes."""

    model: Annotated[
        str | None,
        text_option(
            "KEY",
            "The model that the result is for, such as gpt-4o or ollama:qwen3:8b: its window "
            "and its tokenizer. Default: the settings'.",
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


# --- commands about files -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What every command that reads a conversation from a file takes."""

    file: Annotated[
        str, argument("FILE", "A conversation in any known format; - is standard input.")
    ]
    format: Annotated[
        str | None, text_option("NAME", "The file's format, where its content is not to decide.")
    ] = None
    conversation: Annotated[
        int | None,
        number_option("Which conversation, of a file that holds several; from 1.", count),
    ] = None


@dataclass(frozen=True, kw_only=True)
class FileOptions(ReadOptions, CountOptions):
    """What every command about a file takes."""

    active: Annotated[bool, flag("--active", "Only what follows the file's last compaction.")] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class PlanOptions(FileOptions):
    """What every command that plans for a file takes."""

    max_tokens: Annotated[
        int | None,
        number_option(
            "What the result may have. Default: what the settings' window leaves a prompt."
        ),
    ] = None
    pin: Annotated[
        list[str] | None,
        text_option(
            "N|TEXT",
            "Keep a message word for word: its number from 0 (negative from the end), "
            "its id, or a text it holds. May be given several times.",
        ),
    ] = None
    summarizer: Annotated[
        str | None,
        text_option(
            "KEY",
            "Who writes the checkpoint: a model such as ollama:qwen3:8b, extractive (needs "
            "none), or off, which leaves a receipt. Default: the settings'.",
        ),
    ] = None
    keep: Keep = None
    events: Annotated[bool, flag("--events", "Write every event to stderr as a JSON line.")] = False


# --- commands about sessions ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StoreOptions(SettingsOptions):
    """What every command that uses a store takes."""

    store: Store = None
    scope: Annotated[
        str | None,
        text_option(
            "NAME", "Whose sessions: a user, tenant or project. Default: default; a list shows all."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class OneSessionOptions(StoreOptions):
    """What every command about one session takes."""

    session: Annotated[
        str, argument("SESSION", "A session's id, or how it begins where only one begins so.")
    ]


@dataclass(frozen=True, kw_only=True)
class BranchOptions(OneSessionOptions):
    """What commands about one of a session's branches take."""

    branch: Annotated[
        str | None, text_option("ID", "Another branch than the one that is open.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class OpenOptions(OneSessionOptions):
    """What every command that opens a session takes."""

    window: Annotated[
        int | None,
        number_option(
            "The model's window in tokens. Default: the settings', else the one the session "
            "was used with last."
        ),
    ] = None
    tokenizer: Annotated[
        str | None, text_option("NAME", "Default: the one the session was counted with.")
    ] = None


# --- from options to a command --------------------------------------------------------------------


def command(run: Callable[..., None]) -> Callable[..., None]:
    """Make a function a command. Its first parameter is a value of the options that it has in
    common with others; the other parameters are options of its own, which help shows first.
    """
    hints = get_type_hints(run, include_extras=True)
    first, *own = inspect.signature(run).parameters.values()
    kind = hints[first.name]
    shared = [each.name for each in fields(kind)]
    hints |= get_type_hints(kind, include_extras=True)
    defaults = {each.name: each.default for each in own}
    for each in fields(kind):
        defaults[each.name] = inspect.Parameter.empty if each.default is MISSING else each.default
    places = {name for name in defaults if isinstance(hints[name].__metadata__[0], ArgumentInfo)}
    arguments = [name for name in (*shared, *defaults) if name in places]
    named = [
        name for name in (*(each.name for each in own), *_in_order(kind)) if name not in places
    ]
    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=hints[name]
        )
        for name in dict.fromkeys((*arguments, *named))
    ]

    @functools.wraps(run)
    def called(**given: Any) -> None:  # noqa: ANN401 - Typer has checked them against the hints
        value = kind(**{name: given.pop(name) for name in shared})
        run(value, **given)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by Typer
    called.__doc__ = (inspect.getdoc(run) or "").replace(EXAMPLES, f"\b\n{EXAMPLES}")
    called.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return called


def _in_order(kind: type) -> list[str]:
    """The fields in the order help shows them: a class's own first, what all have last."""
    ordered: list[str] = []
    for each in reversed([c for c in kind.__mro__ if is_dataclass(c)]):
        ordered = [f.name for f in fields(each) if f.name not in ordered] + ordered
    return ordered
