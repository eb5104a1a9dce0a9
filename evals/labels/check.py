#!/usr/bin/env python3
"""Verify the instruction labels against the conversations they point into.

The labels hold no text: a file, a place in it, character offsets and a hash.  ``load`` reads
them and ``resolve`` gives back the labelled sentence; run as a script, this module checks
every label and prints a table per file.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LABELS = HERE / "instructions.jsonl"
REPO_ROOT = HERE.parents[1]

KINDS = frozenset({"rule", "constraint", "preference", "requirement"})
KEYWORD = re.compile(r"\b(?:never|always|must|please)\b", re.IGNORECASE)
TURN_HEADING = re.compile(r"_\*\*(?:User|Agent)")
MIN_LABELS = 60
MIN_CHARS, MAX_CHARS = 12, 400


class LabelError(Exception):
    """A label that does not fit the data."""


@dataclass(frozen=True)
class Label:
    """One sentence a person wrote that must outlive compression."""

    file: str  # path under the data folder
    row: int | str  # line number (JSONL, Markdown) or JSON pointer (JSON), both from 0
    id: str | None  # uuid of the JSONL row
    start: int  # offsets in the user's text, in code points
    end: int
    sha256: str
    keyword: bool
    kind: str


def load(labels_path: Path | str = LABELS) -> list[Label]:
    """Read the labels, one JSON object per line."""
    with open(labels_path, encoding="utf-8") as lines:
        return [Label(**json.loads(line)) for line in lines if line.strip()]


def resolve(label: Label, data_dir: Path | str) -> str:
    """Return the labelled sentence; raise LabelError if it is not where the label says."""
    try:
        text = turn_text(label, Path(data_dir))
    except (OSError, LookupError, ValueError, TypeError) as error:
        raise LabelError(f"no user text there ({type(error).__name__}: {error})") from error
    span = text[label.start : label.end]
    if hashlib.sha256(span.encode("utf-8")).hexdigest() != label.sha256:
        raise LabelError("the hash does not match")
    return span


def turn_text(label: Label, data_dir: Path) -> str:
    """Return the whole text of the user turn that holds the label."""
    path = data_dir / label.file
    text: object
    if isinstance(label.row, str):
        text = _at_pointer(_read_json(path), label.row)
    elif path.suffix == ".md":
        text = _markdown_turn(_read_lines(path), label.row)
    else:
        text = _claude_code_turn(json.loads(_read_lines(path)[label.row]), label.id)
    if not isinstance(text, str):
        raise TypeError("not a string")
    return text


def _claude_code_turn(event: dict[str, Any], uuid: str | None) -> str:
    if event.get("type") != "user" or event.get("isMeta") or event.get("isCompactSummary"):
        raise ValueError("not a user event")
    if event.get("uuid") != uuid:
        raise ValueError("another uuid")
    content = event["message"]["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")


def _markdown_turn(lines: tuple[str, ...], heading: int) -> str:
    if not lines[heading].startswith("_**User"):
        raise ValueError("not a user heading")
    body: list[str] = []
    for line in lines[heading + 1 :]:
        if line == "---" or TURN_HEADING.match(line):
            break
        body.append(line)
    return "\n".join(body).strip()


def _at_pointer(document: object, pointer: str) -> object:
    node = document
    for part in pointer.split("/")[1:]:
        token = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            node = node[int(token)]
        elif isinstance(node, dict):
            node = node[token]
        else:
            raise TypeError(pointer)
    return node


@functools.lru_cache(maxsize=4)
def _read_lines(path: Path) -> tuple[str, ...]:
    # Not splitlines(): that also breaks at U+2028 and the like, inside JSON strings.
    return tuple(path.read_text(encoding="utf-8").split("\n"))


@functools.lru_cache(maxsize=4)
def _read_json(path: Path) -> object:
    document: object = json.loads(path.read_text(encoding="utf-8"))
    return document


def problems_of(label: Label, data_dir: Path) -> list[str]:
    """Return what is wrong with one label, in words."""
    try:
        span = resolve(label, data_dir)
    except LabelError as error:
        return [str(error)]
    found: list[str] = []
    if not MIN_CHARS <= len(span) <= MAX_CHARS:
        found.append(f"{len(span)} characters long")
    if span != span.strip():
        found.append("white space at an end")
    if label.keyword != bool(KEYWORD.search(span)):
        found.append("wrong keyword flag")
    if label.kind not in KINDS:
        found.append(f"unknown kind {label.kind!r}")
    return found


def check(labels: list[Label], data_dir: Path) -> list[str]:
    """Return every problem: of single labels, then of the set."""
    found = [
        f"{label.file} row {label.row} [{label.start}:{label.end}]: {problem}"
        for label in labels
        for problem in problems_of(label, data_dir)
    ]
    places = Counter((label.file, label.row, label.start) for label in labels)
    found += [f"labelled {n} times: {place}" for place, n in places.items() if n > 1]
    if len(labels) < MIN_LABELS:
        found.append(f"only {len(labels)} labels, {MIN_LABELS} wanted")
    if 3 * sum(not label.keyword for label in labels) < len(labels):
        found.append("fewer than a third of the labels are without a keyword")
    return found


def table(labels: list[Label]) -> str:
    """Return the number of labels per file, and how many of them have no keyword."""
    total = Counter(label.file for label in labels)
    plain = Counter(label.file for label in labels if not label.keyword)
    lines = ["labels  without keyword  file"]
    lines += [f"{total[file]:6}  {plain[file]:15}  {file}" for file in sorted(total)]
    lines.append(f"{total.total():6}  {plain.total():15}  in {len(total)} files")
    return "\n".join(lines)


def default_data_dir() -> Path:
    """Return $COMPACT_DATA, else the shared folder beside the repository."""
    return Path(os.environ.get("COMPACT_DATA") or REPO_ROOT.parent / "shared" / "data")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Verify the instruction labels.")
    parser.add_argument(
        "--data",
        type=Path,
        default=default_data_dir(),
        metavar="DIR",
        help="the conversations (default: $COMPACT_DATA, else ../shared/data)",
    )
    parser.add_argument("--labels", type=Path, default=LABELS, metavar="FILE")
    args = parser.parse_args(argv)

    if not args.data.is_dir():
        print("skipped: no data folder")
        return 0
    labels = load(args.labels)
    found = check(labels, args.data)
    print(table(labels))
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
