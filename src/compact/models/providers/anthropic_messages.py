"""Anthropic's Messages API, and compatible ones such as llama.cpp's `/v1/messages`.

Blocks are kept as they arrive, so that reasoning keeps its signature.

A mark in a prompt (`cache_control`) makes the provider cache everything up to it, in the order
tools, system prompt, messages. A request may carry four marks. They are put where the text before
them stays the same: at the end of the tools, of the system prompt, of the newest checkpoint, and of
the newest message. A checkpoint's text changes only when it ages, while the record after it is new
at each compression. If a mark is left, it goes to the end of the previous request. Source:
Anthropic, "Prompt caching".
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Literal, NamedTuple

from compact.errors import ContextOverflow, ModelFailed, ModelRefused
from compact.messages import clock_and_ids
from compact.messages.arguments import arguments_of
from compact.messages.asking import Abilities, Ask, Limits
from compact.messages.characters import all_carried, all_defused
from compact.messages.context import ActiveContext
from compact.messages.formats.known import format_named, prompt_of, tools_of
from compact.messages.formats.wire_safe import strictly_named
from compact.messages.given import type_of
from compact.messages.messages import Message
from compact.messages.replies import Finish, Reply, Usage, is_tokens, usage_of
from compact.models.model_keys import ModelKey
from compact.models.providers.clients import NO_KEY, http_client, is_own, key_for
from compact.models.providers.dialect import Dialect, Wish
from compact.models.providers.failures import key_hint, reading
from compact.models.providers.vendor_server import (
    TIMEOUT,
    ServedModel,
    VendorServer,
    number,
    row_of,
    wished,
)

# --- cache marks ----------------------------------------------------------------------------------

MOST = 4
"""How many cache marks Anthropic accepts in a request."""
MARK: Mapping[str, Any] = {"type": "ephemeral"}

_KEY = "cache_control"
_UNMARKABLE = frozenset(("thinking", "redacted_thinking"))

Block = Mapping[str, Any]


class _Place(NamedTuple):
    field: Literal["tools", "system", "messages"]
    outer: int
    block: Block
    inner: int = 0
    role: str = ""


def with_marks(request: Mapping[str, Any], checkpoints: Collection[str] = ()) -> dict[str, Any]:
    """Return a copy of the request (`system`, `tools`, `messages`) with marks. Blocks without a
    mark are not copied.

    `checkpoints` are the texts of the checkpoints in the request. A text that gets a mark becomes a
    text block, which means the same to the provider. Marks that are already in the request stay and
    count among the four. A mark that compact puts before one of these gets its lifetime, because
    the provider wants longer lifetimes first. Thinking, empty text and tools with deferred loading
    never get a mark.
    """
    places = list(_places(request))
    existing = {i: found for i, place in enumerate(places) if (found := _mark_of(place.block))}
    room = MOST - bool(request.get(_KEY)) - sum(_marks_in(place.block) for place in places)
    wanted = dict.fromkeys(
        i for i in _stable_ends(places, checkpoints) if i is not None and i not in existing
    )
    added = list(wanted)[: max(0, room)]
    marked = {**request}
    mark = MARK
    for i in range(len(places) - 1, -1, -1):
        mark = existing.get(i, mark)
        if i in added:
            _put(marked, places[i], mark)
    return marked


def _places(request: Mapping[str, Any]) -> Iterator[_Place]:
    for i, tool in enumerate(request.get("tools") or ()):
        yield _Place("tools", i, tool)
    for i, block in enumerate(_cacheable_blocks(request.get("system"))):
        yield _Place("system", i, block)
    for i, message in enumerate(request.get("messages") or ()):
        for j, block in enumerate(_cacheable_blocks(message.get("content"))):
            yield _Place("messages", i, block, j, str(message.get("role")))


def _cacheable_blocks(content: object) -> Sequence[Block]:
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    if not isinstance(content, Sequence):
        return ()
    return [{"type": "text", "text": b} if isinstance(b, str) else b for b in content]


def _stable_ends(places: Sequence[_Place], checkpoints: Collection[str]) -> list[int | None]:
    """Return the places where a mark is useful. The most useful place comes first."""
    markable = [i for i, place in enumerate(places) if _may_carry(place)]
    in_messages = [i for i in markable if places[i].field == "messages"]
    newest = in_messages[-1] if in_messages else None
    return [
        newest,
        _last(i for i in markable if places[i].field == "system"),
        _last(i for i in in_messages if places[i].block.get("text") in checkpoints),
        _last(i for i in markable if places[i].field == "tools"),
        _end_before_reply(places, in_messages),
    ]


def _end_before_reply(places: Sequence[_Place], said: Sequence[int]) -> int | None:
    """Return the end of the request that the newest reply answered."""
    replies = {p.outer for p in places if p.role == "assistant"}
    if not replies:
        return None
    first = max(replies)
    while first - 1 in replies:
        first -= 1
    return _last(i for i in said if places[i].outer < first)


def _last(positions: Iterator[int]) -> int | None:
    return max(positions, default=None)


def _may_carry(place: _Place) -> bool:
    block = place.block
    if place.field == "tools":
        return not block.get("defer_loading")
    if type_of(block) in _UNMARKABLE:
        return False
    return block.get("type") != "text" or bool(str(block.get("text", "")).strip())


def _mark_of(block: Block) -> Mapping[str, Any] | None:
    """Return the mark of the block, or else the last mark inside a tool result."""
    if mark := block.get(_KEY):
        return mark  # type: ignore[no-any-return]  # a provider's dictionary carries no types
    if block.get("type") != "tool_result":
        return None
    return next(
        (m for b in reversed(_cacheable_blocks(block.get("content"))) if (m := _mark_of(b))), None
    )


def _marks_in(block: Block) -> int:
    inside = _cacheable_blocks(block.get("content")) if block.get("type") == "tool_result" else ()
    return bool(block.get(_KEY)) + sum(bool(b.get(_KEY)) for b in inside)


def _put(marked: dict[str, Any], place: _Place, mark: Mapping[str, Any]) -> None:
    block = {**place.block, _KEY: dict(mark)}
    if place.field == "tools":
        marked["tools"] = _replaced(marked["tools"], place.outer, block)
    elif place.field == "system":
        marked["system"] = _replaced(_cacheable_blocks(marked["system"]), place.outer, block)
    else:
        message = marked["messages"][place.outer]
        content = _replaced(_cacheable_blocks(message["content"]), place.inner, block)
        changed = {**message, "content": content}
        marked["messages"] = _replaced(marked["messages"], place.outer, changed)


def _replaced(values: Sequence[Any], position: int, value: object) -> list[Any]:
    return [*values[:position], value, *values[position + 1 :]]


# --- anthropic messages ---------------------------------------------------------------------------

FORMAT = "anthropic"
MAX_TOKENS = 4096
"""The limit of an answer in tokens, if none is given. The API requires a limit."""
OPENING = "[The conversation begins with the assistant.]"
"""Put before a conversation that the assistant begins: the API requires a user message first."""
_FINISH: Mapping[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}
"""How Anthropic's stop reasons are named here. `pause_turn` counts as unknown, because the turn
continues when the answer is sent back."""
_FULL = "model_context_window_exceeded"
_NOTHING_THERE = (404, 405, 501)
"""HTTP statuses of a path that does not exist. A server that returns one for the path of counting
does not count tokens. If it returns one for the model's path, the list of all models is read."""
_WISHES: Mapping[str, Wish] = {
    "length": Wish(("max_tokens",), needed=True),
    "temperature": Wish(("temperature",)),
    "stop": Wish(("stop_sequences",)),
    "schema": Wish(("output_config",), words="output_format|json_schema|schema"),
}


