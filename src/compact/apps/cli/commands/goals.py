"""`compactctl goals`: the goals of a session and their progress; adding and ending goals.

Progress that a model reports by markers is shown too (`core.markers`); a person has the last word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import compact
from compact.apps import cli
from compact.apps.cli.options import OpenOptions, argument, command
from compact.apps.cli.told import Aside, Table, Telling
from compact.apps.cli.words import one_line

if TYPE_CHECKING:
    from compact.core.goals import Goal, GoalStatus

LEAST_ID = 8
"""Letters of an id that a list shows at least."""


@command
def goals_list(options: OpenOptions) -> Telling:
    """List a session's goals and their progress.

    Examples:
      compactctl goals harbour
      compactctl goals list harbour --json
    """
    with cli.stores.entered(options) as ctx:
        goals = ctx.goals
    yield from _told(goals)


@command
def goals_add(
    options: OpenOptions,
    *,
    text: Annotated[str, argument("TEXT", "The goal, in your words.")],
    priority: Annotated[
        Literal["high", "medium", "low"], typer.Option(help="How important it is.")
    ] = "medium",
) -> Telling:
    """Add a goal to a session: it is in every prompt from now on.

    Examples:
      compactctl goals add harbour "Mend the roof before week 42." --priority high
    """
    if not text.strip():
        raise cli.errors.Stop("TEXT: the goal is empty")
    with cli.stores.entered(options) as ctx:
        new = compact.Goal(text=text.strip(), priority=priority)
        goals = ctx.set_goals([*ctx.goals, new])
    yield from _told(goals)


@dataclass(frozen=True, kw_only=True)
class GoalOptions(OpenOptions):
    """What every command about one goal takes."""

    goal: Annotated[str, argument("ID", "A goal's id, or a unique prefix of it.")]


@command
def goals_done(options: GoalOptions) -> Telling:
    """Mark a goal as reached: it leaves the prompts and stays in the list.

    Examples:
      compactctl goals done harbour 3f2a81b0
    """
    return _set(options, status="done")


@command
def goals_drop(options: GoalOptions) -> Telling:
    """Give up a goal: it leaves the prompts and stays in the list.

    Examples:
      compactctl goals drop harbour 3f2a81b0
    """
    return _set(options, status="dropped")


@command
def goals_pause(options: GoalOptions) -> Telling:
    """Pause a goal: it leaves the prompts until `goals resume`.

    Examples:
      compactctl goals pause harbour 3f2a81b0
    """
    return _set(options, status="paused")


@command
def goals_resume(options: GoalOptions) -> Telling:
    """Make a goal active again, whatever its status.

    Examples:
      compactctl goals resume harbour 3f2a81b0
    """
    return _set(options, status="active")


@command
def goals_confirm(options: GoalOptions) -> Telling:
    """Confirm a goal that a model set: prompts show it as yours, and no model can end it.

    Examples:
      compactctl goals confirm harbour 3f2a81b0
    """
    return _set(options, confirmed=True)


def _set(options: GoalOptions, **changed: GoalStatus | bool) -> Telling:
    with cli.stores.entered(options) as ctx:
        known = [goal.id for goal in ctx.goals]
        where = f"session {ctx.id!r}"
        wanted = cli.stores.one_of(options.goal, known, what="goal", where=where)
        goals = ctx.set_goals(
            [g.model_copy(update=changed) if g.id == wanted else g for g in ctx.goals]
        )
    yield from _told(goals)


# --- what is told ---------------------------------------------------------------------------------


def _told(goals: Sequence[Goal]) -> Telling:
    yield [goal.model_dump(mode="json") for goal in goals]
    if not goals:
        yield Aside("this session has no goals")
        return
    rows = []
    length = _length(goals)
    for goal in goals:
        reached = sum(task.status == "completed" for task in goal.subtasks)
        steps = f"{reached} of {len(goal.subtasks)}" if goal.subtasks else ""
        status = goal.status if goal.priority == "medium" else f"{goal.status}, {goal.priority}"
        wanted = f"{'(set by a model) ' * goal.is_models}{goal.text}"
        told = "\n".join([one_line(wanted, 400), *_details(goal)])
        rows.append((one_line(goal.id[:length]), status, steps, told))
    yield Table(("id", "status", "steps", "goal"), rows)


def _details(goal: Goal) -> list[str]:
    """What was reached of a goal, a line each."""
    lines = [
        f"{task.status.replace('_', ' ')}: {task.text}{f' ({task.note})' if task.note else ''}"
        for task in goal.subtasks
    ]
    lines += [f"decided{' for good' * each.locked}: {each.text}" for each in goal.decisions]
    lines += [f"{file.action}: {file.path}" for file in goal.artifacts]
    lines += [f"next: {step}" for step in goal.next_steps]
    return [f"  {one_line(line, 200)}" for line in lines]


def _length(goals: Sequence[Goal]) -> int:
    """Letters of the ids by which no two of them are the same."""
    longest = max(len(goal.id) for goal in goals)
    known = {goal.id for goal in goals}
    lengths = range(min(LEAST_ID, longest), longest + 1)
    return next(n for n in lengths if len({name[:n] for name in known}) == len(known))
