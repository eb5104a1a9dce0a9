"""The system prompt of a resent list, and which system prompt is shown from now on.

It goes by its place: other words there are no edited past (decision 015). A client may merge what
stands before the messages of a prompt into one message. compact's text is taken out of it by its
key, the shown system prompt by its exact text (decision 046).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any, NamedTuple

from compact.errors import Superseded
from compact.messages import clock_and_ids
from compact.messages.messages import SYSTEM_ROLES, Message
from compact.messages.own_text import OwnText, rejoined
from compact.messages.sessions import Run, Step
from compact.session.entering import parsed
from compact.session.merged import Given, blocks_of, content_of, fields_of, text_of
from compact.session.state import SessionState
from compact.session.views.recalled_turns import KIND

STANDING = ("Goals", "Prompt", KIND)
"""Kinds of own text that are not part of what was said and stand for none of it: what stands before
the messages of every prompt, and recalled turns."""
MOST_TRIES = 100
"""Tries of a list or a step if other writers are faster. More only helps where many write to one
session at once."""


class SystemSaid(NamedTuple):
    """The system prompt of a list, in the place of the history's."""

    messages: tuple[Given, ...] = ()
    """Empty if the list has fewer system messages."""
    own: str | None = None
    """The client's own words in it, if others stand around those. None: all of it."""


def without_ours(
    given: Sequence[Given], own: OwnText
) -> tuple[list[Given], list[str | None], bool]:
    """The list without own text that was merged into its leading system messages; the kind of each
    message that is own text; and whether there was any own text.
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
    """A message without own text that was merged into it. The same object if there was none. None
    if it has no other words.
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
    """The system messages of a list in the place of as many of the history. If there are more, the
    last ones are joined. If there are fewer, there are none.
    """
    if leading and has_ours and (system := _merged(state, said, leading)):
        return system
    if not 0 < leading <= len(said):
        return SystemSaid()
    return SystemSaid((*said[: leading - 1], _joined(said[leading - 1 :])))


def _merged(state: SessionState, said: Sequence[Given], leading: int) -> SystemSaid | None:
    """The system prompt if a client sends back the shown one with words around it.

    They replace the words around its own words from before, so that no prompt grows from turn to
    turn. None if the shown one is not there word for word.
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
    """These system messages as one. A malformed one stands for all, to be refused."""
    first, *others = messages
    if not others:
        return first
    for message in messages:
        if not isinstance(content_of(message), str | Sequence | None):
            return message
    blocks = [block for message in messages for block in blocks_of(message)]
    return {"role": fields_of(first)["role"], "content": _whole_text(messages) or blocks}


def _whole_text(messages: Sequence[Given]) -> str:
    """The texts of messages, joined as paragraphs. Empty if they hold more than texts."""
    blocks = [block for message in messages for block in blocks_of(message)]
    texts = [block["text"] for block in blocks if block.keys() == {"type", "text"}]
    texts = [text for text in texts if isinstance(text, str)]
    return "\n\n".join(texts) if len(texts) == len(blocks) else ""


# --- what is shown --------------------------------------------------------------------------------


def show_system(state: SessionState, system: Sequence[Message], own: str | None = None) -> None:
    """Show this system prompt from now on. `own` are the client's own words in it. If its tokens
    differ, what is in force is counted again.
    """
    more = state.show_system(system, own)
    if more == 0:
        return
    for window in {move.window for move in state.moves()}:
        for _ in range(MOST_TRIES):
            with suppress(Superseded):
                _recount(state, window, len(system), more)
                break


def _recount(state: SessionState, window: int, leading: int, more: int) -> None:
    """Put the projection in force for a window in force again, with its count corrected."""
    newest = state.store.moves(state.id, window, most=1)
    move = next(state.moves(window), None)
    if move is None or move.projection_id is None:
        return
    projection = state.projection(move.projection_id)
    runs = [piece for piece in projection.pieces if isinstance(piece, Run)]
    if not all(any(run.first <= i <= run.last for run in runs) for i in range(leading)):
        return
    again: dict[str, Any] = {"id": clock_and_ids.new_id(), "parent": projection.id}
    again["tokens"] = max(0, projection.tokens + more)
    corrected = projection.model_copy(update=again)
    step = Step(
        kind="compress" if move.kind == "compress" else "restore",
        session_id=state.id,
        branch_id=state.branch_id,
        window=window,
        base=newest[0].number if newest else 0,
        at=len(state.history),
        projection=corrected,
        notes=state.counted_noted(corrected, state.counted_by(projection)),
    )
    state.store.commit(step)


def leading_system(messages: Iterable[Given]) -> list[int]:
    """The positions of the system messages that a list begins with."""
    roles = (fields_of(message).get("role") for message in messages)
    leading = takewhile(lambda role: isinstance(role, str) and role in SYSTEM_ROLES, roles)
    return [i for i, _ in enumerate(leading)]


# --- a program that opens a session again repeats its system prompt ------------------------------


class Repeated(NamedTuple):
    """A system message that is said again."""

    position: int
    """Its position in the session."""
    message: Message


class RepeatedSystemPrompt:
    """Recognizes the system prompt that a program adds again after opening a session.

    Until something else is said, the system messages that the session began with are recognized, in
    any words. If it began with none, others are recognized in the same words.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._said: int | None = 0 if len(state.history) else None
        """How many of them were said again. None: nothing is recognized any more."""

    def repeated_in(self, given: Sequence[Message | Mapping[str, Any]]) -> list[Repeated]:
        """The system messages that these begin with, as far as the session had them."""
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
        """Show these for the ones that the session had. Returns the messages as they stand there
        now. The same words stay as they are. `ends` says that something else follows.
        """
        if self._said is not None:
            self._said = None if ends else self._said + len(repeated)
        if not repeated:
            return []
        history = self._state.history
        if any(not _says(history[position], said) for position, said in repeated):
            leading = {i: history[i] for i in leading_system(history)}
            with self._state.lock:
                show_system(self._state, list((leading | dict(repeated)).values()))
        return [history[position] for position, _ in repeated]

    def end(self) -> None:
        """Something else was said."""
        self._said = None

    def _place(self, said: Message, number: int) -> int | None:
        """The session's position of the repeated system message of that number."""
        history = self._state.history
        if leading := leading_system(history):
            return number if number < len(leading) else None
        stand = (i for i in history.fixed if history[i].role in SYSTEM_ROLES)
        return next((i for i in stand if _says(history[i], said)), None)


def _says(one: Message, other: Message) -> bool:
    return (one.role, one.parts) == (other.role, other.parts)
