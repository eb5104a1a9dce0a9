"""Puts the files together: reads those with compactions, counts each compaction once, and makes the
one value that is printed, drawn or written as JSON.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from compact import wiring
from compact.errors import CompactError
from compact.files import state_folder
from compact.look.differences import Difference, Session, compare, contrast
from compact.look.lines import NameReader, with_file_names
from compact.look.measures import (
    Compaction,
    Conversation,
    Seen,
    Spoken,
    Window,
    beginning,
    letters,
    numbers,
    seconds_between,
)
from compact.look.moments import Asked, Moment, asked_again, nearest_lines, worst
from compact.secrets.redaction import redact
from compact.session.one_call import plan
from compact.text.instructions import score_of
from compact.text.terms import readable

if TYPE_CHECKING:
    from compact.transcripts.boundaries import Found

DAYS = 30
"""Days after which Claude Code deletes a transcript, unless its settings say otherwise."""
WITHIN = 7
"""Days within which a deletion is told."""
SPOKEN = 3
"""Messages that are shown from before and from after a compaction."""
_NEAR = 600.0
"""Seconds between a hook's note and the compaction that it is of."""
_MOST = 64_000_000
"""Bytes of a file before a compaction that are read whole."""
MEASURES: Mapping[str, Callable[[Window], float | None]] = {
    "again": lambda window: len(window.again),
    "again_tokens": lambda window: sum(seen.tokens for seen in window.again),
    "lookups": lambda window: window.lookups,
    "refused": lambda window: len(window.refused),
    "repeated": lambda window: len(window.repeated),
    "names_shown": lambda window: _share_shown(window),
}
"""What is compared, by name."""


@dataclass(slots=True)
class Case:
    """One compaction, with the file and the session that it is of."""

    file: Found
    session: str
    compaction: Compaction
    asked: Asked | None
    after_refusal: str
    """What the agent said after its first refused edit."""
    given: bool
    """Whether a hook of compact gave something back."""
    before: list[Spoken]
    after: list[Spoken]
    """The last words before the compaction, and the first ones after it."""


