"""`compactctl goals`: what a session is for, how far it is, and ending or adding a goal.

What a model reports by markers stands here too (`core.markers`); a person has the last word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from compact.apps.cli.ending import Stop
from compact.apps.cli.options import taking
from compact.apps.cli.session_options import OpenOptions

if TYPE_CHECKING:
    from compact.core.goals import Goal, GoalStatus

HELP = """What a session is for: active goals are in every prompt, word for word.

`goals SESSION` lists them. A goal is named by its id, or by how the id begins.

\b
Examples:
  compactctl goals harbour
  compactctl goals add harbour "Mend the roof before week 42."
  compactctl goals done harbour 3f2a81b0
"""
LEAST_ID = 8
"""Letters of an id that a list shows at least."""


class _Listing(TyperGroup):
    """The commands; what is none of them is a session whose goals are listed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer's own click
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["list", *args]
        return super().parse_args(ctx, args)


group = typer.Typer(cls=_Listing, help=HELP, rich_markup_mode=None, pretty_exceptions_enable=False)


@group.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@taking(OpenOptions)
def list_goals(options: OpenOptions) -> None:
    """List a session's goals, with what was reached.

    Examples:
      compactctl goals harbour
      compactctl goals list harbour --json
    """
    from compact.apps.cli import stores

    with stores.entered(options) as ctx:
        goals = ctx.goals
    _show(goals, options)


@dataclass(frozen=True, kw_only=True)
class AddOptions(OpenOptions):
    """What `goals add` takes."""

    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is wanted, in your words.")]
    priority: Annotated[
        Literal["high", "medium", "low"], typer.Option(help="How much it matters.")
    ] = "medium"


@taking(AddOptions)
def add(options: AddOptions) -> None:
    """Add a goal to a session: it is in every prompt from now on.

    Examples:
      compactctl goals add harbour "Mend the roof before week 42." --priority high
    """
    from compact.apps.cli import stores
    from compact.core.goals import Goal

    if not options.text.strip():
        raise Stop("TEXT: an empty goal; say what is wanted")
    with stores.entered(options) as ctx:
        new = Goal(text=options.text.strip(), priority=options.priority)
        goals = ctx.set_goals([*ctx.goals, new])
    _show(goals, options)


@dataclass(frozen=True, kw_only=True)
class GoalOptions(OpenOptions):
    """What every command about one goal takes."""

    goal: Annotated[str, typer.Argument(metavar="ID", help="A goal's id, or how it begins.")]


@taking(GoalOptions)
def done(options: GoalOptions) -> None:
    """Say that a goal was reached: it leaves the prompts and stays in the list.

    Examples:
      compactctl goals done harbour 3f2a81b0
    """
    _set(options, status="done")


@taking(GoalOptions)
def drop(options: GoalOptions) -> None:
    """Give a goal up: it leaves the prompts and stays in the list.

    Examples:
      compactctl goals drop harbour 3f2a81b0
    """
    _set(options, status="dropped")


@taking(GoalOptions)
def pause(options: GoalOptions) -> None:
    """Let a goal wait: it leaves the prompts until `goals resume`.

    Examples:
      compactctl goals pause harbour 3f2a81b0
    """
    _set(options, status="paused")


@taking(GoalOptions)
def resume(options: GoalOptions) -> None:
    """Take a goal up again, whatever became of it.

    Examples:
      compactctl goals resume harbour 3f2a81b0
    """
    _set(options, status="active")


@taking(GoalOptions)
def confirm(options: GoalOptions) -> None:
    """Make a goal that a model set your own: prompts show it as yours, and no model ends it.

    Examples:
      compactctl goals confirm harbour 3f2a81b0
    """
    _set(options, confirmed=True)


group.command("list")(list_goals)
group.command("add")(add)
group.command("done")(done)
group.command("drop")(drop)
group.command("pause")(pause)
group.command("resume")(resume)
group.command("confirm")(confirm)


def _set(options: GoalOptions, **changed: GoalStatus | bool) -> None:
    from compact.apps.cli import stores

    with stores.entered(options) as ctx:
        known = [goal.id for goal in ctx.goals]
        where = f"session {ctx.id!r}"
        wanted = stores.one_of(options.goal, known, what="goal", where=where)
        goals = ctx.set_goals(
            [g.model_copy(update=changed) if g.id == wanted else g for g in ctx.goals]
        )
    _show(goals, options)


# --- what is printed ------------------------------------------------------------------------------


def _show(goals: Sequence[Goal], options: OpenOptions) -> None:
    from compact.apps.cli import drawing, output

    if options.json:
        output.print_json([goal.model_dump(mode="json") for goal in goals])
        return
    if not goals:
        drawing.tell("this session has no goals")
        return
    length = _length(goals)
    out = drawing.console()
    rows = drawing.table("goal", "status", "steps", "what for")
    for goal in goals:
        reached = sum(task.status == "completed" for task in goal.subtasks)
        steps = f"{reached} of {len(goal.subtasks)}" if goal.subtasks else ""
        status = goal.status if goal.priority == "medium" else f"{goal.status}, {goal.priority}"
        wanted = f"{'(the model wants it) ' * goal.is_models}{goal.text}"
        told = "\n".join([drawing.one_line(wanted, 400), *_details(goal)])
        name = drawing.one_line(goal.id[:length])
        rows.add_row(name, status, steps, drawing.Text(told))
    out.print(rows)


def _details(goal: Goal) -> list[str]:
    """What was reached of a goal, a line each."""
    from compact.apps.cli import drawing

    lines = [
        f"{task.status.replace('_', ' ')}: {task.text}{f' ({task.note})' if task.note else ''}"
        for task in goal.subtasks
    ]
    lines += [f"decided{' for good' * each.locked}: {each.text}" for each in goal.decisions]
    lines += [f"{file.action}: {file.path}" for file in goal.artifacts]
    lines += [f"next: {step}" for step in goal.next_steps]
    return [f"  {drawing.one_line(line, 200)}" for line in lines]


def _length(goals: Sequence[Goal]) -> int:
    """Letters of the ids by which no two of them are the same."""
    longest = max(len(goal.id) for goal in goals)
    known = {goal.id for goal in goals}
    lengths = range(min(LEAST_ID, longest), longest + 1)
    return next(n for n in lengths if len({name[:n] for name in known}) == len(known))
