"""Where the conversations are, and the measure's own tool beside them; both may be absent."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from compact.messages.messages import Message
from evals import formats
from evals.split import Half, half_of

REPO_ROOT = Path(__file__).resolve().parents[1]
SAMPLE = REPO_ROOT / "src" / "compact" / "cli" / "sample" / "harbour.jsonl"
"""An invented session of the repository's own."""
_SESSIONS = (
    "claude_code_sessions/*.jsonl",
    "specstory_sessions/*__*.md",
    "mini_swe_agent_gemini3/*.json",
)


class NoData(Exception):
    """There is nothing to measure here; `asked` tells whether somebody said there would be."""

    def __init__(self, reason: str, *, asked: bool) -> None:
        super().__init__(reason)
        self.asked = asked


def folder(given: Path | None = None) -> Path:
    """The data folder: the one given, else `$COMPACT_DATA`, else the shared folder beside the
    repository.

    Raises:
        NoData: it is not there, or holds no conversation.
    """
    named = given or (Path(name) if (name := os.environ.get("COMPACT_DATA")) else None)
    path = named or REPO_ROOT.parent / "shared" / "data"
    if not path.is_dir():
        raise NoData("the data folder is not there", asked=named is not None)
    if not any(path.glob("*/*.json*")):
        raise NoData("the data folder holds no conversation", asked=True)
    return path


def measure(data: Path) -> ModuleType:
    """The tool that defines future-reference coverage, from the folder `tools` beside the data
    folder.

    Raises:
        NoData: it is not there.
    """
    path = data.resolve().parent / "tools" / "future_reference.py"
    if not path.is_file():
        raise NoData("tools/future_reference.py is not beside the data folder", asked=False)
    spec = importlib.util.spec_from_file_location("future_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    keep, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = keep
    return module


def claude_code_sessions(data: Path) -> list[Path]:
    """The first fifteen Claude Code sessions, in the order of their names."""
    return sorted((data / "claude_code_sessions").glob("*.jsonl"))


def every_claude_code_session(data: Path) -> list[Path]:
    """Those of all folders, also of other teams."""
    patterns = ("claude_code_sessions/*", "claude_code_sessions_2/*", "claude_code_others/*/*")
    return [path for each in patterns for path in sorted(data.glob(f"{each}.jsonl"))]


def half_of_conversation(data: Path, name: str) -> Half:
    """The part of `file` or, where that holds many conversations, of `file #number` (from 1)."""
    file, _, number = name.partition(" #")
    path = data / file
    if number:
        return half_of(conversation_ids(path)[int(number) - 1])
    return half_of(path.stem, folder=path.parent.name)


@cache
def conversation_ids(path: Path) -> tuple[str, ...]:
    """The ids of the conversations of a JSON file that holds many, in its order."""
    parsed = json.loads(path.read_text(encoding="utf-8"))
    rows = parsed["simulations"] if isinstance(parsed, dict) else parsed
    return tuple(map(id_of, rows))


def id_of(row: Row) -> str:
    """The id of one conversation of such a file."""
    if "traj" in row:
        return f"{row['task_id']}/{row['trial']}"
    return str(row.get("question_id") or row.get("sample_id") or row["id"])


Row = dict[str, Any]


def sessions(data: Path | None) -> Iterator[tuple[str, Sequence[Message]]]:
    """Coding sessions by their names, of every tool there is; without data the repository's own."""
    if data is None:
        yield SAMPLE.stem, formats.read(SAMPLE).messages
        return
    for pattern in _SESSIONS:
        for path in sorted(data.glob(pattern)):
            yield path.name.split(".")[0], formats.read(path).messages
