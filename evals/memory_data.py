"""Talks of many sessions with questions whose answers are known: LoCoMo and LongMemEval, as stores
keep them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from compact.errors import CompactError
from compact.messages.messages import Message
from compact.messages.sessions import Branch, Entry, Session
from compact.store.sqlite.store import SQLiteManager
from compact.store.whole_session import OwnPart, WholeSession
from evals import formats

LOCOMO = Path("locomo") / "locomo_first5.json"
LONGMEMEVAL = Path("longmemeval_subset") / "longmemeval_s_subset.json"
BEAM = Path("..") / "beam_100k"
_TURN = re.compile(r"D(\d+):(\d+)")
_LOCOMO_TIME, _LONGMEMEVAL_TIME = "%I:%M %p on %d %B, %Y", "%Y/%m/%d (%a) %H:%M"
_BEAM_TIME = "%B-%d-%Y"
_BEAM_MARK = re.compile(r"\s*->->[\s\d,]*$")


@dataclass(frozen=True)
class Asked:
    """A question, and where its answer stands."""

    text: str
    kind: str
    sessions: frozenset[str]
    """All of them are needed."""
    messages: frozenset[str]
    """Ids; none where only the sessions are known."""


@dataclass(frozen=True)
class Talk:
    """Sessions of one person or two, with questions on them."""

    name: str
    sessions: Mapping[str, Sequence[Message]]
    asked: Sequence[Asked]


def locomo(folder: Path) -> Iterator[Talk]:
    """The conversations of LoCoMo with the questions that have evidence. A message that shows a
    picture says its caption.
    """
    for number, row in enumerate(json.loads((folder / LOCOMO).read_text(encoding="utf-8"))):
        told = row["conversation"]
        numbers = [key.split("_")[1] for key in told if key.endswith("_date_time")]
        sessions = {n: list(_locomo_session(told, n)) for n in numbers if told.get(f"session_{n}")}
        known = {message.id for messages in sessions.values() for message in messages}
        asked = [_locomo_question(each, known) for each in row["qa"]]
        yield Talk(f"locomo {number}", sessions, [each for each in asked if each.messages])


def _locomo_session(told: Mapping[str, Any], number: str) -> Iterator[Message]:
    at = datetime.strptime(told[f"session_{number}_date_time"], _LOCOMO_TIME).replace(tzinfo=UTC)
    for place, turn in enumerate(told[f"session_{number}"]):
        caption = turn.get("blip_caption")
        yield Message(
            id=turn["dia_id"],
            role="user" if turn["speaker"] == told["speaker_a"] else "assistant",
            name=turn["speaker"],
            content=turn["text"] + (f" [{caption}]" if caption else ""),
            timestamp=at + timedelta(minutes=place),
        )


def _locomo_question(row: Mapping[str, Any], known: set[str]) -> Asked:
    found = [turn for text in row.get("evidence", []) for turn in _TURN.finditer(text)]
    messages = frozenset(turn[0] for turn in found if turn[0] in known)
    sessions = frozenset(turn[1] for turn in found if turn[0] in known)
    return Asked(row["question"], str(row["category"]), sessions, messages)


def longmemeval(folder: Path) -> Iterator[Talk]:
    """The histories of LongMemEval with their questions."""
    for row in json.loads((folder / LONGMEMEVAL).read_text(encoding="utf-8")):
        ids, dates = row["haystack_session_ids"], row["haystack_dates"]
        sessions = {}
        for name, date, turns in zip(ids, dates, row["haystack_sessions"], strict=True):
            at = datetime.strptime(date, _LONGMEMEVAL_TIME).replace(tzinfo=UTC)
            sessions[name] = [
                Message(role=turn["role"], content=turn["content"], timestamp=at)
                for turn in turns
                if turn["content"]
            ]
        asked = [
            Asked(text, row["question_type"], frozenset(own), frozenset())
            for text, own in zip(row["questions"], row["answer_session_ids"], strict=True)
        ]
        yield Talk(f"longmemeval {row['question_id']}", sessions, asked)


def beam(folder: Path) -> Iterator[Talk]:
    """The chats of BEAM with the questions that have evidence. A batch of turns is a session. The
    first half of the chats may be looked at.
    """
    chats = sorted((folder / BEAM).glob("*/chat.json"), key=lambda path: int(path.parent.name))
    for number, path in enumerate(chats):
        sessions = {
            str(batch["batch_number"]): list(_beam_session(batch["turns"]))
            for batch in json.loads(path.read_text(encoding="utf-8"))
        }
        own = {message.id: name for name, messages in sessions.items() for message in messages}
        rows = json.loads(path.with_name("probing_questions.json").read_text(encoding="utf-8"))
        asked = []
        for kind, questions in rows.items():
            for row in questions:
                ids = frozenset(_beam_ids(row.get("source_chat_ids", []))) & own.keys()
                names = frozenset(own[each] for each in ids)
                asked += [Asked(row["question"], kind, names, ids)] if ids else []
        half = "look" if number < len(chats) / 2 else "score"
        yield Talk(f"beam {half} {number}", sessions, asked)


def _beam_session(turns: Sequence[Sequence[Mapping[str, Any]]]) -> Iterator[Message]:
    at = datetime(2024, 1, 1, tzinfo=UTC)
    for message in (each for turn in turns for each in turn):
        with suppress(KeyError, ValueError):
            at = datetime.strptime(str(message["time_anchor"]), _BEAM_TIME).replace(tzinfo=UTC)
        at += timedelta(minutes=1)
        content = _BEAM_MARK.sub("", message["content"])
        yield Message(id=str(message["id"]), role=message["role"], content=content, timestamp=at)


def _beam_ids(value: object) -> Iterator[str]:
    """Yield the ids of messages in lists and maps of lists."""
    if isinstance(value, int):
        yield str(value)
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _beam_ids(each)


def stored(talks: Sequence[Talk], path: str = ":memory:") -> SQLiteManager:
    """A store that holds each talk in a scope of its name; a session's id is the talk's and its
    own.
    """
    store = SQLiteManager(path, durability="normal")
    for talk in talks:
        for name, messages in talk.sessions.items():
            own = f"{talk.name}/{name}"
            begun = messages[0].timestamp if messages else datetime.now(UTC)
            branch = Branch(id=own, session_id=own, created_at=begun)
            session = Session(id=own, scope=talk.name, created_at=begun, branch=branch)
            part = OwnPart(branch, [Entry(message) for message in messages])
            store.put_session(WholeSession(session, [part]))
    return store


# --- questions on coding sessions -----------------------------------------------------------------

LABELS = Path(__file__).parent / "labels" / "memory.jsonl"
"""Questions of our own on real coding sessions: written by somebody who read the sessions and saw
neither this code nor what it finds."""
_CODING = (
    *("claude_code_sessions", "claude_code_sessions_2", "claude_code_others", "codex_rollouts"),
    *("specstory_sessions", "gemini_cli_sessions", "opencode_sessions", "pi_sessions"),
    *("copilot_cli_sessions", "mini_swe_agent_gemini3", "swe_agent"),
)


def coding(folder: Path) -> Talk:
    """All coding sessions as one talk, with the questions."""
    sessions: dict[str, Sequence[Message]] = {}
    files = (path for name in _CODING for path in sorted((folder / name).rglob("*")))
    for path in files:
        if not path.is_file() or path.suffix not in (".json", ".jsonl", ".md", ".traj"):
            continue
        with suppress(CompactError):
            sessions[path.stem] = formats.read(path).messages
    rows = map(json.loads, LABELS.read_text(encoding="utf-8").splitlines())
    asked = [
        Asked(row["question"], row["half"], frozenset(row["sessions"]), frozenset())
        for row in rows
        if sessions.keys() >= set(row["sessions"])
    ]
    return Talk("coding", sessions, asked)
