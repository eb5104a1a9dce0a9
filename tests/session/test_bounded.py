"""A session that never ends costs no more after a thousand compressions than after two hundred
(FR-1, FR-3, FR-4, NFR-1).

Real turns are replayed over and over, each time with other names, paths and rules, into a session
in a SQLite file (`durability="normal"`: what is measured is our work, not the disk's). What is
measured at each compression: tokens of the prompt, time of a turn, what the session holds in
memory, what it reads from its store, bytes of the file for each message. Time is the processor's;
for it the session is copied when it is young, and the copy gets the same turns at the same moments
as the old one, so that whoever else uses the machine is not measured. Goals, pins and the first
instruction are in each prompt word for word.

The sessions are those of COMPACT_DATA, else of the shared folder beside the project.
"""

import gc
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import mean, median
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest

from compact import ContextManager, SQLiteManager
from compact.errors import InvalidTranscript
from compact.messages.formats.known import format_named
from evals import formats
from tests import checker, sizes
from tests.engine.test_real_sessions import FOLDER, NAMED, files

Dict = dict[str, Any]
Step = Sequence[Dict]
SAMPLE = Path(__file__).resolve().parents[2] / "src/compact/cli/sample/harbour.jsonl"
FLAT = 1.2
"""What the last part may cost, of what the second part did."""
PAGE = 32
"""Entries that are read at once: whether one page or two is chance."""
LARGEST_WORDS = 1_000
"""Tokens of a person's message; larger ones are left out, as they would be most of the window."""
FIRST = "Never deploy on a Friday, and ask me before you touch the table berths_2024."
PINS = ("The reader's key has the id reader-7f3a.", "Marina 12 is closed until May.")
GOAL = "Move every booking to the new scheduler."
NEVER_WEIGHED = (type, ModuleType, FunctionType, BuiltinFunctionType)


# --- a conversation without an end ----------------------------------------------------------------


def opening_of(path: Path, most: int, conversation: int | None = None) -> list[Dict]:
    """So many of the first messages of a real session, calls answered, system prompts left out."""
    transcript = formats.read(path, conversation=conversation)
    wire = format_named(transcript.wire)
    messages = [one for m in transcript.messages for one in wire.render([m])]
    messages = [m for m in messages if m["role"] in ("user", "assistant", "tool") and short(m)]
    messages = messages[:most]
    while messages and checker.broken_rules(messages, transcript.wire):
        messages.pop()
    return messages


def short(message: Mapping[str, Any]) -> bool:
    """Whether it is not words that fill the window by themselves, which nobody may shorten."""
    content = message.get("content")
    if isinstance(content, list):
        content = [block for block in content if block.get("type") != "tool_result"]
    words = {"role": "user", "content": content}
    return message["role"] != "user" or checker.prompt_tokens([words]) <= LARGEST_WORDS


def openings(folders: Sequence[str], most: int) -> list[Dict]:
    """The openings of all sessions in some folders; of a file that holds many, of some."""
    messages: list[Dict] = []
    for folder in folders:
        for path in files(folder):
            try:
                messages += opening_of(path, most)
            except InvalidTranscript:
                messages += [m for i in (1, 2, 3) for m in opening_of(path, most, i)]
    return messages


def varied(message: Mapping[str, Any], number: int) -> Dict:
    """The message with ids of its own, and with something new in what it says; pinned it is not,
    as pins that pile up fill any window.
    """
    new = {name: deepcopy(value) for name, value in message.items() if name != "metadata"}
    said = f"\nSee notes/part-{number}.md and PROJ-{number}."
    if new["role"] == "user" and number % 3 == 0:
        said += f" Never rename module_{number}."
    if "id" in new:
        new["id"] = f"{new['id']}-{number}"
    return _renamed(new, said)


def _renamed(new: Dict, said: str) -> Dict:
    if isinstance(new.get("content"), str):
        new["content"] += said
    for block in new["content"] if isinstance(new.get("content"), list) else ():
        if isinstance(block.get("text"), str):
            block["text"] += said
        if block.get("type") == "tool_result" and isinstance(block.get("content"), str):
            block["content"] += said
    return new


def endless(messages: Sequence[Dict]) -> Iterator[Step]:
    """What is appended before each prompt: an answer and what came back, over and over."""
    numbers = count()
    for turn in count():
        step: list[Dict] = []
        for message in messages:
            if message["role"] == "assistant" and step and step[-1]["role"] != "assistant":
                yield step
                step = []
            step.append(_with_ids(varied(message, next(numbers)), f"-{turn}"))
        yield step


def _with_ids(message: Dict, suffix: str) -> Dict:
    """Calls and results of each round have ids of their own."""
    for call in message.get("tool_calls") or ():
        call["id"] += suffix
    if "tool_call_id" in message:
        message["tool_call_id"] += suffix
    for block in message["content"] if isinstance(message.get("content"), list) else ():
        for name in ("id", "tool_use_id"):
            if name in block:
                block[name] += suffix
    return message


