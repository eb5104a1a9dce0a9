"""Finds what is new in a list that a client sends whole at every turn, and takes the new part in.

Messages are compared by digests of their contents (`messages.chain`). A list may begin with three
known things: the history from its beginning; the prompt that was shown, recognized by compact's own
text; or the history's end, if a client dropped the beginning. The one that covers most of the list
is used. The rest is new. If a list differs from the history before its end, it becomes a branch.

A list that repeats the last one, or continues it, is recognized by one digest.

The system prompt goes by its place: other words there are no edited past (decision 015).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate, islice, takewhile
from typing import NamedTuple

import orjson

from compact.engine import shorten
from compact.engine.history import History
from compact.engine.prompt_order import Fold
from compact.errors import InvalidMessage, Superseded
from compact.messages import chain
from compact.messages.alternation import is_gap
from compact.messages.chain import SIZE
from compact.messages.characters import all_carried, carried
from compact.messages.events import BranchTaken
from compact.messages.given import Given as Anything
from compact.messages.given import messages_given, plain
from compact.messages.messages import SYSTEM_ROLES, Message
from compact.messages.own_text import below, headed
from compact.messages.protocols import FindsChains, SessionStore
from compact.messages.sessions import Branch, Destination, Projection, Shown
from compact.session.intake import parsed_all
from compact.session.merged import SUMMARIES, Given, Once, apart, may_be_joined, text_of
from compact.session.state import ALL_MOVES, NEWEST_MOVES, SessionState
from compact.session.system_prompt import (
    STANDING,
    SystemSaid,
    leading_system,
    system_said,
    without_ours,
)
from compact.session.views import time_travel
from compact.session.views.view import MOST_LOOKED_AT, View


class Recognized(NamedTuple):
    """Says what is known and what is new in a resent list."""

    known: int
    """How many messages of the history come before the list's new messages."""
    new: list[Given]
    """The messages that the list adds."""
    ours: int
    """How many messages in the list were compact's own. They are not stored."""
    system: tuple[Given, ...] = ()
    """The system prompt to show instead of the present one. Empty if it is the same."""
    own_system: str | None = None
    """The client's own words in the system prompt. None if all of its words are the client's."""
    is_lost: bool = False
    """Whether the list has a checkpoint that this history does not know. Its text is stored."""


class _Match(NamedTuple):
    """How far a list is known."""

    used: int
    """How many messages of the list are known."""
    known: int
    """How many messages of the history these cover."""
    notes: int = 0
    """How many of the known messages are compact's notes."""


def recognized(state: SessionState, view: View, given: Sequence[Given]) -> Recognized:
    """Find what is known in the list, and what is new.

    Raises:
        InvalidMessage: one of the messages cannot be stored.
    """
    own_texts = Once(text for p in _newest(state, view) for text in _summaries(p))
    asked, kinds, has_ours = without_ours(apart(given, state.own, own_texts), state.own)
    system_places = [i for i in leading_system(asked) if kinds[i] not in STANDING]
    leading = len(leading_system(state.history))
    system = system_said(state, [asked[i] for i in system_places], leading, has_ours=has_ours)
    start = system_places[-1] + 1 if system.messages else 0
    words = {i: _link(asked, i) for i in range(start, len(asked)) if kinds[i] not in STANDING}
    # fewer system messages are an edited past
    left = leading if system.messages or not system_places else 0
    match, summaries = _known(state, view, asked, words, left)
    if not match.used and not system_places and len(state.history) > leading:
        match = _Match(0, 0)  # another conversation: it has no part of the system prompt either
    new = [i for i in words if i not in summaries][match.used :]
    if _digests(system.messages) == _digests(state.history[: len(system.messages)]):
        system = SystemSaid()
    return Recognized(
        match.known,
        [asked[i] for i in new],
        match.notes + len(summaries) + sum(kind in STANDING for kind in kinds),
        *system,
        is_lost=any(kinds[i] in SUMMARIES for i in new),
    )


# --- the messages ---------------------------------------------------------------------------------


