"""Strands: a plugin by which each request of an agent fits the model's window."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from compact import CompactManager
from compact.integrations import parts
from compact.integrations.parts import Item, Piece
from compact.session.fitted import Fitted

try:
    from strands.middleware import InvokeModelStage
    from strands.plugins import Plugin
    from strands.types.events import ModelStopReason
    from strands.types.exceptions import ContextWindowOverflowException
except ImportError as missing:
    raise ImportError(
        "compact.integrations.strands needs Strands 1.62 or newer, beside an MCP older than 2.2: "
        "pip install strands-agents, in an environment without compact's extra mcp"
    ) from missing


class StrandsPlugin(Plugin):  # type: ignore[misc, unused-ignore]
    """Makes each request of one agent fit. The agent's messages stay as they are: give it a
    `NullConversationManager`, for Strands' own take them away.

    Raises:
        CompactError: the manager's settings cannot work; as in `CompactManager.check`.
    """

    name = "compact"

    def __init__(self, manager: CompactManager, session_id: str) -> None:
        super().__init__()
        manager.check()
        self._manager, self._session_id = manager, session_id

    def init_agent(self, agent: Any) -> None:  # noqa: ANN401 - another package's
        """Stand before the agent's model."""
        agent.add_middleware(InvokeModelStage, self._invoke)

    async def _invoke(self, context: Any, ask: Callable[[Any], Any]) -> AsyncIterator[Any]:  # noqa: ANN401
        """Send what fits. After a refusal as too large, send a smaller prompt once."""
        for is_last in (False, True):
            pieces = list(_pieces(context.messages))
            fitted = await self._fit(context, [piece.item for piece in pieces])
            sent = context
            if fitted.changed:
                sent = context.replace(messages=_messages(fitted, pieces, context.messages))
            try:
                async for event in ask(sent):
                    if isinstance(event, ModelStopReason):
                        usage = event["stop"][2]
                        # some providers count what they cached apart, others within
                        if not usage.get("cacheReadInputTokens") and not usage.get(
                            "cacheWriteInputTokens"
                        ):
                            fitted.report(usage["inputTokens"])
                    yield event
                return
            except ContextWindowOverflowException as error:
                if not fitted.report(error) or is_last:
                    raise

    async def _fit(self, context: Any, items: Sequence[Item]) -> Fitted:  # noqa: ANN401
        config, system = context.model.get_config(), context.system_prompt or ""
        blocks = [{"text": system}] if isinstance(system, str) else system
        return await self._manager.afit(
            self._session_id,
            items,
            format="chat_completions",
            tools=[_schema(tool) for tool in context.tool_specs or ()],
            system_prompt="\n".join(block.get("text", "") for block in blocks),
            model=parts.window_of(self._manager, config.get("model_id")),
            answer_tokens=config.get("max_tokens", (config.get("params") or {}).get("max_tokens")),
        )


def _pieces(messages: Sequence[Item]) -> Iterator[Piece]:
    for at, message in enumerate(messages):
        said = message["content"]
        if message["role"] == "assistant":
            yield Piece(at, parts.reply(said, _block), said)
            continue
        # results of tools have to follow their calls
        asked = [part for part in said if "toolResult" not in part]
        yield from (Piece(at, _block(part), [part]) for part in said if "toolResult" in part)
        if asked or not said:
            yield Piece(at, {"role": "user", "content": parts.content(map(_block, asked))}, asked)


def _block(part: Item) -> Item:
    """A part as a block; a result as a dictionary."""
    match part:
        case {"text": text}:
            return {"type": "text", "text": text}
        case {"json": value}:
            return {"type": "text", "text": json.dumps(value, ensure_ascii=False, default=str)}
        case {"toolUse": asked}:
            body = {"name": asked["name"], "arguments": json.dumps(asked["input"])}
            return {"type": "function", "id": asked["toolUseId"], "function": body}
        case {"toolResult": result}:
            said = parts.content(map(_block, result["content"]))
            return {"role": "tool", "tool_call_id": result["toolUseId"], "content": said}
        case {"image": {"format": kind, "source": {"bytes": data}}}:
            url = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
            return {"type": "image_url", "image_url": {"url": url}}
        case {"document": {"source": {"bytes": data}}} | {"video": {"source": {"bytes": data}}}:
            url = f"data:application/octet-stream;base64,{base64.b64encode(data).decode()}"
            return {"type": "file", "file": {"file_data": url}}
    kind = "thought" if "reasoningContent" in part else "part"
    return {"type": kind, kind: json.dumps(part, default=str)}


def _messages(fitted: Fitted, pieces: Sequence[Piece], before: Sequence[Item]) -> list[Item]:
    """What was fitted. Bedrock wants the roles in turn, so neighbours of one role are joined."""

    def message(at: int | None, role: str, said: Sequence[Item]) -> Item:
        if at is not None and parts.are_all(said, before[at]["content"]):
            return before[at]
        return {"role": "assistant" if role == "assistant" else "user", "content": [*said]}

    out = list[Item]()
    for one in parts.given_back(fitted, pieces, _written, message):
        if out and out[-1]["role"] == one["role"]:
            out[-1] = {**out[-1], "content": [*out[-1]["content"], *one["content"]]}
        else:
            out.append(one)
    return out


def _written(item: Item, stood: Sequence[Item]) -> Sequence[Item]:
    """Return a message that compact made or changed, as content blocks of Strands. `stood` are the
    host's blocks that it stands for.
    """
    if item["role"] != "tool":
        return parts.reply_parts(item, stood, _block, lambda text: {"text": text}, _call)
    own = stood[0]["toolResult"] if stood else {"status": "success", "content": []}
    said = parts.shown_parts(item, own["content"], _block, lambda text: {"text": text})
    return [{"toolResult": {**own, "toolUseId": item["tool_call_id"], "content": said}}]


def _call(made: Item, before: Item | None) -> Item:
    body = made["function"]
    asked = {"toolUseId": made["id"], "name": body["name"], "input": json.loads(body["arguments"])}
    return {"toolUse": {**(before["toolUse"] if before else {}), **asked}}


def _schema(tool: Item) -> Item:
    described = {"name": tool["name"], "description": tool["description"]}
    parameters = tool["inputSchema"].get("json", tool["inputSchema"])
    return {"type": "function", "function": described | {"parameters": parameters}}