class Looker:
    """Looks into files one after the other."""

    def __init__(
        self, *, since: float | None = None, project: str = "", mask: Callable[[str], str] | None
    ) -> None:
        self._sessions = list[str]()
        self._size = 0
        self._broken = Counter[str]()
        """Path → lines that could not be read."""
        self._cases: dict[str, Case] = {}
        self._controls: dict[str, tuple[str, Window]] = {}
        """Key of a moment without a compaction → its session and its window."""
        self._expiring: int | None = None
        self._days = DAYS
        self._since, self._project = since, project.lower()
        self._mask = mask or (lambda text: redact(text).text)
        self._names = NameReader()
        self._notes = given_by_hooks()
        self._tokens = wiring.token_counter("chat_completions").text

    def take(self, file: Found) -> None:
        """Look into one file."""
        if self._project not in str(file.path).lower():
            return
        if not file.is_part:
            self._sessions.append(session_of(file.path))
        self._size += file.size
        if not file.is_part and (days := days_kept(file)) is not None:
            soon = expires_within(file, days, time.time())
            self._days, self._expiring = days, (self._expiring or 0) + soon
        if not wiring.has_compaction(file):
            return
        conversations = dict[str, Conversation]()
        reader = wiring.boundary_reader(file)
        for row in reader.rows():
            if row.chain not in conversations:
                conversations[row.chain] = Conversation(self._names, self._tokens)
            conversations[row.chain].take(row)
        if reader.broken:
            self._broken[str(file.path)] = reader.broken
        for conversation in conversations.values():
            conversation.finish()
            self._count(file, conversation)

    def _count(self, file: Found, conversation: Conversation) -> None:
        """Add what a conversation has. A resumed or forked session repeats rows of another file:
        of a compaction that is in several, the one with the most after it counts.
        """
        session = session_of(file.path)
        for compaction in conversation.compactions:
            key = compaction.boundary.key
            known = self._cases.get(key)
            if known and known.compaction.window.actions >= compaction.window.actions:
                continue
            if self._since and time_of(compaction.boundary.time) < self._since:
                continue
            start = compaction.spoken_before
            self._cases[key] = Case(
                file=file,
                session=session,
                compaction=compaction,
                asked=asked_again(conversation, compaction),
                after_refusal=_said_after_refusal(conversation, compaction),
                given=was_given(self._notes.get(session, ()), compaction),
                before=conversation.spoken[max(0, start - SPOKEN) : start],
                after=conversation.spoken[start : start + SPOKEN],
            )
        if conversation.compactions:
            for window in conversation.controls:
                self._controls.setdefault(window.key, (session, window))

    def report(self, *, whole: bool = False, told: Callable[[str], None]) -> dict[str, Any]:
        """Return what was found, with all secrets masked. If `whole`, with the texts of each
        compaction and what compact would keep, and not only of the moments.
        """
        self._names = NameReader()  # frees its memory for what follows
        cases = sorted(self._cases.values(), key=lambda c: (c.session, c.compaction.at))
        moments = worst([(case.compaction, case.asked) for case in cases])
        shown = {moment.case for moment in moments}
        kept = dict[int, dict[str, int] | None]()
        short = short_ids(self._sessions)
        for index in range(len(cases)) if whole else sorted(shown):
            told(f"Compressing what came before compaction {len(kept) + 1}")
            if cases[index].compaction.boundary.is_readable:
                kept[index] = kept_by_compact(str(cases[index].file.path), cases[index].compaction)
        value = {
            "since": _local(self._since),
            "sessions": len(self._sessions),
            "bytes": self._size,
            "compacted_sessions": len({case.session for case in cases}),
            "compactions": len(cases),
            "automatic": sum(bool(case.compaction.boundary.automatic) for case in cases),
            "in_subagents": sum(bool(case.compaction.chain) for case in cases),
            "unreadable": {"lines": self._broken.total(), "files": len(self._broken)},
            "expiring": {"sessions": self._expiring, "days": self._days},
            "pauses": _pauses(cases),
            "compared": self._compared(cases),
            "said": [
                {"format": name, **_said([case for case in cases if case.file.format == name])}
                for name in sorted({case.file.format for case in cases})
            ],
            "moments": [_told(moment, cases[moment.case], kept, short) for moment in moments],
            "each": [
                _each(case, kept.get(index)) | (_texts(case) if whole else {})
                for index, case in enumerate(cases)
            ],
        }
        if any(case.given for case in cases):
            value["hook"] = _with_hook(cases)
        safe: dict[str, Any] = masked(value, self._mask)
        return safe

    def _compared(self, cases: Sequence[Case]) -> dict[str, Any]:
        by_session = dict[str, Session]()
        for case in cases:
            if case.compaction.window.is_full:
                by_session.setdefault(case.session, Session([], [])).here.append(
                    case.compaction.window
                )
        for session, window in self._controls.values():
            if session in by_session:
                by_session[session].controls.append(window)
        rows = {name: compare(list(by_session.values()), m) for name, m in MEASURES.items()}
        return {name: _difference(row) for name, row in rows.items() if row is not None}


# --- what compact gave and what it keeps ----------------------------------------------------------


def given_by_hooks() -> dict[str, list[Mapping[str, object]]]:
    """Return the hooks' notes by session. A line that is no note is skipped."""
    notes = dict[str, list[Mapping[str, object]]]()
    try:
        text = (state_folder() / "hooks" / "given.jsonl").read_text("utf-8", "replace")
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        return notes
    for line in text.splitlines():
        try:
            note = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(note, dict):
            notes.setdefault(str(note.get("session")), []).append(note)
    return notes


def was_given(notes: Sequence[Mapping[str, object]], compaction: Compaction) -> bool:
    """Return whether one of a session's notes is of this compaction."""
    for note in notes:
        apart = seconds_between(str(note.get("time")), compaction.boundary.time)
        is_near = apart is not None and abs(apart) < _NEAR
        if is_near or (compaction.before and note.get("uuid") == compaction.before):
            return True
    return False


def kept_by_compact(path: str, compaction: Compaction) -> dict[str, int] | None:
    """Return how many of the person's messages and of the names used next compact keeps, in the
    tokens of the summary. None if the file cannot be read as a conversation, or nothing fits.
    """
    if compaction.chain or not 0 < compaction.at <= _MOST:
        return None
    try:
        with open(path, "rb") as stream:
            data = stream.read(compaction.at)
        transcript = wiring.read_transcript(path, data=data)
        counter = wiring.token_counter("chat_completions")
        tokens = counter.text(compaction.summary)
        made = plan(
            transcript.messages, max_tokens=tokens, format=transcript.wire, tokenizer="o200k"
        )
    except (CompactError, OSError):
        return None
    text = "\n".join(map(readable, made.context.messages))
    plain, names = letters(text), with_file_names(NameReader().names((text,)))
    return {
        "tokens": tokens,
        "messages": sum(beginning(m.spoken.text) in plain for m in compaction.messages),
        "names": len(compaction.window.used & names),
    }


