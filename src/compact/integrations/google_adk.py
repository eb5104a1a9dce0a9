"""Google ADK: a plugin by which each request of a runner's agents fits the model's window."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from compact import CompactManager, wiring
from compact.integrations import parts
from compact.integrations.parts import Item, Piece
from compact.messages.formats.responses import refuse_server_state
from compact.session.fitted import Fitted

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.genai import types
except ImportError as missing:
    raise ImportError(
        "compact.integrations.google_adk needs Google ADK: " + wiring.how_to_install("adk")
    ) from missing


class CompactPlugin(BasePlugin):
    """Makes each request of a runner's agents fit. The session's events stay as they are."""

    def __init__(self, manager: CompactManager) -> None:
        super().__init__("compact")
        manager.check()
        self._manager = manager
        self._sent: dict[str, tuple[str, Fitted]] = {}
        """What each agent of a session waits for an answer to, with the invocation."""

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Give the request contents that fit."""
        config, before = llm_request.config, llm_request.contents
        refuse_server_state({"previous_response_id": llm_request.previous_interaction_id})
        block = partial(_block, _ids(before))
        pieces = list(_pieces(before, block))
        name = _session_of(callback_context)
        fitted = await self._manager.afit(
            name,
            [piece.item for piece in pieces],
            format="chat_completions",
            tools=_schemas(config.tools or ()),
            system_prompt=_text_of(config.system_instruction),
            model=parts.window_of(self._manager, llm_request.model),
            answer_tokens=config.max_output_tokens,
        )
        self._sent[name] = callback_context.invocation_id, fitted

        def message(at: int | None, role: str, said: Sequence[types.Part]) -> types.Content:
            if at is not None and parts.are_all(said, before[at].parts or ()):
                return before[at]
            return types.Content(role="model" if role == "assistant" else "user", parts=list(said))

        if fitted.changed:
            written = partial(_written, block)
            llm_request.contents = parts.given_back(fitted, pieces, written, message)

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> None:
        """Learn from the provider's count."""
        usage = llm_response.usage_metadata
        tokens = usage.prompt_token_count if usage else None
        if not tokens and llm_response.partial:
            return
        if (fitted := self._taken(callback_context)) and tokens:
            fitted.report(tokens)

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> None:
        """Make the next request smaller where the provider says that this one was too large."""
        if fitted := self._taken(callback_context):
            fitted.report(error)

    def _taken(self, context: CallbackContext) -> Fitted | None:
        """Return what this call was sent, once."""
        invocation, fitted = self._sent.pop(_session_of(context), (None, None))
        return fitted if invocation == context.invocation_id else None


def _session_of(context: CallbackContext) -> str:
    said = context.session  # its id is unique for a user of an app only
    return "/".join((said.app_name, said.user_id, said.id, context.agent_name))


Block = Callable[[Any], Item]


def _ids(contents: Sequence[types.Content]) -> dict[int, str]:
    """The ids of calls and of what answers them, by Python's id of the part. ADK takes many away;
    then a result answers the first waiting call of its name.
    """
    ids: dict[int, str] = {}
    waiting: list[tuple[str | None, str]] = []
    for part in (part for content in contents for part in content.parts or ()):
        if asked := part.function_call:
            ids[id(part)] = asked.id or f"call_{len(ids)}"
            waiting.append((asked.name, ids[id(part)]))
        elif answer := part.function_response:
            open_ = (
                key for name, key in waiting if answer.id in (None, key) and name == answer.name
            )
            ids[id(part)] = found = next(open_, answer.id or f"call_{len(ids)}")
            waiting = [each for each in waiting if each[1] != found]
    return ids


def _pieces(contents: Sequence[types.Content], block: Block) -> Iterator[Piece]:
    for at, content in enumerate(contents):
        if content.role == "model":
            yield Piece(at, parts.reply(content.parts or (), block), content.parts or ())
            continue
        # results of tools have to follow their calls
        said = sorted(content.parts or (), key=lambda part: not part.function_response)
        for is_result, group in groupby(said, lambda part: bool(part.function_response)):
            for stood in [[part] for part in group] if is_result else [list(group)]:
                yield Piece(at, _asked(stood, block), stood)
        if not said:
            yield Piece(at, {"role": "user", "content": ""}, ())


def _asked(stood: Sequence[types.Part], block: Block) -> Item:
    """A result, or parts that a person said, as a dictionary."""
    if not stood[0].function_response:
        return {"role": "user", "content": parts.content(map(block, stood))}
    return block(stood[0])


def _block(ids: dict[int, str], part: types.Part | types.FunctionResponsePart) -> Item:
    """A part as a block; a result as a dictionary."""
    if asked := getattr(part, "function_call", None):
        body = {"name": asked.name or "", "arguments": _json(asked.args or {})}
        return {"type": "function", "id": ids[id(part)], "function": body}
    if answer := getattr(part, "function_response", None):
        said = answer.response or {}
        is_text = said.keys() == {"result"} and isinstance(said["result"], str)
        told = {"type": "text", "text": said["result"] if is_text else _json(said)}
        shown = parts.content([told, *(_block(ids, each) for each in answer.parts or ())])
        return {"role": "tool", "tool_call_id": ids[id(part)], "content": shown}
    made: Item = part.model_dump(mode="json", exclude_none=True)
    if isinstance(text := made.get("text"), str):
        kind = "thought" if getattr(part, "thought", False) else "text"
        return {"type": kind, kind: text}
    data: Any = getattr(part, "inline_data", None)  # of two types
    if data and data.data and (data.mime_type or "").startswith("image/"):
        url = f"data:{data.mime_type};base64,{base64.b64encode(data.data).decode()}"
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file" if "file_data" in made else next(iter(made), "part"), **made}


def _written(block: Block, item: Item, stood: Sequence[types.Part]) -> Sequence[types.Part]:
    """What a compression made, as parts of a content."""
    if item["role"] != "tool":
        return parts.reply_parts(item, stood, block, lambda text: types.Part(text=text), _call)
    own = stood[0] if stood else types.Part(function_response=types.FunctionResponse())
    before: Any = own.function_response
    said = parts.shown_parts(item, before.parts or (), block, str)
    text = "\n".join(each for each in said if isinstance(each, str))
    media = [each for each in said if not isinstance(each, str)]
    made = {"response": {"result": text}, "parts": media or None}
    return [_with(own, "function_response", made, item["tool_call_id"])]


def _call(made: Item, before: types.Part | None) -> types.Part:
    asked = made["function"]
    own = before or types.Part(function_call=types.FunctionCall(name=asked["name"]))
    return _with(own, "function_call", {"args": json.loads(asked["arguments"])}, made["id"])


def _with(part: types.Part, name: str, changes: Item, call_id: str) -> types.Part:
    """The part with a changed call or result. An id that ADK took away stays away."""
    own = getattr(part, name)
    changes = changes | ({"id": call_id} if own.id else {})
    return part.model_copy(update={name: own.model_copy(update=changes)})


def _schemas(tools: Sequence[Any]) -> list[Item]:
    declared = [each for tool in tools for each in getattr(tool, "function_declarations", ()) or ()]
    dumped = [each.model_dump(mode="json", exclude_none=True) for each in declared]
    return [{"type": "function", "function": each} for each in dumped]


def _text_of(instruction: object) -> str:
    """The texts of an instruction, which may be a text, a content, parts or a list of these."""
    if isinstance(instruction, Sequence) and not isinstance(instruction, str):
        return "\n\n".join(map(_text_of, instruction))
    said = getattr(instruction, "parts", None)
    return _text_of(said) if said else str(getattr(instruction, "text", instruction) or "")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
