"""What an adapter of a framework needs of a prompt: the messages to send, which of the caller's
messages stand in each, and where to report what the provider said of it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from compact.errors import InvalidArgument, StoreFailed, Superseded
from compact.messages import chain
from compact.messages.given import Given as Anything
from compact.messages.messages import Message
from compact.messages.own_text import OwnText
from compact.messages.replies import Usage
from compact.session.merged import Given, apart, may_be_joined
from compact.session.prompt_sender import Taken

if TYPE_CHECKING:
    from compact.session.context_manager import ContextManager, Place

T = TypeVar("T")
Origin = tuple[int, ...]
"""Indexes of the caller's messages that stand in a sent message."""


class Prompt(NamedTuple):
    """A prompt as a session made it."""

    messages: list[Any]
    origin: list[Origin]
    taken: Taken
    place: Place
    """Where the session's history ended."""


class Fitted:
    """The messages to send instead of a caller's list."""

    def __init__(
        self,
        given: Sequence[Any],
        read: Sequence[Given] = (),
        prompt: Prompt | None = None,
        session: Callable[[], ContextManager] | None = None,
    ) -> None:
        self._prompt, self._session, self._given = prompt, session, tuple(read)
        sent = prompt.messages if prompt else []
        origin = tuple(prompt.origin) if prompt else ()
        self._is_own = is_own = [
            len(stands) == 1 and _is_same(message, read[stands[0]])
            for message, stands in zip(sent, origin, strict=True)
        ]
        self.origin: tuple[Origin, ...] = origin
        """For each sent message the indexes of the caller's messages that stand in it: none for
        what compact wrote, several where neighbours were joined."""
        self.changed: bool = not all(is_own) or len(sent) != len(given)
        """Whether other messages are sent than the caller's. If not, `messages` is the caller's
        list itself."""
        self.messages: Sequence[Any] = given
        """The messages to send, in the caller's format. One that equals a message of the caller is
        the caller's own object. Do not change the others."""
        if self.changed:
            rows = zip(sent, origin, is_own, strict=True)
            self.messages = [given[o[0]] if is_given else m for m, o, is_given in rows]
        self.tokens: int = prompt.taken.tokens if prompt else 0
        """Tokens of the whole prompt, with the system prompt and the tools."""

    def into(self, own: Sequence[T], make: Callable[[Any, Sequence[T]], T]) -> list[T]:
        """Return the messages to send as a framework's: of its `own` messages, given in the same
        order, those that are sent as they were given. Others are what `make` returns for a sent
        message and the framework's messages that stand in it.
        """
        if not self.changed:
            return list(own)
        rows = zip(self.messages, self.origin, self._is_own, strict=True)
        return [own[o[0]] if same else make(m, [own[i] for i in o]) for m, o, same in rows]

    def copies(self) -> list[Any]:
        """Return the messages to send without the caller's objects, so that you may change them."""
        return self._prompt.messages if self._prompt else []

    def report(self, said: Usage | int | object) -> bool:
        """Report what the provider said of this prompt: the number of its tokens, or the error by
        which it refused it (an exception, its text or its JSON). Later counts are corrected. After
        an error that says that the prompt is too large, the session's next prompt is smaller.
        Return whether it was one of these two,
        and the session could learn it: not if the store fails.

        Raises:
            InvalidArgument: the number is below 0.
        """
        if self._prompt is None or self._session is None:
            return False
        try:
            sender, taken = self._session()._session.sender, self._prompt.taken
        except StoreFailed:
            return False  # what was answered must not be lost by it
        tokens = said.prompt_tokens if isinstance(said, Usage) else said
        if type(tokens) is not int:
            return sender.owes(said, taken)
        if tokens < 0:
            raise InvalidArgument("said", f"usage must be at least 0 tokens, got {tokens}")
        sender.reported(tokens, taken)
        return True

    def answered(self, *messages: Anything) -> bool:
        """Add the model's answer to the session, so that the list that is resent with it is known
        as this conversation (`recognize`). Return whether it was added: not if the session has gone
        on meanwhile, or the store fails. Then the next list brings the answer.

        Raises:
            InvalidMessage: the message is malformed; the error names the field.
        """
        if self._prompt is None or self._session is None:
            return False
        with suppress(StoreFailed, Superseded):
            ctx = self._session()
            state = ctx._session.state
            with state.lock:
                state.history.catch_up()
                if (state.branch_id, len(state.history)) == self._prompt.place:
                    ctx.sync([*self._given, *messages])
                    return True
        return False


def _is_same(sent: Any, given: Given) -> bool:  # noqa: ANN401 - a `Message`, or a dictionary
    """Whether both are the same JSON."""
    if isinstance(given, Message):
        return chain.link(chain.START, sent) == chain.link(chain.START, given)
    return bool(sent == given) or _json(sent) == _json(given)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, default=list, sort_keys=True)


def origins(
    given: Sequence[Given],
    sent: Sequence[Any],
    places: Sequence[tuple[int, ...]],
    said: Callable[[int], Message],
    own: OwnText,
) -> list[Origin]:
    """Return which of the given messages stand in each sent one. `places` are the positions of the
    messages in the history, `said` returns such a message.

    Equal messages are matched from the end, because both lists have one order. So a message that
    was joined or shortened before, and came back, is known as itself.
    """
    newest = _Newest(given, own)
    out: list[Origin] = []
    for message, positions in zip(reversed(sent), reversed(places), strict=True):
        same = newest.before(message)
        found = (
            [same] if same is not None else [newest.before(said(p)) for p in reversed(positions)]
        )
        out.append(tuple(i for i in reversed(found) if i is not None))
    return out[::-1]


class _Newest:
    """Finds a list's messages by their contents, each once, from the end."""

    def __init__(self, given: Sequence[Given], own: OwnText) -> None:
        self._places: dict[bytes, list[int]] = defaultdict(list)
        self._before = len(given)
        for i, message in enumerate(given):
            for each in _with_own_words(message, own):
                self._places[chain.link(chain.START, each)].append(i)

    def before(self, message: Given) -> int | None:
        """Return the newest index of such a message before those found, None if there is none."""
        places = self._places.get(chain.link(chain.START, message), [])
        while places and places[-1] >= self._before:
            places.pop()
        if not places:
            return None
        self._before = places.pop()
        return self._before


def _with_own_words(message: Given, own: OwnText) -> Iterator[Given]:
    """Yield the message, and the person's part if compact's text is joined with it."""
    yield message
    if may_be_joined(message):
        *ours, said = apart([message], own)
        if ours:
            yield said
