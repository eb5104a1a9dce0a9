"""Recognition: what is new in a list that a client sends whole at every turn.

A list is matched in three ways, and the one that knows most of it counts: by its beginning, as the
history was said (`core.chain`); by the projection whose checkpoints it carries, as a prompt was
shown; and, where its beginning was cut off, by the place in the history where it starts.
Checkpoints and goals of ours are left out, a shortened message stands for its original. Only the
rest is new. Where a list leaves the history before its end, the past was edited: that is a branch.

The system prompt is matched by itself: other words there are no edited past (decision 015). Where
a client merges it with what of ours stands before it, ours is taken out word for word. What is then
done with the session lives in `syncing`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from compact.compression import shorten
from compact.compression.fold import Fold
from compact.core import chain
from compact.core.messages import SYSTEM_ROLES, Message, Text
from compact.core.own_text import OwnText, rejoined
from compact.core.sessions import Projection
from compact.errors import InvalidMessage
from compact.managers.own_text_in_store import kind_of
from compact.managers.state import ALL_MOVES, SessionState
from compact.managers.view import View

MOST_PROMPTS = 12
"""Projections that are looked at for one list, but for the one in force."""
SURE = 8
"""Messages at the beginning of a list that say that nothing was cut off before them."""
MARGIN = 64
"""Messages of the history beyond a list's own number among which its beginning is looked for."""
LEAST_RUN = 3
"""Messages that tell a place inside the history; at its end one is enough."""

_STANDING = ("Goals", "Prompt")
"""Texts of ours that stand before the messages of every prompt."""
_OURS = ("Checkpoint", "Record", *_STANDING)
ALIKE = 0.8
"""Share of their words that two system prompts have in common of which one is newer words for the
other."""
_NUMBERED = re.compile(r"\d")
"""In what changes in a system prompt from turn to turn: times, dates, counts."""
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\s+(?![a-z])|(?<=[。！？])|\n")
_HEADING = re.compile(r"\[Checkpoint (?P<id>ck-[0-9a-f]+) · [^\]\n]* to (?P<last>[\d,]+)")

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
    is_lost: bool = False
    """Whether a checkpoint in it has no place in this history, and is kept as what it says."""


class _Match(NamedTuple):
    """How far the words of a list are known."""

    used: int
    """How many of them."""
    known: int
    """Messages of the history that they are."""
    notes: int = 0
    """How many of them are notes of our making."""
    loses: bool = False
    """Whether the list was edited before the end of what a checkpoint in it stands for."""


class _List:
    """A list by its parts: the system prompt, and what else was said.

    They are found in this order, each by the ones before it: what is ours, the system messages
    between, how many of them the history has.
    """

    def __init__(self, state: SessionState, given: Sequence[Given]) -> None:
        self.given = list(given)
        self.own = state.own
        self.kinds = [kind_of(state, _text(m)) for m in given]
        has_ours = self._take_out_ours() or any(self.kinds)
        self.leading_system = _stored_leading_system(state)
        """The leading system messages of the history, as they are stored."""
        own = _leading_system(self.given, self.kinds)
        system = [self.given[i] for i in own]
        self.system = _as_many(system, len(self.leading_system))
        if has_ours and self.leading_system and system:
            self._leave_out_shown(state, system)
        if own and not self.system:
            self.leading_system = []
        self.start = own[-1] + 1 if self.leading_system and own else 0
        """Where the rest of the list begins."""

    def _take_out_ours(self) -> bool:
        """Take what is ours out of leading system messages that it was merged into; whether there
        was any.
        """
        has_ours = False
        for i in _leading_system(self.given, self.kinds):
            words = _own_words(self.given[i], self.own)
            if words is not self.given[i]:
                has_ours = True
                self.given[i] = words or self.given[i]
                self.kinds[i] = None if words else "Prompt"
        return has_ours

    def _leave_out_shown(self, state: SessionState, system: Sequence[Given]) -> None:
        """Take the system prompt that is shown for the one that is meant, where a client sends it
        back beside its own words for it; those where they are newer.
        """
        shown = [state.history[i] for i in range(len(self.leading_system))]
        parts = (part for message in shown for part in message.parts)
        known = list(dict.fromkeys(part.text.strip() for part in parts if isinstance(part, Text)))
        said = [block["text"] for m in system for block in _blocks(m) if "text" in block]
        if not all(isinstance(text, str) for text in said):
            return
        left, is_added = "\n\n".join(said), False
        for text in sorted(filter(None, known), key=len, reverse=True):
            if text not in left:
                return
            is_added = is_added or left.count(text) > 1  # shown, and among the client's own words
            while text in left:
                left = rejoined(left.split(text))
        if _is_said(left, known):
            self.system = tuple(shown)
        elif len(shown) == 1 and not is_added and _are_alike(left, "\n".join(known)):
            self.system = ({"role": shown[0].role, "content": left},)

    def words(self, *, without: Sequence[str]) -> list[int]:
        """Where in the list the words stand that are not ours."""
        indexes = range(self.start, len(self.given))
        return [i for i in indexes if self.kinds[i] not in without]

    def checkpoints(self) -> dict[str, int]:
        """The ids of the checkpoints in the list, each with how many messages end with its span."""
        found: dict[str, int] = {}
        for message, kind in zip(self.given, self.kinds, strict=True):
            heading = _HEADING.match(_text(message)) if kind == "Checkpoint" else None
            if heading is not None:
                found[heading["id"]] = int(heading["last"].replace(",", ""))
        return found

    def link(self, index: int, before: bytes = chain.START) -> bytes:
        """The chain's hash after the message there."""
        try:
            return chain.link(before, self.given[index])
        except (TypeError, ValueError) as error:
            raise InvalidMessage(f"messages[{index}]", f"cannot be stored: {error}") from None


