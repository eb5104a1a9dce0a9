"""Search by words: builds the index, updates it and queries it.

The index stores no texts, only which words are in which message, by stem. Appending does not update
it. Each branch stores the position up to which it is indexed. The rest is indexed in batches: some
messages after each commit, all before a search. Other facts for memory's search are stored along
with the words (`text.turns`).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import pack
from typing import NamedTuple

import apsw

from compact.errors import StoreDamaged, StoreFailed
from compact.messages.sessions import Found
from compact.store.sqlite import branch_lineage
from compact.store.sqlite.branch_lineage import Stretch
from compact.store.sqlite.messages import rows_of
from compact.store.sqlite.originals import OriginalsUnread
from compact.store.sqlite.pool import Pool
from compact.store.sqlite.rows import (
    BITS,
    LAST,
    MESSAGE,
    Row,
    entry_of,
    first,
    json_of,
    position_in,
    query,
    text,
    text_of,
)
from compact.text.terms import index_words, looked_for, pieces_of, scored, searchable, spaced
from compact.text.turns import LAYOUT, MOST_SPEAKERS, noted

BATCH = 500
"""How many messages to index in one transaction."""
MOST_SCANNED = 5_000
"""How many messages to scan if there is no index. A word in more messages than this counts as
common: it says little about any of them, and takes long to look up."""

Name = tuple[str, ...]

_UNINDEXED = f"""
    SELECT total(coalesce(((SELECT key FROM messages
        WHERE key BETWEEN b.key << {BITS} AND (b.key << {BITS}) + {LAST}
        ORDER BY key DESC LIMIT 1) & {LAST}) + 1, b.indexed) - b.indexed)
    FROM unindexed u JOIN branches b ON b.key = u.branch
