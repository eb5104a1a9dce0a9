"""Recognition: what is new in a list that a client sends whole at every turn.

Messages are compared by digests of what they say (`core.chain`), with what is known: the history
from its beginning; the prompt that was shown, which is told by compact's own text in the list; and
the history's end, for a client that dropped the beginning. The one that knows most of the list
counts, and the rest is new. Nothing else is looked for: a list that leaves the history before its
end goes on as a branch.

The system prompt goes by its place: other words there are no edited past (decision 015). What is
then done with the session lives in `syncing`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain as chained
from itertools import takewhile
from typing import Any, NamedTuple

from compact.compression import shorten
from compact.compression.fold import Fold
from compact.core import chain
from compact.core.messages import SYSTEM_ROLES, Message, Text
from compact.core.own_text import OwnText, below, headed, rejoined
from compact.core.sessions import Projection, Shown
from compact.errors import InvalidMessage
from compact.managers.state import ALL_MOVES, SessionState
from compact.managers.view import View

_STANDING = ("Goals", "Prompt")
"""Texts of ours that stand before the messages of every prompt."""
_SUMMARIES = ("Checkpoint", "Record")
"""Texts of ours that stand for messages: each projection has its own."""

Given = Message | Mapping[str, Any]


class Recognized(NamedTuple):
    """What a resent list is."""

    known: int
    """Messages of the history that it goes on from."""
    new: list[Given]
    """What it adds to them."""
    ours: int
    """Messages of compact's own making that were in it, and are not stored."""
    system: tuple[Given, ...] = ()
    """The system prompt that takes the place of the one shown until now; none where it is the
    same."""
    own_system: str | None = None
    """The client's own words in it, where it says others around them; None: all of it."""
    is_lost: bool = False
    """Whether a checkpoint in it has no place in this history, and is kept as what it says."""


class _Match(NamedTuple):
    """How far a list is known."""

    used: int
    """How many of its messages."""
    known: int
    """Messages of the history that they are."""
    notes: int = 0
    """How many of them are notes of our making."""


class _System(NamedTuple):
    """A system prompt in the place of the history's."""

    messages: tuple[Given, ...] = ()
    own: str | None = None
    """As `Recognized.own_system`."""


def recognized(state: SessionState, view: View, given: Sequence[Given]) -> Recognized:
    """What of the list is known, and what is new.

    Raises:
        InvalidMessage: one of the messages cannot be stored.
    """
    asked, kinds, has_ours = _without_ours(given, state.own)
    said = [i for i in _leading_system(asked) if kinds[i] not in _STANDING]
    leading = len(_leading_system(state.history))
    system = _system(state, [asked[i] for i in said], leading, has_ours=has_ours)
    start = said[-1] + 1 if system.messages else 0
    words = {i: _link(asked, i) for i in range(start, len(asked)) if kinds[i] not in _STANDING}
    left = leading if system.messages or not said else 0  # fewer of them are an edited past
    match, summaries = _known(state, view, asked, words, left)
    new = [i for i in words if i not in summaries][match.used :]
    if _digests(system.messages) == _digests(state.history[: len(system.messages)]):
        system = _System()
    return Recognized(
        match.known,
        [asked[i] for i in new],
        match.notes + len(summaries) + sum(kind in _STANDING for kind in kinds),
        *system,
        is_lost=any(kinds[i] in _SUMMARIES for i in new),
    )


# --- the messages ---------------------------------------------------------------------------------


def _known(
    state: SessionState,
    view: View,
    asked: Sequence[Given],
    words: Mapping[int, bytes],
    leading: int,
) -> tuple[_Match, Collection[int]]:
    """How far these messages of the list are known, by their digests, behind so many system
    messages; and the places of those that are the summaries of a prompt.
    """
    history, links = state.history, list(words.values())
    used = history.known_prefix([asked[i] for i in words], after=leading)
    best = _Match(used, leading + used)
    if used == len(words):
        return best, ()
    if best.known == len(history) and not _is_note(asked[[*words][used]]):
        return best, ()
    projection, summaries = _shown(state, view, {i: asked[i] for i in words})
    rest = [link for i, link in words.items() if i not in summaries]
    shown = _as_shown(state, projection, rest, leading)
    if shown is not None and (summaries or shown.used > used):
        return shown, summaries
    at_end = _at_end(state, links, leading)
    return max(best, at_end, key=lambda match: match.used), ()


