"""What is still known after three years: generated stores of one person's talk with a companion.

A thousand conversations of chatter hold sixty facts that are said once, of which fifteen are
restated later with another value; ten matters are withdrawn and five barred. Chatter and questions
share their words. There are two vocabularies, written by hand: cases of `look` may be read, of
`score` there are only sums.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from statistics import mean, median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

from compact import CompactConfig, MemoryManager
from compact.messages.messages import Message
from compact.messages.protocols import Embedder
from evals import memory, memory_data
from evals.archived import swept
from evals.memory_data import Asked, Talk
from evals.recalling import prompted
from evals.split import HALVES, Half

VOCABULARIES = Path(__file__).parent / "companions"
END, DAYS = datetime(2026, 6, 30, 20, tzinfo=UTC), 3 * 365
CONVERSATIONS = 1_000
EXCHANGES, LONG_ONE, ENDLESS = (5, 13), 100, 300
"""Of an ordinary conversation (from, to), of each 125th, and of the one that lasts half a year."""
ENDLESS_AT, ENDLESS_DAYS = 437, 183
FIRST = 5
ABOUT, AMONG_FACTS, ODD, OWN_TOPIC = 0.003, 0.05, 0.008, 0.7
"""The shares of exchanges that have most words of some question (also where facts are told), and
of those that use one such word for something else; and of the first kind, of those on the
conversation's own topic. Chosen once, so that plain FTS5 finds about forty of sixty on `look`."""
WITHIN = ((150, 390), (15, 300), (1, 200))
"""How many conversations after the statement a fact is restated, withdrawn, barred."""
KINDS = ("facts", "withdrawn", "barred")


class Matter(NamedTuple):
    """What a person tells, and what becomes of it. Values and signs are patterns."""

    kind: str
    on: str
    said: str
    ask: str
    value: str
    echo: str = ""
    """What the assistant answers; else something general."""
    later: str = ""
    """How it is restated, withdrawn or barred."""
    later_echo: str = ""
    now: str = ""
    """The value that was said later, or words of the withdrawal or the rule."""


@dataclass(frozen=True)
class Vocabulary:
    """All that one half is made of."""

    matters: Sequence[Matter]
    voices: Sequence[Mapping[str, Any]]
    slots: Mapping[str, Sequence[str]]
    remarks: Sequence[str]
    """Small talk and requests that ask for nothing that was told."""
    personal: Sequence[str]
    """Questions of the person's life on what was never told."""


def vocabulary(half: Half) -> Vocabulary:
    """A half's data file."""
    told = json.loads((VOCABULARIES / f"{half}.json").read_text(encoding="utf-8"))
    renamed = {"off": "later", "rule": "later", "sign": "now"}
    matters = [
        Matter(kind=kind, **{renamed.get(name, name): text for name, text in row.items()})
        for kind in KINDS
        for row in told.pop(kind)
    ]
    return Vocabulary(matters, **told)


# --- the store ------------------------------------------------------------------------------------


class Told(NamedTuple):
    """A statement and the answer to it."""

    on: str
    said: str
    echo: str


