"""The formats, in the order in which they are tried, and what each is recognized by.

The first format that recognizes a document reads it. Each rule looks at a few keys only. Files that
are no conversations with an assistant are recognized too, to be refused in plain words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from compact.errors import InvalidTranscript
from compact.storage.transcripts import (
    chat_json,
    claude_code,
    gemini_cli,
    longmemeval,
    mini_swe_agent,
    specstory,
    swe_agent,
    tau,
)
from compact.storage.transcripts.agent_logs import json_list, json_object
from compact.storage.transcripts.documents import Document
from compact.storage.transcripts.transcript import Transcript


class Read(Protocol):
    """How a format reads a document: one conversation, numbered from 1, or its active part."""

    def __call__(
        self, document: Document, *, conversation: int | None = None, active: bool = False
    ) -> Transcript:
        """Read one conversation.

        Raises:
            InvalidTranscript: naming the line or the place, and the reason.
        """
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """One file format: its name, what it is in words, its rule and its reader."""

    name: str
    title: str
    recognizes: Callable[[Document], bool]
    read: Read
    is_text: bool = False


FORMATS: tuple[Format, ...] = (
    Format("claude_code", "Claude Code (JSONL)", claude_code.recognizes, claude_code.read),
    Format("gemini_cli", "Gemini CLI (JSON)", gemini_cli.recognizes, gemini_cli.read),
    Format("swe_agent", "SWE-agent (.traj)", swe_agent.recognizes, swe_agent.read),
    Format("mini_swe_agent", "mini-SWE-agent", mini_swe_agent.recognizes, mini_swe_agent.read),
    Format("tau_bench", "tau-bench records", tau.recognizes_tau, tau.read_tau),
    Format("tau2_bench", "tau2-bench simulations", tau.recognizes_tau2, tau.read_tau2),
    Format("longmemeval", "LongMemEval records", longmemeval.recognizes, longmemeval.read),
    Format("chat", "chat messages (JSON, JSONL)", chat_json.recognizes, chat_json.read),
    Format("specstory", "SpecStory", specstory.recognizes, specstory.read, is_text=True),
)


def _is_meeting(document: Document) -> bool:
    return "meeting_transcripts" in json_object(document)


def _is_dialogue(document: Document) -> bool:
    first = next(iter(json_list(document)), None)
    talk = first.get("conversation") if isinstance(first, dict) else None
    return isinstance(talk, dict) and "speaker_a" in talk


REFUSED: tuple[tuple[Callable[[Document], bool], str], ...] = (
    (_is_meeting, "a meeting of several people (QMSum), no conversation with an assistant"),
    (_is_dialogue, "a dialogue of two people (LoCoMo), no conversation with an assistant"),
)


def by_name(name: str, *, source: str) -> Format:
    """The format of that name.

    Raises:
        InvalidTranscript: there is none.
    """
    for known in FORMATS:
        if known.name == name:
            return known
    names = ", ".join(x.name for x in FORMATS)
    raise InvalidTranscript(source, f"no format is called {name!r}; known are {names}")


def recognized(document: Document) -> Format:
    """The format of a document, by its content.

    Raises:
        InvalidTranscript: no format recognizes it.
    """
    for known in FORMATS:
        if known.recognizes(document):
            return known
    for is_refused, reason in REFUSED:
        if is_refused(document):
            raise InvalidTranscript(document.source, reason)
    titles = "; ".join(x.title for x in FORMATS)
    raise InvalidTranscript(document.source, f"an unknown format; known are: {titles}")
