"""pydantic-ai: a capability by which each request fits the model's window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from compact import CompactManager, wiring
from compact.integrations import parts
from compact.integrations.parts import Item, Piece
from compact.messages.formats.responses import refuse_server_state
from compact.session.entering import MOST_TRIES
from compact.session.fitted import Fitted

try:
    from pydantic_ai import RunContext
    from pydantic_ai import messages as ai
    from pydantic_ai.capabilities import AbstractCapability

    AbstractCapability.prepare_model_request  # noqa: B018 - since 2.64
    from pydantic_ai.exceptions import RetryModelRequest
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import ToolDefinition
    from pydantic_core import to_jsonable_python
except (ImportError, AttributeError) as missing:
    raise ImportError(
        "compact.integrations.pydantic_ai needs pydantic-ai 2.64 or newer: "
        + wiring.how_to_install("pydantic-ai")
    ) from missing


@dataclass
class FittedContext(AbstractCapability[Any]):
    """Makes each request of an agent fit. The agent's message history stays as it is."""

    manager: CompactManager
    """Keeps the conversations, and names the window."""
    session_id: str | None = None
    """The conversation. Default: the run's `conversation_id`."""
    _sent: dict[str, Fitted] = field(default_factory=dict, init=False, repr=False)
    """The fitted prompt whose answer each run waits for, by the run's id."""

    def __post_init__(self) -> None:
        self.manager.check()

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Give this attempt at a request messages that fit."""
        asked, settings = request_context.model_request_parameters, request_context.model_settings
        refuse_server_state({k.removeprefix("openai_"): v for k, v in (settings or {}).items()})
        before = request_context.messages
        pieces = list(_pieces(before))
        self._sent[str(ctx.run_id)] = fitted = await self.manager.afit(
            self.session_id or str(ctx.conversation_id),
            [piece.item for piece in pieces],
            format="chat_completions",
            tools=[_schema(tool) for tool in (*asked.function_tools, *asked.output_tools)],
            system_prompt="\n\n".join(part.content for part in asked.instruction_parts or ()),
            model=parts.window_of(self.manager, request_context.model.model_name),
            answer_tokens=(settings or {}).get("max_tokens"),
        )

        def message(at: int | None, role: str, said: Sequence[Any]) -> ai.ModelMessage:
            if at is None:
                return ai.ModelResponse(said) if role == "assistant" else ai.ModelRequest(said)
            own, is_whole = before[at], parts.are_all(said, before[at].parts)
            made: ai.ModelMessage = own if is_whole else replace(cast("Any", own), parts=said)
            return made

        if not fitted.changed:
            return request_context
        return replace(
            request_context, messages=parts.given_back(fitted, pieces, _written, message)
        )

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        response: ai.ModelResponse,
    ) -> ai.ModelResponse:
        """Learn from the provider's count."""
        if (fitted := self._sent.pop(str(ctx.run_id), None)) and response.usage.input_tokens:
            fitted.report(response.usage.input_tokens)
        return response

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ai.ModelResponse:
        """Ask again with less where the provider says that it was too much."""
        fitted = self._sent.pop(str(ctx.run_id), None)
        if fitted and fitted.report(error) and request_context.attempt < MOST_TRIES:
            raise RetryModelRequest from error
        raise error


def _pieces(messages: Sequence[ai.ModelMessage]) -> Iterator[Piece]:
    for at, message in enumerate(messages):
        if isinstance(message, ai.ModelResponse):
            yield Piece(at, parts.reply(message.parts, _block), message.parts)
        elif not message.parts:
            yield Piece(at, {"role": "user", "content": ""}, ())
        else:  # results of tools have to follow their calls
            for part in sorted(message.parts, key=lambda part: not getattr(part, "tool_name", "")):
                yield Piece(at, _asked(part), (part,))


def _asked(part: ai.ModelRequestPart) -> Item:
    """A part of a request as a dictionary."""
    said = parts.content(map(_block, _items(part)))
    if getattr(part, "tool_name", None):
        answered: Any = part
        marks = {"metadata": {"protected": True}} if getattr(part, "tool_kind", None) else {}
        return {"role": "tool", "tool_call_id": answered.tool_call_id, "content": said, **marks}
    if isinstance(part, ai.UserPromptPart | ai.SystemPromptPart | ai.RetryFeedbackPart):
        return {"role": "system" if part.part_kind == "system-prompt" else "user", "content": said}
    # a record of the framework's own, such as a change of instructions: what it counts on
    return {"role": "system", "content": said, "metadata": {"protected": True}}


def _items(part: ai.ModelRequestPart) -> Sequence[Any]:
    """What a part of a request says, item by item."""
    if isinstance(part, ai.ToolReturnPart):
        return part.content_items(mode="str", wrap_if_error=False)
    if hasattr(part, "model_response"):  # what is to be mended
        return [part.model_response()]
    said = getattr(part, "content", None) or part.part_kind
    return [said] if isinstance(said, str) else said


def _block(part: object) -> Item:
    """A part of a reply, or an item of a request, as a block."""
    match part:
        case str(text) | ai.TextPart(content=text) | ai.TextContent(content=text):
            return {"type": "text", "text": text}
        case ai.ThinkingPart(content=text):
            return {"type": "thought", "thought": text}
        case ai.ToolCallPart():
            asked = {"name": part.tool_name, "arguments": part.args_as_json_str()}
            return {"type": "function", "id": part.tool_call_id, "function": asked}
        case ai.ImageUrl(url=url) | ai.BinaryContent(is_image=True, data_uri=url):
            return {"type": "image_url", "image_url": {"url": url}}
    made: Item = to_jsonable_python(part, bytes_mode="base64", fallback=str)
    kind = "file" if isinstance(part, ai.FileUrl) else made.get("part_kind", made.get("kind"))
    return {**(made.pop("provider_details", None) or {}), **made, "type": kind}


def _written(item: Item, stood: Sequence[Any]) -> Sequence[Any]:
    """What a compression made, as parts of a message."""
    if item["role"] == "assistant":
        return parts.reply_parts(item, stood, _block, ai.TextPart, _call)
    items = [each for part in stood for each in _items(part)]
    said: Any = parts.shown_parts(item, items, _block, str)
    said = said[0] if len(said) == 1 and isinstance(said[0], str) else said
    if item["role"] == "tool":
        if stood:
            return [replace(stood[0], content=said, tool_call_id=item["tool_call_id"])]
        return [ai.ToolReturnPart(item.get("name", ""), said, item["tool_call_id"])]
    kind = ai.SystemPromptPart if item["role"] == "system" else ai.UserPromptPart
    return [kind(said)]


def _call(made: Item, before: ai.ToolCallPart | None) -> ai.ToolCallPart:
    name, arguments = made["function"]["name"], made["function"]["arguments"]
    if before is None:
        return ai.ToolCallPart(name, arguments, made["id"])
    return replace(before, args=arguments, tool_call_id=made["id"])


def _schema(tool: ToolDefinition) -> Item:
    described = {"name": tool.name, "description": tool.description or ""}
    return {"type": "function", "function": described | {"parameters": tool.parameters_json_schema}}
