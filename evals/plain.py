"""Plain talk: how many answers to later questions survive in a small room?

LoCoMo: two people's talk over months, with questions and the turns that hold their answers.
LongMemEval: a person's sessions with an assistant; a chat is the session that holds the answer and
those after it. Each chat is brought to a few sizes in three ways: its newest messages, today's
`compress`, and the sentences that `text.facts` chooses. `found` is the share of the answers'
words anywhere in the text; `beside` only where they stand in a line with two other words of the
turns that hold the answer, so that a word that merely occurs is not counted.

Conversations are split by the hash of their id: `look` may be read and tuned on, `score` is only
measured.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, Literal

from compact import compress, wiring
from compact.errors import CannotFit
from compact.text import facts, sentences
from compact.text.speakers import Speaker
from compact.text.terms import STOP_WORDS

SIZES = (1_000, 2_000, 4_000)
CHAT = 15_000
"""Tokens of a chat that is put together from LongMemEval's sessions."""
ANSWERED_IN_WORDS = (1, 4)
"""LoCoMo's categories whose answers stand in the turns: several turns, one turn."""
BESIDE = 2
Part = Literal["look", "score"]
PARTS: tuple[Part, ...] = ("look", "score")
_WORD = re.compile(r"\w+")
_TOKENIZER = "o200k"


@dataclass(frozen=True)
class Said:
    """One message: who spoke, by role and by name."""

    speaker: Speaker
    name: str
    text: str


@dataclass(frozen=True)
class Question:
    """The answer's words that stand in the turns that hold it, and all words of those turns."""

    answer: frozenset[str]
    around: frozenset[str]


@dataclass
class Chat:
    """A conversation and what is asked of it later."""

    name: str
    part: Part
    messages: list[Said]
    questions: list[Question] = field(default_factory=list)


def part_of(name: str) -> Part:
    """Whether a conversation may be looked at, or is only scored."""
    return "score" if int(hashlib.sha256(name.encode()).hexdigest()[-1], 16) % 2 else "look"


def words_of(text: str) -> frozenset[str]:
    """The words that tell something, in lower case, without a plural's s."""
    words = (w.lower() for w in _WORD.findall(text))
    return frozenset(w.rstrip("s") or w for w in words if w not in STOP_WORDS)


def asked(answer: object, turns: Sequence[Said]) -> Question | None:
    """The question, where its answer stands in the turns."""
    around = words_of(" ".join(turn.text for turn in turns))
    words = words_of(str(answer)) & around
    return Question(words, around - words) if words else None


def locomo(folder: Path) -> Iterator[Chat]:
    """LoCoMo's dialogues; the first speaker stands as the person, the second as the assistant."""
    for record in _records(folder / "locomo" / "locomo_first5.json"):
        talk, name = record["conversation"], record["sample_id"]
        chat, places = Chat(name, part_of(name), []), dict[str, Said]()
        number = 1
        while rows := talk.get(f"session_{number}"):
            for row in rows:
                speaker: Speaker = "person" if row["speaker"] == talk["speaker_a"] else "assistant"
                places[row["dia_id"]] = said = Said(speaker, row["speaker"], row["text"])
                chat.messages.append(said)
            number += 1
        for row in record["qa"]:
            turns = [places[place] for place in row["evidence"] if place in places]
            if row["category"] in ANSWERED_IN_WORDS and (question := asked(row["answer"], turns)):
                chat.questions.append(question)
        yield chat


def longmemeval(folder: Path, count: Callable[[str], int]) -> Iterator[Chat]:
    """For each question the session that holds its answer, and later ones up to `CHAT` tokens."""
    for record in _records(folder / "longmemeval_subset" / "longmemeval_s_subset.json"):
        name, ids = record["question_id"], record["haystack_session_ids"]
        rows = zip(record["answers"], record["answer_session_ids"], strict=True)
        for answer, evidence in rows:
            first = min(ids.index(session) for session in evidence)
            chat, size = Chat(name, part_of(name), []), 0
            for session in record["haystack_sessions"][first:]:
                said = [_said(row) for row in session]
                size += sum(count(each.text) for each in said)
                if chat.messages and size > CHAT:
                    break
                chat.messages += said
            held = [_said(row) for row in record["haystack_sessions"][first]]
            if question := asked(answer, held):
                yield Chat(name, chat.part, chat.messages, [question])


