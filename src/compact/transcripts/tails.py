"""Reads only the end of a transcript: from a byte on, or from the program's last compaction on.

What is before a compaction is not parsed. Of it, only the rows that may hold a person's words are
kept, which are found by their bytes. So a file of 100 MB is read in the time of its last part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import orjson

from compact.errors import InvalidTranscript, unreadable
from compact.files import is_other_kind
from compact.transcripts import claude_code
from compact.transcripts.documents import Document, JsonLines

Since = int | Literal["boundary"]
"""Where to begin: at a byte of the file, or at the last compaction that the program recorded."""
_BOUNDARIES = (b'"compact_boundary"', b'"compacted"')
"""Bytes in the row of a compaction of Claude Code, and of Codex."""
_ITEM, _NO_ITEM = b'"response_item"', b'"ghost_snapshot"'
"""Bytes in the row of an item of Codex, and in the row of an item that is no message."""
_RESULT, _ANSWERS = b'"tool_result"', (b'"answers"', b"the user said:")
"""Bytes in rows with a tool's result, and in those with an answer or a refusal's reason."""
_SPOKEN = (b'"user"', b'"queue-operation"', b'"queued_command"', b'"user_message"')
"""Bytes in rows that hold what a person typed, also while the program worked."""


def load_since(path: Path, since: Since) -> Document:
    """Load the rows of a file of JSON Lines from `since` on. From a compaction on, rows with a
    person's earlier words come first. Rows that are no JSON are left out.

    Raises:
        InvalidTranscript: the file cannot be read.
    """
    try:
        if is_other_kind(path):
            raise InvalidTranscript(str(path), "a pipe or a device, not a file")
        with path.open("rb") as stream:
            earlier = 0
            if since == "boundary":
                lines, earlier = _since_boundary(stream)
            else:
                stream.seek(max(0, since - 1))
                lines = list(stream)[since > 0 :]  # in the middle of a line: the next one
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidTranscript):
            raise
        raise InvalidTranscript(str(path), unreadable(error)) from None
    rows = list(_parsed(lines))
    broken = sum(map(bool, map(bytes.strip, lines))) - len(rows)
    notes = (f"{broken} rows that are no JSON",) if broken else ()
    return JsonLines(str(path), b"".join(lines), rows, notes, earlier)


def _since_boundary(stream: Iterable[bytes]) -> tuple[list[bytes], int]:
    """Return the lines, and the number of Codex's items before the compaction."""
    said, lines, earlier = list[bytes](), list[bytes](), 0
    for line in stream:
        if any(sign in line for sign in _BOUNDARIES) and _is_boundary(line):
            said += filter(_may_be_said, lines)
            earlier += sum(_ITEM in line and _NO_ITEM not in line for line in lines)
            lines = []
        lines.append(line)
    return said + lines, earlier


def _is_boundary(line: bytes) -> bool:
    row: Any = next(_parsed([line]), (0, None))[1]
    if not isinstance(row, Mapping) or row.get("isSidechain"):
        return False
    return claude_code.is_boundary(row) or (row.get("type") == "compacted" and "payload" in row)


def _may_be_said(line: bytes) -> bool:
    signs = _ANSWERS if _RESULT in line else _SPOKEN
    return any(sign in line for sign in signs)


def _parsed(lines: Iterable[bytes]) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, 1):
        try:
            yield number, orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