def _is_note(message: Given) -> bool:
    """Whether the message may be the note that answers open calls."""
    return isinstance(message, Mapping) and shorten.NO_RESULT in str(message.get("content"))


def _shown(
    state: SessionState, view: View, words: Mapping[int, Given]
) -> tuple[Projection | None, Collection[int]]:
    """The projection of the prompt that a list goes on from, told by its summaries, all of which
    the list carries; and their places in it. The one in force comes first, then the newest. A list
    without summaries goes on from the one in force, where that has none, or from the bare history.
    """
    texts = {i: _text(message) for i, message in words.items()}
    carried = {i: _plain(t) for i, t in texts.items() if headed(t) in _SUMMARIES}
    newest = view.projection
    if not carried:
        return (newest if newest and not _summaries(newest) else None), ()
    names = dict.fromkeys(move.projection_id for move in state.moves(most=ALL_MOVES))
    older = (state.projection(name) for name in names if name is not None)
    for projection in chained([newest] if newest else [], older):
        own = _summaries(projection)
        if own and own.issubset(carried.values()):
            return projection, {i for i, text in carried.items() if text in own}
    return None, ()


def _summaries(projection: Projection) -> set[str]:
    """What the summaries of a projection say: its checkpoints and its record."""
    pieces = (piece for piece in projection.pieces if isinstance(piece, Shown))
    ours = (piece.message for piece in pieces if piece.position is None)
    records = (message.text for message in ours if headed(message.text) in _SUMMARIES)
    return {_plain(text) for text in (*(c.summary for c in projection.checkpoints), *records)}


def _plain(text: str) -> str:
    """What stands below a heading, or in no need of one."""
    return below(text).replace("\r\n", "\n").strip()


def _as_shown(
    state: SessionState, projection: Projection | None, links: Sequence[bytes], leading: int
) -> _Match | None:
    """How far these digests are those of a prompt's messages. A note of ours may be left out. None
    where they differ inside what checkpoints stand for: that is known as a whole or not at all.
    """
    fold = Fold(state.history, overhead_tokens=0)
    if projection is not None:
        fold.take(projection, counted=True)
    fold.follow(min(len(state.history), fold.seen + len(links)))
    cut = projection.cut if projection else 0
    rows = list(_rows(state, fold, leading))
    inside = max((i for i, row in enumerate(rows) if 0 < row.ends <= cut), default=-1)
    used, known, notes = 0, leading, 0
    for i, row in enumerate(rows):
        if links[used : used + 1] == [row.link]:
            used += 1
            notes += row.is_note
            known = max(known, row.ends)
        elif not row.is_note:
            return _Match(used, max(known, cut), notes) if i > inside else None
    return _Match(used, fold.seen, notes)


class _Row(NamedTuple):
    """A dictionary of a prompt."""

    link: bytes
    """Its digest."""
    ends: int
    """How many messages of the history end with it; 0 where its message has more dictionaries."""
    is_note: bool
    """Whether it answers an open call, and is ours."""


def _rows(state: SessionState, fold: Fold, leading: int) -> Iterator[_Row]:
    """What a prompt shows behind the system prompt, but for summaries and goals."""
    for position, message in fold.placed():
        if position is None and message.metadata.source == "checkpoint":
            continue
        if position is not None and position < leading:
            continue
        wires = state.wire.render((message,))
        for i, wire in enumerate(wires, 1):
            ends = position + 1 if position is not None and i == len(wires) else 0
            yield _Row(chain.link(chain.START, wire), ends, shorten.is_answer(message))


def _at_end(state: SessionState, links: Sequence[bytes], leading: int) -> _Match:
    """How many of these digests, from the first on, are the history's last ones: the most."""
    length = len(state.history)
    entries = state.store.read(state.branch_id, max(leading, length - len(links)), length)
    last = _digests([entry.message for entry in entries])
    for used in range(len(last), 0, -1):
        if links[used - 1] == last[-1] and links[:used] == last[-used:]:
            return _Match(used, length)
    return _Match(0, leading)


# --- the system prompt ----------------------------------------------------------------------------


def _without_ours(
    given: Sequence[Given], own: OwnText
) -> tuple[list[Given], list[str | None], bool]:
    """The list without what of ours was merged into its leading system messages; the kind of each
    message that is ours; and whether there was anything of ours.
    """
    asked, kinds = list(given), [own.kind_of(_text(message)) for message in given]
    has_ours = any(kinds)
    for i in _leading_system(given):
        words = _own_words(given[i], own) if kinds[i] is None else given[i]
        if words is not given[i]:
            has_ours = True
            asked[i], kinds[i] = (words, None) if words else (given[i], "Prompt")
    return asked, kinds, has_ours


