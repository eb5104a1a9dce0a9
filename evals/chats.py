"""The end task in plain talk: what can still be answered from the context of a chat?

`chats` asks for twenty early facts of each of ten chats (`evals.chats_source`), after one call and
after a lived session, beside the newest messages of the same tokens and the full history. `locomo`
asks the questions of LoCoMo whose answer stands word for word in a turn that is named as evidence,
at small budgets, after one call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compact import CompactPolicy, ContextManager, plan
from compact.errors import CompactError
from compact.messages.context import render_text
from compact.messages.formats.known import format_named
from compact.messages.messages import Message
from evals import chats_source, data
from evals.chats_source import Row
from evals.split import Cell, Half, columns, half_of, table

WINDOWS = {4_000: 8_192, 2_000: 4_096}
"""Tokens of one call → the window of the session that is lived beside it."""
SMALL = (4_000, 2_000, 1_000)
"""Tokens at which LoCoMo is asked."""
LOCOMO = "locomo/locomo_first5.json"
HISTORIES = "longmemeval_subset/longmemeval_s_subset.json"
_SESSION = re.compile(r"session_\d+")
Context = tuple[str, int]
"""A text, and the tokens it was counted as."""


@dataclass(frozen=True)
class Asked:
    """What one chat's context of one making answers."""

    half: Half
    chat: str
    size: int
    way: str
    tokens: int
    asked: int
    missed: tuple[str, ...]
    """The questions it does not answer."""

    @property
    def found(self) -> int:
        """How many it answers."""
        return self.asked - len(self.missed)


def typed(rows: Sequence[Row]) -> list[Message]:
    """Messages of chat completions as values."""
    wire = format_named("chat_completions")
    return [wire.parse(row, number) for number, row in enumerate(rows)]


def in_one_call(messages: Sequence[Message], tokens: int, *, newest: bool = False) -> Context:
    """The context of one call; `newest` is what a sliding window of the size shows."""
    policy = CompactPolicy(strategy="off") if newest else None
    try:
        done = plan(messages, max_tokens=tokens, tokenizer="o200k", policy=policy)
    except CompactError:
        return "", 0
    return done.context.render_text(), done.tokens_after


def lived(messages: Sequence[Message], window: int) -> Context:
    """The prompt at the end of a session that was fed message by message."""
    with ContextManager(window=window, store=":memory:", tokenizer="o200k") as ctx:
        for message in messages:
            ctx.add_message(message)
            if message.role == "user":
                ctx.get_context_for_model()
        context = ctx.active_context()
        return context.render_text(), context.tokens


def of_chat(chat: Row, facts: Sequence[Row], folder: Path) -> Iterator[Asked]:
    """A chat's facts in its contexts."""
    rows = chats_source.messages(chat, folder)
    wanted = {
        fact["question"]: chats_source.needed(fact, rows[fact["message"]]["content"])
        for fact in facts
    }
    messages = typed(rows)
    whole = render_text(messages)
    for size, window in WINDOWS.items():
        ways = {
            "one call": in_one_call(messages, size),
            "lived session": lived(messages, window),
            "newest messages": in_one_call(messages, size, newest=True),
            "full history": (whole, 0),
        }
        for way, (text, tokens) in ways.items():
            missed = (q for q, needs in wanted.items() if not chats_source.found(needs, text))
            half = half_of(chat["conversation"])
            yield Asked(half, chat["chat"], size, way, tokens, len(wanted), tuple(missed))


def chats(folder: Path) -> list[Asked]:
    """All ten."""
    every, facts = chats_source.rows()
    return [
        row
        for chat in every
        for row in of_chat(chat, [f for f in facts if f["chat"] == chat["chat"]], folder)
    ]


def whole_chat(file: str, row: Row, folder: Path) -> list[Message]:
    """All sessions of one dialogue of LoCoMo or history of LongMemEval."""
    if file == LOCOMO:
        rule, first = "locomo", 1
        last = sum(_SESSION.fullmatch(name) is not None for name in row["conversation"])
    else:
        rule, first, last = "longmemeval", 0, len(row["haystack_sessions"]) - 1
    taken = {"rule": rule, "sessions": [first, last]}
    chat: Row = {"file": file, "conversation": data.id_of(row), "messages": taken}
    return typed(chats_source.messages(chat, folder))


def locomo(folder: Path) -> list[Asked]:
    """Every dialogue of LoCoMo that is there."""
    path = folder / LOCOMO
    dialogues = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return [row for dialogue in dialogues for row in _of_dialogue(dialogue, folder)]


def _of_dialogue(dialogue: Row, folder: Path) -> Iterator[Asked]:
    messages = whole_chat(LOCOMO, dialogue, folder)
    sessions = [rows for name, rows in dialogue["conversation"].items() if _SESSION.fullmatch(name)]
    turns = {turn["dia_id"]: turn["text"] for rows in sessions for turn in rows}
    wanted = _answers(dialogue, turns)
    for size in SMALL:
        for way, newest in (("one call", False), ("newest messages", True)):
            text, tokens = in_one_call(messages, size, newest=newest)
            missed = (q for q, answer in wanted if not chats_source.found([answer], text))
            half = half_of(dialogue["sample_id"])
            yield Asked(half, dialogue["sample_id"], size, way, tokens, len(wanted), tuple(missed))


def _answers(dialogue: Row, turns: dict[str, str]) -> list[tuple[str, str]]:
    """Questions with answers that stand in a turn named as their evidence."""
    found = []
    for row in dialogue["qa"]:
        answer = str(row.get("answer", ""))
        evidence = " ".join(turns.get(each, "") for each in row["evidence"])
        if len(answer) > 2 and chats_source.found([answer], evidence):
            found.append((row["question"], answer))
    return found


def _share(size: int, way: str) -> Callable[[Sequence[Asked]], Cell]:
    def share(rows: Sequence[Asked]) -> Cell:
        some = [row for row in rows if (row.size, row.way) == (size, way)]
        of = sum(row.asked for row in some)
        tokens = sum(row.tokens for row in some) // max(1, len(some))
        beside = f" at {tokens:,}" if tokens else ""
        return f"{sum(row.found for row in some) / of:.3f}{beside}" if of else None

    return share


def measured(rows: Sequence[Asked]) -> dict[str, dict[Half, Cell]]:
    """By tokens and way: the share answered, and the mean tokens of the contexts."""
    kinds = dict.fromkeys((row.size, row.way) for row in rows)
    return columns(rows, {f"{size:,}, {way}": _share(size, way) for size, way in kinds})


def evaluate(folder: Path, name: str, *, missed: bool = False) -> tuple[str, Any]:
    """The table, the same for machines, and the questions missed in what may be looked at."""
    rows = chats(folder) if name == "chats" else locomo(folder)
    asked = {row.chat: row.asked for row in rows}
    found = measured(rows)
    text = [table(f"{sum(asked.values())} questions, {len(asked)} chats", found)]
    if missed:
        ours = [r for r in rows if r.half == "look" and r.way in ("one call", "lived session")]
        text += [f"{r.chat} {r.size:,} {r.way}: {q}" for r in ours for q in r.missed]
    plain = [asdict(r) | ({"missed": len(r.missed)} if r.half == "score" else {}) for r in rows]
    return "\n".join(text), {"measured": found, "contexts": plain}
