"""Which values an agent passes to tools, and whether they stand in what a model is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compact.messages.arguments import leaves

SHORTEST = 2
"""Characters of a value that is looked for: shorter ones stand everywhere."""
Dict = dict[str, Any]


def arguments_of(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The values of a message's calls, each with the name it is passed by."""
    for call in message.get("tool_calls") or ():
        try:
            passed = json.loads(call["function"]["arguments"])
        except ValueError:
            continue
        for key, value in leaves(passed):
            is_named = isinstance(value, str | int | float) and not isinstance(value, bool)
            if is_named and len(str(value)) >= SHORTEST:
                yield key, str(value)


def stands(value: str, text: str) -> bool:
    """Whether a value stands in a text by itself, not within another word or number."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def text_of(messages: Sequence[Dict]) -> str:
    """All that a list says, arguments of calls as they were passed."""
    texts = []
    for message in messages:
        texts.append(str(message.get("content") or ""))
        for call in message.get("tool_calls") or ():
            texts.append(call["function"]["arguments"])
    return "\n".join(texts).replace('\\"', '"')
