"""Reads transcripts as a stream of rows around their compactions, for `compactctl look`.

The other readers build whole conversations. They drop what this module needs: times of rows,
attachments, the facts in a compaction's row, and the place of a row in the file. This module reads
one row at a time and never fails: a line that is no JSON, or has the wrong form, is counted and
left out.

- Files are found by their content. A file is read only if it has a compaction, which a search for a
  few bytes shows before any JSON is parsed.
- Rows of sub-agents have their own `chain`.
- A row with a known `uuid` is a repetition and is left out.
- `said` and the values of `calls` are what the agent wrote. `said` and `results` are what it was
  shown.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson

from compact.text.speakers import spoken_text

Kind = Literal["agent", "user", "typed", "given", "boundary"]
LONGEST_LINE = 32_000_000
"""The longest line that is read, in bytes. No row that a person or an agent wrote is as long."""
_HEAD, _CHUNK = 16_384, 1 << 20
_WRONG = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""Errors that a row of a wrong form may raise while it is read."""
_MARKS: dict[str, tuple[bytes, ...]] = {
    "claude_code": (b'"compact_boundary"',),
    "codex": (b'"compacted"',),
    "pi": (b'"compaction"',),
    "opencode": (b'"summary": true', b'"summary":true'),
}
"""Program → bytes that are in each of its files with a compaction, and in few others."""
_SIGNS: dict[str, re.Pattern[bytes]] = {
    "codex": re.compile(rb'\A\s*\{.{0,80}"type": ?"session_meta"'),
    "pi": re.compile(rb'\A\s*\{"type": ?"session"'),
    "opencode": re.compile(rb'\A\s*\{\s*"info": ?\{\s*"id": ?"ses'),
    "gemini": re.compile(rb'(?s)\A\s*\{.{0,400}"projectHash"'),
    "claude_code": re.compile(
        rb'\A\s*\{(?!"type": ?"session\.)"(?:parentUuid|type|sessionId|uuid|isSidechain|cwd)":'
        rb'(?s:.*)"(?:parentUuid|leafUuid|sessionId|messageId)"'
    ),
}
"""Program → a pattern of the beginning of its files."""
_COPY = b',"toolUseResult":'
"""The start of Claude Code's second copy of a result. It is half of a file, and is not parsed."""


class Call(NamedTuple):
    """A tool call of an agent."""

    id: str
    tool: str
    arguments: Any


class Result(NamedTuple):
    """The result of a call."""

    call_id: str
    text: str
    is_error: bool


class Boundary(NamedTuple):
    """The facts that a file records of one compaction. `seconds` is the pause."""

    key: str
    time: str
    automatic: bool | None
    tokens: int | None
    seconds: float | None
    kept: frozenset[str]
    """Keys of the earlier rows that the agent still sees word for word."""
    summary: str = ""
    is_readable: bool = True
    """Whether the summary is text. Codex encrypts it, and keeps the person's messages."""


class Row(NamedTuple):
    """One row of a conversation, with the fields that the measures need."""

    kind: Kind
    key: str = ""
    chain: str = ""
    """The id of the sub-agent. It is empty for a row of the session itself."""
    time: str = ""
    said: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    person: str = ""
    """The words that a person typed, without what a program added."""
    is_summary: bool = False
    boundary: Boundary | None = None
    cached: int | None = None
    """Tokens that the request wrote into the provider's cache."""
    at: int = 0
    """Where the row begins in the file, in bytes."""

    @property
    def texts(self) -> list[str]:
        """The texts in the row's calls and results."""
        arguments = [text for call in self.calls for text in values(call.arguments)]
        return arguments + [result.text for result in self.results]


class Found(NamedTuple):
    """A file that holds a conversation."""

    path: Path
    format: str
    size: int
    modified: float
    is_part: bool
    """Whether the file holds a sub-agent's part of a session in another file."""


