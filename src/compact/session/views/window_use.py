"""Where the tokens of a view are: what an application draws as a bar of the window."""

from __future__ import annotations

from compact.messages.budget import WindowUse
from compact.messages.context import ActiveContext
from compact.messages.tokens import TokenCounter
from compact.session.remembered import KIND
from compact.session.views.view import View
from compact.text.speakers import speaker_of

_BESIDE = frozenset(("prompt", "goals"))
"""Sources of messages that are counted beside those of the history."""


def use_of(view: View) -> WindowUse:
    """The parts of the prompt as it is, with the messages that were not looked at yet; nothing is
    compressed. Together they are what the prompt counts; of very many new messages only so many
    are counted as say that it is far too large.
    """
    counted = view.counted
    with counted.state.lock:
        view.refresh()
        context, used = view.context(), view.tokens_before()
        if used == view.tokens:  # few messages are new, if any
            used = view.tokens_now
        goals = counted.preamble(view.size, counted.state.goals).parts.get("goals", 0)
        beside = view.overhead_tokens
    goals = min(goals, beside)
    parts = _of_messages(context, counted.counter)
    system = min(used, beside - goals + parts["system"])
    known = system + goals + parts["checkpoint"] + parts["recalled"]
    return WindowUse(
        system=system,
        goals=goals,
        checkpoints=parts["checkpoint"],
        recalled=parts["recalled"],
        recent=max(0, used - known),
        usable=view.window.usable,
        exact=counted.counter.exact,
    )


def _of_messages(context: ActiveContext, counter: TokenCounter) -> dict[str, int]:
    parts = dict.fromkeys(("system", "checkpoint", "recalled"), 0)
    for message in context.messages:
        speaker = speaker_of(message)
        if speaker == "injected" and message.text.startswith(f"[{KIND} "):
            parts["recalled"] += counter.message(message)
        elif speaker in parts and message.metadata.source not in _BESIDE:
            parts[speaker] += counter.message(message)
    return parts