class AnthropicServer(VendorServer):
    """A server with one model. If `base_url` is None, the server is Anthropic's own."""

    def __init__(
        self, model: str, base_url: str | None, *, api_key: str | None, timeout: float
    ) -> None:
        super().__init__(model, "anthropic", Dialect(_WISHES), timeout=timeout)
        self._base_url = re.sub(r"/(v1/?)?$", "", base_url) if base_url else None
        self._api_key = api_key

    def _new_client(self, vendor: ModuleType) -> Any:  # noqa: ANN401 - a client of a package that may be missing
        key = self._api_key or key_for("anthropic", self._base_url)
        if not key and self._base_url is not None:
            key = NO_KEY
        client = vendor.AsyncAnthropic(
            api_key=key or None,
            base_url=self._base_url,
            max_retries=0,
            timeout=self.timeout,
            http_client=http_client(vendor.DefaultAsyncHttpxClient),
        )
        if not (client.api_key or client.auth_token or client.credentials):
            text = f"there is no key for {self.model}: {key_hint(self.model)}"
            raise ModelRefused(text, model=self.model)
        return client


class AnthropicMessages(ServedModel):
    """A model behind `/v1/messages`.

    `base_url` is a server's address; None means Anthropic's own. `api_key` is read from
    `ANTHROPIC_API_KEY` by default; other servers may need none. `max_tokens` limits answers that
    have no limit of their own. `cache` says whether to mark the ends of the stable parts of a
    prompt, so that the provider caches them. `timeout` is in seconds, for one answer. An answer
    that fills the window raises `ContextOverflow`.
    """

    _path = "/v1/messages"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        max_tokens: int = MAX_TOKENS,
        cache: bool = True,
        timeout: float = TIMEOUT,
    ) -> None:
        key = str(ModelKey("anthropic", name, base_url or None))
        self._name = name
        self._server = AnthropicServer(key, base_url, api_key=api_key, timeout=timeout)
        self._max_tokens = max_tokens
        self._cache = cache
        self._counts = True
        self._is_foreign = not is_own("anthropic", base_url or os.environ.get("ANTHROPIC_BASE_URL"))
        self._has_schemas = base_url is None

    @property
    def abilities(self) -> Abilities:
        """What the model can do. If its server refuses something, that ability is removed."""
        schemas = self._has_schemas and self._server.dialect.knows("schema")
        return Abilities(tools=True, schemas=schemas, counts=self._counts)

    async def count(self, context: ActiveContext) -> int | None:
        """Return the server's count of the prompt's tokens, or None if the server cannot count."""
        body = self._prompt(context)
        if not self._counts:
            return None
        try:
            answer = await self._server.post(f"{self._path}/count_tokens", body, {})
        except ModelRefused as refusal:
            if refusal.status not in _NOTHING_THERE:
                raise
            self._counts = False
            return None
        tokens = answer.get("input_tokens")
        return tokens if isinstance(tokens, int) else None

    async def limits(self) -> Limits:
        """Return the model's limits as its server reports them."""
        try:
            row: Mapping[str, Any] = await self._server.asked("GET", f"/v1/models/{self._name}")
        except ModelRefused as refusal:
            if refusal.status not in _NOTHING_THERE or not self._is_foreign:
                raise
            row = row_of((await self._server.asked("GET", "/v1/models")).get("data"), self._name)
        meta = row.get("meta")
        places = (row, meta) if isinstance(meta, Mapping) else (row,)
        return Limits(
            window=number(places, ("max_input_tokens", "n_ctx", "max_model_len")),
            trained=number(places, ("max_input_tokens", "n_ctx_train")),
            output=number(places, ("max_tokens",)),
        )

    # --- asking -----------------------------------------------------------------------------------

    def _prompt(self, context: ActiveContext) -> dict[str, Any]:
        # The API takes no system messages in the list, so they join the system field.
        listed = prompt_of(context, FORMAT)
        system = _system(all_carried(context.system), [m for m in listed if m["role"] == "system"])
        messages = [kept for m in listed if m["role"] != "system" and (kept := _stripped(m))]
        if messages and messages[0]["role"] != "user":
            messages.insert(0, {"role": "user", "content": OPENING})
        if not self._is_foreign:
            messages = list(map(strictly_named, messages))
        prompt: dict[str, Any] = {"model": self._name, "messages": messages}
        if system:
            prompt["system"] = system
        if context.tools:
            prompt["tools"] = tools_of(context, FORMAT)
        if self._cache:
            ours = [m.text for m in context.messages if m.id in {c.id for c in context.checkpoints}]
            prompt = with_marks(prompt, ours)
        if self._is_foreign:  # such a server obeys control tokens in texts
            prompt = {**all_defused(prompt), "model": self._name}
        return prompt

    def _wishes(self, ask: Ask) -> dict[str, Any]:
        schema = None
        if ask.answer_schema is not None and self._has_schemas:
            schema = {"format": {"type": "json_schema", "schema": dict(ask.answer_schema)}}
        return wished(
            length=ask.max_tokens or self._max_tokens,
            temperature=None if ask.temperature is None else min(ask.temperature, 1.0),
            stop=list(ask.stop),
            schema=schema,
        )

    def _answer_in_pieces(self) -> StreamedBlocks:
        return StreamedBlocks()

    def _reply(self, answer: Mapping[str, Any]) -> Reply:
        content = answer.get("content")
        if not isinstance(content, Sequence):
            raise ModelFailed(f"{self.name} answered without a message", model=self.name)
        usage = usage_in(answer.get("usage"))
        if answer.get("stop_reason") == _FULL:
            raise ContextOverflow(
                f"{self.name} filled its context window before it came to an end",
                tokens=usage.prompt_tokens if usage else None,
            )
        with reading(self.name):
            message = _message(content)
        return Reply(
            message=message,
            usage=usage,
            finish=_FINISH.get(str(answer.get("stop_reason")), "unknown"),
            model=self.name,
        )


