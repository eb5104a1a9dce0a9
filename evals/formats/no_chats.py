"""Benchmarks' files that are no conversation with an assistant: refused, in plain words."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from compact.errors import InvalidTranscript
from compact.transcripts.documents import Document, json_object
from evals.formats.agent_logs import json_list


def is_meeting(document: Document) -> bool:
    """Whether it is a meeting of QMSum."""
    return "meeting_transcripts" in json_object(document)


def is_dialogue(document: Document) -> bool:
    """Whether it holds dialogues of LoCoMo."""
    first = next(iter(json_list(document)), None)
    talk = first.get("conversation") if isinstance(first, dict) else None
    return isinstance(talk, dict) and "speaker_a" in talk


def _refuse(
    what: str, document: Document, *, conversation: int | None = None, active: bool = False
) -> NoReturn:
    raise InvalidTranscript(document.source, f"{what}, no conversation with an assistant")


refuse_meeting = partial(_refuse, "a meeting of several people (QMSum)")
refuse_dialogue = partial(_refuse, "a dialogue of two people (LoCoMo)")
