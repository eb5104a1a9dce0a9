"""The model that a session names writes its stories, by a real llama.cpp server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compact import CompactPolicy, ContextManager
from compact.messages.events import Event, StoryAsked, SummarizerChosen
from tests.doors.talking import turns
from tests.models import tiny_llama

WINDOW = 2_048


@pytest.mark.slow
def test_a_session_asks_its_own_model_for_stories_and_is_served(
    llama: Callable[[int], str],
) -> None:
    """FR-2: asked in the background or at the trigger; what it babbles never stands in. Turned off,
    it is not asked."""
    key = f"{llama(WINDOW)}/v1#{tiny_llama.NAME}"
    for summarizer in ("model", "extractive"):
        events: list[Event] = []
        policy = CompactPolicy(output_reserve=64)
        with ContextManager(
            key, WINDOW, policy=policy, summarizer=summarizer, on_event=events.append
        ) as ctx:
            for message in turns(24):
                ctx.add_message(message)
                assert ctx.active_context().tokens <= ctx.window.usable
            assert ctx.compressions
        asked = [event for event in events if isinstance(event, StoryAsked)]
        said = [event for event in events if isinstance(event, SummarizerChosen)]
        if summarizer == "model":
            assert asked
            assert [event.model for event in said] == [key]
        else:
            assert not asked
            assert not said
