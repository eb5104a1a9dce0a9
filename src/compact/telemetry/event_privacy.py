"""What an exporter may be told of an event: no text of a conversation unless that is asked for, and
no secrets. Pure; listeners in the same process get events as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from compact.messages.events import CONTENT, Event, TriggerDecision
from compact.messages.policy import CompactPolicy
from compact.secrets.redaction import Known, redact
from compact.secrets.redactor import NOTHING_ELSE, Redactor

Told = TypeVar("Told", bound=Event)


def without_content(event: Told) -> Told:
    """The event with empty fields where it may quote a conversation."""
    about = type(event).model_fields
    quoting = [name for name, field in about.items() if field.json_schema_extra == CONTENT]
    empty: dict[str, Any] = {name: type(getattr(event, name))() for name in quoting}
    if isinstance(event, TriggerDecision) and event.policy is not None:
        empty["policy"] = event.policy.model_copy(update={"guidance": ""})
    return event.model_copy(update=empty)


def redacted(event: Told, redactor: Redactor = NOTHING_ELSE) -> Told:
    """The event without secrets in its texts; the same one where it has none."""
    told, known = dict(event), Known(redactor=redactor)
    clean = {name: _clean(value, known) for name, value in told.items()}
    changed: dict[str, Any] = {n: value for n, value in clean.items() if value != told[n]}
    return event.model_copy(update=changed) if changed else event


def _clean(value: object, known: Known) -> object:
    match value:
        case str():
            return redact(value, known).text
        case tuple():
            return tuple(_clean(each, known) for each in value)
        case Mapping():
            return {_clean(key, known): _clean(each, known) for key, each in value.items()}
        case CompactPolicy() if value.guidance:
            return value.model_copy(update={"guidance": redact(value.guidance, known).text})
        case _:
            return value