def _known(
    state: SessionState,
    view: View,
    asked: Sequence[Given],
    words: Mapping[int, bytes],
    leading: int,
) -> tuple[_Match, Collection[int]]:
    """How far these messages of the list are known, by their digests, behind `leading` system
    messages; and the places of the summaries of a prompt among them.
    """
    history, links = state.history, list(words.values())
    used = history.known_prefix([asked[i] for i in words], after=leading)
    best = _Match(used, leading + used)
    if used == len(words):
        return best, ()
    if best.known == len(history) and not is_note(asked[[*words][used]]):
        return best, ()
    for projection, summaries in _prompts(state, view, {i: asked[i] for i in words}):
        rest = [link for i, link in words.items() if i not in summaries]
        shown = _as_shown(state, view, projection, rest, leading)
        if shown is not None and summaries:
            return shown, summaries
        best = max(best, shown or best, key=lambda match: match.used)
    if best.used > used:
        return best, ()
    at_end = _at_end(state, links, leading)
    return max(best, at_end, key=lambda match: match.used), ()


def is_note(message: Given) -> bool:
    """Whether the message may be compact's note for a call without a result."""
    if not isinstance(message, Mapping):
        return False
    return any(shorten.NO_RESULT in str(message.get(key)) for key in ("content", "output"))


def _prompts(
    state: SessionState, view: View, words: Mapping[int, Given]
) -> Iterator[tuple[Projection | None, Collection[int]]]:
    """The projections whose prompts a list may continue, each with the places of its summaries in
    the list. The summaries in a list identify the projection: the one in force, else the newest one
    whose summaries are all there. A list without summaries may continue a projection without any,
    or the bare history.
    """
    texts = {i: text_of(message) for i, message in words.items()}
    carried = {i: _plain(t) for i, t in texts.items() if headed(t) in SUMMARIES}
    for projection in _newest(state, view, most=None if carried else MOST_LOOKED_AT):
        own = _summaries(projection)
        if not carried and not own:
            yield projection, ()
        elif own and own.issubset(carried.values()):
            yield projection, {i for i, text in carried.items() if text in own}
            return
    yield None, ()


def _newest(state: SessionState, view: View, *, most: int | None = None) -> Iterator[Projection]:
    """The projection in force, then up to `most` of all projections, newest first."""
    moves = state.moves(most=ALL_MOVES)
    names = dict.fromkeys(move.projection_id for move in moves if move.projection_id is not None)
    if view.projection:
        yield view.projection
    yield from map(state.projection, islice(names, most))


def _summaries(projection: Projection) -> set[str]:
    """The texts of a projection's summaries: its checkpoints and its record."""
    pieces = (piece for piece in projection.pieces if isinstance(piece, Shown))
    ours = (piece.message for piece in pieces if piece.position is None)
    records = (message.text for message in ours if headed(message.text) in SUMMARIES)
    return {_plain(text) for text in (*(c.body for c in projection.checkpoints), *records)}


def _plain(text: str) -> str:
    """The text below a heading, as it is carried on a wire."""
    return carried(below(text)).replace("\r\n", "\n").strip()


def _as_shown(
    state: SessionState,
    view: View,
    projection: Projection | None,
    links: Sequence[bytes],
    leading: int,
) -> _Match | None:
    """How far these digests are the messages of a prompt. A note of compact may be missing. None if
    they differ inside what checkpoints stand for: that is known as a whole or not at all.
    """
    history = view.history
    fold = Fold(history, overhead_tokens=0, strict_turns=state.setting.strict_turns)
    if projection is not None:
        fold.take(projection, counted=True)
    cut, rows = projection.cut if projection else 0, list(_rows(history, fold, leading))
    while len(rows) <= len(links) and fold.seen < len(history):  # several may be sent as one
        fold.follow(min(len(history), fold.seen + leading + len(links) + 1))
        rows = list(_rows(history, fold, leading))
    inside = max((i for i, row in enumerate(rows) if 0 < row.ends <= cut), default=-1)
    used, known, notes = 0, leading, 0
    for i, row in enumerate(rows):
        if links[used : used + 1] in ([row.link], [row.carried]):
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
    carried: bytes
    """The digest of what was really sent: half a surrogate pair is not sent."""
    ends: int
    """How many messages of the history end with it. 0 if its message has more dictionaries."""
    is_note: bool
    """Whether it is compact's note for an open call."""


