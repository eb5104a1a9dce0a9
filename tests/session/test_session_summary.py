"""`get_conversation_summary` before the first checkpoint passes the gate (C-5, FR-6)."""

import pytest

from compact import ContextManager
from compact.messages.events import ErrorRaised, SummaryReplaced
from compact.testing import ScriptedSummarizer

KEY = "sk-ant-api03-" + "AbCdEf0123456789xyzKLMNOP"
LEAK = f"The deployment uses {KEY}, always, and the user wants to deploy with it now."


def talked(**options: object) -> ContextManager:
    """A session that a secret was told."""
    ctx = ContextManager(window=8_192, **options)  # type: ignore[arg-type]
    ctx.add_message(role="user", content=f"Use the key {KEY} for the deployment, always.")
    ctx.add_message(role="assistant", content="I will deploy with it now.")
    return ctx


def test_no_secret_comes_out_of_a_summary() -> None:
    """Neither of the extractive one nor of a model's (C-5)."""
    for ctx in (talked(), talked(summarizer=ScriptedSummarizer(LEAK))):
        summary = ctx.get_conversation_summary()
        assert KEY not in summary
        assert "<REDACTED:" in summary
        assert "deployment" in summary


@pytest.mark.parametrize("written", ["", "la la la. " * 200, ConnectionError("down")])
def test_a_summary_that_is_refused_or_never_came_is_replaced(written: str | Exception) -> None:
    """By the extractive one, and it is said (FR-6)."""
    seen: list[object] = []
    ctx = talked(summarizer=ScriptedSummarizer(written), on_event=seen.append)
    assert "I will deploy with it now." in ctx.get_conversation_summary()
    kinds = [type(event) for event in seen]
    assert SummaryReplaced in kinds
    assert (ErrorRaised in kinds) == isinstance(written, Exception)


def test_pinned_messages_are_told_of_too() -> None:
    """Nothing is covered by this summary, so they refuse nothing (C-5)."""
    seen: list[object] = []
    story = "The person gave a key for the deployment, to be used always, and it was deployed."
    ctx = talked(summarizer=ScriptedSummarizer(story), on_event=seen.append)
    ctx.add_message(role="user", content="Never on a Friday.", metadata={"pinned": True})
    assert ctx.get_conversation_summary() == story
    assert not any(isinstance(event, SummaryReplaced) for event in seen)