def recognized(state: SessionState, view: View, given: Sequence[Given]) -> Recognized:
    """What of the list is known, and what is new."""
    asked = _List(state, given)
    named = asked.checkpoints()
    plain_words = asked.words(without=_STANDING)
    plain = _plain(state, asked, plain_words)
    without: Sequence[str] = _STANDING
    words, best = plain_words, plain
    if plain.known < len(state.history) or _is_note(asked, plain_words[plain.used :][:1]):
        shown_words = asked.words(without=_OURS)
        shown = _as_shown(state, view, asked, named, shown_words)
        if shown is not None and (named or shown.used > plain.used) and not shown.loses:
            without, words, best = _OURS, shown_words, shown
        elif plain.used < len(plain_words):
            best = _cut_off(state, asked, plain_words, plain)
    rest = words[best.used :]
    return Recognized(
        best.known,
        [asked.given[i] for i in rest],
        best.notes + sum(kind in without for kind in asked.kinds),
        asked.system if _differs(state, asked) else (),
        is_lost=any(asked.kinds[i] in ("Checkpoint", "Record") for i in rest),
    )


# --- the system prompt ----------------------------------------------------------------------------


def _stored_leading_system(state: SessionState) -> list[Message]:
    """The leading system messages of the history, as they were first said."""
    leading: list[Message] = []
    for entry in state.store.read(state.branch_id, 0, MARGIN):
        if entry.message.role not in SYSTEM_ROLES:
            break
        leading.append(entry.message)
    return leading


def _leading_system(given: Sequence[Given], kinds: Sequence[str | None]) -> list[int]:
    """Where in a list its leading system messages stand; goals of ours may stand among them."""
    found: list[int] = []
    for i, message in enumerate(given):
        role = message.role if isinstance(message, Message) else message.get("role")
        if not isinstance(role, str) or role not in SYSTEM_ROLES:
            break
        if kinds[i] is None:
            found.append(i)
    return found


def _own_words(message: Given, own: OwnText) -> Given | None:
    """A message without what of ours was merged into it; itself where nothing was, None where it
    has no other words.
    """
    content = _content(message)
    if isinstance(content, str):
        words: str | list[Mapping[str, Any]] = own.without(content, _STANDING)
        if words is content:
            return message
    else:
        blocks = _blocks(message)
        texts = [b["text"] if isinstance(b.get("text"), str) else None for b in blocks]
        left = [text and own.without(text, _STANDING) for text in texts]
        if all(a is b for a, b in zip(left, texts, strict=True)):
            return message
        words = [
            block if text is None else {**block, "text": text}
            for block, text in zip(blocks, left, strict=True)
            if text != ""
        ]
    if not words:
        return None
    if isinstance(message, Message):
        return {"role": message.role, "content": words}
    return {**message, "content": words}


