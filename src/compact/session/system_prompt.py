"""Reads the system prompt of a resent list, and changes which system prompt is shown.

A system prompt is recognized by its place. Other words there do not count as an edited past
(decision 015). A client may merge everything before a prompt's messages into one message. compact
removes its own text from it, which it knows by its key, and the shown system prompt, which it knows
by its exact text (decision 046).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from compact.messages.messages import SYSTEM_ROLES, Message
from compact.messages.own_text import OwnText, rejoined
from compact.session.entering import parsed
from compact.session.merged import Given, blocks_of, content_of, fields_of, text_of
from compact.session.state import SessionState
from compact.session.views.recalled_turns import KIND

STANDING = ("Goals", "Prompt", KIND)
"""Kinds of compact's own text that neither quote nor summarize the conversation: the text before
the messages of every prompt, and recalled turns."""


class SystemSaid(NamedTuple):
    """The system prompt of a list, to be shown instead of the history's."""

    messages: tuple[Given, ...] = ()
    """Empty if the list has fewer system messages than the history."""
    own: str | None = None
    """The client's own words in the system prompt. None if all of it is the client's."""


def without_ours(
    given: Sequence[Given], own: OwnText
) -> tuple[list[Given], list[str | None], bool]:
    """Remove compact's own text from the list's leading system messages. Return the list, the kind
    of each message that is compact's own, and whether there was any such text.
    """
    asked, kinds = list(given), [own.kind_of(text_of(message)) for message in given]
    has_ours = any(kinds)
    for i in leading_system(given):
        words = _own_words(given[i], own) if kinds[i] is None else given[i]
        if words is not given[i]:
            has_ours = True
            asked[i], kinds[i] = (words, None) if words else (given[i], "Prompt")
    return asked, kinds, has_ours


def _own_words(message: Given, own: OwnText) -> Given | None:
    """Return a message without compact's own text. If it has no such text, the same object; if it
    has nothing else, None.
    """
    blocks = blocks_of(message)
    left = [_own_block(block, own) for block in blocks]
    if all(a is b for a, b in zip(left, blocks, strict=True)):
        return message
    rest = [block for block in left if block.get("text") != ""]
    content = rest[0]["text"] if rest and isinstance(content_of(message), str) else rest
    return {**fields_of(message), "content": content} if rest else None


def _own_block(block: Mapping[str, Any], own: OwnText) -> Mapping[str, Any]:
    text = block.get("text")
    left = own.without(text, STANDING) if isinstance(text, str) else text
    return block if left is text else {**block, "text": left}


def system_said(
    state: SessionState, said: Sequence[Given], leading: int, *, has_ours: bool
) -> SystemSaid:
    """Return the system messages of a list, as many as the history has. If the list has more, the
    last ones are joined. If it has fewer, return none.
    """
    if leading and has_ours and (system := _merged(state, said, leading)):
        return system
    if not 0 < leading <= len(said):
        return SystemSaid()
    return SystemSaid((*said[: leading - 1], _joined(said[leading - 1 :])))


def _merged(state: SessionState, said: Sequence[Given], leading: int) -> SystemSaid | None:
    """Return the system prompt if a client sends back the shown one with more words around it.

    The new words replace those that were around the client's own words before, so that the prompt
    does not grow from turn to turn. Return None if the shown prompt is not there word for word.
    """
    shown, whole = state.history[:leading], _whole_text(said)
    texts = {_whole_text([message]) for message in shown}
    if "" in texts:
        return None
    left = whole
    for text in sorted(texts, key=len, reverse=True):
        if text not in left:
            return None
        left = rejoined(left.split(text))
    own = state.history.own_system
    if not left:
        return SystemSaid(tuple(shown), own)
    if leading > 1:
        return None
    (text,) = texts
    before, *behind = whole.split(text)
    words = rejoined([before, text if own is None else own, *behind])
    return SystemSaid(({"role": shown[0].role, "content": words},), text if own is None else own)


def _joined(messages: Sequence[Given]) -> Given:
    """Join system messages into one. A malformed one is returned alone, to be refused later."""
    first, *others = messages
    if not others:
        return first
    for message in messages:
        if not isinstance(content_of(message), str | Sequence | None):
            return message
    blocks = [block for message in messages for block in blocks_of(message)]
    return {"role": fields_of(first)["role"], "content": _whole_text(messages) or blocks}


def _whole_text(messages: Sequence[Given]) -> str:
    """Join the texts of messages as paragraphs; empty if the messages contain more than texts."""
    blocks = [block for message in messages for block in blocks_of(message)]
    texts = [block["text"] for block in blocks if block.keys() == {"type", "text"}]
    texts = [text for text in texts if isinstance(text, str)]
    return "\n\n".join(texts) if len(texts) == len(blocks) else ""


def leading_system(messages: Iterable[Given]) -> list[int]:
    """Return the positions of the system messages that a list begins with."""
    roles = (fields_of(message).get("role") for message in messages)
    leading = takewhile(lambda role: isinstance(role, str) and role in SYSTEM_ROLES, roles)
    return [i for i, _ in enumerate(leading)]


# --- a program that opens a session again repeats its system prompt ------------------------------


class Repeated(NamedTuple):
    """A system message that a program added again."""

    position: int
    """The position, in the session, of the message that it repeats."""
    message: Message


class RepeatedSystemPrompt:
    """Recognizes the system prompt that a program adds again after it reopened a session.

    Until the program adds another message, the system messages at the session's beginning are
    recognized, even in other words. If it began with none, later ones are recognized by the same
    words.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._said: int | None = 0 if len(state.history) else None
        """How many system messages were repeated. None: nothing is recognized any more."""

    def repeated_in(self, given: Sequence[Message | Mapping[str, Any]]) -> list[Repeated]:
        """Return the leading system messages in `given` that the session already had."""
        repeated: list[Repeated] = []
        if self._said is None:
            return repeated
        for number, raw in enumerate(given, self._said):
            message = parsed(self._state.wire, raw, number)
            position = self._place(message, number) if message.role in SYSTEM_ROLES else None
            if position is None:
                break
            repeated.append(Repeated(position, message))
        return repeated

    def take(self, repeated: Sequence[Repeated], *, ends: bool) -> list[Message]:
        """Show these messages instead of the session's, if their words differ. Return the session's
        messages as they are now. `ends` says that other messages follow.
        """
        if self._said is not None:
            self._said = None if ends else self._said + len(repeated)
        if not repeated:
            return []
        history = self._state.history
        if any(not _says(history[position], said) for position, said in repeated):
            leading = {i: history[i] for i in leading_system(history)}
            self._state.show_system(list((leading | dict(repeated)).values()))
        return [history[position] for position, _ in repeated]

    def end(self) -> None:
        """Stop recognizing repeated system messages, because another message came."""
        self._said = None

    def _place(self, said: Message, number: int) -> int | None:
        """Return the position of the system message that this one, number `number`, repeats."""
        history = self._state.history
        if leading := leading_system(history):
            return number if number < len(leading) else None
        stand = (i for i in history.fixed if history[i].role in SYSTEM_ROLES)
        return next((i for i in stand if _says(history[i], said)), None)


def _says(one: Message, other: Message) -> bool:
    return (one.role, one.parts) == (other.role, other.parts)
