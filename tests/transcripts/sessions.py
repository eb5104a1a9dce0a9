"""Rows of Claude Code's files, as it writes them."""

import json
from itertools import count
from pathlib import Path
from typing import Any

Row = dict[str, Any]
_NUMBERS = count()


def _row(kind: str, **more: Any) -> Row:
    uuid = f"{next(_NUMBERS):08x}-0000-4000-8000-000000000000"
    return {
        "type": kind,
        "uuid": uuid,
        "sessionId": "s",
        "timestamp": "2026-01-01T10:00:00Z",
    } | more


def user(text: str) -> Row:
    return _row("user", message={"role": "user", "content": text})


def assistant(text: str, *, call: str = "", name: str = "Bash", **arguments: Any) -> Row:
    blocks: list[Row] = [{"type": "text", "text": text}] if text else []
    if call:
        blocks.append({"type": "tool_use", "id": call, "name": name, "input": arguments})
    return _row("assistant", message={"role": "assistant", "content": blocks})


def result(call: str, text: str) -> Row:
    block = {"type": "tool_result", "tool_use_id": call, "content": text}
    return _row("user", message={"role": "user", "content": [block]})


def queued(text: str) -> Row:
    return _row("attachment", attachment={"type": "queued_command", "prompt": text})


def boundary() -> Row:
    return _row("system", subtype="compact_boundary", content="Conversation compacted")


def summary(text: str) -> Row:
    return user(text) | {"isCompactSummary": True}


def written(file: Path, rows: list[Row]) -> Path:
    """Write the rows in the form of Claude Code."""
    lines = [json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file
