"""What may be asked for on the command line: options that several commands take, each once.

A command takes one value, whose class has a field for each of its options; `taking` makes the
command of it. Classes here are what groups of commands have in common.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.models import ArgumentInfo

from compact.core.sizes import share_in, size_in

Options = TypeVar("Options")
EXAMPLES = "Examples:"
"""Where the part of a command's docstring begins that help shows line by line."""

PAGE = 50
"""Rows that are shown unless more are asked for."""
LARGEST = 1_000_000_000
"""The largest number that means something: of tokens, of messages, of rows."""
LONGEST_SHOWN = 40


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
    return repr(text) if len(str(text)) < LONGEST_SHOWN else "this"


# --- options of several commands ------------------------------------------------------------------

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead, for machines.")]
Most = Annotated[int, typer.Option(parser=count, metavar="N", help="How many are shown.")]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="The file that sessions are kept in. Default: the settings' store, else "
        ".compact/sessions.db in this folder.",
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="What a model that summarizes shall keep beside the usual, in your words.",
    ),
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

    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="Settings, as YAML or JSON.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class CountOptions(SettingsOptions):
    """What every command that counts tokens takes."""

    model: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="The model that the result is for, such as gpt-4o or ollama:qwen3:8b: its window "
            "and its tokenizer. Default: the settings'.",
        ),
    ] = None
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="o200k or cl100k (exact), claude or chars (estimates). Default: the model's, "
            "else o200k for chat completions and claude for Anthropic messages.",
        ),
    ] = None


# --- commands about files -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What every command that reads a conversation from a file takes."""

    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A conversation in any known format; - is standard input."
        ),
    ]
    format: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The file's format, where its content is not to decide."),
    ] = None
    conversation: Annotated[
        int | None,
        typer.Option(
            parser=count,
            metavar="N",
            help="Which conversation, of a file that holds several; from 1.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class FileOptions(ReadOptions, CountOptions):
    """What every command about a file takes."""

    active: Annotated[
        bool, typer.Option("--active", help="Only what follows the file's last compaction.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class PlanOptions(FileOptions):
    """What every command that plans for a file takes."""

    max_tokens: Annotated[
        int | None,
        typer.Option(
            parser=whole_number,
            metavar="N",
            help="What the result may have. Default: what the settings' window leaves a prompt.",
        ),
    ] = None
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N|TEXT",
            help="Keep a message word for word: its number from 0 (negative from the end), "
            "its id, or a text it holds. May be given several times.",
        ),
    ] = None
    summarizer: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Who writes the checkpoint: a model such as ollama:qwen3:8b, extractive (needs "
            "none), or off, which leaves a receipt. Default: the settings'.",
        ),
    ] = None
    keep: Keep = None
    events: Annotated[
        bool, typer.Option("--events", help="Write every event to stderr as a JSON line.")
    ] = False


# --- commands about sessions ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StoreOptions(SettingsOptions):
    """What every command that uses a store takes."""

    store: Store = None
    scope: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Whose sessions: a user, tenant or project. Default: default; a list shows all.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class SessionOptions(StoreOptions):
    """What every command about one session takes."""

    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION", help="A session's id, or how it begins where only one begins so."
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class BranchOptions(SessionOptions):
    """What commands about one of a session's branches take."""

    branch: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Another branch than the one that is open."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class OpenOptions(SessionOptions):
    """What every command that opens a session takes."""

    window: Annotated[
        int | None,
        typer.Option(
            parser=whole_number,
            metavar="N",
            help="The model's window in tokens. Default: the settings', else the one the session "
            "was used with last.",
        ),
    ] = None
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Default: the one the session was counted with."),
    ] = None


# --- from options to a command --------------------------------------------------------------------


def taking(kind: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Make a function of one options value a command whose options are the value's fields."""
    hints = get_type_hints(kind, include_extras=True)
    parameters = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in _in_order(kind, hints)
    ]

    def decorate(command: Callable[[Options], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:  # noqa: ANN401 - Typer has checked them against the fields
            command(kind(**given))

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by Typer
        run.__doc__ = (inspect.getdoc(command) or "").replace(EXAMPLES, f"\b\n{EXAMPLES}")
        run.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
        return run

    return decorate


def _in_order(kind: type, hints: dict[str, Any]) -> list[Field[Any]]:
    """The fields in the order help shows them: arguments in the order they are given in, what all
    have first; then options, a command's own first, what all have last.
    """
    ordered: list[Field[Any]] = []
    for each in reversed([c for c in kind.__mro__ if is_dataclass(c)]):
        known = {field.name for field in ordered}
        ordered = [f for f in fields(each) if f.name not in known] + ordered
    places = {f.name for f in ordered if isinstance(hints[f.name].__metadata__[0], ArgumentInfo)}
    arguments = [f for f in fields(kind) if f.name in places]
    return arguments + [f for f in ordered if f.name not in places]
