"""The models that a session speaks to, by their keys."""

from __future__ import annotations

from collections.abc import Sequence

from compact import wiring
from compact.errors import UnknownModel
from compact.messages.asking import Patience
from compact.messages.protocols import ChatModel
from compact.session.running import blocking
from compact.session.state import SessionState
from compact.wiring import Model, key_of

CLOSING = 2.0
"""Seconds that closing a model's connections may take."""


class Models:
    """Makes each model when it is first asked for, and keeps it while the session is open."""

    def __init__(
        self,
        state: SessionState,
        own: Model | None,
        *,
        fallbacks: Sequence[Model],
        patience: Patience,
    ) -> None:
        self._state = state
        self._fallbacks = fallbacks
        self._patience = patience
        self.own = own
        """The session's own model."""
        self._made: dict[str, ChatModel] = {}

    def of(self, given: ChatModel | str | None) -> ChatModel:
        """The model of that key, or the session's own; an object that is given is taken as it is.

        Raises:
            UnknownModel: no model is known by that key, or the session has none of its own.
            ModelRefused: the package is missing that it is asked through, and there is no other
                model to ask.
        """
        own = self.own if given is None else given
        if own is None:
            raise UnknownModel(
                "this session has no model of its own: give one, such as send('ollama:qwen3:8b'), "
                "or open it with model="
            )
        if not isinstance(own, str) and given is not None:
            return own
        key = key_of(own)
        if key not in self._made:
            row = [own, *(other for other in self._fallbacks if key_of(other) != key)]
            state = self._state
            made = wiring.asked_model(row, state.emit, self._patience, state.setting.book)
            if len(row) == 1 and isinstance(own, str):
                wiring.check_package(own)
            self._made[key] = made
        return self._made[key]

    def close(self) -> None:
        """Let go of what the models hold open."""
        for model in self._made.values():
            if (close := getattr(model, "aclose", None)) is not None:
                blocking.BackgroundJob(close()).wait(CLOSING)
        self._made.clear()
