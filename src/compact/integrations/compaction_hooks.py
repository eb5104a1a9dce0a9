"""What Claude Code and Codex are given after they compacted a conversation.

Before the compaction (`PreCompact`), a process of its own makes the text from the transcript while
the host summarizes. After it (`SessionStart` with the source `compact`), the text is printed once.
A record per session, in a folder of the user's, holds the text in between. The record is locked
while it is used, so that of several starts only one gives the text. A lock ends with its process.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from compact.files import lock_file, state_folder

BEFORE, AFTER = "pre-compact", "session-start"
"""Arguments of `compactctl hook`, by which our entries in a host's file are known."""
Event = Mapping[str, Any]
"""What a host writes to a hook: `session_id`, `transcript_path`, `source` and others."""
MOST = 9_000
"""Most characters of an answer. Of more than 10,000 the hosts show the model only a part."""
TOKENS = 1_000
"""Most tokens of a text (o200k)."""
KEPT_DAYS = 7
"""After so many days a record is deleted. It holds text only until the text is given."""
HEAD = (
    "From the conversation before this compaction, found by code; the summary may lack it. For "
    "reference only: the user's newest words win.\n\n"
)
_SAID_BY_HOST = "codex_cli"
"""The format of the host that keeps the user's messages through a compaction itself."""
_HOSTS: Mapping[str, str] = {"claude_code": "claude-code", _SAID_BY_HOST: "codex"}
"""Format of a transcript → its host."""
GIVEN = "given.jsonl"
"""The file of notes on what was given: a JSON object on each line, without any of the text."""


def folder() -> Path:
    """Return the folder of the records and notes."""
    return state_folder() / "hooks"


def pre_compact(event: Event) -> None:
    """Begin to make the text for a session, in a process of its own where the system has forks."""
    announced = time.time()
    _forget_old(announced)
    with _record(event) as record:
        record.clear()
        record["announced"] = announced
    if hasattr(os, "fork"):
        if os.fork():
            return
        os.setsid()
        for stream in range(3):  # the host waits for the end of our output
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    try:
        made = _made(event)
        with _record(event) as record:
            if record == {"announced": announced}:
                record |= made
    finally:
        if hasattr(os, "fork"):
            os._exit(0)


def session_start(event: Event) -> str:
    """Return the host's answer with the text; empty if there is nothing to give."""
    if event.get("source") != "compact":
        return ""
    with _record(event) as record:
        if "given" in record:
            return ""  # Codex may start several times for one compaction
        made = "ahead" if "text" in record else "late"
        found = {**record} if "text" in record else _made(event)
        text = found.pop("text")
        answer = _answer(text)
        record.clear()
        record["given"] = time.time()
    _note({**found, "characters": len(text), "made": made})
    return answer


def _made(event: Event) -> dict[str, Any]:
    """Make the text, and what is noted of it.

    Raises:
        KeyError: the transcript is of another program.
    """
    from compact import wiring
    from compact.session.handover import handover

    start, path = time.perf_counter(), str(event["transcript_path"])
    transcript = wiring.read_transcript(path, since="boundary")
    host = _HOSTS[transcript.format]
    text = HEAD + handover(
        transcript.messages,
        max_tokens=TOKENS - len(HEAD) // 4,
        max_chars=MOST - 2 * len(HEAD),
        since=transcript.compacted if transcript.format != _SAID_BY_HOST else 0,
        originals=_originals(path),
        tokenizer="o200k",
    )
    return {
        "text": text,
        "host": host,
        "session": event["session_id"],
        "transcript": path,
        "uuid": transcript.container.fields.get("last_uuid"),
        "tokens": wiring.token_counter("anthropic", tokenizer="o200k").text(text),
        "seconds": round(time.perf_counter() - start, 3),
    }


def own_command() -> str:
    """Return the command that starts this installation's compactctl from any folder."""
    script = Path(sys.executable).with_name("compactctl" + ".exe" * (os.name == "nt"))
    words = [str(script)] if script.is_file() else [sys.executable, "-m", "compact"]
    if os.name != "nt":
        return shlex.join(words)
    from subprocess import list2cmdline

    return list2cmdline(words)


def _originals(path: str) -> str:
    command = "compactctl" if shutil.which("compactctl") else own_command()
    file = shlex.quote(path)
    return (
        f"To read a message whole: `{command} expand FILE ID`; to search all that was said: "
        f"`{command} recall FILE WORDS`; FILE is {file}."
    )


def _answer(text: str) -> str:
    while True:
        given = {"hookEventName": "SessionStart", "additionalContext": text}
        answer = json.dumps({"hookSpecificOutput": given}, ensure_ascii=False)
        if len(answer) <= MOST:
            return answer
        text = text[: len(text) * 9 // 10]


@contextmanager
def _record(event: Event) -> Iterator[dict[str, Any]]:
    """Hold the record of the event's session for the block, and write what was changed."""
    name = hashlib.sha256(str(event["session_id"]).encode()).hexdigest()[:32]
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = os.open(folder() / f"{name}.json", os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(opened, "r+b") as stream:
        lock_file(stream)
        try:
            record = dict(json.loads(stream.read()))
        except (ValueError, TypeError):  # new, or the system stopped while it was written
            record = {}
        before = dict(record)
        yield record
        if record != before:
            stream.seek(0)
            stream.truncate()
            stream.write(json.dumps(record).encode())


def _note(given: Mapping[str, Any]) -> None:
    """Write down what was given, for `compactctl look`."""
    kept = {key: value for key, value in given.items() if key != "announced"}
    line = json.dumps({"time": datetime.now(UTC).isoformat(), **kept}) + "\n"
    with suppress(OSError):
        opened = os.open(folder() / GIVEN, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(opened, line.encode())
        finally:
            os.close(opened)


def _forget_old(now: float) -> None:
    for path in folder().glob("*.json"):
        with suppress(OSError):
            if path.stat().st_mtime < now - KEPT_DAYS * 86_400:
                path.unlink()
