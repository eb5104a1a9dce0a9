"""What memory's search needs of one scope's messages: which have a word, and facts about each.

Words are stems, as SQLite's index has them, and stored as hashes that include the scope. Appending
stores none. A branch's row says up to which position its messages have words; a search adds the
rest. Facts are read once and kept in memory, so a later search reads those of new messages only.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from struct import pack
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import apsw

from compact import forks
from compact.errors import StoreFailed
from compact.messages import codec
from compact.messages.sessions import Found
from compact.store.postgres.connection import Query, decoded, encoded
from compact.store.postgres.rows import ENTRY, LINE, entry_of
from compact.text.found import Told
from compact.text.terms import index_words, looked_for, scored, searchable
from compact.text.turns import FIELDS, LAYOUT, POSITION_BITS, Keys, TurnPart, TurnTable, noted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 500
"""How many messages get their words in one statement."""
MOST_RANGES = 16
"""The most ranges in a look-up of words. With more ranges the whole scope is searched."""
_STATE = """
    SELECT s.id, s.branch, b.id, b.parent, b.fork, b.messages, b.indexed, b.made
    FROM compact.sessions s JOIN compact.branches b ON b.scope = s.scope AND b.session = s.id
    WHERE s.scope = %(scope)s ORDER BY s.entered, s.id, b.number
"""
_WITHOUT_WORDS = f"""
    SELECT m.branch, {ENTRY} FROM unnest(%(branches)s::bytea[], %(starts)s::int[]) AS l (id, low)
    JOIN compact.messages m ON m.scope = %(scope)s AND m.branch = l.id AND m.position >= l.low
    ORDER BY m.branch, m.position LIMIT {BATCH}
"""
_ADD = """
    WITH grown AS (
        UPDATE compact.branches b SET indexed = l.stop
        FROM unnest(%(branches)s::bytea[], %(starts)s::int[], %(stops)s::int[])
            AS l (id, start, stop)
        WHERE b.scope = %(scope)s AND b.id = l.id AND b.indexed = l.start RETURNING b.id
    )
    INSERT INTO compact.words
    SELECT %(scope)s, e.branch, e.position, e.words::int[], e.facts, e.speaker
    FROM grown JOIN unnest(%(of)s::bytea[], %(positions)s::int[], %(words)s::text[],
        %(facts)s::bytea[], %(speakers)s::bytea[]) AS e (branch, position, words, facts, speaker)
        ON e.branch = grown.id
    RETURNING 1
"""
_FACTS = """
    SELECT w.branch, w.facts, w.speaker
    FROM unnest(%(branches)s::bytea[], %(starts)s::int[], %(stops)s::int[]) AS l (id, low, high)
    JOIN compact.words w ON w.scope = %(scope)s AND w.branch = l.id
        AND w.position >= l.low AND w.position < l.high
    ORDER BY w.branch, w.position
"""
_HOLDING = """
    SELECT u.word, w.branch, array_agg(w.position) FROM compact.words w, unnest(w.words) AS u (word)
    WHERE w.scope = %(scope)s AND w.words && %(words)s::int[] AND u.word = ANY(%(words)s::int[]){}
    GROUP BY 1, 2
"""
_WITHIN = """
    AND EXISTS (SELECT 1 FROM unnest(%(branches)s::bytea[], %(starts)s::int[], %(stops)s::int[])
        AS l (id, low, high)
        WHERE w.branch = l.id AND w.position >= l.low AND w.position < l.high)
"""


class _Row(NamedTuple):
    """A branch as the server has it."""

    session: bytes
    active: bytes
    id: bytes
    parent: bytes | None
    fork: int
    messages: int
    indexed: int
    made: object
    """Another one if a branch of this id is deleted and made again."""


class _Facts(NamedTuple):
    """The facts about a branch's own messages, from its fork on."""

    made: object
    rows: NDArray[np.void]
    speakers: NDArray[np.int32]


class _Known(NamedTuple):
    """What is in memory."""

    state: list[_Row]
    names: dict[str, int]
    branches: dict[bytes, _Facts]
    turns: TurnTable


