"""`compactctl mark`: sets the title, mode, pins, goals and importance of a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from compact.cli.errors import Stop
from compact.cli.options import command, text_option
from compact.cli.render import Report
from compact.cli.stores import OpenOptions, entered, goals_with, meant, memory_of
from compact.cli.words import one_line
from compact.messages.goals import GoalStatus
from compact.session.context_manager import ContextManager

NEWEST = "newest"
"""The word that names the user's newest message."""


def _repeated(metavar: str, help: str) -> Any:  # noqa: ANN401 - Typer's own kind
    return text_option(metavar, f"{help} Can be repeated.")


@dataclass(frozen=True, kw_only=True)
class MarkOptions(OpenOptions):
    """What to mark. A message is named by its number from 0 (negative from the end) or its id."""

    title: Annotated[str | None, text_option("TEXT", "Its title.")] = None
    important: Annotated[
        bool | None,
        typer.Option(
            "--important/--not-important",
            help="Keep it whole whatever its age.",
            show_default=False,
        ),
    ] = None
    tag: Annotated[list[str] | None, _repeated("TAG", "Tags in place of its own.")] = None
    mode: Annotated[
        str | None,
        text_option("MODE", "assistant, developer, planning, debugger or user: what it is for."),
    ] = None
    pin: Annotated[
        list[str] | None, _repeated("MESSAGE", "Keep this message word for word in every prompt.")
    ] = None
    unpin: Annotated[list[str] | None, _repeated("MESSAGE", "Let it be shortened again.")] = None
    put_aside: Annotated[
        list[str] | None,
        _repeated("MESSAGE", f"Show models only its head and tail; {NEWEST}: your newest one."),
    ] = None
    goal: Annotated[
        list[str] | None, _repeated("TEXT", "Add a goal: it is in every prompt, word for word.")
    ] = None
    done: Annotated[list[str] | None, _repeated("ID", "A goal is reached.")] = None
    drop: Annotated[list[str] | None, _repeated("ID", "A goal is given up.")] = None


@command
def mark(options: MarkOptions) -> Report:
    """Set a session's title, tags, mode, pins and goals, and whether it is important.

    A message is named by its number from 0 (negative from the end) or its id, a goal by its id or a
    unique prefix of it. A goal that is reached or given up leaves the prompts and stays in the
    list. `show` shows all marks.

    Examples:
      compactctl mark harbour --title "The harbour office moves" --important --tag office
      compactctl mark harbour --mode developer --pin 0 --pin -3
      compactctl mark harbour --goal "Mend the roof before week 42."
      compactctl mark harbour --done 3f2a81b0
    """
    described: dict[str, Any] = {"title": options.title, "important": options.important}
    described["tags"] = options.tag
    with entered(options) as (catalog, ctx):
        lines = list(_apply(ctx, options))
        if any(value is not None for value in described.values()):
            scope = ctx.store.session(ctx.id).scope
            session = memory_of(catalog, scope).describe(ctx.id, **described)
            lines.append(f"title: {one_line(session.title or session.id, 200)}")
            lines += ["important"] if session.metadata.get("important") else []
            lines += [f"#{tag}" for tag in session.metadata.get("tags", ())]
        session, goals, mode = ctx.store.session(ctx.id), ctx.goals, ctx.mode
    if not lines:
        raise Stop("nothing to change: give an option, see compactctl mark --help")
    marks = {name: session.metadata.get(name) for name in ("important", "tags")}
    listed = [goal.model_dump(mode="json") for goal in goals]
    yield {"session": session.id, "title": session.title, **marks, "mode": mode, "goals": listed}
    yield from lines


def _apply(ctx: ContextManager, options: MarkOptions) -> Iterator[str]:
    ended: dict[str, GoalStatus] = dict.fromkeys(options.done or (), "done")
    for name in options.drop or ():
        ended[name] = "dropped"
    if not all(text.strip() for text in options.goal or ()):
        raise Stop("--goal: the goal is empty")
    goals = goals_with(ctx, options.goal or (), ended)  # first, as this may be refused
    pin, unpin = _places(ctx, options.pin), _places(ctx, options.unpin)
    aside = _places(ctx, options.put_aside)
    if options.mode is not None:
        ctx.set_mode(options.mode)
        yield f"mode: {ctx.mode}"
    for place in pin:
        ctx.pin(ctx.history[place])
        yield _message(ctx, place, "pinned")
    for place in unpin:
        ctx.unpin(place)
        yield _message(ctx, place, "not pinned")
    for place in aside:
        put = ctx.put_aside(ctx.history[place])
        is_whole = ctx.history[place].text == put.text
        state = "short enough, shown in full" if is_whole else "head and tail are shown"
        yield _message(ctx, place, state)
    if options.goal or ended:
        for goal in ctx.goals.set(goals):
            yield one_line(f"goal {goal.id[:8]}, {goal.status}: {goal.text}", 400)


def _places(ctx: ContextManager, names: Sequence[str] | None) -> list[int]:
    return [
        ctx.history.place_of(None if name == NEWEST else meant(ctx, name)) for name in names or ()
    ]


def _message(ctx: ContextManager, place: int, state: str) -> str:
    return f"message {place}, {state}: {one_line(ctx.history[place].text, 60)}"