def _rows(history: History, fold: Fold, leading: int) -> Iterator[_Row]:
    """What a prompt shows behind the system prompt, except summaries and goals."""
    placed = [row for row in fold.placed() if row[0] is None or row[0] >= leading]
    for places, message in fold.sent(placed):
        position = places[-1] if places else None
        if position is None and message.metadata.source == "checkpoint":
            continue
        wires = history.wire.render((message,))
        for i, wire in enumerate(wires, 1):
            ends = position + 1 if position is not None and i == len(wires) else 0
            is_note = shorten.is_answer(message) or is_gap(message)
            *ours, said = apart([wire], history.own)
            is_alone = position is None or history.own.kind_of(history[position].text)
            if history.own.kind_of(text_of(said)) and (ours or not is_alone):
                continue  # it was joined with nothing but blanks
            link = chain.link(chain.START, said)
            carried = all_carried(said)
            other = link if carried is said else chain.link(chain.START, carried)
            yield _Row(link, other, ends, is_note)


def _at_end(state: SessionState, links: Sequence[bytes], leading: int) -> _Match:
    """Return how many of the first digests are the end of the history."""
    length = len(state.history)
    entries = state.store.read(state.branch_id, max(leading, length - len(links)), length)
    last = _digests([entry.message for entry in entries])
    for used in range(len(last), 0, -1):
        if links[used - 1] == last[-1] and links[:used] == last[-used:]:
            return _Match(used, length)
    return _Match(0, leading)


def _digests(messages: Iterable[Given]) -> list[bytes]:
    return [chain.link(chain.START, message) for message in messages]


def _link(asked: Sequence[Given], index: int) -> bytes:
    try:
        return chain.link(chain.START, asked[index])
    except (TypeError, ValueError) as error:
        raise InvalidMessage(f"messages[{index}]", f"cannot be stored: {error}") from None


# --- taking a recognized list in -----------------------------------------------------------------

MOST_BRANCHES = 64
"""How many of the newest branches are compared with a list, in addition to those used last."""


def checked(messages: Sequence[Anything], known: int = 0) -> list[Given]:
    """The list, if each item may be a message and is plain. The first `known` items were checked
    before.

    Raises:
        InvalidMessage: an item is no message, or the list is empty. An empty list does not begin a
            conversation again.
    """
    items = messages_given(messages)
    if not items:
        raise InvalidMessage("messages", "the list is empty; open another session to begin again")
    rest = [
        each if isinstance(each, Message) else plain(each, f"messages[{i}]")
        for i, each in enumerate(items[known:], known)
    ]
    return [*items[:known], *rest]


def take(
    state: SessionState, view: View, given: Sequence[Given], found: Recognized
) -> list[Message]:
    """Store what is new. Return the messages that were added to the history.

    Raises:
        InvalidMessage: one of the new messages is malformed; nothing was changed.
        Superseded: the history has changed; the list must be recognized again.
    """
    new = _parsed(state, given, found.new, found.known)
    system = _parsed(state, given, found.system, 0)
    if found.known < len(state.history):
        _branch_off(state, view, found)
    if new:
        state.history.append(lambda _: new, expected=found.known)
    if system:
        state.show_system(system, found.own_system)
    return new


def _parsed(
    state: SessionState, given: Sequence[Given], chosen: Sequence[Given], at: int
) -> list[Message]:
    """These messages of the list, as they follow that position of the history. An error names the
    place in the list.
    """
    places = {id(message): i for i, message in enumerate(given)}
    placed = [(places.get(id(message), 0), message) for message in chosen]
    return parsed_all(state.wire, placed, state.history, at)


# --- an edited past -------------------------------------------------------------------------------