# --- parts of the report --------------------------------------------------------------------------


def session_of(path: Path) -> str:
    """Return a session's id: the name of its file, without what Codex puts before it."""
    stem = path.stem
    return stem[-36:] if stem.startswith("rollout-") else stem


def time_of(text: str) -> float:
    """Return a time of a file in seconds since 1970; 0 if it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def _local(seconds: float | None) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat() if seconds else None


def expires_within(file: Found, days: int, now: float) -> bool:
    """Whether the host deletes a file within a week."""
    return now - file.modified > (days - WITHIN) * 86_400


def days_kept(file: Found) -> int | None:
    """Return after how many days Claude Code deletes a file; None if it is in no folder of its."""
    home = next((x.parent for x in file.path.parents if x.name == "projects"), None)
    if home is None or file.format != "claude_code":
        return None
    try:
        days = json.loads((home / "settings.json").read_text("utf-8"))["cleanupPeriodDays"]
    except (OSError, ValueError, KeyError, TypeError):
        return DAYS
    return days if isinstance(days, int) and days > 0 else DAYS


def _share_shown(window: Window) -> float | None:
    used = len(window.used)
    return 1 - len(window.unseen) / used if used else None


def _difference(row: Difference) -> dict[str, Any]:
    return {
        "here": round(row.here, 4),
        "without": round(row.without, 4),
        "difference": round(row.due, 4),
        "low": round(row.low, 4),
        "high": round(row.high, 4),
        "compactions": row.compactions,
        "sessions": row.sessions,
        "due_to_it": row.is_told,
    }


def _pauses(cases: Sequence[Case]) -> dict[str, Any]:
    seconds = [s for case in cases if (s := case.compaction.seconds) is not None]
    middle = round(median(seconds), 1) if seconds else None
    return {"known": len(seconds), "median": middle, "total": round(sum(seconds), 1)}


def _said(cases: Sequence[Case]) -> dict[str, Any]:
    """Count the person's messages that the summaries quote, and find one that is gone."""
    all_messages = [(case, m) for case in cases for m in case.compaction.messages]
    followed = [(case, m) for case, m in all_messages if m.in_next is not None]
    gone = [(case, m) for case, m in followed if m.in_summary and not m.in_next]
    lasting = [
        (case, m)
        for case, m in gone
        if 25 <= len(m.spoken.text) <= 120 and "\n" not in m.spoken.text
    ]
    value: dict[str, Any] = {
        "messages": len(all_messages),
        "in_summary": sum(m.in_summary for _, m in all_messages),
        "followed": len(followed),
        "in_next": sum(bool(m.in_next) for _, m in followed),
    }
    if lasting:
        case, message = max(lasting, key=lambda each: score_of(each[1].spoken.text))
        value["example"] = {"session": case.session, **_words(message.spoken)}
    return value


def _words(spoken: Spoken) -> dict[str, str]:
    return {"text": spoken.text, "time": spoken.time}


def _said_after_refusal(conversation: Conversation, compaction: Compaction) -> str:
    """Return the first of the agent's next three texts after its first refused edit that contains
    the word `read`. Return an empty text if there is none.
    """
    refused = compaction.window.refused
    if not refused:
        return ""
    later = [s for s in conversation.spoken if s.at > refused[0].at and not s.by_person][:SPOKEN]
    return next((s.text for s in later if "read" in s.text.lower().split()), "")


def _seen(actions: Sequence[Seen]) -> list[dict[str, Any]]:
    return [{"tool": a.tool, "subject": a.subject, "tokens": a.tokens, "at": a.at} for a in actions]


