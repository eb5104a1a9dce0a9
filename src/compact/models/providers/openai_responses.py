"""OpenAI's Responses API, used without any state on the server.

A reply of several items (reasoning, text, calls) becomes one message. Its parts keep their items,
so that encrypted reasoning is sent back together with the calls that follow it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compact.errors import InvalidArgument, ModelFailed
from compact.messages import clock_and_ids
from compact.messages.asking import Abilities, Ask, Limits
from compact.messages.context import ActiveContext
from compact.messages.formats.known import format_named, prompt_of, tools_of
from compact.messages.formats.responses import refuse_server_state
from compact.messages.formats.wire_safe import spelled_out, strictly_named
from compact.messages.messages import Message, Part, Refusal, Text
from compact.messages.replies import Finish, Reply, Usage, usage_of
from compact.models.model_keys import ModelKey
from compact.models.providers.dialect import Dialect, Wish
from compact.models.providers.failures import ErrorInAnswer, mapped, reading
from compact.models.providers.openai_chat import OpenAIServer
from compact.models.providers.vendor_server import TIMEOUT, ServedModel, wished

FORMAT = "responses"
_SEALED = ("reasoning.encrypted_content",)
_WISHES: Mapping[str, Wish] = {
    "length": Wish(("max_output_tokens",), needed=True),
    "temperature": Wish(("temperature",)),
    "schema": Wish(("text",), words=r"text\.format|json_schema"),
    "sealed": Wish(("include",), words=r"(?i:encrypted content)"),
}
_CUT: Mapping[str, Finish] = {"max_output_tokens": "length", "content_filter": "refusal"}
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_TEXTS = ("response.output_text.delta", "response.refusal.delta")


class OpenAIResponses(ServedModel):
    """A model behind the Responses API. The arguments are those of `OpenAIChat`.

    Raises:
        ServerHeldState: `extra` asks the server to keep the conversation.
    """

    _path = "/responses"
    _server: OpenAIServer

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = TIMEOUT,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        refuse_server_state(extra or {})
        key = ModelKey("openai-responses", name, base_url)
        self._server = OpenAIServer(key, Dialect(_WISHES), api_key=api_key, timeout=timeout)
        self._extra = dict(extra or {})

    @property
    def abilities(self) -> Abilities:
        """What the model can do. For servers other than OpenAI's, more is known after `limits`."""
        return Abilities(schemas=self._server.enforces_schemas)

    async def limits(self) -> Limits:
        """Return the model's limits as its server reports them. OpenAI itself reports none."""
        return await self._server.limits()

    async def count(self, context: ActiveContext) -> int | None:
        """Return None: no server counts prompts for this API."""
        prompt_of(context, FORMAT)
        return None

    def _prompt(self, context: ActiveContext) -> dict[str, Any]:
        shaped = strictly_named if self._server.kind == "openai" else spelled_out
        items = list(map(shaped, prompt_of(context, FORMAT)))
        prompt = {"model": self._server.name, "input": items, "store": False}
        if context.system:
            prompt["instructions"] = context.system_text
        if context.tools:
            prompt["tools"] = tools_of(context, FORMAT)
        return {**self._extra, **self._server.written(prompt)}

    def _wishes(self, ask: Ask) -> dict[str, Any]:
        refuse_server_state(ask.options)
        if ask.stop:
            raise InvalidArgument(
                "stop", "the Responses API ends no answer at a text: leave it out"
            )
        schema = None
        if ask.answer_schema is not None:
            inner = {"type": "json_schema", "name": "answer", "schema": dict(ask.answer_schema)}
            schema = {"format": inner}
        return wished(
            sealed=list(_SEALED),
            length=ask.max_tokens,
            temperature=ask.temperature,
            schema=schema,
        )

    def _answer_in_pieces(self) -> StreamedItems:
        return StreamedItems()

    def _reply(self, answer: Mapping[str, Any]) -> Reply:
        if answer.get("error") or answer.get("status") == "failed":
            with mapped(self.name):
                raise ErrorInAnswer(answer.get("error") or "the answer failed")
        if not isinstance(answer.get("output"), Sequence):
            raise ModelFailed(f"{self.name} answered without items", model=self.name)
        with reading(self.name):
            message = _message(answer["output"], str(answer.get("id") or "") or None)
        return Reply(
            message=message,
            usage=usage_in(answer.get("usage")),
            finish=_finish(answer, message),
            model=str(answer.get("model") or self._server.name),
        )


class StreamedItems:
    """Collects an answer that arrives as a stream of events."""

    def __init__(self) -> None:
        self.whole: Mapping[str, Any] | None = None
        self._part: object = None

    def take(self, event: Mapping[str, Any]) -> str:
        """Add an event. Return the text that it adds to the answer."""
        kind = event.get("type")
        if kind == "error":
            raise ErrorInAnswer(event)
        if kind in _ENDS:
            whole = event.get("response")
            self.whole = whole if isinstance(whole, Mapping) else None
        if kind not in _TEXTS or not event.get("delta"):
            return ""
        here = (event.get("output_index"), event.get("content_index"))
        before, self._part = self._part, here
        text: str = ("\n" if before not in (None, here) else "") + event["delta"]
        return text


def _message(items: Sequence[Mapping[str, Any]], reply_id: str | None) -> Message:
    """Build one message from an answer's items. If there are several, each part keeps its item."""
    read = [format_named(FORMAT).parse(item, i) for i, item in enumerate(items)]
    if len(read) == 1:
        return read[0].model_copy(update={"id": clock_and_ids.new_id(), "reply_id": reply_id})
    parts = tuple(part for piece in read for part in _parts(piece))
    return Message(role="assistant", content=parts, reply_id=reply_id, wire_format=FORMAT)


def _parts(item: Message) -> tuple[Part, ...]:
    if item.wire is None or item.wire.get("type") != "message":
        return item.parts
    refused = any(isinstance(part, Refusal) for part in item.parts)
    return (Refusal(item.text, raw=item.wire) if refused else Text(item.text, raw=item.wire),)


def _finish(answer: Mapping[str, Any], message: Message) -> Finish:
    if any(part.type == "refusal" for part in message.parts):
        return "refusal"
    match answer.get("status"):
        case "incomplete":
            details = answer.get("incomplete_details")
            reason = details.get("reason") if isinstance(details, Mapping) else None
            return _CUT.get(str(reason), "unknown")
        case "completed":
            return "tool_calls" if message.tool_calls else "stop"
        case _:
            return "unknown"


def usage_in(said: object) -> Usage | None:
    """Return the usage that an answer reports."""
    if not isinstance(said, Mapping):
        return None
    details = said.get("input_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    return usage_of(said.get("input_tokens"), said.get("output_tokens"), cached)
