"""Values of any shape, and conversations with one thing wrong in them."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

NESTED: list[Any] = []
_inner = NESTED
for _ in range(3_000):
    _inner.append([])
    _inner = _inner[0]
SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**63, -(2**64), 10**400, 0.5, -0.0, 1e308),
    *(
        math.nan,
        math.inf,
        -math.inf,
        1j,
        Decimal("NaN"),
        datetime.max.replace(tzinfo=UTC),
        Path(),
        Ellipsis,
    ),
    *("", " ", "\x00", "a\x00b", "\ud800", "🙂" * 40, "x" * 9_000, "../../x", "-1", "NaN", "null"),
    *("user", "ck-", "m0", "1", "[", "{}", "\x1b[31m", "\u202eabc", "\ufeff", "%s%n{0}", "é́" * 9),
    *(b"", b"\xff\xfe", bytearray(b"x"), (), [], {}, set(), frozenset({1}), range(3), object()),
    *(int, len, ValueError("x"), {"": None}, {1: 2}, {None: []}, [None], [[]], [{}], NESTED),
)
KEYS = (
    *("role", "content", "tool_calls", "tool_call_id", "type", "text", "id", "function", "name"),
    *("arguments", "input", "tool_use_id", "image_url", "source", "metadata", "timestamp", "", "x"),
)

_CALL = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"a": 1}'}}
_USE = {"type": "tool_use", "id": "t1", "name": "run", "input": {"a": 1}}
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
_TALK = [
    {"role": "user" if n % 2 == 0 else "assistant", "content": f"{n}: " + "the quay is wet. " * 30}
    for n in range(24)
]
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "chat_completions": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image_url",
         "image_url": {"url": f"data:image/png;base64,{_PNG}", "detail": "low"}}]},
        {"role": "assistant", "content": None, "tool_calls": [_CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "output\n" * 90},
        *_TALK,
    ],
    "anthropic": [
        {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image",
         "source": {"type": "base64", "media_type": "image/png", "data": _PNG}}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "h", "signature": "s"},
         _USE]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
         "content": [{"type": "text", "text": "out\n" * 90}], "is_error": False}]},
        *_TALK[1:],
    ],
    "responses": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"},
        {"type": "function_call", "call_id": "c1", "name": "run", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "out\n" * 90},
        *_TALK,
    ],
    "ollama": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look.", "images": [_PNG]},
        {"role": "assistant", "content": "", "thinking": "h",
         "tool_calls": [{"function": {"name": "run", "arguments": {"a": 1}}}]},
        {"role": "tool", "tool_name": "run", "content": "out\n" * 90},
        *_TALK,
    ],
}  # fmt: skip


def value(rng: random.Random, depth: int = 0) -> Any:  # noqa: ANN401 - that is the point
    """Any value: a scalar, or a container of more of them."""
    kind = rng.random()
    if depth > 2 or kind < 0.75:
        return copy.deepcopy(rng.choice(SCALARS[:-1])) if rng.random() < 0.97 else NESTED
    if kind < 0.87:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(KEYS): value(rng, depth + 1) for _ in range(rng.randrange(5))}


def broken(rng: random.Random, whole: Any, times: int = 1) -> Any:  # noqa: ANN401
    """A copy with something replaced, left out, doubled or added, as deep as it goes."""
    made = copy.deepcopy(whole)
    for _ in range(times):
        spot = _spot(rng, made)
        if spot is None:
            return value(rng)
        inside, key = spot
        match rng.randrange(6):
            case 0:
                del inside[key]
            case 1 if isinstance(inside, list):
                inside.insert(key, copy.deepcopy(inside[rng.randrange(len(inside))]))
            case 2 if isinstance(inside, dict):
                inside[rng.choice(KEYS)] = value(rng)
            case _:
                inside[key] = value(rng)
    return made


def _spot(rng: random.Random, whole: Any) -> tuple[Any, Any] | None:  # noqa: ANN401
    """A container of the value, and a key of it; the newest parts as often as the first ones."""
    found, inside = None, whole
    while isinstance(inside, dict | list) and inside and (found is None or rng.random() < 0.75):
        if isinstance(inside, dict):
            key: Any = rng.choice(list(inside))
        else:
            key = rng.choice((0, 1, 2, 3, -1, rng.randrange(len(inside)))) % len(inside)
        found, inside = (inside, key), inside[key]
    return found


def messages(rng: random.Random) -> tuple[str, Any]:
    """A conversation with a thing or two wrong in it, and its format; now and then no list."""
    name = rng.choice(list(CONVERSATIONS))
    if rng.random() < 0.1:
        return name, value(rng)
    return name, broken(rng, CONVERSATIONS[name], rng.randrange(1, 4))


def mangled(rng: random.Random, data: bytes) -> bytes:
    """A file with something wrong: cut, turned over, in another encoding, or nothing of the
    kind.
    """
    at = rng.randrange(len(data) + 1)
    other = bytes(rng.choices(range(256), k=rng.randrange(60)))
    match rng.randrange(9):
        case 0:
            return data[:at]
        case 1:
            return data[at:]
        case 2:
            return data[:at] + other + data[at:]
        case 3:
            return data[:at] + other + data[at + len(other) :]
        case 4:
            return data.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-8-sig")))
        case 5:
            return other
        case 6:
            return b"[" * rng.choice((1, 100, 100_000))
        case 7:
            return bytes(data).replace(*rng.choice(_SWAPS))
    try:
        whole = broken(rng, json.loads(data.splitlines()[0] if at % 2 else data), 2)
        return json.dumps(whole, default=str).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return data + data


_SWAPS: Sequence[tuple[bytes, bytes]] = (
    *((b'"role"', b'"rule"'), (b"{", b"["), (b"\n", b"\r"), (b'"', b"'"), (b"user", b"\xe9")),
    *((b":", b": NaN,"), (b"1", b"1e999"), (b"text", b"\\ud800"), (b",", b",,"), (b"T", b"\x00")),
)