def homes() -> list[Path]:
    """Return the folders where coding agents keep their transcripts on this computer."""
    home, env = Path.home(), os.environ.get
    folders = [
        Path(env("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects",
        Path(env("CODEX_HOME") or home / ".codex") / "sessions",
        home / ".pi" / "agent" / "sessions",
        Path(env("XDG_DATA_HOME") or home / ".local/share") / "opencode",
        home / ".gemini" / "tmp",
    ]
    return [folder for folder in folders if folder.is_dir()]


def find(paths: list[Path]) -> Iterator[Found]:
    """Yield the conversations in files and folders, in the order of their paths."""
    seen = set[tuple[int, int]]()
    for path in paths:
        for file in sorted(_files(path)):
            try:
                stat = file.stat()
                with file.open("rb") as stream:
                    format = _format_of(stream.read(_HEAD))
            except OSError:
                continue
            if format and (stat.st_dev, stat.st_ino) not in seen:
                seen.add((stat.st_dev, stat.st_ino))
                part = file.name.startswith("agent-")
                yield Found(file, format, stat.st_size, stat.st_mtime, part)


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            if name.endswith((".jsonl", ".json")) and file.is_file():
                yield file


def _format_of(head: bytes) -> str:
    """Return the program that wrote a file with this beginning. Empty if no known program did."""
    return next((name for name, sign in _SIGNS.items() if sign.search(head)), "")


def has_compaction(file: Found) -> bool:
    """Return whether a file may have a compaction. No JSON is parsed."""
    marks = _MARKS.get(file.format, ())
    try:
        with file.path.open("rb") as stream:
            left = b""
            while chunk := stream.read(_CHUNK):
                text = left + chunk
                if any(mark in text for mark in marks):
                    return True
                left = text[-40:]
    except OSError:
        pass
    return False


@dataclass(slots=True)
class Reader:
    """Reads the rows of one file."""

    file: Found
    broken: int = 0
    """Number of lines that could not be read."""
    _seen: set[str] = field(default_factory=set)
    _waiting: list[str] = field(default_factory=list)
    """Prompts that the user typed while the agent worked, and that the agent did not get yet."""
    _delivered: list[str] = field(default_factory=list)
    _tokens: int | None = None
    _summaries: set[str] = field(default_factory=set)

    def rows(self) -> Iterator[Row]:
        """Yield the rows in the file's order. If the file vanishes, they end early."""
        take = getattr(self, f"_{self.file.format}")
        try:
            for at, value in self._values():
                try:
                    made = list(take(value))
                except _WRONG:
                    self.broken += 1
                    continue
                for row in made:
                    if row.key in self._seen:
                        continue
                    if row.key:
                        self._seen.add(row.key)
                    yield row._replace(at=at)
        except OSError:
            self.broken += 1

    def _values(self) -> Iterator[tuple[int, Any]]:
        if self.file.format == "opencode":
            yield from self._document()
            return
        with self.file.path.open("rb", buffering=_CHUNK) as stream:
            at = 0
            while line := stream.readline(LONGEST_LINE):
                start, at = at, at + len(line)
                if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
                    while (rest := stream.readline(_CHUNK)) and not rest.endswith(b"\n"):
                        at += len(rest)
                    at += len(rest)
                    self.broken += 1
                elif line.strip() and not _is_progress(line):
                    try:
                        value = parsed(line)
                    except (ValueError, RecursionError):
                        self.broken += 1
                    else:
                        yield start, value

    def _document(self) -> Iterator[tuple[int, Any]]:
        try:
            if self.file.size > LONGEST_LINE:
                raise ValueError("too large to be read whole")
            messages = parsed(self.file.path.read_bytes())["messages"]
            yield from enumerate(messages)
        except _WRONG:
            self.broken += 1

    # --- Claude Code ------------------------------------------------------------------------------

    def _claude_code(self, row: dict[str, Any]) -> Iterator[Row]:
        kind, key = row["type"], _text(row.get("uuid"))
        side = bool(row.get("isSidechain"))
        chain = (_text(row.get("agentId")) or "side") if side else ""
        common = Row("given", key, chain, _text(row.get("timestamp")))
        if kind in ("user", "assistant") and row.get("message"):
            yield _spoken(common, row, row["message"])
        elif row.get("subtype") == "compact_boundary":
            yield common._replace(kind="boundary", boundary=_boundary(common, row))
        elif kind == "attachment":
            attachment = row["attachment"]
            if attachment["type"] == "queued_command":
                if attachment.get("commandMode", "prompt") == "prompt":
                    yield from self._typed(common, _joined(attachment.get("prompt")))
            else:
                yield common._replace(said="\n".join(values(attachment)))
        elif kind == "queue-operation":
            yield from self._queue(common, row)

    def _queue(self, common: Row, row: dict[str, Any]) -> Iterator[Row]:
        match row.get("operation"), row.get("content"):
            case "enqueue", str(text):
                self._waiting.append(text)
            case "dequeue", _:  # its user row follows
                del self._waiting[:1]
            case "remove", _ if self._waiting:  # the agent got it in the middle of a turn
                yield from self._typed(common, self._waiting[0])
            case "popAll", _:
                self._waiting.clear()

    def _typed(self, common: Row, text: str) -> Iterator[Row]:
        """Yield a prompt that the agent got while it worked. Newer files record it twice."""
        if text in self._waiting:
            self._waiting.remove(text)
        if text in self._delivered:
            self._delivered.remove(text)
            return
        self._delivered.append(text)
        if words := spoken_text(text):
            yield common._replace(kind="typed", person=words)

    # --- Codex, pi, OpenCode, Gemini --------------------------------------------------------------

    def _codex(self, row: dict[str, Any]) -> Iterator[Row]:
        payload, common = row["payload"], Row("given", time=_text(row.get("timestamp")))
        match row["type"], payload.get("type"):
            case "compacted", _:
                texts = [
                    _joined(x.get("content")) for x in payload.get("replacement_history") or ()
                ]
                summary = "\n".join((_text(payload.get("message")), *texts))
                key = f"{common.time}/{len(summary)}"
                is_readable = bool(payload.get("message"))
                facts = (common.time, None, self._tokens, None, frozenset[str]())
                made = Boundary(key, *facts, summary, is_readable)
                yield common._replace(kind="boundary", boundary=made)
            case "event_msg", "user_message" if payload.get("kind") in (None, "plain"):
                yield common._replace(kind="typed", person=_text(payload["message"]).strip())
            case "event_msg", "token_count":
                usage = (payload.get("info") or {}).get("last_token_usage") or {}
                self._tokens = _int_or_none(usage.get("total_tokens")) or self._tokens
            case "response_item", "message":
                kind: Kind = "agent" if payload["role"] == "assistant" else "user"
                yield common._replace(kind=kind, said=_joined(payload["content"]))
            case "response_item", "function_call" | "custom_tool_call" | "local_shell_call":
                raw = payload.get("arguments", payload.get("input", payload.get("action")))
                name = _text(payload.get("name")) or "shell"
                call = Call(_text(payload.get("call_id")), name, _arguments(raw))
                yield common._replace(kind="agent", calls=(call,))
            case "response_item", "function_call_output" | "custom_tool_call_output":
                result = _codex_result(_text(payload["call_id"]), payload.get("output"))
                yield common._replace(kind="user", results=(result,))

    def _pi(self, row: dict[str, Any]) -> Iterator[Row]:
        number = len(self._seen)
        key = _text(row.get("id")) or f"row {number}"
        common = Row("given", key, time=_text(row.get("timestamp")))
        if row["type"] == "compaction":
            first = row.get("firstKeptEntryIndex")
            kept = frozenset(f"row {n}" for n in range(first, number)) if first else frozenset()
            tokens, summary = _int_or_none(row.get("tokensBefore")), _text(row["summary"])
            made = Boundary(key, common.time, None, tokens, None, kept, summary)
            yield common._replace(kind="boundary", boundary=made)
        elif row["type"] == "message":
            yield _pi_message(common, row["message"])
        else:
            yield common

    def _opencode(self, row: dict[str, Any]) -> Iterator[Row]:
        info, parts = row["info"], row["parts"]
        time = str(info.get("time", {}).get("created", ""))
        common = Row("given", _text(info.get("id")), time=time)
        texts = "\n".join(p["text"] for p in parts if p["type"] == "text")
        if info.get("summary") is True and info["role"] == "assistant":
            made = Boundary(common.key, time, None, None, None, frozenset(), texts)
            yield common._replace(kind="boundary", boundary=made)
            return
        own = "\n".join(p["text"] for p in parts if p["type"] == "text" and not p.get("synthetic"))
        is_person = info["role"] == "user"
        yield common._replace(
            kind="user" if is_person else "agent", said=texts, person=own if is_person else ""
        )
        for part in parts:
            if part["type"] == "tool":
                state, id = part["state"], _text(part["callID"])
                call = Call(id, _text(part["tool"]), state.get("input"))
                failed = state.get("status") == "error"
                text = _text(state.get("error" if failed else "output"))
                yield Row("agent", f"{id} call", time=time, calls=(call,))
                yield Row("user", f"{id} result", time=time, results=(Result(id, text, failed),))


def parsed(line: bytes) -> Any:  # noqa: ANN401 - JSON
    """Return a line of JSON as a value, without the second copy of a result. Bytes that are not
    UTF-8, and halves of surrogate pairs, are replaced.

    Raises:
        ValueError: the line is no JSON.
    """
    cut = line.find(_COPY)
    if cut > 0:
        try:
            return orjson.loads(line[:cut] + b"}")
        except ValueError:
            pass
    try:
        return orjson.loads(line)
    except ValueError:
        value = json.loads(line.decode("utf-8", "replace"))
        return orjson.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _is_progress(line: bytes) -> bool:
    head = line[:500]
    at = head.find(b'"type":"progress"')
    return at >= 0 and head.find(b'"message"', 0, at) < 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _int_or_none(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _joined(content: object) -> str:
    if isinstance(content, list):
        texts = (block.get("text") for block in content if isinstance(block, dict))
        return "\n".join(text for text in texts if isinstance(text, str))
    return _text(content)


def values(value: object) -> Iterator[str]:
    """Yield the strings in a JSON value, without the keys of objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from values(inner)


def _spoken(common: Row, row: dict[str, Any], message: dict[str, Any]) -> Row:
    content, usage = message.get("content"), message.get("usage")
    blocks = content if isinstance(content, list) else []
    said = content if isinstance(content, str) else ""
    said = said or "\n".join(b["text"] for b in blocks if b["type"] == "text")
    if row["type"] == "assistant":
        calls = tuple(
            Call(_text(b.get("id")), _text(b["name"]), b["input"])
            for b in blocks
            if b["type"] == "tool_use"
        )
        usage = usage if isinstance(usage, dict) else {}
        cached = _int_or_none(usage.get("cache_creation_input_tokens"))
        return common._replace(kind="agent", said=said, calls=calls, cached=cached)
    results = tuple(
        Result(_text(b.get("tool_use_id")), _joined(b.get("content")), bool(b.get("is_error")))
        for b in blocks
        if b["type"] == "tool_result"
    )
    is_summary = bool(row.get("isCompactSummary"))
    origin = row.get("origin")
    is_program = isinstance(origin, dict) and origin.get("kind", "human") not in ("human", "user")
    is_person = not (results or is_summary or is_program or row.get("isMeta") or common.chain)
    person = spoken_text(said) if is_person and said else ""
    return common._replace(
        kind="user", said=said, results=results, person=person, is_summary=is_summary
    )


def _boundary(common: Row, row: dict[str, Any]) -> Boundary:
    facts = row.get("compactMetadata")
    facts = facts if isinstance(facts, dict) else {}
    trigger, pause, kept = (
        facts.get("trigger"),
        facts.get("durationMs"),
        facts.get("preservedMessages"),
    )
    kept = kept if isinstance(kept, dict) else {}
    return Boundary(
        common.key or common.time,
        common.time,
        trigger == "auto" if isinstance(trigger, str) else None,
        _int_or_none(facts.get("preTokens")),
        pause / 1000 if isinstance(pause, int | float) else None,
        frozenset(x for x in kept.get("allUuids") or kept.get("uuids") or () if _text(x)),
    )


def _arguments(raw: object) -> object:
    if isinstance(raw, str) and raw.startswith("{"):
        try:
            return orjson.loads(raw)
        except ValueError:
            return raw
    return raw


def _codex_result(call_id: str, output: object) -> Result:
    value = _arguments(output)
    text, failed = _joined(value), False
    if isinstance(value, dict):
        facts = value.get("metadata")
        failed = isinstance(facts, dict) and facts.get("exit_code") not in (0, None)
        text = _joined(value.get("output", value.get("content")))
    failed = failed or bool(re.match(r"(?s).{0,200}?[Ee]xited with code [1-9]", text))
    return Result(call_id, text, failed)


def _pi_message(common: Row, message: dict[str, Any]) -> Row:
    role, content = message["role"], message.get("content")
    said = _joined(content)
    blocks = content if isinstance(content, list) else []
    if role == "assistant":
        calls = tuple(
            Call(_text(b.get("id")), _text(b["name"]), b["arguments"])
            for b in blocks
            if b["type"] == "toolCall"
        )
        return common._replace(kind="agent", said=said, calls=calls)
    if role == "toolResult":
        made = Result(_text(message.get("toolCallId")), said, bool(message.get("isError")))
        return common._replace(kind="user", results=(made,))
    person = spoken_text(said) if role == "user" else ""
    return common._replace(kind="user", said=said, person=person)
