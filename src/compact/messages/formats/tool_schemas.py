"""Tool schemas in the three shapes that providers use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


ToolShape = Literal["nested", "flat", "input_schema"]
"""`{type, function: {…}}` (chat completions, Ollama and most servers), `{type, name, …}`
(Responses), `{name, input_schema}` (Anthropic)."""


def schemas_for(shape: ToolShape, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the schemas in that shape. Tools that are not functions (a provider's own servers run
    them) stay unchanged.
    """
    return [_written(shape, tool) for tool in tools]


def _written(shape: ToolShape, tool: Mapping[str, Any]) -> dict[str, Any]:
    own_shape = _shape(tool)
    if own_shape in (None, shape):
        return dict(tool)
    facts = _facts(tool, own_shape)
    match shape:
        case "input_schema":
            facts["input_schema"] = facts.pop("parameters")
            return facts
        case "flat":
            return {"type": "function", "strict": False, **facts}
        case "nested":
            return {"type": "function", "function": facts}


def _shape(tool: Mapping[str, Any]) -> ToolShape | None:
    """Return the shape of a function's schema; None if it is not a function."""
    if isinstance(tool.get("input_schema"), Mapping):
        return "input_schema"
    if tool.get("type") != "function":
        return None
    return "nested" if isinstance(tool.get("function"), Mapping) else "flat"


def _facts(tool: Mapping[str, Any], shape: ToolShape | None) -> dict[str, Any]:
    function: Mapping[str, Any] = tool["function"] if shape == "nested" else tool
    facts = {key: function[key] for key in ("name", "description") if function.get(key) is not None}
    parameters = function.get("input_schema" if shape == "input_schema" else "parameters")
    facts["parameters"] = dict(parameters or _NO_PARAMETERS)
    if function.get("strict") is not None:
        facts["strict"] = function["strict"]
    return facts
