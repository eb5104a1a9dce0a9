"""A session as one tokenizer counts it.

A session has one counter of its own. A prompt for a model whose tokenizer is another one is made by
that one's counts: what fits by one tokenizer may be far too large by another. Both share the store,
and with it history, goals, pins and what is in force for a window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compact.managers.breaker import Breaker
from compact.managers.prompt_sender import PromptSender
from compact.managers.state import SessionState
from compact.managers.view import View


class CountedSession:
    """A session's views by one counter, and what goes to models and comes back from them."""

    def __init__(self, state: SessionState, size: int) -> None:
        self.state = state
        self.breaker = Breaker(state)
        self.views: dict[int, View] = {}
        self.sender = PromptSender(state, self.view(size))

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
            view.background.stop()


class CountedSessions:
    """The session by its own counter, and by one for each other tokenizer that was asked for."""

    def __init__(self, own: CountedSession, counted_by: Callable[[str], SessionState]) -> None:
        self._own = own
        self._counted_by = counted_by
        self._of_own_model = _tokenizer_of(own.state)
        """The tokenizer that the session's first model has: where another one was given for it,
        that one counts for all models of its kind."""
        self._others: dict[str, CountedSession] = {}

    def of(self, model: str, window: int | None = None) -> tuple[CountedSession, View]:
        """The session counted for a model, and the view for its window or for a size that is given.

        A model of which nothing is known is counted as the session itself is.

        Raises:
            UnknownModel: nothing is known of its window, and no size is given.
        """
        state = self._own.state
        size = replace(state.setting, model=model).size(window)
        profile = state.setting.book.profile_of(model)
        own = state.counter.estimator.name
        counted = self._own
        if profile is not None and profile.tokenizer not in (own, self._of_own_model):
            counted = self._other(profile.tokenizer, size)
        return counted, counted.view(size)

    def go_on_with(self, model: str, window: int | None) -> tuple[CountedSession, View]:
        """Have the session be for another model: its counts and view, what it is reserved and told
        from now on.

        Raises:
            UnknownModel: as `of`; the session stays with the model it has.
        """
        with self._own.state.lock:
            counted, view = self.of(model, window)
            if model != counted.state.setting.model:  # a smaller window was the other model's
                counted.state.learn(counted.state.calibration.after_word(view.size, size=view.size))
            for each in (self._own, *self._others.values()):
                each.state.setting = replace(each.state.setting, model=model)
                for seen in each.views.values():
                    seen.corrected()
            counted.sender.serve(view)
            return counted, view

    def _other(self, tokenizer: str, size: int) -> CountedSession:
        with self._own.state.lock:
            counted = self._others.get(tokenizer)
            if counted is None:
                counted = self._others[tokenizer] = CountedSession(
                    self._counted_by(tokenizer), size
                )
            return counted

    def close(self) -> None:
        """Give up what is being drafted."""
        for counted in (self._own, *self._others.values()):
            counted.close()


def _tokenizer_of(state: SessionState) -> str | None:
    setting = state.setting
    profile = setting.book.profile_of(setting.model) if setting.model else None
    return profile.tokenizer if profile else None