"""


def search(pool: Pool, branch_id: str, question: str, most: int) -> list[Found]:
    """Return messages that share words with the question, best BM25 score first, newer first among
    equals. A name scores higher if its pieces stand side by side. Common words count only if rare
    words find nothing.

    If the index is incomplete and cannot be updated (read-only or locked file), the newest
    `MOST_SCANNED` messages are scanned instead.
    """
    names = looked_for(question)
    if not is_complete(pool, branch_id):
        return scan(pool, branch_id, question, most)
    if not names or most <= 0:
        return []
    with pool.read() as db:
        rare = _rare(db, names)
        matches = _matching(db, branch_id, rare, most) if rare else []
        return matches or _matching(db, branch_id, names, most)


def _matching(db: apsw.Connection, branch_id: str, names: list[Name], most: int) -> list[Found]:
    sql = """
        SELECT -bm25(words), rowid FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ?
        ORDER BY bm25(words), rowid DESC LIMIT ?
    """
    forms = other_forms(db, names)
    wanted = " OR ".join(expression_of(name, forms.get(name, ())) for name in names)
    rows = [
        row
        for stretch in branch_lineage.lineage(db, branch_id)
        for row in query(db, sql, (wanted, stretch.first, stretch.last, most))
    ]
    best = heapq.nlargest(most, ((score, position_in(key)) for score, key in rows))
    return [Found(position, score) for score, position in best]


def _rare(db: apsw.Connection, names: list[Name]) -> list[Name]:
    """Return the names without the pieces that are in more than `MOST_SCANNED` messages."""
    sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    pieces = {piece for name in names for piece in name}
    common = {
        piece
        for piece in pieces
        if query(db, sql, (expression_of((piece,)), MOST_SCANNED + 1))[0][0] > MOST_SCANNED
    }
    left = [tuple(piece for piece in name if piece not in common) for name in names]
    return [name for name in left if name]


def scan(pool: Pool, branch_id: str, question: str, most: int) -> list[Found]:
    """Return messages that share words with the question, without the index. Only the newest
    `MOST_SCANNED` messages are scanned (`text.terms.scored`).
    """
    names = looked_for(question)
    with pool.read() as db:
        stop = branch_lineage.tail(db, branch_id).position
        stretches = branch_lineage.lineage(db, branch_id, low=max(0, stop - MOST_SCANNED))
        rows = [row for stretch in stretches for row in rows_of(db, stretch)]
    places: dict[Name, list[int]] = {name: [] for name in names}
    for row in rows:
        pieces = frozenset(pieces_of(index_words(searchable(entry_of(row).message))))
        for name in names:
            if pieces.issuperset(name):
                places[name].append(position_in(row[0]))
    return scored(places.values(), stop, most)


def expression_of(name: Name, others: Iterable[Name] = ()) -> str:
    """Return a name as an FTS5 expression, which also finds its other forms. Pieces contain only
    letters and digits.
    """
    if others:
        return f"({' OR '.join(map(expression_of, (name, *others)))})"
    phrase = '"' + " ".join(name) + '"'
    if len(name) == 1 or any(spaced(piece) != piece for piece in name):
        return phrase  # Chinese text is indexed by character, so its characters must stay together
    apart = " AND ".join('"' + piece + '"' for piece in name)
    return f"({phrase} OR ({apart}))"


# --- forms of words that the index holds ----------------------------------------------------------

LEAST_CORE, LONGEST_END, MOST_FORMS = 4, 3, 40
"""Two words are forms of one if they share a beginning of at least this many letters, and all but
this many. A word has at most so many other forms."""
MOST_LISTED = 50_000
"""In an index of more messages than this, no words are looked for inside other words, because that
reads the whole index."""


def other_forms(
    db: apsw.Connection, names: Iterable[Name], *, inside: bool = True
) -> dict[Name, list[Name]]:
    """Return other forms of words, as the index holds them: `собаку` for `собака`.

    A short word in plain Latin letters has some only if no message has it, since its stem is
    indexed. With `inside`, such a word is also looked for as a part of others and the reverse:
    `Laterne` in `Straßenlaternen`, `wifi` in `Wi-Fi`.
    """
    found: dict[Name, list[Name]] = {}
    unsaid = list[Name]()
    for name in names:
        piece = name[0]
        if len(name) == 1 and (piece.isdecimal() or len(piece) < LEAST_CORE - 1):
            continue
        is_long = piece.isascii() and piece.isalpha() and len(piece) >= 2 * LEAST_CORE
        if len(name) == 1 and (is_long or (not piece.isascii() and spaced(piece) == piece)):
            core = piece[:-1] if is_long else _core(db, piece)
            found[name] = [(form,) for form in _inflected(db, core, len(piece))]
        if inside and not found.get(name) and not _holds(db, name):
            unsaid.append(name)
    compounds = _compounds(db, [name[0] for name in unsaid if len(name) == 1])
    for name in unsaid:
        piece, core = name[0], _core(db, name[0])
        if len(name) > 1:
            joined = ("".join(name),)
            found[name] = [joined] if spaced(piece) == piece and _holds(db, joined) else []
            continue
        forms = list[Name]()
        if core.isalpha():
            forms += [(form,) for form in _inflected(db, core, len(piece))]
        forms += [(form,) for form in compounds if _is_part(core, form)]
        cuts = [(piece[:at], piece[at:]) for at in range(2, min(len(piece) - 1, 12))]
        forms += [cut for cut in cuts if _holds(db, cut)]
        found[name] = list(dict.fromkeys(forms))[:MOST_FORMS]
    return {name: forms for name, forms in found.items() if forms}


def _core(db: apsw.Connection, piece: str) -> str:
    """Return the beginning that all forms of a word share, as the index writes it."""
    tokenize = db.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "1"])
    whole = {"include_offsets": False, "include_colocated": False}
    read = tokenize(piece.encode(), apsw.FTS5_TOKENIZE_QUERY, None, **whole)
    plain = str(next(iter(read), piece))
    if len(plain) < len(piece):  # its English ending is off
        return plain if len(plain) >= LEAST_CORE else piece
    least = LEAST_CORE if plain.isascii() else LEAST_CORE - 1
    is_long = len(plain) > (2 * LEAST_CORE if plain.isascii() else LEAST_CORE + 1)
    return plain[: max(len(plain) - 1 - is_long, least)]


def _inflected(db: apsw.Connection, core: str, length: int) -> list[str]:
    if len(core) < LEAST_CORE - (not core.isascii()):
        return []
    sql = "SELECT term FROM temp.terms WHERE term >= ? AND term < ? AND length(term) <= ? "
    sql += "ORDER BY length(term), term LIMIT ?"  # the nearest first: not all may fit
    last = core + "\U0010ffff"
    longest = length + (LONGEST_END if length > LEAST_CORE + 1 else LONGEST_END - 1)
    rows = query(db, sql, (core, last, longest, MOST_FORMS))
    return [text_of(row[0]) for row in rows]


def _compounds(db: apsw.Connection, pieces: Sequence[str]) -> list[str]:
    """Return the words of the index that contain one of these words."""
    cores = [core for core in (_core(db, piece) for piece in pieces) if len(core) >= LEAST_CORE]
    cores = [core for core in cores if core.isalpha()]
    indexed = first(db, "SELECT total(indexed) FROM branches")
    if not cores or not indexed or int(indexed[0]) > MOST_LISTED:
        return []
    wanted = " OR ".join("instr(term, ?)" for _ in cores)
    rows = query(db, f"SELECT term FROM temp.terms WHERE {wanted}", cores)
    return [text_of(row[0]) for row in rows]


def _is_part(core: str, form: str) -> bool:
    """Return whether a word is the first or the last part of a compound."""
    at = form.rfind(core)
    is_last = at >= LEAST_CORE and len(form) - len(core) - at <= LONGEST_END
    return len(core) >= LEAST_CORE and (is_last or form.startswith(core))


def _holds(db: apsw.Connection, name: Name) -> bool:
    phrase = '"' + " ".join(name) + '"'
    return bool(query(db, "SELECT 1 FROM words WHERE words MATCH ? LIMIT 1", (phrase,)))


# --- the index ------------------------------------------------------------------------------------


def is_complete(pool: Pool, branch_id: str) -> bool:
    """Update the index. Return whether it now covers the whole branch."""
    try:
        catch_up_branch(pool, branch_id)
    except StoreDamaged:
        raise
    except StoreFailed:
        return False
    return True


def catch_up_branch(pool: Pool, branch_id: str, *, most: int | None = None) -> None:
    """Index the missing messages of a branch and its ancestors, at most `most`.

    Raises:
        StoreFailed: the file cannot be written.
    """
    left, done = math.inf if most is None else most, BATCH
    while left > 0 and done == BATCH:
        done = _index_batch(
            pool, lambda db: branch_lineage.lineage(db, branch_id), int(min(left, BATCH))
        )
        left -= done


def unindexed(db: apsw.Connection) -> int:
    """Return how many messages are not indexed yet."""
    return int(query(db, _UNINDEXED)[0][0])


def catch_up(pool: Pool, progress: Callable[[int, int], None] | None = None) -> bool:
    """Index the missing messages of every branch. Return whether all are indexed now. After each
    batch, `progress` gets the number of messages done and the total.
    """
    every = done = first_branch = at = 0
    tell = progress or (lambda *_: None)
    away = set[int]()

    def lagging(db: apsw.Connection) -> Iterator[Stretch]:
        nonlocal at
        sql = "SELECT branch FROM unindexed WHERE branch >= ? ORDER BY branch"
        for (at,) in db.execute(sql, (first_branch,)):
            if at not in away:
                yield Stretch(at, 0, LAST, is_open=True)

    if progress:
        with pool.read() as db:
            every = unindexed(db)
    try:
        while True:
            try:
                batch = _index_batch(pool, lagging, BATCH)
            except OriginalsUnread:
                away.add(at)  # skip this branch: its archive cannot be read
                continue
            if not batch:
                return not away
            done, first_branch = done + batch, at
            tell(done, max(done, every))
    except StoreDamaged:
        raise
    except StoreFailed:
        return False


def _index_batch(
    pool: Pool, stretches: Callable[[apsw.Connection], Iterable[Stretch]], most: int
) -> int:
    """Index the next messages of these stretches in one transaction, because each commit waits for
    the disk. Return how many. The texts are prepared before the file is locked.
    """
    with pool.read() as db:
        found, left = list[_Lag](), most
        for stretch in stretches(db):
            if lag := _lag(db, stretch, left):
                found.append(lag)
                left -= len(lag.rows)
            if not left:
                break
    if not found:
        return 0
    batch = [(lag, _indexed(lag.rows)) for lag in found]
    with pool.write() as db:
        for lag, (texts, turns) in batch:
            _store(db, lag, texts, turns)
    return most - left


class _Lag(NamedTuple):
    """The next messages of a branch that are not indexed yet."""

    branch: int
    start: int
    rows: list[Row]


def _lag(db: apsw.Connection, stretch: Stretch, most: int) -> _Lag | None:
    indexed = first(db, "SELECT indexed FROM branches WHERE key = ?", (stretch.branch,))
    start = int(indexed[0]) if indexed else LAST
    sql = f"SELECT {MESSAGE} FROM messages WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?"
    rows = query(db, sql, (stretch.branch << BITS | start, stretch.last, most))
    return _Lag(stretch.branch, start, rows) if rows else None


def _indexed(rows: Sequence[Row]) -> tuple[list[tuple[int, str]], tuple[str, bytes]]:
    """Return the text to index of each message, and a row for `turns`: speakers as JSON, and the
    packed facts on each message. Facts give the speaker's number, from 1; 0 means none.
    """
    texts = list[tuple[int, str]]()
    speakers: dict[str, int] = {}
    packed = bytearray()
    for row in rows:
        message = entry_of(row).message
        words = searchable(message)
        texts.append((row[0], indexed_text(words)))
        at, length, signs, role, speaker = noted(message, words)
        place = 0
        if speaker and (speaker in speakers or len(speakers) < MOST_SPEAKERS):
            place = speakers.setdefault(speaker, len(speakers) + 1)
        packed += pack(LAYOUT, at, length, signs, role, place)
    return texts, (json_of(list(speakers)), bytes(packed))


def _store(
    db: apsw.Connection, lag: _Lag, texts: Sequence[tuple[int, str]], turns: tuple[str, bytes]
) -> None:
    """Add messages to the index, unless another process has done so meanwhile."""
    stop = position_in(texts[-1][0]) + 1
    sql = "UPDATE branches SET indexed = ? WHERE key = ? AND indexed = ? RETURNING 1"
    if not query(db, sql, (stop, lag.branch, lag.start)):
        return
    db.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", texts)
    sql = "INSERT INTO turns (branch, start, speakers, packed) VALUES (?, ?, ?, ?)"
    db.execute(sql, (lag.branch, lag.start, *turns))
    sql = "DELETE FROM unindexed WHERE branch = ? AND NOT EXISTS (SELECT 1 FROM messages"
    keys = lag.branch << BITS | stop, lag.branch << BITS | LAST
    db.execute(f"{sql} WHERE key BETWEEN ? AND ?)", (lag.branch, *keys))


def indexed_text(words: str) -> str:
    """Return the text to index: valid Unicode, with other forms of its words added."""
    whole = text(index_words(words).replace("\x00", " ")) or ""
    return whole if isinstance(whole, str) else whole.decode("utf-8", "replace")


def remove(db: apsw.Connection, branch: int) -> None:
    """Remove a branch from the index."""
    row = first(db, "SELECT indexed > fork FROM branches WHERE key = ?", (branch,))
    if row is None or not row[0]:
        return
    keys = branch << BITS, branch << BITS | LAST
    db.execute("DELETE FROM words WHERE rowid BETWEEN ? AND ?", keys)
    db.execute("DELETE FROM turns WHERE branch = ?", (branch,))