# --- measuring ------------------------------------------------------------------------------------


class Counting:
    """A store that counts what it is asked, and how many messages it reads."""

    def __init__(self, store: SQLiteManager) -> None:
        self._store = store
        self.calls = self.entries = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        self.calls += 1
        return method

    def read(self, branch_id: str, start: int, stop: int) -> Any:
        self.calls += 1
        found = self._store.read(branch_id, start, stop)
        self.entries += len(found)
        return found


def weight(root: object, *without: object) -> int:
    """Bytes of all objects that can be reached from one, but for what others hold."""
    seen = {id(sys.modules), *map(id, without)}
    todo, total = [root], 0
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, NEVER_WEIGHED):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        todo += gc.get_referents(each)
    return total


def resident() -> int:
    """Bytes of memory of this process; 0 where nobody says."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


@dataclass(slots=True)
class Cycle:
    """What happened up to a compression since the one before."""

    ordinary: list[float] = field(default_factory=list)
    """Milliseconds of each turn that compressed nothing."""
    compressing: float = 0
    tokens: int = 0
    held: int = 0
    """Bytes in memory but for the notes, which are bounded by caps of their own."""
    notes: int = 0
    resident: int = 0
    messages: int = 0
    """Of the session so far."""
    file: int = 0
    """Bytes that its file uses so far."""
    calls: int = 0
    entries: int = 0


class Endless:
    """A session that is fed, measured and judged."""

    def __init__(self, file: Path, wire: str, window: int) -> None:
        self.file = file
        self.sqlite = SQLiteManager(file, durability="normal")
        self.store = Counting(self.sqlite)
        self.wire = wire
        self.ctx = ContextManager(
            window=window,
            store=self.store,
            session_id="endless",
            format=wire,
            tokenizer="o200k",
            system="You keep a marina's books.",
        )
        if not len(self.ctx.history):
            self.begin()
        self.cycles: list[Cycle] = []
        self.cycle, self.before = Cycle(), (0, 0)

    def begin(self) -> None:
        self.ctx.goals.set([GOAL])
        self.ctx.add_message(role="user", content=FIRST)
        self.ctx.add_message({"role": "user", "content": PINS[0], "metadata": {"pinned": True}})
        self.ctx.pin(self.ctx.add_message(role="user", content=PINS[1]))

    def copied(self, file: Path) -> "Endless":
        """The session as it is now, in a file of its own."""
        self.sqlite.db.pragma("wal_checkpoint(TRUNCATE)")
        shutil.copy(self.file, file)
        return Endless(file, self.wire, self.ctx.window.size)

    def run(self, steps: Iterator[Step], compressions: int) -> None:
        while len(self.cycles) < compressions:
            self.turn(next(steps))

    def turn(self, step: Step) -> None:
        before = self.ctx.compressions
        start = time.process_time()
        self.ctx.add_messages(step)
        prompt = self.ctx.get_context_for_model()
        took = (time.process_time() - start) * 1_000
        cycle = self.cycle
        if self.ctx.compressions == before:
            cycle.ordinary.append(took)
            return
        cycle.compressing = took
        cycle.calls = self.store.calls - self.before[0]
        cycle.entries = self.store.entries - self.before[1]
        self.weigh(cycle, prompt)
        self.judge(prompt)
        self.cycles.append(cycle)
        self.cycle, self.before = Cycle(), (self.store.calls, self.store.entries)

    def weigh(self, cycle: Cycle, prompt: Sequence[Dict]) -> None:
        cycle.tokens = checker.prompt_tokens(prompt)
        cycle.messages = len(self.ctx.history)
        cycle.file = self.bytes_used()
        cycle.resident = resident()
        notes = self.ctx.history.notes
        cycle.held = weight(self.ctx, self.store, self.ctx._session.state.counter, notes)
        cycle.notes = weight(notes, self.store, self.ctx._session.state.counter)

    def bytes_used(self) -> int:
        """Bytes of the file's pages that hold something; it grows by larger steps."""
        pages, free, size = (
            self.sqlite.db.pragma(name) for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def judge(self, prompt: Sequence[Dict]) -> None:
        """It fits, is whole, and says word for word what never leaves."""
        assert checker.prompt_tokens(prompt) <= self.ctx.window.usable
        assert checker.broken_rules(prompt, self.wire) == []
        texts = [text for m in prompt for text in checker.visible(m)]
        texts.append(self.ctx._session.view.context().system_text)
        for words in (FIRST, GOAL, *PINS):
            assert any(words in text for text in texts), f"{len(self.cycles)}: lost {words!r}"


Figures = Mapping[str, float]


def figures(cycles: Sequence[Cycle], before: Cycle) -> Figures:
    """Medians of some cycles, and means of what is counted; `before` is the one before them."""
    new = cycles[-1].messages - before.messages
    return {
        "tokens": median(c.tokens for c in cycles),
        "ordinary ms": median(t for c in cycles for t in c.ordinary),
        "compressing ms": median(c.compressing for c in cycles),
        "held kB": median(c.held for c in cycles) / 1_000,
        "notes kB": max(c.notes for c in cycles) / 1_000,
        "resident MB": median(c.resident for c in cycles) / 1e6,
        "file B/message": (cycles[-1].file - before.file) / new,
        "store calls": mean(c.calls for c in cycles),
        "entries read": mean(c.entries for c in cycles),
        "messages": new,
    }


def parts_of(cycles: Sequence[Cycle], parts: int) -> list[Figures]:
    size = len(cycles) // parts
    return [
        figures(cycles[i : i + size], cycles[i - 1] if i else Cycle())
        for i in range(0, parts * size, size)
    ]


def told(parts: Sequence[Figures]) -> str:
    rows = [" ".join(f"{name:>15}" for name in parts[0])]
    rows += [" ".join(f"{value:15,.2f}" for value in part.values()) for part in parts]
    return "\n".join(rows)


def grown(parts: Sequence[Figures], names: Sequence[str]) -> list[str]:
    """What grew from the second part to the last. The index of words merges its segments once in a
    few parts, so that a file is compared over two parts at each end.
    """
    found = []
    for name in names:
        many = 2 if name == "file B/message" and len(parts) > 4 else 1
        second = statistics.fmean(part[name] for part in parts[1 : 1 + many])
        last = statistics.fmean(part[name] for part in parts[-many:])
        if last > FLAT * second + (PAGE if name == "entries read" else 0):
            found.append(f"{name}: {second:,.2f} became {last:,.2f}")
    return found


# --- the sessions ---------------------------------------------------------------------------------

REAL = {
    "anthropic": ("claude_code_sessions",),
    "chat_completions": (
        "tau_bench",
        "tau2_bench",
        "mini_swe_agent_gemini3",
        "swe_agent",
        "longmemeval_subset",
    ),
}
"""Wire format → folders of real sessions."""
MOST_NOTES = 8_000
"""Kilobytes that the notes of a session may take, however long it is."""
ASKED = ("tokens", "file B/message", "store calls", "entries read")
"""They follow the turns as well: in the long run they are compared over the same turns, too."""
SPACE = ("held kB", "resident MB", *ASKED)
TENTH = 100
"""A tenth of the compressions of the long run."""
TIME = ("ordinary ms", "compressing ms")


@pytest.mark.slow
def test_sixty_compressions_cost_what_the_first_ones_did(tmp_path, capsys):
    """FR-1, NFR-1: the example session over and over; its last fifth beside its second. Seconds are
    for the long run, here calls and entries are counted."""
    session = Endless(tmp_path / "endless.db", "chat_completions", 8_192)
    session.run(endless(opening_of(SAMPLE, 110)), 60)
    parts = parts_of(session.cycles, 5)
    with capsys.disabled():
        print("\n" + told(parts))
    assert grown(parts, SPACE) == []
    assert parts[-1]["notes kB"] < MOST_NOTES


@sizes.at_night
@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("wire", REAL)
def test_a_thousand_compressions_cost_what_the_first_ones_did(wire, tmp_path, capsys):
    """FR-1, NFR-1: real turns; the last tenth of the compressions beside the second one."""
    if NAMED is None and not FOLDER.is_dir():
        pytest.skip("no real conversations here: set COMPACT_DATA to their folder")
    messages = openings(REAL[wire], 40)
    assert len(messages) > 200, f"too few conversations in {FOLDER}"
    steps = endless(messages)
    old = Endless(tmp_path / "old.db", wire, 8_192)
    old.run(steps, TENTH)
    young = old.copied(tmp_path / "young.db")
    old.run(steps, 9 * TENTH)
    last_tenth_beside_second(young, old, steps)
    parts = parts_of(old.cycles[: 10 * TENTH], 10)
    beside = [figures(each.cycles[-TENTH:], each.cycles[-TENTH - 1]) for each in (young, old)]
    with capsys.disabled():
        print(f"\n{wire}, medians of each tenth\n{told(parts)}")
        print(f"the second tenth again, beside the last\n{told(beside)}")
    assert grown(parts, SPACE) == []
    assert parts[-1]["notes kB"] < MOST_NOTES
    assert grown([{}, *beside], (*ASKED, *TIME)) == []


def last_tenth_beside_second(young: Endless, old: Endless, steps: Iterator[Step]) -> None:
    """Give two sessions the same turns, now one first and now the other, for a tenth of all
    compressions of each and one more.
    """
    for number, step in enumerate(steps):
        for session in (young, old) if number % 2 else (old, young):
            session.turn(step)
        if len(young.cycles) > TENTH and len(old.cycles) > 10 * TENTH:
            return
