"""The tokens of a prompt besides its messages, and checks of given sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compact.errors import InvalidArgument
from compact.messages.calls import got, whole_number
from compact.messages.tokens import TokenCounter


def checked_size(name: str, size: object, *, least: int = 1) -> int:
    """Return a number of tokens given as an argument.

    Raises:
        InvalidArgument: it is not a whole number, or below `least`; the text names the argument.
    """
    number = whole_number(size)
    if number is None:
        raise InvalidArgument(name, f"{name} must be a whole number of tokens, got {got(size)}")
    if number < least:
        tokens = "" if least == 1 else " tokens"
        reason = f"{name} must be at least {least}{tokens}, got {got(number)}"
        raise InvalidArgument(name, reason)
    return number


def overhead_of(
    counter: TokenCounter,
    system: str | Sequence[Mapping[str, Any]] | None,
    tools: Sequence[Mapping[str, Any]] | None,
) -> int:
    """Return the tokens of the prompt besides the messages."""
    return sum(parts_beside(counter, system, tools).values())


def parts_beside(
    counter: TokenCounter,
    system: str | Sequence[Mapping[str, Any]] | None,
    tools: Sequence[Mapping[str, Any]] | None,
) -> dict[str, int]:
    """Return the same by part: a system field, tool schemas, and the tokens that begin the reply.

    Raises:
        InvalidArgument: one of the tools is not a tool schema.
    """
    field = 0
    if system:
        texts = [system] if isinstance(system, str) else [str(x.get("text", "")) for x in system]
        field = counter.framing.per_message + sum(map(counter.text, texts))
    for i, tool in enumerate(tools or ()):
        if not _is_schema(tool):
            raise InvalidArgument("tools", f"tools[{i}] is no schema of a tool, got {got(tool)}")
    schemas = counter.tools(tools or ())
    return {"system prompt": field, "tools": schemas, "framing": counter.framing.priming}


def _is_schema(tool: Mapping[str, Any]) -> bool:
    """Return whether the parts of a tool schema that are counted are well-formed."""
    body = tool.get("function", tool)
    if not isinstance(body, Mapping):
        return False
    schema = body.get("parameters") or body.get("input_schema") or {}
    if not isinstance(schema, Mapping):
        return False
    properties = schema.get("properties") or {}
    return isinstance(properties, Mapping) and all(
        isinstance(field.get("enum", ()), Sequence)
        for field in properties.values()
        if isinstance(field, Mapping)
    )