def _records(path: Path) -> list[dict[str, Any]]:
    """What a file holds; nothing where it is not there."""
    return json.loads(path.read_text("utf-8")) if path.is_file() else []


def _said(row: dict[str, Any]) -> Said:
    person = row["role"] == "user"
    return Said("person" if person else "assistant", row["role"].capitalize(), row["content"])


def newest(chat: Chat, size: int, count: Callable[[str], int]) -> str:
    """The newest messages that fit."""
    lines: list[str] = []
    for said in reversed(chat.messages):
        line = f"{said.name}: {said.text}"
        size -= count(line) + 1
        if size < 0:
            break
        lines.append(line)
    return "\n".join(reversed(lines))


def compressed(chat: Chat, size: int, count: Callable[[str], int]) -> str:
    """What `compress` makes of it, as text; the newest messages where that cannot fit."""
    roles = {"person": "user", "assistant": "assistant"}
    messages = [{"role": roles[s.speaker], "content": s.text} for s in chat.messages]
    try:
        kept = compress(messages, max_tokens=size, tokenizer=_TOKENIZER)
    except CannotFit:
        return newest(chat, size, count)
    return "\n".join(str(message["content"]) for message in kept)


def chosen(chat: Chat, size: int, count: Callable[[str], int]) -> str:
    """The sentences that tell most."""
    items = [
        facts.Said(position, said.speaker, sentence)
        for position, said in enumerate(chat.messages)
        for line in sentences.lines_of(said.text)
        for sentence in sentences.sentences_of(line)
    ]
    lines: list[str] = []
    last = -1
    for item in facts.Candidates(items, lambda text: count(text) + 4).within(size):
        if item.position == last:
            lines[-1] += f" {item.text}"
        else:
            lines.append(f"{chat.messages[item.position].name}: {item.text}")
        last = item.position
    return "\n".join(lines)


WAYS: dict[str, Callable[[Chat, int, Callable[[str], int]], str]] = {
    "newest": newest,
    "compress": compressed,
    "chosen": chosen,
}


def found(text: str, question: Question) -> tuple[float, float]:
    """The share of the answer's words in a text: anywhere, and beside their turn's other words."""
    anywhere = words_of(text)
    lines = [words_of(line) for line in text.splitlines()]
    near = [line for line in lines if len(line & question.around) >= BESIDE]
    beside = frozenset().union(*near)
    size = len(question.answer)
    return len(question.answer & anywhere) / size, len(question.answer & beside) / size


def run(folder: Path, ways: Sequence[str] = tuple(WAYS)) -> list[dict[str, Any]]:
    """One row for each collection, part, way and size."""
    count = wiring.token_counter("chat_completions", tokenizer=_TOKENIZER).text
    sets = {"locomo": list(locomo(folder)), "longmemeval": list(longmemeval(folder, count))}
    rows: list[dict[str, Any]] = []
    for (name, chats), part, way, size in product(sets.items(), PARTS, ways, SIZES):
        shares: list[tuple[float, float]] = []
        most = 0
        for chat in (chat for chat in chats if chat.part == part):
            text = WAYS[way](chat, size, count)
            most = max(most, count(text))
            shares += [found(text, question) for question in chat.questions]
        if shares:
            anywhere, beside = (mean(column) for column in zip(*shares, strict=True))
            row = {"set": name, "part": part, "way": way, "size": size, "tokens": most}
            rows.append({**row, "asked": len(shares), "found": anywhere, "beside": beside})
    return rows


def report(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a table."""
    lines = ["set          part   way       size  most   asked  found  beside"]
    for row in rows:
        head = f"{row['set']:<12} {row['part']:<6} {row['way']:<8} {row['size']:>6}"
        lines.append(
            f"{head} {row['tokens']:>6} {row['asked']:>6}  {row['found']:.3f}  {row['beside']:.3f}"
        )
    return "\n".join(lines)
