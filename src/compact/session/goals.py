"""`ctx.goals`: a session's goals, and how they change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from compact.errors import NotFound
from compact.messages.goals import Goal, goals_given
from compact.session.intake import track_others

if TYPE_CHECKING:
    from compact.session.open_session import OpenSession


class Goals(tuple[Goal, ...]):
    """The current goals of a session. Every prompt shows the active ones word for word. The tuple
    does not change: after a change, `ctx.goals` is a new one.
    """

    _session: OpenSession

    def __reduce__(self) -> tuple[type[tuple[Goal, ...]], tuple[tuple[Goal, ...]]]:
        """Copy or pickle only the goals, without the session."""
        return tuple, (tuple(self),)

    @classmethod
    def of(cls, session: OpenSession) -> Self:
        """Return the goals that the session has now."""
        goals = cls(session.state.goals)
        goals._session = session
        return goals

    def set(self, goals: Sequence[Goal | str]) -> Goals:
        """Replace all goals, and return the new ones. A text becomes an active goal.

        Raises:
            InvalidArgument: `goals` is not a list of goals and texts, or a goal is empty.
        """
        session = self._session
        session.state.set_goals(goals_given(goals))
        track_others(session.state, session.view.window)
        session.view.reload()
        return Goals.of(session)

    def confirm(self, goal_id: str) -> Goals:
        """Confirm a goal that a model set, and return all goals. Prompts then show it as the user's
        own, and no model can end it.

        Raises:
            NotFound: the session has no goal with that id.
        """
        goals = self._session.state.goals
        if all(goal.id != goal_id for goal in goals):
            raise NotFound(
                f"the session has no goal {goal_id!r}; `goals` lists them with their ids"
            )
        changed = {"confirmed": True}
        return self.set([g.model_copy(update=changed) if g.id == goal_id else g for g in goals])