class StreamedBlocks:
    """Collects an answer that arrives as a stream of events."""

    def __init__(self) -> None:
        self._answer: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}

    def take(self, event: Mapping[str, Any]) -> str:
        """Add an event. Return the text that it adds to the answer."""
        match event.get("type"):
            case "message_start":
                self._answer = dict(event.get("message") or {})
                self._used(self._answer.get("usage"))
            case "content_block_start":
                self._blocks[event["index"]] = dict(event.get("content_block") or {})
                return str(self._blocks[event["index"]].get("text") or "")
            case "content_block_delta":
                return self._grown(event["index"], event.get("delta") or {})
            case "message_delta":
                self._answer |= event.get("delta") or {}
                self._used(event.get("usage"))
        return ""

    @property
    def whole(self) -> dict[str, Any] | None:
        """The answer as if it had come in one response. None before its end."""
        if not self._answer.get("stop_reason"):
            return None
        for index, written in self._inputs.items():
            self._blocks[index]["input"] = arguments_of(written)
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        return {**self._answer, "content": blocks, "usage": self._usage}

    def _used(self, usage: object) -> None:
        if isinstance(usage, Mapping):
            self._usage |= {k: v for k, v in usage.items() if v is not None}

    def _grown(self, index: int, delta: Mapping[str, Any]) -> str:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        match delta.get("type"):
            case "text_delta" | "thinking_delta" | "signature_delta" as kind:
                field = kind.removesuffix("_delta")
                block[field] = str(block.get(field) or "") + str(delta.get(field) or "")
                return str(delta["text"]) if kind == "text_delta" else ""
            case "input_json_delta":
                self._inputs[index] = self._inputs.get(index, "") + str(delta["partial_json"])
            case "compaction_delta":
                block["content"] = str(block.get("content") or "") + str(delta.get("content") or "")
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        return ""