def _own_words(message: Given, own: OwnText) -> Given | None:
    """A message without what of ours was merged into it; itself where nothing was, None where it
    has no other words.
    """
    blocks = _blocks(message)
    left = [_own_block(block, own) for block in blocks]
    if all(a is b for a, b in zip(left, blocks, strict=True)):
        return message
    said = [block for block in left if block.get("text") != ""]
    content = said[0]["text"] if said and isinstance(_content(message), str) else said
    return {**_fields(message), "content": content} if said else None


def _own_block(block: Mapping[str, Any], own: OwnText) -> Mapping[str, Any]:
    """A block without what of ours stands in its text; the same object where nothing does."""
    text = block.get("text")
    left = own.without(text, _STANDING) if isinstance(text, str) else text
    return block if left is text else {**block, "text": left}


def _system(state: SessionState, said: Sequence[Given], leading: int, *, has_ours: bool) -> _System:
    """The system messages of a list in the place of as many of the history: where there are more,
    the last ones are joined; none where there are fewer.
    """
    if leading and has_ours and (system := _merged(state, said, leading)):
        return system
    if not 0 < leading <= len(said):
        return _System()
    return _System((*said[: leading - 1], _joined(said[leading - 1 :])))


def _merged(state: SessionState, said: Sequence[Given], leading: int) -> _System | None:
    """The system prompt that is meant, where a client sends back the one that is shown: that one.
    What it says around it takes the place of what it said around its own words before, so that no
    prompt grows from turn to turn. None where the one that is shown is not there word for word.
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
        return _System(tuple(shown), own)
    if leading > 1:
        return None
    (text,) = texts
    before, *behind = whole.split(text)
    words = rejoined([before, text if own is None else own, *behind])
    return _System(({"role": shown[0].role, "content": words},), text if own is None else own)


def _joined(messages: Sequence[Given]) -> Given:
    """These system messages as one. One that is malformed stands for all, to be refused."""
    first, *others = messages
    if not others:
        return first
    for message in messages:
        if not isinstance(_content(message), str | Sequence | None):
            return message
    blocks = [block for message in messages for block in _blocks(message)]
    return {"role": _fields(first)["role"], "content": _whole_text(messages) or blocks}


def _whole_text(messages: Sequence[Given]) -> str:
    """The texts of messages, joined as paragraphs; empty where they are more than texts."""
    blocks = [block for message in messages for block in _blocks(message)]
    texts = [block["text"] for block in blocks if block.keys() == {"type", "text"}]
    texts = [text for text in texts if isinstance(text, str)]
    return "\n\n".join(texts) if len(texts) == len(blocks) else ""


# --- a message, however it is given ---------------------------------------------------------------


def _leading_system(messages: Iterable[Given]) -> list[int]:
    """Where the system messages stand that a list begins with."""
    roles = (_fields(message).get("role") for message in messages)
    leading = takewhile(lambda role: isinstance(role, str) and role in SYSTEM_ROLES, roles)
    return [i for i, _ in enumerate(leading)]


def _fields(message: Given) -> Mapping[str, Any]:
    if isinstance(message, Message):
        return {"role": message.role, "content": message.content}
    return message


def _content(message: Given) -> object:
    return _fields(message).get("content")


def _blocks(message: Given) -> list[Mapping[str, Any]]:
    """The blocks of its content; a text is one."""
    content = _content(message)
    if not isinstance(content, Sequence) or isinstance(content, str):
        return [{"type": "text", "text": content or ""}]
    texts = ({"type": "text", "text": b.text} if isinstance(b, Text) else b for b in content)
    return [block for block in texts if isinstance(block, Mapping)]


def _text(message: Given) -> str:
    """Its text, where it is nothing else."""
    match _blocks(message):
        case [{"text": str(text)}]:
            return text
    return ""


def _digests(messages: Iterable[Given]) -> list[bytes]:
    return [chain.link(chain.START, message) for message in messages]


def _link(asked: Sequence[Given], index: int) -> bytes:
    """The digest of the message there."""
    try:
        return chain.link(chain.START, asked[index])
    except (TypeError, ValueError) as error:
        raise InvalidMessage(f"messages[{index}]", f"cannot be stored: {error}") from None