def _branch_off(state: SessionState, view: View, found: Recognized) -> None:
    """Continue from where the list leaves the history: on a branch with the same messages, as after
    another delivery of the same list, else on a new one. All or nothing.
    """
    known, left = found.known, len(state.history) - found.known
    unknown = found.is_lost or not _says_more(state, known)
    links = [state.store.chain(state.branch_id, known)]
    for message in found.new:
        links.append(chain.link(links[-1], message))
    parent = state.branch_id

    def there() -> Destination:
        same = _same_branch(state, parent, links, known)
        if same is not None:
            return Destination(same.id, same.messages, in_force(state, view.size, same.id))
        return time_travel.forked(view, parent, known)

    view.go("restore", there)
    stored = len(state.history) - known
    event = BranchTaken(
        branch_id=state.branch_id,
        known=known,
        left=left,
        new=len(found.new) - stored,
        reason="unknown" if unknown else "edited",
    )
    state.emit(event)
    if stored:
        raise Superseded("another branch says more of the list")


def _says_more(state: SessionState, known: int) -> bool:
    """Whether the beginning of the history is more than a system prompt."""
    return known > 0 and state.history[known - 1].role not in SYSTEM_ROLES


def _same_branch(
    state: SessionState, parent: str, links: Sequence[bytes], known: int
) -> Branch | None:
    """The branch with most of the list's messages and no others, among the newest branches and
    those used last.
    """
    branches = state.store.branches(state.id)
    used = {move.branch_id for move in state.store.moves(state.id, most=NEWEST_MOVES)}
    known_of = {branch.id for branch in branches[-MOST_BRANCHES:]} | used
    same = [
        branch
        for branch in branches
        if branch.id in known_of - {parent}
        and 0 <= branch.messages - known < len(links)
        and state.store.chain(branch.id, branch.messages) == links[branch.messages - known]
    ]
    return max(same, key=lambda branch: branch.messages, default=None)


def in_force(state: SessionState, window: int, branch_id: str) -> Projection | None:
    """Return the projection that a window used last on a branch."""
    rows = state.store.moves(state.id, window, most=NEWEST_MOVES)
    names = (move.projection_id for move in rows if move.branch_id == branch_id)
    name = next(names, None)
    return None if name is None else state.projection(name)


# --- the list that a client sent last ------------------------------------------------------------

PLAIN = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
"""A list that is known by its digest holds only what JSON has."""


class ListDigest:
    """A list, and digests of its beginnings. It is read once, as far as needed."""

    def __init__(self, messages: Sequence[Anything]) -> None:
        self.messages = messages
        self._begin()

    def _begin(self) -> None:
        self._read, self._hash = 0, blake2b(digest_size=SIZE)

    def of_first(self, count: int) -> bytes:
        """The digest of the first messages. Empty if they hold more than JSON."""
        if count < self._read:
            self._begin()
        try:
            for message in self.messages[self._read : count]:
                self._hash.update(orjson.dumps(message, option=PLAIN))
                self._read += 1
        except TypeError:
            return b""
        return self._hash.digest()


class LastList:
    """Tells whether a list begins with the one before it."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._messages = 0
        self._digest = b""
        self.ours = 0
        """How many messages of the last list were compact's own."""
        self._then: tuple[str, int, int] | None = None
        """The session's place when the list was taken in."""

    def keep(self, given: ListDigest, ours: int) -> None:
        """Remember the list that was just taken in, with its number of compact's own messages."""
        self._messages, self.ours = len(given.messages), ours
        self._digest, self._then = given.of_first(self._messages), self._now()

    def known(self, given: ListDigest) -> int:
        """How many first messages of a list are the whole list before it. 0 if they are not, or if
        the session has changed.
        """
        known = self._messages
        if not self._digest or self._then != self._now() or known > len(given.messages):
            return 0
        return known if given.of_first(known) == self._digest else 0

    def _now(self) -> tuple[str, int, int]:
        state = self._state
        return state.branch_id, len(state.history), state.revision