def _as_many(system: Sequence[Given], count: int) -> tuple[Given, ...]:
    """The system messages as `count` of them, the last ones joined; none where there are fewer. One
    that cannot be joined, as it is no message, stands for all, to be refused.
    """
    if not 0 < count <= len(system):
        return ()
    first, *others = system[count - 1 :]
    if not others:
        return tuple(system)
    for message in (first, *others):
        if not isinstance(_content(message), str | Sequence | None):
            return (message,)
    blocks = [block for message in (first, *others) for block in _blocks(message)]
    texts = [b["text"] for b in blocks if b.keys() == {"type", "text"}]
    texts = [text for text in texts if isinstance(text, str)]
    joined = blocks if len(texts) < len(blocks) else "\n\n".join(texts)
    role = first.role if isinstance(first, Message) else first["role"]
    return (*system[: count - 1], {"role": role, "content": joined})


def _content(message: Given) -> object:
    return message.text if isinstance(message, Message) else message.get("content")


def _blocks(message: Given) -> list[Mapping[str, Any]]:
    content = _content(message)
    if isinstance(content, Sequence) and not isinstance(content, str):
        return [block for block in content if isinstance(block, Mapping)]
    return [{"type": "text", "text": content or ""}]


def _is_said(text: str, known: Sequence[str]) -> bool:
    """Whether known texts say each sentence of a text, as one of their own: part of a sentence may
    mean something else. Where a client joins without full stops, sentences run together: what it
    has added twice is known.
    """
    sentences = {sentence for each in known for sentence in _sentences(each)}
    if sentences.issuperset(_sentences(text)):
        return True
    twice = f"{text} {text}"
    return any(each.startswith(twice) or each.endswith(twice) for each in known)


def _sentences(text: str) -> Iterator[str]:
    return filter(None, (each.strip() for each in _BETWEEN_SENTENCES.split(text)))


def _are_alike(one: str, other: str) -> bool:
    """Whether one text is newer words for another: each has most of the other's words, numbers
    left aside.
    """
    words, others = (
        {word for word in text.split() if not _NUMBERED.search(word)} for text in (one, other)
    )
    return len(words & others) >= ALIKE * max(len(words), len(others))


def _differs(state: SessionState, asked: _List) -> bool:
    """Whether the list's system prompt is another one than is shown."""
    shown = [chain.link(chain.START, state.history[i]) for i in range(len(asked.system))]
    return [chain.link(chain.START, m) for m in asked.system] != shown


# --- as the history was said ----------------------------------------------------------------------


def _plain(state: SessionState, asked: _List, words: Sequence[int]) -> _Match:
    """How far a list is known that begins as the history does."""
    leading = asked.leading_system
    for index in words:
        asked.link(index)
    known = state.history.known_prefix([*leading, *(asked.given[i] for i in words)])
    return _Match(max(0, known - len(leading)), known)


def _cut_off(state: SessionState, asked: _List, words: Sequence[int], plain: _Match) -> _Match:
    """How far a list is known whose beginning was cut off: from where it starts in the history.

    The longest run counts; one that goes to the history's end before one that does not, unless
    that is longer and too long for chance. A beginning that is known as well counts more.
    """
    if plain.used >= SURE:
        return plain
    length = len(state.history)
    start = max(len(asked.leading_system), length - len(words) - MARGIN)
    links = [asked.link(i) for i in words]
    inner, last = _Match(0, 0), 0
    for end, run in _runs(links, _links(state, start, length), start):
        last = run if end == length else 0
        if run >= inner.used and run >= LEAST_RUN:
            inner = _Match(run, end)
    best = inner if inner.used > last else _Match(last, length)
    return best if best.used > plain.used else plain


def _links(state: SessionState, start: int, stop: int) -> Iterator[bytes]:
    for page in range(start, stop, 1_000):
        entries = state.store.read(state.branch_id, page, min(stop, page + 1_000))
        yield from (chain.link(chain.START, entry.message) for entry in entries)


def _runs(wanted: Sequence[bytes], links: Iterator[bytes], start: int) -> Iterator[tuple[int, int]]:
    """For each message of the history the position after it, and how many of the wanted ones, from
    the first on, end there (the search of Knuth, Morris and Pratt).
    """
    back = [0] * len(wanted)
    run = 0
    for i in range(1, len(wanted)):
        while run and wanted[i] != wanted[run]:
            run = back[run - 1]
        run += wanted[i] == wanted[run]
        back[i] = run
    run = 0
    for end, link in enumerate(links, start + 1):
        while run and (run == len(wanted) or link != wanted[run]):
            run = back[run - 1]
        run += link == wanted[run]
        yield end, run


