"""What the commands about sessions take: the store, the session, the window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from compact.apps.cli.options import SettingsOptions, whole_number

PAGE = 50
"""Rows that are shown unless more are asked for."""


@dataclass(frozen=True, kw_only=True)
class StoreOptions(SettingsOptions):
    """What every command that uses a store takes."""

    store: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The file that sessions are kept in. Default: the settings' store, else "
            ".compact/sessions.db in this folder.",
        ),
    ] = None
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
