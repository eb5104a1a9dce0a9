"""An open session in this process: its state, its views by tokenizer and window, and its models.
`ContextManager` holds one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from compact import forks, wiring
from compact.errors import InvalidMessage, UnknownModel
from compact.messages.asking import PATIENCE, Patience
from compact.messages.given import Given, messages_given
from compact.messages.messages import Message
from compact.messages.protocols import ChatModel, SessionStore
from compact.session import running
from compact.session.opening import SessionOptions, found_for, may_be_in, opened, other_format
from compact.session.prompt_sender import PromptSender
from compact.session.resent_list import LastList
from compact.session.state import SessionState
from compact.session.system_prompt import RepeatedSystemPrompt
from compact.session.views import drafts
from compact.session.views.breaker import Breaker
from compact.session.views.view import View
from compact.wiring import Model, key_of

CLOSING = 2.0
"""How long closing a model's connections may take, in seconds."""


class Models:
    """The models of an open session by key. Each is made at its first use, and kept."""

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
        """Return the model with that key, or the session's own model for None. A model object is
        returned unchanged.

        Raises:
            UnknownModel: no model is known by that key, or the session has none of its own.
            ModelRefused: a package that the model needs is missing, and there is no other model.
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
        """Close the models' connections."""
        for model in self._made.values():
            if (close := getattr(model, "aclose", None)) is not None:
                running.BackgroundJob(close()).wait(CLOSING)
        self._made.clear()


class OpenSession:
    """A session that is open in this process."""

    def __init__(
        self,
        model: wiring.Model | None,
        window: int | None,
        store: str | Path | SessionStore | None,
        options: SessionOptions,
    ) -> None:
        self._model, self._window, self._options = model, window, options
        self._owns_store = store is None or isinstance(store, str | Path)
        self.turn = forks.Lock()
        """Held from taking in a list until its prompt is made, even while a summarizer writes."""
        self._open(store)

    def _open(self, store: str | Path | SessionStore | None) -> None:
        with ExitStack() as reads:
            self._open_from(store, reads)

    def _open_from(self, store: str | Path | SessionStore | None, reads: ExitStack) -> None:
        options = self._options
        self.state, size = opened(self._model, self._window, store, options, reads)
        try:
            drafts.drop_abandoned(self.state)
            self.breaker = Breaker(self.state)
            self._counters = {self._own_tokenizer: self.state.counter}
            self._views: dict[tuple[str, int], View] = {}
            self.view = self.view_of(size)
            """The view that prompts are made from."""
        except BaseException:
            if self._owns_store:
                self.state.store.close()
            raise
        self.sender = PromptSender(self.state, self.view)
        self.repeated_prompt = RepeatedSystemPrompt(self.state)
        self.last_list = LastList(self.state)
        self.models = Models(
            self.state,
            self._model,
            fallbacks=options.get("fallbacks") or (),
            patience=options.get("patience") or PATIENCE,
        )
        self._of_own_model = self._tokenizer_of(self._model)
        """The tokenizer of the session's first model. Models with this tokenizer are counted with
        the session's own counter, even if the user chose another tokenizer."""

    def close(self) -> None:
        """Stop background drafts, and close what was opened here."""
        if self.turn.is_inherited:
            return
        self._stop()
        if self._owns_store:
            self.state.store.close()

    def _stop(self) -> None:
        for view in self._views.values():
            view.background.stop()
        self.models.close()
        if self.state.archive is not None:
            self.state.archive.close()

    def read(self, messages: Sequence[Given], at: int = 0) -> Sequence[Message | Mapping[str, Any]]:
        """Return the given messages. If the session's format cannot hold them, the session is first
        reopened in one that can. `at` is the place of the first message, for errors.

        Raises:
            InvalidMessage: one is no message, or has a format that the session cannot change to.
        """
        given = messages_given(messages)
        other = other_format(self.state, given)
        if other and not self._options.get("format") and may_be_in(self.state, other.name):
            self._options = {**self._options, "format": other.name, "session_id": self.state.id}
            policy = self.state.policy
            self._stop()
            self._open(self.state.store)
            self.state.policy = policy
            other = other_format(self.state, given)
        if other:
            raise InvalidMessage(
                f"messages[{at + other.place}]",
                f"is in the format {other.name}, the session is in {self.state.wire.name}: "
                f"give format={other.name!r}",
            )
        return given

    # --- by tokenizer and window ------------------------------------------------------------------

    @property
    def _own_tokenizer(self) -> str:
        return self.state.counter.estimator.name

    def _tokenizer_of(self, model: wiring.Model | None) -> str | None:
        book = self.state.setting.book
        profile = book.profile_of(wiring.key_of(model)) if model else None
        return profile.tokenizer if profile else None

    def view_of(self, size: int, tokenizer: str | None = None) -> View:
        """Return the view for a window of that size, by this tokenizer or the session's own."""
        tokenizer = tokenizer or self._own_tokenizer
        with self.state.lock:
            if tokenizer not in self._counters:
                counter = wiring.token_counter(self.state.wire.name, tokenizer=tokenizer)
                self._counters[tokenizer] = counter
            if (tokenizer, size) not in self._views:
                view = View(self.state, self._counters[tokenizer], size, self.breaker)
                self._views[tokenizer, size] = view
            return self._views[tokenizer, size]

    def view_for(self, model: wiring.Model, window: int | None = None) -> View:
        """Return the view for a model's window, or for a given size, by the model's tokenizer. An
        unknown model is counted by the session's tokenizer.

        Raises:
            UnknownModel: the window is unknown, and no size is given.
        """
        size = replace(self.state.setting, model=wiring.key_of(model)).size(window)
        tokenizer = self._tokenizer_of(model)
        return self.view_of(size, None if tokenizer == self._of_own_model else tokenizer)

    def go_on_with(self, model: wiring.Model, window: int | None) -> None:
        """Switch the session to another model: its counts, its view and its reserve.

        Raises:
            UnknownModel: as `view_for`; the session keeps its model.
        """
        state = self.state
        if window is None:  # ask the server before taking the lock
            window = found_for(replace(state.setting, model=wiring.key_of(model)))
        with state.lock:
            view, key = self.view_for(model, window), wiring.key_of(model)
            if key != state.setting.model:  # a window that proved smaller was the other model's
                view.learn(view.calibration.after_word(view.size, size=view.size))
            self._model, self._window = model, window
            state.serve(model, view.size)
            state.asks(key)
            self.breaker.follow()
            for other in self._views.values():
                other.corrected()
            view.refresh()
            self.view = view
            self.sender.serve(view)
            self.models.own = model
