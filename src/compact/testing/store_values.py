"""Small values for the checks of stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from compact.errors import CompactError
from compact.messages.checkpoints import Checkpoint, Span, Verdict
from compact.messages.formats.known import format_named
from compact.messages.messages import Image, Message, Text, ToolResult
from compact.messages.sessions import Branch, Entry, Projection, Session, Step


@contextmanager
def refusing(kind: type[CompactError], promise: str) -> Iterator[None]:
    """Check that the block raises an error of this kind."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{promise}: {kind.__name__} was to be raised")


def session(name: str, **given: Any) -> Session:  # noqa: ANN401 - the fields of a session
    """Make a session with one branch."""
    return Session(**{"id": name, "branch": Branch(id=name, session_id=name), **given})


def entry(text: str, tokens: int | None = None, marks: int = 0) -> Entry:
    """Make an entry of a person's message."""
    return Entry(Message(role="user", content=text), tokens, marks)


def projection(name: object, **given: Any) -> Projection:  # noqa: ANN401 - a projection's fields
    """Make a projection for a window of 8 tokens."""
    plain = {"id": str(name), "window": 8, "number": 1, "at": 1, "cut": 0, "tokens": 1}
    return Projection(**{**plain, **given})


def step(name: str, projection: Projection | None, **given: Any) -> Step:  # noqa: ANN401 - its fields
    """Make a step that activates a projection."""
    plain = {"kind": "compress", "branch_id": name, "window": 8, "base": 0, "at": 1}
    return Step(**{**plain, "session_id": name, "projection": projection, **given})


def checkpoint(name: str, **given: Any) -> Checkpoint:  # noqa: ANN401 - a checkpoint's fields
    """Make a checkpoint in which every field is filled."""
    span = Span(first=2, last=9, messages=7, tokens=99)
    plain = {"id": name, "span": span, "summary": "what was said \ud800", "kept": (3,)}
    more = {"anchors": ("port 8080",), "released": (0,), "token_count": 5, "made_by": "me"}
    verdict = Verdict(rule="size", passed=False, detail="ü")
    return Checkpoint(**{**plain, **more, "verdicts": (verdict,), **given})


def is_same(message: Message, other: Message) -> bool:
    """Return whether messages are equal. An edited message is compared in its rendered form."""
    if not other.edited:
        return message == other and message.wire == other.wire
    rendered = [format_named("chat_completions").render([each]) for each in (message, other)]
    return message.content == other.content and message.edited and rendered[0] == rendered[1]


def odd_messages() -> list[Message]:
    """Return messages that are hard to store."""
    wires: list[dict[str, Any]] = [
        {"role": "user", "content": "plain", "x_vendor": {"deep": [1, 2.5, None, True]}},
        {"role": "user", "content": "lone \ud800 and NUL \x00 within", "é": "\udfff"},
        {"role": "assistant", "content": None, "huge": 10**40, "neat": -(2**63), "u": 2**64 - 1},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "x_new", "b": {}}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "用户反馈\n" * 3},
        {"role": "user", "content": "", "name": "ada", "timestamp": "9999-12-31T23:59:59-23:59"},
        {"role": "user", "content": "x", "timestamp": "0001-01-01T00:00:00"},
        {"role": "user", "content": "x", "metadata": {"pinned": True, "own": [1]}},
    ]
    read = [format_named("chat_completions").parse(wire, i) for i, wire in enumerate(wires)]
    edited = read[4].with_parts([*read[4].parts, Text("more")])
    scored = Message(role="user", content="scored", importance_score=0.25, token_count=7)
    parts = Message(role="user", content=(Text("a"), ToolResult("c", "r", images=(Image(2, 3),))))
    return [*read, edited, scored, parts, Message(role="system", content="\ud83d")]