class _Writer:
    """Writes conversations; the same for the same seed."""

    def __init__(self, words: Vocabulary, half: Half) -> None:
        self._words, self._random = words, Random(f"companion {half}")
        needles = (n for m in words.matters for n in (m.value, m.now) if n)
        self._told = pattern("|".join(needles))

    def sessions(self) -> dict[str, list[Message]]:
        draw, voices = self._random, self._words.voices
        begun = sorted(draw.uniform(0, DAYS) for _ in range(CONVERSATIONS))
        shares = [voice["share"] for voice in voices]
        kinds = []
        for _ in begun:
            voice = draw.choices(voices, shares)[0]
            kinds.append((voice, draw.choice(list(voice["exchanges"]))))
        told = self._placed([topic for _, topic in kinds])
        return {
            f"c{i:03}": self._conversation(i, *kinds[i], begun[i], told.get(i, []))
            for i in range(CONVERSATIONS)
        }

    def _placed(self, topics: Sequence[str]) -> dict[int, list[Told]]:
        """Which conversation holds which statements: one of the same topic for each second."""
        places: dict[int, list[Told]] = {}
        draw = self._random
        spoken = {t: v for v in self._words.voices for t in v["exchanges"]}
        for number, matter in enumerate(self._words.matters):

            def free(low: int, high: int, on: str = matter.on, same: bool = number % 2 == 0) -> int:
                fits = [
                    i
                    for i in range(low, min(high, CONVERSATIONS))
                    if i not in places and not is_long(i) and spoken[topics[i]] is spoken[on]
                ]
                near = [i for i in fits if (topics[i] == on) == same]
                return draw.choice(near or fits)

            at = free(20, 600 if matter.later else 980)
            if not matter.later and number % 6 == 0:
                at = (ENDLESS_AT, 250, 750, 500)[number // 6 % 4]
            places.setdefault(at, []).append(Told(matter.on, matter.said, matter.echo))
            if matter.later:
                low, high = WITHIN[KINDS.index(matter.kind)]
                at = free(at + low, at + high)
                places[at] = [Told(matter.on, matter.later, matter.later_echo)]
        return places

    def _conversation(
        self, number: int, voice: Mapping[str, Any], topic: str, begun: float, told: Sequence[Told]
    ) -> list[Message]:
        draw, endless = self._random, number == ENDLESS_AT
        count = ENDLESS if endless else LONG_ONE if is_long(number) else draw.randint(*EXCHANGES)
        about = AMONG_FACTS if told and not is_long(number) else ABOUT
        places = dict(zip(draw.sample(range(1, count), len(told)), told, strict=True))
        said: list[Message] = []
        at = END - timedelta(days=DAYS - begun)
        for place in range(count):
            for role, text in zip(
                ("user", "assistant"),
                self._exchange(voice, topic, about, places.get(place)),
                strict=True,
            ):
                said.append(
                    Message(id=f"c{number:03}-{len(said)}", role=role, content=text, timestamp=at)
                )
                at += timedelta(seconds=draw.randint(15, 200))
            if endless:
                at += timedelta(days=draw.uniform(0.2, 1.8) * ENDLESS_DAYS / ENDLESS)
        return said

    def _exchange(
        self, voice: Mapping[str, Any], topic: str, about: float, told: Told | None
    ) -> tuple[str, str]:
        """Chatter that names no value of a matter; or a statement, alone or in the same breath."""
        draw = self._random
        while True:
            sort = draw.choices(("exchanges", "odd", "idle"), (about, ODD, 1 - about - ODD))[0]
            near = sort == "exchanges" and draw.random() < OWN_TOPIC
            every = voice[sort]
            asked, answer = draw.choice(every[topic if near else draw.choice(list(every))])
            filled = partial(self._filled, bound={})
            asked = filled(draw.choice(voice["user"]).replace("{x}", asked))
            answer = filled(draw.choice(voice["assistant"]).replace("{x}", answer))
            reply = filled(draw.choice(voice["reply"]))
            if not self._told.search(f"{asked}\n{answer}\n{reply}"):
                break
        if told is None:
            return asked, answer
        said = f"{asked} {told.said}" if draw.random() < 1 / 3 else told.said
        return said, told.echo or reply

    def _filled(self, text: str, bound: dict[str, str]) -> str:
        def word(found: re.Match[str]) -> str:
            if found[1] not in bound:
                bound[found[1]] = self._filled(
                    self._random.choice(self._words.slots[found[1]]), bound
                )
            return bound[found[1]]

        return re.sub(r"\{(\w+)\}", word, text)


def is_long(number: int) -> bool:
    """Whether a conversation is longer than a sitting."""
    return number == ENDLESS_AT or number % 125 == 0


def generated(half: Half) -> tuple[Talk, Vocabulary]:
    """Three years of a half, and what it is made of."""
    words = vocabulary(half)
    none: frozenset[str] = frozenset()
    asked = [Asked(m.ask, m.kind, none, none) for m in words.matters]
    return Talk(half, _Writer(words, half).sessions(), asked), words


def pattern(needles: str) -> re.Pattern[str]:
    """Finds any of the needles as whole words, in any case."""
    return re.compile(rf"(?<!\w)(?:{needles})(?!\w)", re.IGNORECASE)


# --- what is shown --------------------------------------------------------------------------------


class Shown(NamedTuple):
    """What one matter's question brings."""

    matter: Matter
    found: Sequence[str]
    """The texts of the first hits."""
    quoted: Sequence[str]
    """Lines of the new session's prompt."""


DOORS: dict[str, Callable[[Shown], Sequence[str]]] = {
    "search": lambda one: one.found,
    "recall": lambda one: one.quoted,
}


class State(NamedTuple):
    """All that is measured at one age."""

    name: str
    shown: Sequence[Shown]
    needless: Mapping[str, float]
    ms: Mapping[str, float]
    bytes: int
    """Of the database and the archive."""
    archived: int
    """Conversations."""


def where(needles: str, texts: Sequence[str]) -> float:
    """The place of the first text that shows one of the needles; infinite if there is none."""
    told = pattern(needles)
    return next((float(i) for i, text in enumerate(texts) if told.search(text)), float("inf"))


def is_missed(one: Shown, texts: Sequence[str]) -> bool:
    """Whether a fact's value is missing; or its old one stands alone or first; or a matter stands
    without what ended it.
    """
    first, last = (where(n, texts) for n in (one.matter.value, one.matter.now or one.matter.value))
    if one.matter.kind == "facts":
        return last == float("inf") or first < last
    return first < last == float("inf")


def counted(state: State) -> dict[str, float]:
    """A state's rows."""
    rows: dict[str, float] = {}
    facts = [one for one in state.shown if one.matter.kind == "facts"]
    for door, texts in DOORS.items():
        places = [
            (where(s.matter.value, texts(s)), where(s.matter.now or s.matter.value, texts(s)))
            for s in facts
        ]
        pairs = [pair for pair, s in zip(places, facts, strict=True) if s.matter.now]
        none = float("inf")
        rows[f"{door}: current value ({len(places)})"] = sum(new < none for _, new in places)
        rows[f"{door}: updated, new shown ({len(pairs)})"] = sum(new < none for _, new in pairs)
        rows[f"{door}: updated, old without new"] = sum(old < new == none for old, new in pairs)
        rows[f"{door}: updated, old before new"] = sum(old < new < none for old, new in pairs)
        for kind in KINDS[1:] if door == "recall" else KINDS[1:2]:
            own = [s for s in state.shown if s.matter.kind == kind]
            rows[f"{door}: {kind}, without its end ({len(own)})"] = sum(
                is_missed(s, texts(s)) for s in own
            )
    rows |= {f"needless recall, {name}, %": 100 * n for name, n in state.needless.items()}
    rows |= {f"ms a {name}, median": ms for name, ms in state.ms.items()}
    rows["conversations in the archive"] = state.archived
    return rows | {"MB of database and archive": state.bytes / 1e6}


def plain(talk: Talk, words: Vocabulary) -> list[Shown]:
    """What plain FTS5 finds first."""
    texts = {m.id: m.text for messages in talk.sessions.values() for m in messages}
    found = memory.by_fts5([talk], whole=False)
    return [
        Shown(matter, [texts[each] for each in found(talk, asked)[1][:FIRST]], ())
        for matter, asked in zip(words.matters, talk.asked, strict=True)
    ]


def states(talk: Talk, words: Vocabulary, embedder: Embedder | None) -> Iterator[State]:
    """Before ageing, aged by the defaults on the last day, and all of it aged."""
    with (
        TemporaryDirectory() as made,
        memory_data.stored([talk], str(Path(made) / "chat.db")) as store,
    ):

        def manager(**settings: float) -> MemoryManager:
            own = CompactConfig(**settings)
            return MemoryManager(store, scope=talk.name, settings=own, embedder=embedder)

        def state(name: str, manager: MemoryManager) -> State:
            kept = [each.bytes for each in manager.archived()]
            measured = _measured(manager, words)
            return State(name, *measured, swept(store) + sum(kept), len(kept))

        own = manager()
        own.catch_up()
        if embedder is not None:
            own.embed()
        yield state("before", own)
        own.age(END)
        yield state("aged by default", own)
        own = manager(retain_score=1.0)
        own.age(END + timedelta(days=400))
        yield state("all aged", own)


def _measured(
    own: MemoryManager, words: Vocabulary
) -> tuple[list[Shown], dict[str, float], dict[str, float]]:
    shown: list[Shown] = []
    spent: dict[str, list[float]] = {"search": [], "prompt": []}
    for matter in words.matters:
        start = perf_counter()
        hits = own.search(matter.ask, limit=FIRST).hits
        spent["search"].append(perf_counter() - start)
        quoted, _, taken = prompted(own, matter.ask)
        spent["prompt"].append(taken)
        shown.append(Shown(matter, [hit.text for hit in hits], quoted.splitlines()))
    needless = {
        kind: mean(bool(prompted(own, text)[0]) for text in texts)
        for kind, texts in (("remarks", words.remarks), ("personal", words.personal))
    }
    return shown, needless, {k: 1e3 * median(v) for k, v in spent.items()}


# --- numbers --------------------------------------------------------------------------------------


def run(halves: Sequence[Half] = HALVES, *, words_only: bool, cases: bool) -> dict[str, Any]:
    """All numbers as JSON has them, and the cases of `look` that fail."""
    embedder = None if words_only else memory.minilm()
    told: dict[str, Any] = {}
    for half in halves:
        talk, words = generated(half)
        first = State("FTS5", plain(talk, words), {}, {}, 0, 0)
        for way in [None] if embedder is None else [None, embedder]:
            found = [first, *states(talk, words, way)]
            own = told[f"{half}, {'by words' if way is None else 'with vectors'}"] = {
                state.name: counted(state) for state in found
            }
            own["FTS5"] = {k: n for k, n in own["FTS5"].items() if k.startswith("search")}
            if cases and half == "look":
                own["cases"] = [f"== {s.name}\n{_failing(s)}" for s in found[1:]]
    return told


def _failing(state: State) -> str:
    lines = []
    for one in state.shown:
        shown = {door: texts(one) for door, texts in DOORS.items()}
        missed = {door: texts for door, texts in shown.items() if is_missed(one, texts)}
        if missed:
            matter = one.matter
            lines += [f"{matter.kind}, {' and '.join(missed)}: {matter.ask}", f"  {matter.said}"]
            lines += [f"  later: {matter.later}"] if matter.later else []
            for door, texts in missed.items():
                lines += [f"    {door}: {text[:160]}" for text in texts or ["nothing"]]
    return "\n".join(lines)


def report(told: Mapping[str, Any]) -> str:
    """A table for each half and way, then its cases."""
    lines = []
    for title, own in told.items():
        columns = {name: rows for name, rows in own.items() if name != "cases"}
        lines += [f"| {title} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
        for row in columns["before"]:
            cells = (f"{n:.4g}" if (n := c.get(row)) is not None else "" for c in columns.values())
            lines.append(f"| {row} | {' | '.join(cells)} |")
        lines += ["", *own.get("cases", [])]
    return "\n".join(lines)
