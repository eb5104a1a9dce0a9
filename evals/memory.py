"""How well memory is searched: questions on months of talk, with the sessions and messages that
answer them.

`all@5` is the share of questions of which all sessions that answer stand among the first five,
`R@10` the mean share of a question's messages among the first ten. The weights of the ranking were
chosen by hand on the conversations here; beside them stands what a choice among a few nearby
weights reaches on a conversation that was left out of it.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any

import apsw

from compact import wiring
from compact.errors import CompactError
from compact.memory.lexical import Weights
from compact.memory.memory_manager import MemoryManager
from compact.memory.searching import Nearest, Ways, ranked
from compact.messages.protocols import Embedder
from compact.store.sqlite.store import SQLiteManager
from compact.store.sqlite.vector_store import VectorStore
from compact.text.embedding import Near
from compact.text.found import Method, SearchFilter
from compact.text.terms import STOP_WORDS, pieces_of
from evals import memory_data, stats
from evals.memory_data import Asked, Talk
from evals.split import HALVES

SESSIONS, MESSAGES = 5, 10
NEARBY = [
    Weights(words, prior, answer)
    for words, prior, answer in itertools.product((4.0, 5.0, 6.0), (0.3, 0.5, 0.7), (0.7, 1.0))
]
MEANINGS = (6.0, 8.0)
"""The weights among which some are chosen with a conversation left out."""

Way = Callable[[Talk, Asked], tuple[list[str], list[str]]]
"""Sessions and messages that are found, the best first."""


@dataclass(frozen=True)
class Answer:
    """How one question was answered."""

    talk: str
    kind: str
    needed: int
    all_sessions: bool
    messages: float | None
    ceiling: float | None
    """The share of its messages that can stand among the first."""


def by_manager(
    store: SQLiteManager,
    taken: list[float],
    embedder: Embedder | None = None,
    method: Method | None = None,
) -> Way:
    """As a user searches; how long it took goes into `taken`, in milliseconds."""
    managers: dict[str, MemoryManager] = {}

    def found(talk: Talk, asked: Asked) -> tuple[list[str], list[str]]:
        if talk.name not in managers:
            managers[talk.name] = MemoryManager(store, scope=talk.name, embedder=embedder)
        start = time.perf_counter()
        result = managers[talk.name].search(asked.text, limit=MESSAGES, method=method)
        taken.append(1e3 * (time.perf_counter() - start))
        sessions = [each.session_id for each in result.sessions]
        return sessions, [hit.message_id for hit in result.hits]

    return found


def by_weights(store: SQLiteManager, weights: Weights, nearest: Nearest | None = None) -> Way:
    """The same with other weights."""

    def found(talk: Talk, asked: Asked) -> tuple[list[str], list[str]]:
        ways = Ways(weights=weights, nearest=nearest)
        best = ranked(store, talk.name, asked.text, most=MESSAGES, only=SearchFilter(), ways=ways)
        turns = best.turns
        said = [
            talk.sessions[turns.sessions[turns.where(p)[0]].partition("/")[2]] for p in best.places
        ]
        messages = [own[turns.where(p)[1]].id for own, p in zip(said, best.places, strict=True)]
        return [turns.sessions[number] for number in best.sessions], messages

    return found


def by_fts5(talks: Sequence[Talk], *, whole: bool) -> Way:
    """Plain FTS5: stems, stop words left out of the question, dates and speakers in the text; a
    session is one text, or counts by its best message.
    """
    files: dict[str, apsw.Connection] = {}
    for talk in talks:
        db = files[talk.name] = apsw.Connection(":memory:")
        db.execute(
            "CREATE VIRTUAL TABLE t USING fts5(s UNINDEXED, m UNINDEXED, text, tokenize='porter')"
        )
        for name, messages in talk.sessions.items():
            texts = [f"{m.timestamp:%d %B %Y} {m.name or m.role}: {m.text}" for m in messages]
            rows = (
                [(name, "", "\n".join(texts))]
                if whole
                else [(name, m.id, t) for m, t in zip(messages, texts, strict=True)]
            )
            db.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)

    def found(talk: Talk, asked: Asked) -> tuple[list[str], list[str]]:
        words = [w for w in pieces_of(asked.text) if w not in STOP_WORDS] or pieces_of(asked.text)
        wanted = " OR ".join(f'"{word}"' for word in words)
        sql = "SELECT s, m FROM t WHERE t MATCH ? ORDER BY bm25(t)"
        rows = files[talk.name].execute(sql, (wanted,)).fetchall()
        sessions = [f"{talk.name}/{each}" for each in dict.fromkeys(row[0] for row in rows)]
        return sessions, [str(row[1]) for row in rows[:MESSAGES]]

    return found


def answers(talks: Sequence[Talk], way: Way) -> list[Answer]:
    """How each question is answered."""
    done = []
    for talk in talks:
        for asked in talk.asked:
            sessions, messages = way(talk, asked)
            needed = {f"{talk.name}/{each}" for each in asked.sessions}
            told = asked.messages.intersection(messages)
            done.append(
                Answer(
                    talk.name,
                    asked.kind,
                    len(needed),
                    needed <= set(sessions[:SESSIONS]),
                    len(told) / len(asked.messages) if asked.messages else None,
                    min(1.0, MESSAGES / len(asked.messages)) if asked.messages else None,
                )
            )
    return done


def left_out(
    talks: Sequence[Talk], store: SQLiteManager, nearest: Nearest | None = None
) -> list[Answer]:
    """Each conversation by the weights that are best on the others."""
    nearby = [w._replace(meaning=m) for w in NEARBY for m in (MEANINGS if nearest else [0.0])]
    tried = {w: answers(talks, by_weights(store, w, nearest)) for w in nearby}
    done: list[Answer] = []
    for talk in talks:

        def worth(weights: Weights, out: str = talk.name) -> float:
            own = [each for each in tried[weights] if each.talk != out]
            return _share(own) + _recall(own)

        done += [each for each in tried[max(tried, key=worth)] if each.talk == talk.name]
    return done


def run(folder: Path) -> dict[str, Any]:
    """All numbers as JSON has them."""
    talks, histories = list(memory_data.locomo(folder)), list(memory_data.longmemeval(folder))
    store = memory_data.stored([*talks, *histories])
    taken: list[float] = []
    found = {"lexical": answers(talks, by_manager(store, taken))}
    found["lexical, weights by the others"] = left_out(talks, store)
    if (embedder := minilm()) is not None:
        VectorStore(store).embed_pending(embedder)
        spent: list[float] = []
        found["MiniLM"] = answers(talks, by_manager(store, [], embedder, "semantic"))
        found["hybrid"] = answers(talks, by_manager(store, spent, embedder))
        nearest = _remembered(store, embedder)
        found["hybrid, weights by the others"] = left_out(talks, store, nearest)
    found["FTS5, whole sessions"] = answers(talks, by_fts5(talks, whole=True))
    found["FTS5, messages"] = answers(talks, by_fts5(talks, whole=False))
    plain = found["FTS5, whole sessions"]
    told: dict[str, Any] = {name: _numbers(each, plain) for name, each in found.items()}
    told["longmemeval, lexical"] = _numbers(answers(histories, by_manager(store, [])), None)
    told |= _beam(folder, embedder)
    coding = memory_data.coding(folder)
    sessions = memory_data.stored([coding])
    told["coding sessions, lexical"] = _numbers(answers([coding], by_manager(sessions, [])), None)
    told["coding sessions, FTS5, messages"] = _numbers(
        answers([coding], by_fts5([coding], whole=False)), None
    )
    if embedder is not None:
        VectorStore(sessions).embed_pending(embedder)
        found_by = by_manager(sessions, [], embedder)
        told["coding sessions, hybrid"] = _numbers(answers([coding], found_by), None)
    told["ms a search, LoCoMo, lexical"] = [median(taken), stats.quantile(taken, 0.95)]
    if embedder is not None:
        told["longmemeval, hybrid"] = _numbers(
            answers(histories, by_manager(store, [], embedder)), None
        )
        told["ms a search, LoCoMo, hybrid"] = [median(spent), stats.quantile(spent, 0.95)]
    return told


def _beam(folder: Path, embedder: Embedder | None) -> dict[str, Any]:
    """The numbers of each half of BEAM's chats, beside plain FTS5."""
    told: dict[str, Any] = {}
    for half in HALVES:
        chats = [each for each in memory_data.beam(folder) if half in each.name]
        if not chats:
            print(f"no BEAM, {half}: it lies beside the data", file=sys.stderr)
            continue
        own = memory_data.stored(chats)
        told[f"BEAM {half}, lexical"] = _numbers(answers(chats, by_manager(own, [])), None)
        plain_beam = answers(chats, by_fts5(chats, whole=False))
        told[f"BEAM {half}, FTS5, messages"] = _numbers(plain_beam, None)
        if embedder is not None:
            VectorStore(own).embed_pending(embedder)
            hybrid = answers(chats, by_manager(own, [], embedder))
            told[f"BEAM {half}, hybrid"] = _numbers(hybrid, None)
    return told


