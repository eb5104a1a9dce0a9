"""`compactctl store init`: prepares a database on a server."""

from __future__ import annotations

from typing import Annotated

from compact import wiring
from compact.cli.errors import Stop
from compact.cli.options import JsonOptions, argument, command, flag, text_option
from compact.cli.render import Report


@command
def store_init(
    options: JsonOptions,
    *,
    address: Annotated[str, argument("ADDRESS", "postgresql://USER@HOST/DATABASE")],
    citus: Annotated[bool, flag("--citus", "Distribute each table by scope, with Citus.")] = False,
    role: Annotated[
        str | None,
        text_option("ROLE", "Show this role the rows of one scope at a time (row-level security)."),
    ] = None,
) -> Report:
    """Make the tables for sessions and memory in a PostgreSQL database.

    A store makes its tables by itself at the first use. This command is for a database whose
    applications may not: run it as the owner, after each update of compact. It can be repeated.

    --role names the role as which applications connect. Each of their transactions names its scope,
    and the server shows no other rows, whatever the statement asks for.

    Examples:
      compactctl store init postgresql://owner@db.internal/chats
      compactctl store init postgresql://owner@db.internal/chats --role chat
      compactctl store init postgresql://owner@coordinator/chats --citus
    """
    if not wiring.is_server(address):
        raise Stop(f"{address}: an address begins with postgresql://, such as postgresql://host/db")
    done = list(wiring.set_up_server(address, citus=citus, role=role))
    yield {"store": wiring.shown_name(address), "done": done}
    yield from done
