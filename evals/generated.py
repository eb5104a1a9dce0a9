"""Generated sessions: rules scattered among chatter, pasted logs, code and tool output.

The same seed gives the same session. Every rule is one whole sentence of one user message.
"""

from __future__ import annotations

import itertools
import json
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from compact.messages.messages import Message, Part, Text, ToolCall, ToolResult
from evals import rule_sentences as stock

TURNS = 200
_START = datetime(2026, 1, 5, 9, tzinfo=UTC)
_WORDS = (
    *("order", "batch", "retry", "cache", "token", "parser", "worker", "queue", "invoice"),
    *("tenant", "cursor", "schema", "shard", "replica", "lease", "index", "merge", "packet"),
    *("header", "digest", "stream", "bucket", "policy", "handler"),
)


@dataclass(frozen=True)
class Rule:
    """One sentence that has to survive, and the message it stands in."""

    text: str
    keyword: bool
    message_id: str


@dataclass(frozen=True)
class Session:
    """A conversation, and the rules in it."""

    name: str
    messages: tuple[Message, ...]
    rules: tuple[Rule, ...]


def scattered(seed: int) -> Session:
    """200 user messages of which 40 to 56 hold a rule, half of the rules without a keyword."""
    draw = random.Random(seed)
    each = draw.randint(20, 26)
    chosen = [(text, True) for text in draw.sample(stock.KEYWORD, each)]
    chosen += [(text, False) for text in draw.sample(stock.PLAIN, each)]
    draw.shuffle(chosen)
    turns = sorted(draw.sample(range(TURNS), len(chosen)))
    return _session(f"scattered-{seed}", draw, dict(zip(turns, ([c] for c in chosen), strict=True)))


def crowded(seed: int) -> Session:
    """More rules than a third of a 10:1 budget can hold: two or three in most messages."""
    draw = random.Random(seed)
    every = [
        (rule.format(subject), index < 4)
        for index, rule in enumerate(stock.MANY_RULES)
        for subject in stock.MANY_SUBJECTS
    ]
    for stage in (1, 2):
        every += [(f"In stage {stage}: {x[0].lower()}{x[1:]}", kw) for x, kw in every[:160]]
    draw.shuffle(every)
    turns: dict[int, list[tuple[str, bool]]] = {}
    for number, one in enumerate(every):
        turns.setdefault(number % TURNS, []).append(one)
    return _session(f"crowded-{seed}", draw, turns)


def chatter(seed: int) -> Iterator[Message]:
    """Turns without end in which nothing is said that has to survive."""
    draw = random.Random(seed)
    for turn in itertools.count():
        at = 20 * turn
        yield _message("user", _request(draw, []), _uuid(f"chatter-{seed}", turn), at)
        yield from _answer(draw, f"chatter-{seed}-a{turn}", at + 1)


def _session(name: str, draw: random.Random, turns: dict[int, list[tuple[str, bool]]]) -> Session:
    messages: list[Message] = []
    rules: list[Rule] = []
    for turn in range(TURNS):
        message_id = _uuid(name, turn)
        mine = turns.get(turn, [])
        rules += [Rule(text, keyword, message_id) for text, keyword in mine]
        words = _request(draw, [text for text, _ in mine])
        messages.append(_message("user", words, message_id, len(messages)))
        for reply in _answer(draw, f"{name}-a{turn}", len(messages)):
            messages.append(reply)
    return Session(name, tuple(messages), tuple(rules))


def _uuid(name: str, turn: int) -> str:
    """An id as coding tools write them."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{name} {turn}"))


def _message(role: str, content: str | tuple[Part, ...], message_id: str, number: int) -> Message:
    at = _START + timedelta(seconds=20 * number)
    return Message.of({"role": role, "content": content, "id": message_id, "timestamp": at})


def _request(draw: random.Random, rules: Sequence[str]) -> str:
    """What a person writes in one turn: the rules, and something around them."""
    around = draw.random()
    if not rules:
        words = " ".join(draw.sample(stock.CHATTER, draw.randint(1, 2)))
        return f"{words}\n\n{_paste(draw)}" if around < 0.3 else words
    if len(rules) > 1 and around < 0.5:
        return f"{draw.choice(stock.LEAD_INS)}\n" + "\n".join(f"- {rule}" for rule in rules)
    spoken = (draw.choice(stock.LEAD_INS), *rules, draw.choice(stock.TAILS))
    words = " ".join(x for x in spoken if x)
    if around < 0.65:
        return words
    if around < 0.85:
        return f"{words}\n\n{_paste(draw)}"
    return f"{_paste(draw)}\n\n{words}"


def _paste(draw: random.Random) -> str:
    if draw.random() < 0.5:
        return "```\n" + "\n".join(_log_lines(draw, draw.randint(6, 30))) + "\n```"
    return "\n".join(_log_lines(draw, draw.randint(4, 12)))


def _log_lines(draw: random.Random, lines: int) -> Iterator[str]:
    """Log lines; some talk like rules, as logs do."""
    for number in range(lines):
        a, b = draw.sample(_WORDS, 2)
        level = draw.choice(("INFO", "INFO", "DEBUG", "WARN", "ERROR"))
        tail = draw.choice(
            (
                f"{a} {draw.getrandbits(40):x} took {draw.randint(1, 900)} ms",
                f"{b} must be set before {a} is started",
                f"please retry {a} later",
                f"{a} never reached {b}",
            )
        )
        yield f"2026-01-05 09:{number % 60:02}:17 {level} {a}.{b}: {tail}"


def _answer(draw: random.Random, base: str, number: int) -> Iterator[Message]:
    """One to three tool calls with their output, then the assistant's words."""
    for step in range(draw.randint(1, 3)):
        call = ToolCall(
            id=f"{base}-call{step}",
            name=draw.choice(("read_file", "run", "search")),
            arguments=json.dumps({"path": f"src/{draw.choice(_WORDS)}/{draw.choice(_WORDS)}.py"}),
        )
        said = Text(f"Looking at the {draw.choice(_WORDS)} code.")
        at = number + 2 * step
        yield _message("assistant", (said, call), f"{base}-c{step}", at)
        output = "\n".join(_output(draw, draw.randint(5, 40)))
        yield _message("tool", (ToolResult(call.id, output),), f"{base}-r{step}", at + 1)
    yield _message("assistant", " ".join(_report(draw)), f"{base}-end", number + 9)


def _output(draw: random.Random, lines: int) -> Iterator[str]:
    if draw.random() < 0.4:
        yield from _log_lines(draw, lines)
        return
    for number in range(1, lines + 1):
        a, b, c = draw.sample(_WORDS, 3)
        name, limit = draw.choice(_WORDS), draw.randint(1, 999)
        yield f"{number:5}→    {a}_{b} = {c}.{name}({a!r}, limit={limit})"


def _report(draw: random.Random) -> Iterator[str]:
    for _ in range(draw.randint(2, 6)):
        a, b, c = draw.sample(_WORDS, 3)
        yield draw.choice(
            (
                f"The {a} in src/{b}/{c}.py is read twice, which explains the slow {b}.",
                f"I moved {a}_{b} into the {c} module and its tests pass.",
                f"There are {draw.randint(2, 90)} rows left in the {a} {b} after the run.",
                f"Next I would look at how {a} and {c} share the {b}.",
            )
        )
