"""What exporters are told: no texts of a conversation and no secrets, unless that is asked for."""

import inspect
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, get_args, get_origin

import pytest

from compact import CompactConfig, CompactManager, EventBus
from compact.messages import clock_and_ids, events
from compact.messages.events import (
    CONTENT,
    ErrorRaised,
    Event,
    GoalsChanged,
    RedactionOff,
    SummaryCreated,
)
from compact.messages.policy import CompactPolicy
from compact.telemetry.plain_words import redacted, sentence, without_content
from tests.telemetry.test_bus import Listener

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TEXT = f"the token is {SECRET}, use it"
KINDS = [x for x in vars(events).values() if inspect.isclass(x) and issubclass(x, Event)]


def full(kind: type[Event]) -> Event:
    """An event with that text wherever it holds a text."""
    given: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        if field.annotation is str:
            given[name] = TEXT
        elif name == "policy":
            given[name] = CompactPolicy(guidance=TEXT)
        elif field.annotation == tuple[str, ...]:
            given[name] = (TEXT,)
        elif get_origin(field.annotation) is Mapping:
            given[name] = {TEXT: 1}
        elif get_origin(field.annotation) is Literal:
            given[name] = get_args(field.annotation)[0]
        elif field.is_required():
            given[name] = clock_and_ids.now() if field.annotation is datetime else 1
    return kind(**given)


def outgoing(event: Event, **bus: Any) -> Event:
    """What an exporter gets of it."""
    listener, carrier = Listener(), EventBus(**bus)
    carrier.export_to(listener)
    carrier.emit(event)
    carrier.close()
    return listener.got[0]


@pytest.mark.parametrize("kind", KINDS)
def test_no_exporter_gets_a_secret_of_any_field(kind):
    event = full(kind)
    for content in (False, True):
        assert SECRET not in repr(outgoing(event, content=content))
    assert repr(outgoing(event, content=True, redact=False)) == repr(event)


def test_the_fields_that_may_quote_a_conversation_are_these():
    """A new field with a text is either here, or says nothing of a conversation."""
    quoting = {
        f"{kind.__name__}.{name}"
        for kind in KINDS
        for name, field in kind.model_fields.items()
        if field.json_schema_extra == CONTENT
    }
    texts = {
        f"{kind.__name__}.{name}"
        for kind in KINDS
        for name, field in kind.model_fields.items()
        if field.annotation in (str, tuple[str, ...]) and name != "session_id"
    }
    assert quoting == {
        "SummaryCreated.summary",
        "SummaryReplaced.reason",
        "ErrorRaised.message",
        "ModelAskedAgain.reason",
        "ModelReplaced.reason",
        "ToolsWithdrawn.reason",
        "GoalsChanged.changes",
        "GoalsChanged.left_out",
        "JobEnded.said",
    }
    assert texts - quoting == {
        *("TokenEstimate.tokenizer", "TriggerDecision.reason", "TriggerDecision.model"),
        *("StoryAsked.model", "SummaryCreated.checkpoint_id", "SummaryCreated.made_by"),
        *("SummaryCreated.level", "SummaryReplaced.made_by", "SummaryReplaced.rules"),
        *("ErrorRaised.stage", "ErrorRaised.error", "ErrorRaised.serves"),
        *("EmergencyRung.rung", "EmergencyRung.snapshot_id"),
        *("BranchTaken.branch_id", "BranchTaken.reason", "ModelAskedAgain.model"),
        *("ModelReplaced.model", "ModelReplaced.by", "ModelChanged.model", "ToolsWithdrawn.model"),
        *("PromptOverBudget.part", "PromptOverBudget.reason", "TrustFaded.warning"),
        *("SummarizerChosen.model", "SummarizerChosen.reason"),
        *("Archival.what", "Archival.place", "EventsDropped.exporter", "Heartbeat.exporter"),
        *("MemoryAged.problem", "JobEnded.kind"),
    }


def test_content_is_left_out_unless_it_is_asked_for():
    error = ErrorRaised(stage="draft", error="X", message="you said hello")
    assert outgoing(error) == without_content(error) != error
    assert outgoing(error, content=True) == error
    goals = GoalsChanged(changes=("a",), left_out=("b",))
    assert outgoing(goals).as_dict() | {"changes": (), "left_out": ()} == outgoing(goals).as_dict()


def test_an_event_without_secrets_is_the_same_one():
    event = SummaryCreated(
        checkpoint_id="c", messages=1, source_tokens=1, tokens=1, made_by="m", summary="hello"
    )
    assert redacted(event) is event


def test_listeners_in_the_process_get_events_as_they_are():
    got: list[Event] = []
    bus = EventBus()
    bus.subscribe(got.append)
    event = full(ErrorRaised)
    bus.emit(event)
    assert got[0] is event


def test_redaction_that_is_off_says_so_once_and_loudly(capfd):
    """Issue 13: "Off → one loud warning event"."""
    heard: list[Event] = []
    config = CompactConfig(redact=False, console_events=True)
    with CompactManager(config, on_event=heard.append) as manager:
        manager.preflight("s", [{"role": "user", "content": "hello"}])
    (warned,) = (event for event in heard if isinstance(event, RedactionOff))
    assert heard[0] is warned
    assert "WARNING" in sentence(warned)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert lines[0] | {"name": "compact.redaction_off", "severity": "high"} == lines[0]
    with CompactManager(on_event=heard.append):
        pass
    assert len([event for event in heard if isinstance(event, RedactionOff)]) == 1