def understood(
    state: SessionState, view: View, last: LastList, given: ListDigest
) -> tuple[list[Given], Recognized]:
    """The list, checked, and what in it is known and new.

    Raises:
        InvalidMessage: as `checked` and `recognized`.
    """
    if known := last.known(given):
        rest = checked(given.messages, known)
        if not any(_may_be_ours(state, message) for message in rest[known:]):
            return rest, Recognized(len(state.history), rest[known:], last.ours)
    whole = checked(given.messages)
    return whole, recognized(state, view, whole)


def _may_be_ours(state: SessionState, message: Given) -> bool:
    """Tell whether a message may be compact's own, by its text or its role."""
    role = message.role if isinstance(message, Message) else message.get("role")
    if role in SYSTEM_ROLES or is_note(message) or may_be_joined(message):
        return True
    return bool(state.own.kind_of(text_of(message)))


# --- which session a list continues ---------------------------------------------------------------

MOST_ALIKE = 64
"""How many sessions with one beginning are looked at, the newest first."""
MOST_HEAD = 4
"""How many messages of a system prompt are looked at."""


def continued(store: SessionStore, scope: str, given: Sequence[Given]) -> str | None:
    """Return the id of the session that knows most of a list: at least all before its last answer.
    None if there is none, or if several know it equally and have gone on. The system prompt may
    have changed: then the rest of the list decides.
    """
    roles = [_role_of(message) for message in given]
    asked = roles.index("user") if "user" in roles else len(roles)
    last = max((i for i, role in enumerate(roles) if role == "answer"), default=-1)
    if last < asked or not isinstance(store, FindsChains):
        return None  # nothing was answered yet: it begins a conversation
    links = [chain.START]
    for message in given:
        links.append(chain.link(links[-1], message))
    known = _longest(store, scope, links, last)
    if known is None and roles[0] == "system":
        rest = given[next(i for i, role in enumerate(roles) if role != "system") :]
        least, found = len(rest) - len(given) + last, set[str | None]()
        said = " ".join(text_of(each) for each in given[: len(given) - len(rest)])
        for head, system in _heads(store, scope).items():
            # cheap questions first: a head costs a hash of the whole list
            if _is_alike(said, system) and store.beginning(
                chain.link(head, rest[0]), scope=scope, most=1
            ):
                links = list(accumulate(rest, chain.link, initial=head))
                found.add(_longest(store, scope, links, least))
        found.discard(None)
        known = found.pop() if len(found) == 1 else None
    return known


def _is_alike(one: str, other: str) -> bool:
    """Whether two system prompts share more than half of their words (Dice's coefficient)."""
    first, second = set(one.split()), set(other.split())
    return 4 * len(first & second) > len(first) + len(second)


def _longest(store: FindsChains, scope: str, links: Sequence[bytes], least: int) -> str | None:
    """Return the session that knows most of a list's links, at least so many messages."""
    for known in range(len(links) - 1, least - 1, -1):
        found = store.beginning(links[known], scope=scope, most=MOST_ALIKE)
        waiting = [name for name, ends in found if ends]
        if waiting or len({name for name, _ in found}) == 1:
            return (waiting or [found[0][0]])[0]
        if found:
            return None
    return None


def _heads(store: SessionStore, scope: str) -> dict[bytes, str]:
    """Return the links after other system prompts: those that the newest sessions began with. Hosts
    write the day or the open files into theirs.
    """
    heads = dict[bytes, str]()
    for session in store.sessions(scope=scope)[:MOST_ALIKE]:
        first = (entry.message for entry in store.read(session.branch.id, 0, MOST_HEAD))
        system = list(takewhile(lambda message: message.role in SYSTEM_ROLES, first))
        if system:
            head = store.chain(session.branch.id, len(system))
            heads[head] = " ".join(message.text for message in system)
    return heads


def _role_of(message: Given) -> str:
    """Return who a message is from: `user`, `system`, `tool` or `answer`."""
    if isinstance(message, Message):
        role: object = message.role
    else:
        role = message.get("role") or message.get("type")
    if role in SYSTEM_ROLES:
        return "system"
    if role in ("user", "tool") or str(role).endswith("_output"):
        return str(role)
    return "answer"
