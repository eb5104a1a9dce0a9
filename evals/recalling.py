"""What automatic recall brings: questions on months of talk, each as the newest message of a new
session, and messages that memory has nothing to say to.

A question counts where all the messages that answer it stand in the prompt. Questions and messages
are halved by their hash (`split.half`): the floor was chosen by those that may be looked at. The
messages that ask for nothing are small talk, requests on other things, and questions of other
people on their own lives.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from statistics import mean, median
from typing import Any

from compact import ContextManager
from compact.memory.memory_manager import MemoryManager
from compact.messages.messages import Message
from compact.session.views.recalled_turns import KIND
from evals import memory_data, stats
from evals.memory_data import Asked, Talk

WINDOW, TOKENS = 8_000, 1_000
"""Of the new session, and what recall may take of it."""
COPIES, ASKED = 520, 150
"""Sessions of the memory whose cost is measured (10,000 messages), and questions."""
SMALL_TALK = """hi|hello|hey there|thanks|thank you so much!|ok|okay, sounds good|great|good morning
how are you?|hi, how are you today?|yes please|no, that's all|perfect, thanks|lol|cool|nice one
what's up?|bye|see you tomorrow|good night|got it|sure, go ahead|please continue|go on|wow
hello again, nice to talk to you|thanks for your help, have a great day!|sorry, I was away
can you help me?|I have a question|that makes sense|interesting|hmm let me think|test|why?
one moment please|I'm back|never mind|you're welcome|tell me more|what do you mean?|I agree
could you repeat that?|do it again|try again|that's wrong|I don't know|maybe later"""
OTHER_THINGS = """Write a Python function that parses a CSV file and returns rows as dictionaries.
Fix the failing unit test in the tokenizer module.|What is the capital of Mongolia?
Explain how TCP congestion control works.|Convert 35 miles per hour to km/h.
Translate 'the crane lifts forty tons' to German.|Write a regular expression for IPv6 addresses.
How do I rebase my branch onto main without losing commits?|What does HTTP status 429 mean?
Summarize the causes of World War I in three sentences.|Compute the eigenvalues of a 2x2 matrix.
What is the difference between a process and a thread?|Why does my docker container exit at once?
Refactor this class to use dependency injection.|Make the sidebar collapsible, with a dark mode.
Give me a recipe for lentil soup.|Write a SQL query with the top 5 customers by revenue.
Draft an email to my landlord about the broken heater.|What's the time complexity of quicksort?
Plan a 3 day trip to Lisbon.|Review this pull request for security problems.
Generate a haiku about autumn.|How can I speed up pip install in CI?"""


def half(text: str) -> str:
    """The half that a question or a message belongs to."""
    return "score" if int(sha256(text.encode()).hexdigest()[-1], 16) % 2 else "look"


def prompted(memory: MemoryManager, text: str) -> tuple[str, int, float]:
    """What is quoted for a message in a new session, its tokens, and the seconds of the prompt."""
    with ContextManager(
        window=WINDOW,
        scope=memory.scope,
        tokenizer="o200k",
        memory=memory,
        recall_tokens=TOKENS,
    ) as ctx:
        ctx.add_message(role="user", content=text)
        start = time.perf_counter()
        context = ctx.active_context()
        taken = time.perf_counter() - start
        said = [m for m in context.messages if m.text.startswith(f"[{KIND} ")]
        tokens = sum(map(ctx.history.counter.message, said))
        return "\n".join(m.text for m in said), tokens, taken


def is_answered(talk: Talk, asked: Asked, quoted: str) -> bool:
    """Whether all messages that answer a question are quoted, as far as a long one is."""
    known = {m.id: m for messages in talk.sessions.values() for m in messages}
    words = _squeezed(quoted)
    return all(_squeezed(known[each].text)[:200] in words for each in asked.messages)


def _squeezed(text: str) -> str:
    return re.sub(r"[\s>]+", " ", text).strip()


def run(folder: Path) -> dict[str, Any]:
    """All numbers as JSON has them."""
    talks, others = list(memory_data.locomo(folder)), list(memory_data.longmemeval(folder))
    store = memory_data.stored(talks)
    memories = {talk.name: MemoryManager(store, scope=talk.name) for talk in talks}
    told: dict[str, Any] = {}
    for part in ("look", "score"):
        rows = [
            (talk, asked, *prompted(memories[talk.name], asked.text))
            for talk in talks
            for asked in talk.asked
            if half(asked.text) == part
        ]
        answered = [is_answered(talk, asked, quoted) for talk, asked, quoted, *_ in rows]
        told[part] = {
            "questions": len(rows),
            "answered": mean(answered),
            "interval": stats.interval([float(each) for each in answered]),
            "recall": mean(bool(quoted) for _, _, quoted, *_ in rows),
            "tokens": mean(tokens for *_, tokens, _ in rows),
            "ms": 1e3 * median(seconds for *_, seconds in rows),
        }
        for name, texts in {
            "small talk": _lines(SMALL_TALK),
            "other things": _lines(OTHER_THINGS),
            "other people": [asked.text for other in others for asked in other.asked],
        }.items():
            told[part][name] = _share_quoted(list(memories.values()), texts, part)
    told["cost"] = costs(talks)
    return told


def costs(talks: Sequence[Talk]) -> dict[str, float]:
    """Milliseconds of processor time for a prompt, where memory holds the same talks again and
    again: median of questions that may be looked at, of small talk, and with recall off.
    """
    talk = Talk("all", dict(islice(_again(talks), COPIES)), ())
    memory = MemoryManager(memory_data.stored([talk]), scope="all")
    asked = [a.text for one in talks for a in one.asked if half(a.text) == "look"][:ASKED]
    spent = partial(_spent, memory)
    spent(asked[0])  # reads the columns
    return {
        "messages": sum(map(len, talk.sessions.values())),
        "question": median(map(spent, asked)),
        "small talk": median(map(spent, _lines(SMALL_TALK))),
        "off": median(map(partial(_spent, None), asked)),
    }


def _again(talks: Sequence[Talk]) -> Iterator[tuple[str, Sequence[Message]]]:
    for number in count():
        for talk in talks:
            for name, messages in talk.sessions.items():
                yield f"{number}-{talk.name}-{name}", messages


def _spent(memory: MemoryManager | None, text: str) -> float:
    with ContextManager(window=WINDOW, scope="all", tokenizer="o200k", memory=memory) as ctx:
        ctx.add_message(role="user", content=text)
        start = time.thread_time()
        ctx.active_context()
        return 1e3 * (time.thread_time() - start)


def _lines(texts: str) -> list[str]:
    return re.split(r"[|\n]", texts)


def _share_quoted(
    memories: Sequence[MemoryManager], texts: Iterable[str], part: str
) -> list[float]:
    """The share of these messages that recall something in some memory, and how many there are."""
    chosen = [text for text in texts if half(text) == part]
    rows = [bool(prompted(memory, text)[0]) for memory in memories for text in chosen]
    return [mean(rows), len(rows)]


def report(told: dict[str, Any]) -> str:
    """The numbers as lines."""
    lines = []
    for part, row in told.items():
        if part == "cost":
            told_of = ", ".join(f"{name} {number:.1f}" for name, number in row.items())
            lines.append(f"ms of processor time for a prompt: {told_of}")
            continue
        low, high = row["interval"]
        lines.append(
            f"{part}: {row['questions']} questions, all that answers in the prompt "
            f"{row['answered']:.3f} [{low:.3f} {high:.3f}], something recalled "
            f"{row['recall']:.3f}, {row['tokens']:.0f} tokens, {row['ms']:.1f} ms"
        )
        for name in ("small talk", "other things", "other people"):
            share, count = row[name]
            lines.append(f"  {name}: {share:.3f} of {count} recall something")
    return "\n".join(lines)
