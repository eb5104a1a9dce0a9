"""Sessions in a store: what opening one and serving its next turn costs, whatever its length; a
turn; a prompt counted again before it is sent; a compression of a full window, and ageing; search.

Long sessions are made quickly: tiny messages in large batches, one checkpoint that stands in for
them, then 300 ordinary messages served turn by turn, so that the window was compressed as any other
one. The end is the same at every length. Wall times, as a store waits for the disk.

The floors: to open a session, bare apsw opens the file and reads as many of its last messages; of a
turn, the new texts are counted and bare apsw appends the row; of what counts or compresses, one
tokenizer pass over the messages; of a search, the bare query of the index.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from bench.counting import ColdEstimator, tokenizer_pass, tokens_of
from bench.histories import Record, history
from bench.measuring import Check, Setting, Spread, Table, child, number, wall_ms
from bench.store_ours import NAME, Bare, last_of, opened
from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.messages.checkpoints import Checkpoint, Span, Summary, SummaryRequest
from compact.messages.formats.known import format_named
from compact.messages.sessions import PERSON, CheckpointRef, Entry, Projection, Step
from compact.messages.tokens import TokenCounter
from compact.session.context_manager import ContextManager
from compact.store.sqlite.store import SQLiteManager
from compact.testing import ScriptedModel

SHORT, LONG = 1_000, 1_000_000
TURNED = (2_000, 20_000, 100_000)
WINDOW, LARGE = 8_192, 128_000
TAIL = 300
BATCH = 20_000
IMPORTED = 20_000
LOADS, TURNS, QUERIES = 15, 300, 11
SAME = 1.5
BLOCK = 50
"""Turns that make one ratio to the floor."""
MOST_VALIDATING, MOST_COMPRESSING, MOST_AGEING = 5.8, 115.0, 58.0
"""Most tokenizer passes: 100 ms, 2 s and 1 s, where one over 128,000 tokens takes 17.2 ms (half of
the one that RESULTS.md has of 258,800).
"""
QUESTIONS = {
    "a word of one message": "note{}",
    "two words, one of them rare": "gate kestrel",
    "words of every message": "all is well at the gate",
}
RARE = 1_000
"""A message in so many names the kestrel."""


Run = TypeVar("Run")


def measure(setting: Setting) -> list[Table]:
    """All of it; with `--quick` at 100,000 messages in the place of a million."""
    long = TURNED[-1] if setting.quick else LONG
    with tempfile.TemporaryDirectory(prefix="sessions") as named:
        folder = Path(named)
        files = {size: folder / f"{size}.db" for size in dict.fromkeys((SHORT, *TURNED, long))}
        built = {size: build(file, size) for size, file in files.items()}
        return [
            _loading({size: files[size] for size in (SHORT, long)}, built, setting),
            _turns({size: files[size] for size in TURNED}),
            _checking(setting),
            _compressing(setting),
            _ageing(setting),
            _recall({size: files[size] for size in (TURNED[0], TURNED[1], long)}),
        ]


# --- long sessions --------------------------------------------------------------------------------


def build(file: Path, size: int) -> float:
    """A session of so many messages; the seconds it took."""
    started = time.perf_counter()
    covered = size - TAIL
    wire = format_named("chat_completions")
    with opened(file) as store:
        for start in range(0, covered, BATCH):
            stop = min(start + BATCH, covered)
            entries = [
                Entry(wire.parse(_tiny(at), at), 16, 0 if at % 2 else PERSON)
                for at in range(start, stop)
            ]
            store.append(NAME, entries, expected=start)
        store.commit(_covering(covered))
        manager = session(store)
        for message in history(TAIL + 1)[1:]:
            manager.add_message(message)
            manager.get_context_for_model()
    return time.perf_counter() - started


def _tiny(at: int) -> Record:
    named = " The kestrel is back." if at % RARE == RARE // 2 else ""
    text = f"Note{at}: all is well at gate {at % 97}.{named}"
    return {"role": "assistant" if at % 2 else "user", "content": text}


def _covering(messages: int) -> Step:
    """A compression that left one checkpoint of everything so far."""
    span = Span(first=0, last=messages - 1, messages=messages, tokens=16 * messages)
    summary = "The gates were looked at one by one, and all was well."
    checkpoint = Checkpoint(id="ck-000000000001", span=span, summary=summary, token_count=60)
    projection = Projection(
        window=WINDOW,
        number=1,
        at=messages,
        cut=messages,
        pieces=(CheckpointRef(checkpoint.id),),
        checkpoints=(checkpoint,),
        tokens=60,
    )
    return Step(
        kind="compress",
        session_id=NAME,
        branch_id=NAME,
        window=WINDOW,
        base=0,
        at=messages,
        projection=projection,
    )


def session(store: SQLiteManager | Path, window: int = WINDOW) -> ContextManager:
    """The session, opened by a counter that has counted nothing yet."""
    return ContextManager(window=window, store=store, session_id=NAME, tokenizer=ColdEstimator())


# --- opening and the next turn --------------------------------------------------------------------


def _loading(files: dict[int, Path], built: dict[int, float], setting: Setting) -> Table:
    table = Table(
        "Opening a session and serving its next turn, wall ms",
        ("messages", "fresh process: open", "its turn", "both", "in one process: both",
         "÷ floor", "rows that SQL gave", "messages read", "in the window", "file, MB"),
        notes=[
            "A turn is add_message + get_context_for_model, window 8,192. Fresh processes have "
            "imported everything and served a turn of another session. Made in "
            + ", ".join(f"{built[size]:.0f} s ({size:,} messages)" for size in files) + "."
        ],
    )  # fmt: skip
    fresh: dict[int, list[dict[str, Any]]] = {size: [] for size in files}
    within: dict[int, list[float]] = {size: [] for size in files}
    floor: dict[int, list[float]] = {size: [] for size in files}
    for _ in range(setting.runs):
        for size, file in files.items():
            fresh[size].append(child("bench.sessions", "load", file))
    for turn in range(LOADS + 1):
        for size, file in files.items():
            *taken, shown = load(file)
            if turn:
                within[size].append(sum(taken))
                floor[size].append(wall_ms(partial(_read_bare, file, shown)))
    for size, file in files.items():
        rows, read, shown = rows_read(file)
        spreads = [
            Spread(tuple(of(run) for run in fresh[size]))
            for of in (_open_ms, _turn_ms, lambda run: _open_ms(run) + _turn_ms(run))
        ]
        table.rows.append(
            (
                f"{size:,}",
                *(spread.text() for spread in spreads),
                (both := Spread(tuple(within[size]))).text(),
                both.over(Spread(tuple(floor[size]))).text(),
                f"{rows:,}",
                f"{read:,}",
                f"{shown:,}",
                number(file.stat().st_size / 1e6),
            )
        )
    short, long = files
    pairs = zip(fresh[short], fresh[long], strict=True)
    ratio = statistics.median(
        (_open_ms(b) + _turn_ms(b)) / (_open_ms(a) + _turn_ms(a)) for a, b in pairs
    )
    what = f"open + next turn at {long:,} ÷ at {short:,} messages"
    table.checks.append(Check(f"{what}, fresh processes", ratio, SAME))
    ratio = statistics.median(b / a for a, b in zip(within[short], within[long], strict=True))
    table.checks.append(Check(f"{what}, one process", ratio, SAME))
    return table


def _read_bare(file: Path, count: int) -> None:
    with closing(apsw.Connection(str(file))) as db:
        last_of(db, count)


def _open_ms(run: dict[str, Any]) -> float:
    return float(run["open"])


def _turn_ms(run: dict[str, Any]) -> float:
    return float(run["turn"])


def load(file: Path) -> tuple[float, float, int]:
    """Milliseconds of opening and of the next turn, and how many messages the prompt shows."""
    started = time.perf_counter()
    manager = session(file)
    ready = time.perf_counter()
    manager.add_message({"role": "user", "content": "Where do we stand?"})
    manager.get_context_for_model()
    done = time.perf_counter()
    shown = len(manager.active_context().messages)
    manager.close()
    return (ready - started) * 1e3, (done - ready) * 1e3, shown


def rows_read(file: Path) -> tuple[int, int, int]:
    """Rows that SQL gave while the session was opened and served a turn, those of them that are
    messages, and how many messages the prompt shows.
    """
    counts = {"rows": 0, "messages": 0}

    def row(event: dict[str, Any]) -> None:
        counts["rows"] += 1
        counts["messages"] += "payload" in (event.get("sql") or "") and "INSERT" not in event["sql"]

    def watch(connection: apsw.Connection) -> None:
        texts: dict[int, str] = {}

        def traced(event: dict[str, Any]) -> None:
            if event["code"] == apsw.SQLITE_TRACE_STMT:
                texts[event["id"]] = event["sql"]
            else:
                row({"sql": texts.get(event["id"], "")})

        connection.trace_v2(apsw.SQLITE_TRACE_ROW | apsw.SQLITE_TRACE_STMT, traced)

    with _connections(watch):
        shown = load(file)[2]
    return counts["rows"], counts["messages"], shown


@contextmanager
def _connections(watch: Callable[[apsw.Connection], None]) -> Iterator[None]:
    apsw.connection_hooks.append(watch)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(watch)


def _load_alone(file: str) -> dict[str, float]:
    """As a fresh process does it, after another session has warmed imports and vocabulary."""
    with tempfile.TemporaryDirectory() as folder:
        warm = Path(folder) / "warm.db"
        opened(warm).close()
        load(warm)
    open_ms, turn_ms, _ = load(Path(file))
    return {"open": open_ms, "turn": turn_ms}


# --- turns ----------------------------------------------------------------------------------------


def _turns(files: dict[int, Path]) -> Table:
    table = Table(
        f"{TURNS} turns of an open session in a store, wall ms, window {WINDOW:,}",
        ("messages", "mean turn", "÷ floor", "median turn", "of it add_message", "of it the prompt",
         "largest turn"),
        notes=[
            "Every append is on the disk (synchronous = FULL). Sessions and the floor take turns; "
            f"ratios are those of {BLOCK} turns together."
        ],
    )  # fmt: skip
    messages = [m for m in history(TURNS + 1) if m["role"] != "system"][:TURNS]
    managers = {size: session(file) for size, file in files.items()}
    taken: dict[int, list[tuple[float, float]]] = {size: [] for size in files}
    floor: list[float] = []
    folder = tempfile.TemporaryDirectory()
    bare = Bare(Path(folder.name))
    for message, row in zip(messages, bare.prepared(messages), strict=True):
        floor.append(wall_ms(partial(tokens_of, message)) + wall_ms(partial(bare.append, row)))
        for size, manager in managers.items():
            started = time.perf_counter()
            manager.add_message(message)
            added = time.perf_counter()
            manager.get_context_for_model()
            done = time.perf_counter()
            taken[size].append(((added - started) * 1e3, (done - added) * 1e3))
    bare.close()
    folder.cleanup()
    least = Spread(_in_blocks(floor))
    for size, manager in managers.items():
        manager.close()
        both = [a + b for a, b in taken[size]]
        figures = (
            statistics.median(both),
            statistics.median(a for a, _ in taken[size]),
            statistics.median(b for _, b in taken[size]),
            max(both),
        )
        times = Spread(_in_blocks(both)).over(least).text()
        mean = number(statistics.mean(both))
        table.rows.append((f"{size:,}", mean, times, *map(number, figures)))
    short, *_, long = files
    ratio = statistics.median(
        sum(b) / sum(a) for a, b in zip(taken[short], taken[long], strict=True)
    )
    table.checks.append(
        Check(f"a turn, pair by pair, at {long:,} ÷ at {short:,} messages", ratio, SAME)
    )
    return table


def _in_blocks(taken: Sequence[float]) -> tuple[float, ...]:
    return tuple(sum(taken[at : at + BLOCK]) for at in range(0, len(taken), BLOCK))


# --- a full window --------------------------------------------------------------------------------


def filling(tokens: int, seed: int = 1, *, tools: bool = True) -> list[Record]:
    """Messages of about so many tokens, but not more; without tools, words alone."""
    wire, counter = format_named("chat_completions"), TokenCounter(ColdEstimator())
    taken: list[Record] = []
    tokens -= counter.framing.priming
    for at, message in enumerate(history(tokens // (200 if tools else 20), seed)):
        if not tools and (message["role"] == "tool" or message.get("tool_calls")):
            continue
        tokens -= counter.message(wire.parse(message, at))
        if tokens < 0:
            break
        taken.append(message)
    while taken[-1]["role"] == "assistant" and taken[-1].get("tool_calls"):
        taken.pop()
    return taken


def validating(folder: Path, messages: Sequence[Record]) -> tuple[float, float, float, int]:
    """Milliseconds of counting a whole prompt again as `send` does, every text for the first time
    and a second time; of all of `send`; and the prompt's tokens.
    """
    file = folder / "full.db"
    if not file.exists():
        with session(file, 2 * LARGE) as manager:
            manager.add_messages(messages)
    manager = session(file, 2 * LARGE)  # with counts of the store, and a counter without any
    context = manager.active_context()
    count = manager._session.sender.count
    manager._session.state.counter = counter = TokenCounter(ColdEstimator())
    times = []
    for _ in range(2):
        started = time.perf_counter()
        tokens = count(context)
        times.append((time.perf_counter() - started) * 1e3)
    assert counter.text("x") == 1
    manager._session.state.counter = TokenCounter(ColdEstimator())
    started = time.perf_counter()
    manager.send(ScriptedModel("Yes."))
    sent = (time.perf_counter() - started) * 1e3
    manager.close()
    return times[0], times[1], sent, tokens


def _checking(setting: Setting) -> Table:
    messages = filling(LARGE)
    with tempfile.TemporaryDirectory() as folder:
        floor, runs = _beside_a_pass(
            messages, [partial(validating, Path(folder), messages)] * setting.runs
        )
    spreads = [Spread(tuple(run[i] for run in runs)) for i in range(3)]
    ratios = [spread.over(floor) for spread in spreads]
    table = Table(
        f"A prompt of {runs[0][3]:,} tokens counted as a whole before it is sent, wall ms",
        ("what", "figure", "÷ tokenizer pass"),
    )
    whats = (
        "every text counted for the first time",
        "texts counted before",
        "send() with a model that answers at once, texts uncounted",
    )
    for what, spread, ratio in zip(whats, spreads, ratios, strict=True):
        table.rows.append((what, spread.text(), ratio.text()))
    for what, ratio in (("validation", ratios[0]), ("send()", ratios[2])):
        what = f"{what}, cold ÷ tokenizer pass"
        table.checks.append(Check(what, ratio.median, MOST_VALIDATING))
    return table


def _beside_a_pass(
    messages: Sequence[Record], works: Sequence[Callable[[], Run]]
) -> tuple[Spread, list[Run]]:
    """Milliseconds of a tokenizer pass over the messages before each work, and what they gave."""
    floor, found = [], []
    for work in works:
        floor.append(wall_ms(partial(tokenizer_pass, messages)))
        found.append(work())
    return Spread(tuple(floor)), found


def compressing(
    messages: Sequence[Record], window: int = LARGE, store: Path | None = None
) -> tuple[float, int, int, int]:
    """Milliseconds of the first compression of a session, its tokens before and after, and how many
    messages a summary stands in for.
    """
    manager = ContextManager(window=window, store=store, session_id=NAME, tokenizer=ColdEstimator())
    manager.add_messages(messages)
    before = manager.budget.used_tokens
    started = time.perf_counter()
    manager.get_context_for_model()
    taken = (time.perf_counter() - started) * 1e3
    assert manager.last_plan is not None
    after, covered = manager.budget.used_tokens, manager.last_plan.covered
    manager.close()
    return taken, before, after, covered


def _compressing(setting: Setting) -> Table:
    table = Table(
        "The first compression of a session, wall ms",
        ("session", "kept", "compression", "÷ tokenizer pass", "tokens before", "tokens after",
         "messages summarized"),
        notes=["Messages were counted as they were added; the extractive summarizer writes."],
    )  # fmt: skip
    full = {"a full window": filling(LARGE), "the same, words alone": filling(LARGE, tools=False)}
    with tempfile.TemporaryDirectory() as folder:
        for what, messages in full.items():
            for name, on_disk in (("in memory", False), ("in a store", True)):
                files = [
                    Path(folder) / f"{what}{i}.db" if on_disk else None for i in range(setting.runs)
                ]
                works = [partial(compressing, messages, store=file) for file in files]
                found = _beside_a_pass(messages, works)
                ratio = _compression_row(table, f"{what}, {LARGE:,} tokens", name, *found)
                limit = f"compression of {what}, {name} ÷ tokenizer pass"
                table.checks.append(Check(limit, ratio.median, MOST_COMPRESSING))
    imported = [_tiny(at) for at in range(IMPORTED)]
    what = f"{IMPORTED:,} tiny messages added at once, window {WINDOW:,}"
    found = _beside_a_pass(imported, [partial(compressing, imported, WINDOW)] * 3)
    _compression_row(table, what, "in memory", *found)
    return table


def _compression_row(
    table: Table, what: str, name: str, floor: Spread, runs: Sequence[tuple[float, int, int, int]]
) -> Spread:
    """The compressions ÷ the floor."""
    taken = Spread(tuple(run[0] for run in runs))
    ratio = taken.over(floor)
    figures = (f"{figure:,}" for figure in runs[0][1:])
    table.rows.append((what, name, taken.text(), ratio.text(), *figures))
    return ratio


class Watched:
    """The extractive summarizer, timed: what it wrote anew, and what it made of checkpoints."""

    name = "extractive"
    waits = False

    def __init__(self) -> None:
        self._inner = ExtractiveSummarizer(TokenCounter(ColdEstimator()))
        self.new = self.aged = 0.0
        self.rewrites = 0

    async def summarize(self, request: SummaryRequest) -> Summary:
        started = time.perf_counter()
        try:
            return await self._inner.summarize(request)
        finally:
            taken = (time.perf_counter() - started) * 1e3
            if request.level == "detailed":
                self.new += taken
            else:
                self.aged += taken
                self.rewrites += 1


def _ageing(setting: Setting) -> Table:
    table = Table(
        "Compressions of a long session, wall ms",
        ("window", "compressions", "without ageing", "with ageing", "all ÷ tokenizer pass", "most",
         "writing the new one", "writing those that age", "most of it"),
        notes=[
            "Ageing: checkpoints rewritten at a shorter level; only compressions that rewrote one "
            "or more are in its columns. Medians (smallest–largest). After each compression there "
            "is a tokenizer pass over a full window."
        ],
    )  # fmt: skip
    for window, size in ((WINDOW, 2_000), (LARGE, 5_000 if setting.quick else 12_000)):
        rows = _compressions(window, history(size), filling(window))
        floor = Spread(tuple(row["pass"] for row in rows))
        ratio = Spread(tuple(row["ms"] for row in rows)).over(floor)
        aged_ratio = Spread(tuple(row["aged"] for row in rows)).over(floor)
        fresh = [row["ms"] for row in rows if not row["rewrites"]]
        aged = [row for row in rows if row["rewrites"]]
        spreads = [
            Spread(tuple(values)) if values else None
            for values in (
                fresh,
                [row["ms"] for row in aged],
                [row["new"] for row in rows],
                [row["aged"] for row in aged],
            )
        ]
        texts = [spread.text() if spread else "none" for spread in spreads]
        most, most_aged = max(row["ms"] for row in rows), max(row["aged"] for row in rows)
        cells = (*texts[:2], ratio.text(), number(most), *texts[2:], number(most_aged))
        table.rows.append((f"{window:,}", f"{len(rows)}", *cells))
        what = f"a compression ÷ tokenizer pass, window {window:,}, most"
        table.checks.append(Check(what, max(ratio.values), MOST_COMPRESSING))
        what = f"ageing ÷ tokenizer pass, window {window:,}, most"
        table.checks.append(Check(what, max(aged_ratio.values), MOST_AGEING))
    return table


def _compressions(
    window: int, messages: Sequence[Record], full: Sequence[Record]
) -> list[dict[str, float]]:
    """Every compression of a session: its time, what was written anew, what for ageing; and a
    tokenizer pass over a full window.
    """
    watched = Watched()
    manager = ContextManager(window=window, summarizer=watched, tokenizer=ColdEstimator())
    rows: list[dict[str, float]] = []
    plan = None
    for message in messages:
        manager.add_message(message)
        watched.new = watched.aged = 0.0
        watched.rewrites = 0
        started = time.perf_counter()
        manager.get_context_for_model()
        taken = (time.perf_counter() - started) * 1e3
        if manager.last_plan is not plan:
            plan = manager.last_plan
            rows.append(
                {
                    "ms": taken,
                    "new": watched.new,
                    "aged": watched.aged,
                    "rewrites": watched.rewrites,
                    "pass": wall_ms(partial(tokenizer_pass, full)),
                }
            )
    return rows


# --- search ---------------------------------------------------------------------------------------


def _recall(files: dict[int, Path]) -> Table:
    table = Table(
        "recall(), wall ms",
        ("messages", "question", "a question", "÷ floor", "found",
         "first one: indexing what is missing, s", "file, MB"),
        notes=[f"Medians of {QUERIES} questions, five answers each, messages read included."],
    )  # fmt: skip
    for size, file in files.items():
        with opened(file) as store:
            manager = session(store)
            started = time.perf_counter()
            manager.recall("gate")
            first = time.perf_counter() - started
            store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            size_of_file = number(file.stat().st_size / 1e6)
            for what, text in QUESTIONS.items():
                taken, floor = [], []
                for i in range(QUERIES):
                    asked = text.format(size // 3 + i)
                    floor.append(wall_ms(partial(_look_up_bare, store.db, asked)))
                    started = time.perf_counter()
                    found = manager.recall(asked, limit=5)
                    taken.append((time.perf_counter() - started) * 1e3)
                each = Spread(tuple(taken))
                ratio = each.over(Spread(tuple(floor))).text()
                row = (f"{size:,}", what, each.text(), ratio, f"{len(found)}")
                table.rows.append((*row, number(first), size_of_file))
    return table


def _look_up_bare(db: apsw.Connection, words: str) -> None:
    sql = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words) LIMIT 5"
    db.execute(sql, (" OR ".join(words.split()),)).fetchall()


if __name__ == "__main__":
    print(json.dumps({"load": _load_alone}[sys.argv[1]](sys.argv[2])))