def minilm() -> Embedder | None:
    """MiniLM in this process; None, which is said, where it is not installed."""
    try:
        embedder = wiring.embedder("minilm")
        embedder.embed(["a"])
    except (CompactError, ImportError) as reason:
        print(f"no search by meaning: {reason}", file=sys.stderr)
        return None
    return embedder


def _remembered(store: SQLiteManager, embedder: Embedder) -> Nearest:
    """What is near to a text, asked once: the weights that are tried are many."""
    vectors = VectorStore(store)
    of = vectors.made_by(embedder)

    @cache
    def near(text: str, within: tuple[tuple[int, int], ...], most: int) -> Sequence[Near]:
        vector = embedder.embed([text], query=True)[0]
        return vectors.similar(vector, of=of, most=most, keys=within)

    return lambda text, within, most: near(text, tuple(within), most)


def _share(done: Sequence[Answer]) -> float:
    return mean(each.all_sessions for each in done)


def _recall(done: Sequence[Answer]) -> float:
    return mean(each.messages for each in done if each.messages is not None)


def _numbers(done: Sequence[Answer], plain: Sequence[Answer] | None) -> dict[str, Any]:
    has_messages = any(each.messages is not None for each in done)
    numbers: dict[str, Any] = {
        "questions": len(done),
        "all@5": _share(done),
        "R@10": _recall(done) if has_messages else None,
        "ceiling": [
            mean(each.needed <= SESSIONS for each in done),
            mean(each.ceiling for each in done if each.ceiling is not None) if has_messages else 1,
        ],
        "interval": stats.interval([float(each.all_sessions) for each in done]),
        "kinds": {
            kind: _share([x for x in done if x.kind == kind])
            for kind in sorted({x.kind for x in done})
        },
        "messages of kinds": {
            kind: _recall([x for x in done if x.kind == kind])
            for kind in sorted({x.kind for x in done if x.messages is not None})
        },
        "sessions needed": {
            str(n): _share([x for x in done if x.needed == n])
            for n in sorted({x.needed for x in done})
        },
    }
    if plain is not None:
        gains = [float(a.all_sessions) - b.all_sessions for a, b in zip(done, plain, strict=True)]
        numbers["over plain FTS5"] = [mean(gains), *stats.interval(gains)]
    return numbers


def report(told: dict[str, Any]) -> str:
    """The numbers as lines."""
    lines = []
    for name, row in told.items():
        if isinstance(row, list):
            lines.append(f"{name}: median {row[0]:.1f}, p95 {row[1]:.1f}")
            continue
        recall = "" if row["R@10"] is None else f"  R@10 {row['R@10']:.3f}"
        low, high = row["interval"]
        lines.append(
            f"{name}: all@5 {row['all@5']:.3f} [{low:.3f} {high:.3f}]{recall}, n {row['questions']}"
        )
        lines.append("  ceiling of both: {:.3f}, {:.3f}".format(*row["ceiling"]))
        for part in ("kinds", "messages of kinds", "sessions needed"):
            lines.append(f"  by {part}: " + ", ".join(f"{k} {v:.3f}" for k, v in row[part].items()))
        if "over plain FTS5" in row:
            gain, low, high = row["over plain FTS5"]
            lines.append(f"  over whole sessions in FTS5: {gain:+.3f} [{low:+.3f} {high:+.3f}]")
    return "\n".join(lines)
