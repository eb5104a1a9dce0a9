"""What one server refuses of the order of messages, found out by its own refusals: two of one role
side by side, and roles that its chat template does not know.

A template that refuses a prompt refuses every later one too. From the first refusal on, neighbours
of one role are sent as one message (`messages.alternation`); where that is not enough, calls of
tools and their results are said in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compact.errors import ModelRefused
from compact.messages.alternation import in_turns, in_words
from compact.messages.formats.known import format_named
from compact.messages.formats.wire_safe import shortly_named, spelled_out
from compact.messages.messages import Message

TURNS = "turns"
"""What a refusal is of, as `ModelRefused.part` names it."""
_MOST = 2

Body = Mapping[str, Any]


class StrictTurns:
    """How strictly a server wants turns: 0 not at all, 1 user and assistant by turns, 2 and nothing
    but words.
    """

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._strictness = 0

    def written(self, prompt: Body) -> dict[str, Any]:
        """The prompt in the order that the server takes."""
        field = "input" if "input" in prompt else "messages"
        if not self._strictness or not prompt.get(field):
            return dict(prompt)
        wire = format_named("responses" if field == "input" else self._wire)
        messages: list[Message] = []
        for i, record in enumerate(prompt[field]):
            messages.append(wire.parse(record, i, reversed(messages)))
        if self._strictness > 1:
            messages = in_words(messages)
        said = [message for _, message in in_turns([(None, message) for message in messages])]
        rendered = map(shortly_named, wire.render(said))
        return {**prompt, field: list(map(spelled_out, rendered) if field == "input" else rendered)}

    def learned(self, prompt: Body, refusal: ModelRefused) -> bool:
        """Whether the prompt is written otherwise from now on."""
        before = self.written(prompt)
        while refusal.part == TURNS and self._strictness < _MOST:
            self._strictness += 1
            if self.written(prompt) != before:
                return True
        return False
