"""A session as one tokenizer counts it.

A session has one counter of its own. A prompt for a model whose tokenizer is another one is made by
that one's counts: what fits by one tokenizer may be far too large by another. Both share the store,
and with it history, goals, pins and what is in force for a window.
"""

from __future__ import annotations

from collections.abc import Callable

from compact.core.profiles import profile_of, window_of
from compact.managers.breaker import Breaker
from compact.managers.post import Post
from compact.managers.state import SessionState
from compact.managers.view import View


class Desk:
    """A session's views by one counter, and what goes to models and comes back from them."""

    def __init__(self, state: SessionState, size: int) -> None:
        self.state = state
        self.breaker = Breaker(state)
        self.views: dict[int, View] = {}
        self.post = Post(state, self.view(size))

    def view(self, size: int) -> View:
        """The view for a window of that size."""
        with self.state.lock:
            found = self.views.get(size)
            if found is None:
                found = self.views[size] = View(self.state, size, self.breaker)
            return found

    def close(self) -> None:
        """Give up what is being drafted."""
        for view in self.views.values():
            view.ahead.stop()


class Desks:
    """The session's own desk, and one for each other tokenizer that was asked for."""

    def __init__(self, own: Desk, counted_for: Callable[[str], SessionState | None]) -> None:
        self._own = own
        self._counted_for = counted_for
        self._others: dict[str, Desk | None] = {}

    def of(self, model: str) -> tuple[Desk, View]:
        """The desk for a model, and the view for its window.

        Raises:
            UnknownModel: nothing is known of that model.
        """
        size, profile = window_of(model), profile_of(model)
        name = profile.tokenizer if profile else ""
        with self._own.state.lock:
            desk = self._others.get(name)
            moved = desk is not None and desk.state.branch_id != self._own.state.branch_id
            if name not in self._others or moved:
                state = self._counted_for(model)
                desk = self._others[name] = Desk(state, size) if state is not None else None
        desk = desk or self._own
        return desk, desk.view(size)

    def close(self) -> None:
        """Give up what is being drafted."""
        for desk in (self._own, *self._others.values()):
            if desk is not None:
                desk.close()