def _told(
    moment: Moment,
    case: Case,
    kept: Mapping[int, dict[str, int] | None],
    short: Mapping[str, str],
) -> dict[str, Any]:
    window = case.compaction.window
    value: dict[str, Any] = {
        "kind": moment.kind,
        "session": case.session,
        "id": short.get(case.session, case.session),
        "number": case.compaction.number,
        "time": case.compaction.boundary.time,
        "kept_by_compact": kept.get(moment.case),
        "kept_by_summary": _kept_by_summary(case.compaction),
        "names_used": len(window.used),
        "messages": len(case.compaction.messages),
    }
    if moment.kind == "asked" and case.asked:
        asked = case.asked
        value |= {
            "prompt": _words(asked.prompt),
            "before": _words(asked.message)
            | {
                "by": "you" if asked.message.by_person else "the agent",
                "lines": nearest_lines(asked.message.text, asked.prompt.text),
            },
            "summary": nearest_lines(case.compaction.summary, asked.prompt.text),
        }
    elif moment.kind == "refused":
        value |= {"actions": _seen(window.refused), "agent": case.after_refusal}
    else:
        largest = sorted(window.again, key=lambda seen: -seen.tokens)
        value |= {"actions": _seen(largest), "lookups": window.lookups}
    return value


def _kept_by_summary(compaction: Compaction) -> dict[str, int]:
    return {
        "messages": sum(message.in_summary for message in compaction.messages),
        "names": len(compaction.window.used & compaction.named),
    }


def short_ids(sessions: Sequence[str]) -> dict[str, str]:
    """Return the shortest beginning of each id, from 7 characters, that only it has."""
    ordered = sorted(set(sessions))
    short = dict[str, str]()
    for before, own, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        lengths = (n for n in range(7, len(own)) if own[:n] not in (before[:n], after[:n]))
        short[own] = own[: next(lengths, len(own))]
    return short


def _each(case: Case, kept: dict[str, int] | None) -> dict[str, Any]:
    compaction, window = case.compaction, case.compaction.window
    return {
        "session": case.session,
        "file": str(case.file.path),
        "format": case.file.format,
        "subagent": compaction.chain,
        "number": compaction.number,
        "time": compaction.boundary.time,
        "automatic": compaction.boundary.automatic,
        "tokens_before": compaction.boundary.tokens,
        "pause_seconds": compaction.seconds,
        "written_into_cache": compaction.cached,
        "hook_gave": case.given,
        "actions_after": window.actions,
        **numbers(window),
        "names_unseen_in_summary": len(window.unseen & compaction.named),
        "messages": len(compaction.messages),
        "messages_in_summary": sum(m.in_summary for m in compaction.messages),
        "messages_in_next": sum(bool(m.in_next) for m in compaction.messages),
        "has_next": any(m.in_next is not None for m in compaction.messages),
        "kept_by_compact": kept,
        "kept_by_summary": _kept_by_summary(compaction),
    }


def _texts(case: Case) -> dict[str, Any]:
    compaction, window = case.compaction, case.compaction.window
    return {
        "summary": compaction.summary,
        "before": [_words(s) | {"by_person": s.by_person} for s in case.before],
        "after": [_words(s) | {"by_person": s.by_person} for s in case.after],
        "said": [
            _words(m.spoken) | {"in_summary": m.in_summary, "in_next": m.in_next}
            for m in compaction.messages
        ],
        "looked_up_again": _seen(window.again),
        "refused_edits": _seen(window.refused),
        "repeated_errors": _seen(window.repeated),
    }


def _with_hook(cases: Sequence[Case]) -> dict[str, Any]:
    """Compare the compactions after which a hook gave something back with the others."""
    groups = dict[bool, dict[str, list[Window]]]()
    for case in cases:
        if case.compaction.window.is_full:
            by_session = groups.setdefault(case.given, {})
            by_session.setdefault(case.session, []).append(case.compaction.window)
    given, others = (list(groups.get(is_given, {}).values()) for is_given in (True, False))
    rows = {name: contrast(given, others, measure) for name, measure in MEASURES.items()}
    value: dict[str, Any] = {
        name: _difference(row) for name, row in rows.items() if row is not None
    }
    return {"given": sum(case.given for case in cases), "compared": value}


def masked(value: Any, mask: Callable[[str], str]) -> Any:  # noqa: ANN401 - JSON
    """Return a value with the secrets in all its texts masked."""
    if isinstance(value, str):
        return mask(value) if value else value
    if isinstance(value, dict):
        return {key: masked(inner, mask) for key, inner in value.items()}
    return [masked(inner, mask) for inner in value] if isinstance(value, list) else value