# --- as a prompt was shown ------------------------------------------------------------------------


def _is_note(asked: _List, words: Sequence[int]) -> bool:
    """Whether the first of these words is the note that answers open calls."""
    message = asked.given[words[0]] if words else None
    return isinstance(message, Mapping) and shorten.NO_RESULT in str(message.get("content"))


def _as_shown(
    state: SessionState,
    view: View,
    asked: _List,
    named: Mapping[str, int],
    words: Sequence[int],
) -> _Match | None:
    """How far a list is known that goes on from a prompt; None where no prompt is like it."""
    best: _Match | None = None
    for projection in _prompts(state, view, named):
        match = _matched(state, projection, asked, words)
        if best is None or (match.used, not match.loses) > (best.used, not best.loses):
            best = match
        if best.known == len(state.history):
            break
    return best


def _prompts(
    state: SessionState, view: View, named: Mapping[str, int]
) -> Iterator[Projection | None]:
    """What prompts with these checkpoints went on from: the projection in force first, then the
    one that was made first; with none, the newest ones without checkpoints.
    """
    if not named:
        yield None
    seen: set[str] = set()
    if view.projection is not None and _carries(view.projection, named):
        seen.add(view.projection.id)
        yield view.projection
    for name in _names(state, max(named.values(), default=None)):
        if name not in seen and len(seen) <= MOST_PROMPTS:
            seen.add(name)
            projection = state.projection(name)
            if _carries(projection, named):
                yield projection


def _carries(projection: Projection, named: Mapping[str, int]) -> bool:
    live = {c.id for c in projection.checkpoints}
    return named.keys() <= live if named else not live


def _names(state: SessionState, cut: int | None) -> Sequence[str]:
    """The projections of this branch that may cover messages up to a cut, the oldest first; with
    no cut, the newest first.
    """
    most = MARGIN
    rows = state.store.moves(state.id, None, most=most)
    while cut is not None and len(rows) == most < ALL_MOVES and rows[-1].at >= cut:
        most *= 8
        rows = state.store.moves(state.id, None, most=most)
    found = [
        move.projection_id
        for move in rows
        if move.projection_id is not None
        and move.at >= (cut or 0)
        and state.covers(move.branch_id, move.at)
    ]
    return found if cut is None else found[::-1]


def _matched(
    state: SessionState, projection: Projection | None, asked: _List, words: Sequence[int]
) -> _Match:
    """How far a list is known that goes on from a prompt."""
    cut = projection.cut if projection else 0
    used = notes = 0
    known = len(asked.leading_system)
    rows = list(_rows(state, projection, known))
    covered = max((i for i, row in enumerate(rows) if 0 < row.ends <= cut), default=-1)
    for i, row in enumerate(rows):
        if used < len(words) and asked.link(words[used]) == row.hash:
            used += 1
            notes += row.is_note
            known = max(known, row.ends)
        elif not row.is_note:
            known = max(known, cut) if i > covered else known
            return _Match(used, known, notes, loses=known < cut)
    return _Match(used, len(state.history), notes)


class _PromptRow(NamedTuple):
    """A dictionary of a prompt."""

    hash: bytes
    ends: int
    """How many messages of the history end with it; 0 where its message has more dictionaries."""
    is_note: bool
    """Whether it is a note of ours, which a client may leave out."""


def _rows(state: SessionState, projection: Projection | None, leading: int) -> Iterator[_PromptRow]:
    """What a prompt shows behind the system prompt, but for checkpoints and goals."""
    fold = Fold(state.history, overhead_tokens=0)
    if projection is not None:
        fold.take(projection)
    fold.follow(len(state.history))
    for position, message in fold.placed():
        if position is None and message.metadata.source == "checkpoint":
            continue
        if position is not None and position < leading:
            continue
        wires = state.wire.render((message,))
        for i, wire in enumerate(wires, 1):
            ends = position + 1 if position is not None and i == len(wires) else 0
            yield _PromptRow(chain.link(chain.START, wire), ends, shorten.is_answer(message))


def _text(message: Given) -> str:
    content = message.content if isinstance(message, Message) else message.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], Mapping):
        content = content[0].get("text")
    return content if isinstance(content, str) else ""
