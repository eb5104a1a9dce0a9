"""Removes the conversation's text and secrets from events before exporters get them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from compact.messages.events import CONTENT, Event, TriggerDecision
from compact.messages.policy import CompactPolicy
from compact.secrets.redaction import Known, redact
from compact.secrets.redactor import NOTHING_ELSE, Redactor

E = TypeVar("E", bound=Event)


def without_content(event: E) -> E:
    """Return the event with all fields emptied that may quote the conversation."""
    about = type(event).model_fields
    quoting = [name for name, field in about.items() if field.json_schema_extra == CONTENT]
    empty: dict[str, Any] = {name: type(getattr(event, name))() for name in quoting}
    if isinstance(event, TriggerDecision) and event.policy is not None:
        empty["policy"] = event.policy.model_copy(update={"guidance": ""})
    return event.model_copy(update=empty)


def redacted(event: E, redactor: Redactor = NOTHING_ELSE) -> E:
    """Return the event with secrets redacted; the same object if it contains no secret."""
    fields, known = dict(event), Known(redactor=redactor)
    clean = {name: _clean(value, known) for name, value in fields.items()}
    changed: dict[str, Any] = {n: value for n, value in clean.items() if value != fields[n]}
    return event.model_copy(update=changed) if changed else event


def _clean(value: object, known: Known) -> object:
    match value:
        case str():
            return redact(value, known).text
        case tuple():
            return tuple(_clean(item, known) for item in value)
        case Mapping():
            return {_clean(key, known): _clean(item, known) for key, item in value.items()}
        case CompactPolicy() if value.guidance:
            return value.model_copy(update={"guidance": redact(value.guidance, known).text})
        case _:
            return value