class BranchPart(NamedTuple):
    """Positions of a branch, from `low` and below `high`."""

    branch: bytes
    low: int
    high: int


class ScopeIndex:
    """The messages of one scope. Safe for use by many threads. Keys are those of this object: the
    high bits are the number that it gave to a branch.
    """

    def __init__(self, query: Query, scope: str) -> None:
        self._query, self._scope = query, scope
        self._lock = forks.Lock()
        self._numbers: dict[bytes, int] = {}
        self._branches: list[bytes] = []
        self._known: _Known | None = None

    def ask(self, sql: str, **given: object) -> list[tuple[Any, ...]]:
        """Run a statement that names the scope."""
        return self._query(sql, {"scope": self._scope, **given})

    # --- keys -------------------------------------------------------------------------------------

    def key(self, branch: bytes, position: int) -> int:
        """Return the key of a message."""
        with self._lock:
            if branch not in self._numbers:
                self._numbers[branch] = len(self._branches)
                self._branches.append(branch)
            return self._numbers[branch] << POSITION_BITS | position

    def place(self, key: int) -> tuple[bytes, int]:
        """Return the branch and the position of a key."""
        return self._branches[key >> POSITION_BITS], key & ((1 << POSITION_BITS) - 1)

    def stretches(self, ranges: Sequence[tuple[int, int]]) -> list[BranchPart]:
        """Return ranges of keys, both ends included, as positions of branches."""
        ends = [(*self.place(first), last - first + 1) for first, last in ranges]
        return [BranchPart(branch, low, low + more) for branch, low, more in ends]

    # --- words ------------------------------------------------------------------------------------

    def search(self, branch_id: str, text: str, most: int) -> list[Found]:
        """Return messages of a branch that share words with the text (`text.terms.scored`)."""
        names = [self._stems(name) for name in looked_for(text)]
        own = encoded(branch_id)
        sql = f"""
            {LINE} SELECT b.id, b.indexed, b.messages FROM line
            JOIN compact.branches b ON b.scope = %(scope)s AND b.id = line.id
        """
        line = {bytes(row[0]): (row[1], row[2]) for row in self.ask(sql, branch=own)}
        if not names or most <= 0 or own not in line:
            return []
        self._add([(name, indexed) for name, (indexed, stop) in line.items() if indexed < stop])
        sql = f"""
            {LINE} SELECT w.position, w.words FROM line
            JOIN compact.words w ON w.scope = %(scope)s AND w.branch = line.id
                AND w.position >= line.low AND w.position < line.high
            WHERE w.words && %(words)s::int[]
        """
        rows = self.ask(sql, branch=own, words=sorted(set().union(*names)))
        having = [(position, set(words)) for position, words in rows]
        holding = [[at for at, words in having if name and words >= name] for name in names]
        return scored(holding, line[own][1], most)

    def _stems(self, name: Sequence[str]) -> set[int]:
        return {self._hash(stem) for piece in name for stem in _stems_in(piece)}

    def _hash(self, stem: str) -> int:
        digest = blake2b(encoded(stem), digest_size=4, key=blake2b(encoded(self._scope)).digest())
        return int.from_bytes(digest.digest(), "big", signed=True)

    def unindexed(self) -> int:
        """Return how many messages have no words yet."""
        sql = """
            SELECT coalesce(sum(messages - indexed), 0)::bigint FROM compact.branches
            WHERE scope = %(scope)s
        """
        return int(self.ask(sql)[0][0])

    def catch_up(self, progress: Callable[[int, int], None] | None = None) -> bool:
        """Store the words of messages that have none. Return whether all have words now: a server
        that only reads, or refuses, leaves some without.
        """
        return self._is_complete(self._state(), progress)

    def _is_complete(
        self, state: Sequence[_Row], progress: Callable[[int, int], None] | None = None
    ) -> bool:
        lag = [(row.id, row.indexed) for row in state if row.indexed < row.messages]
        total = sum(row.messages - row.indexed for row in state)
        try:
            self._add(lag, lambda done: progress(done, max(done, total)) if progress else None)
        except StoreFailed:
            return False
        return True

    def _add(
        self, lag: Sequence[tuple[bytes, int]], tell: Callable[[int], None] = lambda _: None
    ) -> None:
        """Store the words of branches from these positions on, in batches. Whoever was faster has
        stored them.
        """
        starts, done = dict(sorted(lag)), 0
        while starts:
            rows = self.ask(_WITHOUT_WORDS, branches=list(starts), starts=list(starts.values()))
            if not rows:
                return
            stops = {bytes(row[0]): row[1] + 1 for row in rows}
            given = {"branches": list(stops), "stops": list(stops.values())}
            given["starts"] = [starts[branch] for branch in stops]
            self.ask(_ADD, **given, **self._words_in(rows))
            done += len(rows)
            tell(done)
            last = bytes(rows[-1][0])
            starts = {name: stops.get(name, at) for name, at in starts.items() if name >= last}

    def _words_in(self, rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
        found = defaultdict[str, list[Any]](list)
        for branch, *row in rows:
            message = entry_of(row).message
            words = searchable(message)
            at, length, signs, role, speaker = noted(message, words)
            hashes = {self._hash(stem) for stem in _stems_in(index_words(words))}
            found["of"].append(branch)
            found["positions"].append(row[0])
            found["words"].append("{" + ",".join(map(str, sorted(hashes))) + "}")
            found["facts"].append(pack(LAYOUT, at, length, signs, role, 0))
            found["speakers"].append(encoded(speaker) if speaker else None)
        return found

    def holding(
        self,
        names: Sequence[Sequence[str]],
        within: Sequence[tuple[int, int]] = (),
        most: int | None = None,
    ) -> list[Keys]:
        """Return, for each name, the keys of messages with all its words (by stem), within the key
        ranges if given (both ends included). A name in more than `most` messages gets no keys.
        """
        import numpy as np

        wanted = [self._stems(name) for name in names]
        is_within = 0 < len(within) <= MOST_RANGES
        sql = _HOLDING.format(_WITHIN if is_within else "")
        ends = columns(self.stretches(within) if is_within else [])
        held = defaultdict[int, set[int]](set)
        words = sorted(set().union(*wanted))
        for word, branch, positions in self.ask(sql, words=words, **ends) if words else ():
            start = self.key(bytes(branch), 0)
            held[word].update(start + position for position in positions)
        found = [
            set.intersection(*(held[word] for word in name)) if name else () for name in wanted
        ]
        return [
            np.array(sorted(keys) if most is None or len(keys) <= most else (), np.int64)
            for keys in found
        ]

    # --- facts ------------------------------------------------------------------------------------

    def turns(self) -> TurnTable:
        """Return the messages of the scope's sessions. Words that are missing are stored first."""
        with self._lock:
            state = self._state()
            is_complete = self._is_complete(state)
            if any(row.indexed < row.messages for row in state):
                state = self._state()
            if self._known is None or self._known.state != state:
                self._known = self._read(state)
            if not is_complete:
                return TurnTable(**{**vars(self._known.turns), "complete": False})
            return self._known.turns

    def _state(self) -> list[_Row]:
        rows = self.ask(_STATE)
        return [
            _Row(bytes(a), bytes(b), bytes(c), None if d is None else bytes(d), *rest)
            for a, b, c, d, *rest in rows
        ]

    def _read(self, state: list[_Row]) -> _Known:
        """Read the facts that are not in memory."""
        import numpy as np

        before = self._known or _Known([], {"": 0}, {}, TurnTable.__new__(TurnTable))
        names, branches = dict(before.names), dict[bytes, _Facts]()
        empty = np.empty(0, list(FIELDS)), np.empty(0, np.int32)
        for row in state:
            known = before.branches.get(row.id)
            is_same = known is not None and known.made == row.made
            branches[row.id] = known if known and is_same else _Facts(row.made, *empty)
        new = [
            BranchPart(row.id, row.fork + len(branches[row.id].rows), row.indexed) for row in state
        ]
        new = [each for each in new if each.low < each.high]
        rows = self.ask(_FACTS, **columns(new)) if new else []
        for branch, group in groupby(rows, itemgetter(0)):
            own = list(group)
            packed = np.frombuffer(b"".join(bytes(row[1]) for row in own), list(FIELDS))
            spoken = ("" if row[2] is None else decoded(row[2]) for row in own)
            speakers = [names.setdefault(name, len(names)) for name in spoken]
            known = branches[bytes(branch)]
            branches[bytes(branch)] = _Facts(
                known.made,
                np.concatenate([known.rows, packed]),
                np.concatenate([known.speakers, np.array(speakers, np.int32)]),
            )
        every = {row.id: row for row in state}
        parts = {
            (decoded(row.session), decoded(row.id)): self._parts(every, row.id, branches)
            for row in state
            if row.id == row.active
        }
        return _Known(state, names, branches, TurnTable.joined(parts, names))

    def _parts(
        self, every: Mapping[bytes, _Row], branch: bytes, branches: Mapping[bytes, _Facts]
    ) -> list[TurnPart]:
        """Return what a branch and its ancestors give to it, oldest first."""
        found, high, at = list[TurnPart](), None, every.get(branch)
        while at is not None:
            facts = branches[at.id]
            stop = len(facts.rows) if high is None else min(len(facts.rows), max(0, high - at.fork))
            if stop:
                key = self.key(at.id, at.fork)
                found.append(TurnPart(key, facts.rows[:stop], facts.speakers[:stop]))
            high = at.fork if high is None else min(high, at.fork)
            at = every.get(at.parent) if at.parent is not None else None
        return found[::-1]

    def important(self, least: float) -> Keys:
        """Return keys of messages whose stored importance (0 to 1) is at least `least`."""
        import numpy as np

        sql = """
            SELECT branch, position FROM compact.messages
            WHERE scope = %(scope)s AND score >= %(least)s
        """
        rows = self.ask(sql, least=least)
        return np.array([self.key(bytes(branch), at) for branch, at in rows], np.int64)

    def told(self, keys: Sequence[int], sessions: Sequence[str]) -> Told:
        """Return the messages with these keys and the titles of these sessions, if they exist."""
        sql = f"""
            SELECT m.branch, {ENTRY}
            FROM unnest(%(branches)s::bytea[], %(positions)s::int[]) AS l (id, at)
            JOIN compact.messages m ON m.scope = %(scope)s AND m.branch = l.id
                AND m.position = l.at
        """
        places = [self.place(key) for key in keys]
        given = {"branches": [each[0] for each in places], "positions": [at for _, at in places]}
        rows = self.ask(sql, **given) if places else []
        found = {self.key(bytes(row[0]), row[1]): entry_of(row[1:]).message for row in rows}
        sql = "SELECT id, body FROM compact.sessions WHERE scope = %(scope)s AND id = ANY(%(ids)s)"
        named = self.ask(sql, ids=list(map(encoded, sessions))) if sessions else []
        titles = {decoded(name): codec.load(bytes(body)).get("title") for name, body in named}
        return Told(found, titles)


def columns(stretches: Sequence[BranchPart]) -> dict[str, list[Any]]:
    """Return stretches as columns for a statement."""
    names = "branches", "starts", "stops"
    return {name: [each[place] for each in stretches] for place, name in enumerate(names)}


# --- stems ----------------------------------------------------------------------------------------


class _Tokenizer(threading.local):
    """SQLite's own tokenizer, one for each thread."""

    def __init__(self) -> None:
        self._db = apsw.Connection(":memory:")
        options = ["unicode61", "remove_diacritics", "1"]
        self.stems = self._db.fts5_tokenizer("porter", options)


_TOKENIZER = _Tokenizer()


def _stems_in(text: str) -> set[str]:
    """Return the stems of a text's words, as the index in a file has them."""
    data = text.replace("\x00", " ").encode("utf-8", "replace")
    found = _TOKENIZER.stems(
        data, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
    )
    return set(cast("list[str]", found))
