"""`compactctl move` and `store init`: move all sessions to a server or back, prepare a server."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Annotated

from compact import wiring
from compact.cli.errors import Stop
from compact.cli.options import JsonOptions, argument, command, flag, text_option
from compact.cli.progress import Progress, counting
from compact.cli.render import Aside, Report, Styled
from compact.cli.words import LONGEST_LINE, counted, one_line
from compact.errors import NotFound
from compact.exchange.moving import Moved, Outcome
from compact.exchange.moving import move as moving

_WORDS: dict[Outcome, str] = {
    "moved": "moved",
    "renewed": "brought up to date",
    "there": "already there",
    "kept": "not moved",
    "gone": "deleted in the source since",
}
_FILE = "sqlite:"


@dataclass(frozen=True, kw_only=True)
class MoveOptions(JsonOptions):
    """Options of `move`."""

    source: Annotated[str, argument("FROM", "Where the sessions are: sqlite:FILE, postgresql://…")]
    target: Annotated[str, argument("TO", "Where they go: sqlite:FILE, postgresql://…")]
    scope: Annotated[str | None, text_option("NAME", "Only this scope. Default: all scopes.")] = (
        None
    )


@command
def move(options: MoveOptions) -> Report:
    """Move all sessions from a file to a server, or back.

    Session by session: each is stored whole or not at all, read back, and compared by its chain of
    hashes and everything else it has. Digests come along; words and vectors are made anew where
    they are asked for. The source stays as it is: delete it when you no longer need it.

    The same command goes on after an interruption. To move without a pause: run it, let the
    application use TO, and run it again. It brings what was added in FROM meanwhile. A session that
    somebody wrote in TO is never replaced; one that was written in both is named, with exit code 2.

    Examples:
      compactctl move sqlite:.compact/sessions.db postgresql://chat@db.internal/chats
      compactctl move postgresql://chat@db.internal/chats sqlite:copy.db --scope anna
    """
    with ExitStack() as stack, Progress("Opening") as progress:
        if _name_of(options.source) == _name_of(options.target):
            raise Stop(f"{wiring.shown_name(_name_of(options.source))} is both FROM and TO")
        try:
            source = stack.enter_context(closing(wiring.store_at(_name_of(options.source))))
        except NotFound as error:
            raise NotFound(f"{error}: FROM is sqlite:FILE or postgresql://…") from None
        target = wiring.store_at(_name_of(options.target), create=True)
        stack.enter_context(closing(target))
        follow = counting(progress, "Moving", "sessions")
        every = list(moving(source, target, scope=options.scope, progress=follow))
    to = wiring.shown_name(_name_of(options.target))
    yield {"target": to, "sessions": [each._asdict() for each in every]}
    counts = {name: sum(each.outcome == name for each in every) for name in _WORDS}
    told = [f"{count:,} {_WORDS[name]}" for name, count in counts.items() if count]
    messages = counted(sum(each.messages for each in every), "message")
    yield Styled(f"{', '.join(told) or 'no sessions'}; {messages} stored in {to}", "bold")
    yield from (Aside(one_line(_line_of(each), LONGEST_LINE)) for each in every if each.why)
    if counts["kept"]:
        raise Stop(f"{counted(counts['kept'], 'session')} could not be moved; the list says why")


def _line_of(each: Moved) -> str:
    return f"session {each.session_id!r} of scope {each.scope!r}: {each.why}"


def _name_of(store: str) -> str:
    if wiring.is_server(store):
        return store
    if store.startswith(("postgresql:", "postgres:")):
        raise Stop(f"{store}: an address begins with postgresql://, such as postgresql://host/db")
    return store.removeprefix(_FILE) or "."


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
