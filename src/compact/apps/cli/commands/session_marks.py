"""`compactctl sessions pin`, `unpin` and `mode`: what a person says of a kept session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from compact.apps import cli
from compact.apps.cli.options import OpenOptions, argument, command
from compact.apps.cli.told import Telling
from compact.apps.cli.words import one_line


@dataclass(frozen=True, kw_only=True)
class MessageOptions(OpenOptions):
    """Which message is meant."""

    message: Annotated[
        str,
        argument("MESSAGE", "A message's number from 0 (negative from the end), or its id."),
    ]


@command
def sessions_pin(options: MessageOptions) -> Telling:
    """Keep a message word for word in every prompt, however old it becomes.

    One that has left the view comes back with the next compression.

    Examples:
      compactctl sessions pin harbour 0
      compactctl sessions pin harbour -3
    """
    return _set(options, is_pinned=True)


@command
def sessions_unpin(options: MessageOptions) -> Telling:
    """Let a pinned message be shortened again.

    Examples:
      compactctl sessions unpin harbour 0
    """
    return _set(options, is_pinned=False)


def _set(options: MessageOptions, *, is_pinned: bool) -> Telling:
    with cli.stores.entered(options) as ctx:
        message = cli.stores.message_meant(ctx, options.message)
        if is_pinned:
            ctx.pin(message)
        else:
            ctx.unpin(message)
        position = ctx.history.place_of(message)
        told = ctx.history[position]
    yield {"message": told.id, "position": position, "pinned": is_pinned}
    state = "pinned" if is_pinned else "not pinned"
    yield f"message {position}, {state}: {one_line(told.text, 60)}"


@command
def sessions_mode(
    options: OpenOptions,
    *,
    mode: Annotated[str | None, argument("[MODE]", "The mode from now on.")] = None,
) -> Telling:
    """Show or set what a session is used for, which shapes what its summaries keep.

    The modes are assistant, developer, planning, debugger and user.

    Examples:
      compactctl sessions mode harbour
      compactctl sessions mode harbour developer
    """
    with cli.stores.entered(options) as ctx:
        if mode is not None:
            ctx.set_mode(mode)
        now = ctx.mode
    yield {"mode": now}
    yield now