def _message(content: Sequence[Any]) -> Message:
    message = format_named(FORMAT).parse({"role": "assistant", "content": list(content)}, 0)
    return message.model_copy(
        update={"id": clock_and_ids.new_id(), "timestamp": clock_and_ids.now()}
    )


def usage_in(said: object) -> Usage | None:
    """Return the usage. The API reports cached and uncached tokens separately; this adds them."""
    if not isinstance(said, Mapping) or not is_tokens(fresh := said.get("input_tokens")):
        return None
    read, written = said.get("cache_read_input_tokens"), said.get("cache_creation_input_tokens")
    prompt = fresh + sum(filter(is_tokens, (read, written)))
    return usage_of(prompt, said.get("output_tokens"), read)


def _system(
    field: str | Sequence[Mapping[str, Any]] | None, listed: Sequence[Mapping[str, Any]]
) -> str | list[Any]:
    """Build the system field: the context's system prompt, then the list's system messages."""
    if isinstance(field, str) and not listed:
        return field
    contents = [field or "", *(message["content"] for message in listed)]
    return [block for content in contents for block in _blocks(content)]


def _stripped(message: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return role and content without empty texts, which the API refuses, or None if empty."""
    content = message["content"]
    if not isinstance(content, str):
        content = _blocks(content)
    if not content or (isinstance(content, str) and not content.strip()):
        return None
    return {"role": message["role"], "content": content}


def _blocks(content: str | Sequence[Any]) -> list[Any]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [block for block in blocks if not _is_empty(block)]


def _is_empty(block: object) -> bool:
    if not isinstance(block, Mapping) or block.get("type") != "text":
        return False
    return not str(block.get("text") or "").strip()
