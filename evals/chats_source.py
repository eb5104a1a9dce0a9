"""The ten chats whose early facts are asked for, read from the data folder.

The rule of reading is written out in `evals/facts/README.md`; the locators in
`evals/facts/chats.jsonl` count messages and code points as this file lists them.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

LOCATORS = Path(__file__).parent / "facts" / "chats.jsonl"

Row = dict[str, Any]


def rows() -> tuple[list[Row], list[Row]]:
    """The chats and the facts, in the order of the file."""
    lines = LOCATORS.read_text(encoding="utf-8").splitlines()
    every = [json.loads(line) for line in lines]
    return [row for row in every if "file" in row], [row for row in every if "message" in row]


def messages(chat: Row, data: Path) -> list[Row]:
    """The chat's messages in order, each with `role` and `content`; `content` is always text.

    Messages of a tool dialogue keep their other fields (`tool_calls`, `tool_call_id`, `name`).
    """
    every = _parsed(data / chat["file"])
    reading = chat["messages"]["rule"]
    if reading == "longmemeval":
        return _longmemeval(every, chat)
    if reading == "locomo":
        return _locomo(every, chat)
    if reading == "tau":
        return _tau(every, chat)
    raise ValueError(f"no rule of reading is called {reading!r}")


def is_scored(conversation: str) -> bool:
    """Whether a conversation belongs to the half that is scored, not looked at."""
    return int(hashlib.sha256(conversation.encode()).hexdigest()[-1], 16) % 2 == 1


def text_of(fact: Row, content: str) -> str:
    """What the fact's locator points at."""
    return content[fact["start"] : fact["end"]]


def needed(fact: Row, content: str) -> list[str]:
    """The strings that must all occur in a context for the fact to count as found there.

    `needs` counts from the beginning of the slice, not of the message.
    """
    text = text_of(fact, content)
    return [text[start:end] for start, end in fact["needs"]]


def found(strings: list[str], context: str) -> bool:
    """Whether all strings occur in the context, each as whole words, whatever the case, the kind
    of apostrophe and the white space.
    """
    text = _plain(context)
    return all(re.search(rf"(?<!\w){re.escape(_plain(string))}(?!\w)", text) for string in strings)


def _plain(text: str) -> str:
    return " ".join(text.casefold().replace("\u2019", "'").split())


@cache
def _parsed(path: Path) -> list[Row]:
    parsed: list[Row] = json.loads(path.read_text(encoding="utf-8"))
    return parsed


def _longmemeval(every: list[Row], chat: Row) -> list[Row]:
    (history,) = (row for row in every if row["question_id"] == chat["conversation"])
    first, last = chat["messages"]["sessions"]
    return [
        {"role": turn["role"], "content": turn["content"]}
        for session in history["haystack_sessions"][first : last + 1]
        for turn in session
    ]


def _locomo(every: list[Row], chat: Row) -> list[Row]:
    (row,) = (row for row in every if row["sample_id"] == chat["conversation"])
    conversation = row["conversation"]
    first, last = chat["messages"]["sessions"]
    return [
        {
            "role": "user" if turn["speaker"] == conversation["speaker_a"] else "assistant",
            "content": f"{turn['speaker']}: {turn['text']}",
        }
        for number in range(first, last + 1)
        for turn in conversation[f"session_{number}"]
    ]


def _tau(every: list[Row], chat: Row) -> list[Row]:
    (row,) = (row for row in every if f"{row['task_id']}/{row['trial']}" == chat["conversation"])
    return [{**message, "content": message["content"] or ""} for message in row["traj"]]
