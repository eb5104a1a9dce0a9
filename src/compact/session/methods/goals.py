"""The goals and the mode of a session, and the system prompt that shows them."""

from __future__ import annotations

from collections.abc import Sequence

from compact.errors import NotFound
from compact.messages.goals import Goal, goals_given
from compact.session.goal_tracking import track_others
from compact.session.methods.looking import Looking
from compact.text.prompts import SystemPrompt


class Goals(Looking):
    """The methods that say what a session is for."""

    @property
    def goals(self) -> tuple[Goal, ...]:
        """The goals of the session. Active goals are in every prompt word for word."""
        return self._session.state.goals

    def set_goals(self, goals: Sequence[Goal | str]) -> tuple[Goal, ...]:
        """Replace the goals; a text is an active goal.

        Raises:
            InvalidArgument: this is not a list of goals and texts, or one is empty.
        """
        self._session.state.set_goals(goals_given(goals))
        track_others(self._session.state, self.window)
        self._session.view.reload()
        return self.goals

    def confirm_goal(self, goal_id: str) -> tuple[Goal, ...]:
        """Confirm a goal that a model set: prompts show it as the person's from now on, and no
        model can end it.

        Raises:
            NotFound: the session has no goal with that id.
        """
        if all(goal.id != goal_id for goal in self.goals):
            raise NotFound(
                f"the session has no goal {goal_id!r}; `goals` lists them with their ids"
            )
        changed = {"confirmed": True}
        return self.set_goals(
            [g.model_copy(update=changed) if g.id == goal_id else g for g in self.goals]
        )

    @property
    def mode(self) -> str:
        """The mode of the session: its use (`text.modes`)."""
        return self._session.state.policy.mode

    def set_mode(self, name: str) -> None:
        """Set the mode from now on, also when the session is reopened.

        Raises:
            InvalidConfig: there is no such mode; the text lists the modes.
        """
        self._session.state.set_mode(name)
        self._session.view.reload()

    @property
    def system_prompt(self) -> SystemPrompt | None:
        """The system prompt and the parts left out of it; None without the option `prompt`."""
        return self._session.view.counted.preamble(self._session.view.size).prompt
