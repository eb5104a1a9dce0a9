"""Tool schemas: how providers are told which functions a model may call.

OpenAI's chat completions (Ollama and most servers alike), Responses and Anthropic write the same
facts in three shapes. Calls and their results are messages: the wire formats beside this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


def schemas_for(format: str, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The schemas as a wire format's provider writes them, whoever's shape they are in.

    What is in the right shape stays as it is; so does what is no function (tools that run on a
    provider's own servers), which the provider knows or refuses.
    """
    return [_written(format, tool) for tool in tools]


def _written(format: str, tool: Mapping[str, Any]) -> dict[str, Any]:
    facts = _facts(tool)
    if facts is None or _shape(tool) == (format if format != "ollama" else "chat_completions"):
        return dict(tool)
    if format == "anthropic":
        facts["input_schema"] = facts.pop("parameters")
        return facts
    if format == "responses":
        return {"type": "function", "strict": False, **facts}
    return {"type": "function", "function": facts}


def _shape(tool: Mapping[str, Any]) -> str | None:
    if isinstance(tool.get("input_schema"), Mapping):
        return "anthropic"
    if tool.get("type") != "function":
        return None
    return "chat_completions" if isinstance(tool.get("function"), Mapping) else "responses"


def _facts(tool: Mapping[str, Any]) -> dict[str, Any] | None:
    """Name, description, parameters and strictness of a function; None for what is none."""
    shape = _shape(tool)
    if shape is None:
        return None
    said: Mapping[str, Any] = tool["function"] if shape == "chat_completions" else tool
    facts = {key: said[key] for key in ("name", "description") if said.get(key) is not None}
    given = said.get("input_schema" if shape == "anthropic" else "parameters")
    facts["parameters"] = dict(given or _NO_PARAMETERS)
    if said.get("strict") is not None:
        facts["strict"] = said["strict"]
    return facts
