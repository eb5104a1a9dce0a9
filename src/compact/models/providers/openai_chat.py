"""Chat completions of OpenAI and of compatible servers.

`OpenAIServer` is a server with its API keys and its models' limits. `openai_responses` uses it too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from operator import itemgetter
from types import ModuleType
from typing import Any, ClassVar

from compact.errors import CompactError, ModelFailed, ModelRefused
from compact.messages import clock_and_ids
from compact.messages.asking import Abilities, Ask, Limits
from compact.messages.characters import all_defused
from compact.messages.context import ActiveContext
from compact.messages.formats.chat_completions import THOUGHTS
from compact.messages.formats.known import format_named, prompt_of, tools_of
from compact.messages.formats.wire_safe import plainly, strictly_named
from compact.messages.messages import Message
from compact.messages.replies import Finish, Reply, Usage, usage_of
from compact.models.model_keys import ModelKey
from compact.models.providers.clients import NO_KEY, http_client, is_own, key_for
from compact.models.providers.dialect import Body, Dialect, Wish
from compact.models.providers.failures import key_hint, reading
from compact.models.providers.vendor_server import (
    TIMEOUT,
    ServedModel,
    VendorServer,
    number,
    row_of,
    wished,
)

FORMAT = "chat_completions"
_FINISH: Mapping[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
}
_BLOCK_TEXTS = ("text", "summary", "data")
"""Fields of a reasoning block whose text arrives in pieces."""
_WISHES: Mapping[str, Wish] = {
    "temperature": Wish(("temperature",)),
    "stop": Wish(("stop",)),
    "schema": Wish(("response_format",), words="json_schema"),
    "usage": Wish(("stream_options",)),
}

LLAMA, LM_STUDIO = "llama.cpp", "LM Studio"
ENFORCES = ("openai", LLAMA, "vllm")
"""Servers that make an answer follow a JSON schema."""
_KINDS: Mapping[str, str] = {"llamacpp": LLAMA, "organization_owner": LM_STUDIO}
"""The owner that a server names for a model → the program that the server runs."""


class OpenAIServer(VendorServer):
    """A server with one model. Without an address, it is `OPENAI_BASE_URL` or OpenAI itself."""

    def __init__(
        self,
        key: ModelKey,
        dialect: Dialect,
        *,
        api_key: str | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        super().__init__(str(key), "openai", dialect, timeout=timeout)
        self.name = key.name
        self._kind: str | None = None
        self._key = key
        self._base_url = key.base_url or os.environ.get("OPENAI_BASE_URL")
        self._api_key = api_key

    @property
    def kind(self) -> str | None:
        """The server's program, such as `openai`, `llama.cpp` or `vllm`. It is None before `limits`
        has asked, and empty if the server does not report it.
        """
        return "openai" if is_own("openai", self._base_url) else self._kind

    @property
    def enforces_schemas(self) -> bool:
        """Whether the server makes answers follow a schema, as far as that is known."""
        return self.kind in ENFORCES and self.dialect.knows("schema")

    def _new_client(self, vendor: ModuleType) -> Any:  # noqa: ANN401 - a client of a package that may be missing
        settings = client_settings(self._key, self._base_url, self._api_key, self.timeout)
        http = http_client(vendor.DefaultAsyncHttpxClient)
        return vendor.AsyncOpenAI(**settings, max_retries=0, http_client=http)

    def written(self, prompt: Body) -> dict[str, Any]:
        """Return the prompt without control tokens. Only OpenAI itself reads them as plain text."""
        if is_own("openai", self._base_url):
            return dict(prompt)
        return {**all_defused(prompt), "model": self.name}

    # --- what it says of its models ---------------------------------------------------------------

    async def limits(self) -> Limits:
        """Return the model's limits as the server reports them. OpenAI itself reports none."""
        if self.kind == "openai":
            return Limits()
        row = row_of((await self.asked("GET", "/models")).get("data"), self.name)
        self._kind = program_in(row)
        limits = limits_in(row)
        if limits.window is None and self._kind == LLAMA:
            settings = (await self._elsewhere("props")).get("default_generation_settings")
            return limits.model_copy(update={"window": limits_in(settings).window})
        if limits.window is None and self._kind == LM_STUDIO:
            return limits_in(
                row_of((await self._elsewhere("api/v0/models")).get("data"), self.name)
            )
        return limits

    async def count(self, prompt: Body) -> int | None:
        """Return llama.cpp's token count of a chat prompt. Return None for all other servers."""
        if self.kind is None:
            await self.limits()
        if self.kind != LLAMA:
            return None
        templated = await self.post(f"{self._root}/apply-template", prompt, {})
        text = {"content": templated.get("prompt"), "add_special": True, "parse_special": True}
        tokens = (await self.asked("POST", f"{self._root}/tokenize", text)).get("tokens")
        return len(tokens) if isinstance(tokens, list) else None

    @property
    def _root(self) -> str:
        return re.sub(r"/v\d+$", "", (self._base_url or "").rstrip("/"))

    async def _elsewhere(self, path: str) -> dict[str, Any]:
        # These pages are outside OpenAI's API. A server without them is not faulty.
        try:
            return await self.asked("GET", f"{self._root}/{path}")
        except CompactError:
            return {}


def client_settings(
    key: ModelKey, url: str | None, api_key: str | None, timeout: float
) -> dict[str, Any]:
    """Return the arguments of OpenAI's clients, for a server at an address.

    Raises:
        ModelRefused: the model is OpenAI's own, and there is no API key.
    """
    chosen = api_key or key_for("openai", key.base_url)
    if not chosen and is_own("openai", url):
        model = str(key)
        raise ModelRefused(f"there is no key for {model}: {key_hint(model)}", model=model)
    if url is not None and re.fullmatch(r"https?://[^/]+/?", url):
        url = f"{url.rstrip('/')}/v1"
    return {"api_key": chosen or NO_KEY, "base_url": url, "timeout": timeout}


_WINDOW = ("n_ctx", "loaded_context_length", "max_model_len", "context_length", "context_window")
_TRAINED = ("n_ctx_train", "max_context_length")
_OUTPUT = ("max_completion_tokens", "max_output_tokens")


def program_in(row: Mapping[str, Any]) -> str:
    """Return the server's program, from the owner in a model's row. Empty if it names none."""
    owner = str(row.get("owned_by") or "")
    return _KINDS.get(owner, owner)


def limits_in(row: object) -> Limits:
    """Return the limits in a model's row of a server's list."""
    if not isinstance(row, Mapping):
        return Limits()
    inner = [x for x in (row.get("meta"), row.get("top_provider")) if isinstance(x, Mapping)]
    places = (*inner, row)
    return Limits(
        window=number(places, _WINDOW),
        trained=number(places, _TRAINED),
        output=number(places, _OUTPUT),
    )


# --- the model ------------------------------------------------------------------------------------


class OpenAIChat(ServedModel):
    """A model behind chat completions.

    `base_url` is a server's address up to `/v1`; None means OpenAI's own. `api_key` is read from
    `OPENAI_API_KEY` by default, and other servers may need none. `extra` are further fields of
    every request, such as `{"reasoning_effort": "low"}`. `timeout` is in seconds, for one answer.
    """

    _path = "/chat/completions"
    _server: OpenAIServer
    _streaming_wishes: ClassVar[Body] = {"usage": {"include_usage": True}}

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = TIMEOUT,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        key = ModelKey("openai", name, base_url)
        lengths = ("max_completion_tokens", "max_tokens")
        wishes = {
            **_WISHES,
            "length": Wish(lengths if is_own("openai", base_url) else lengths[::-1], needed=True),
        }
        self._server = OpenAIServer(key, Dialect(wishes), api_key=api_key, timeout=timeout)
        self._extra = dict(extra or {})

    @property
    def abilities(self) -> Abilities:
        """What the model can do. For servers other than OpenAI's, more is known after `limits`."""
        server = self._server
        return Abilities(schemas=server.enforces_schemas, counts=server.kind == LLAMA)

    async def limits(self) -> Limits:
        """Return the model's limits as its server reports them. OpenAI itself reports none."""
        return await self._server.limits()

    async def count(self, context: ActiveContext) -> int | None:
        """Return llama.cpp's token count of the prompt. Return None for all other servers."""
        return await self._server.count(self._prompt(context))

    def _prompt(self, context: ActiveContext) -> dict[str, Any]:
        shaped = strictly_named if self._server.kind == "openai" else plainly
        messages = list(map(shaped, prompt_of(context, FORMAT)))
        # OpenAI sends no reasoning, and refuses reasoning from other models
        if self._server.kind == "openai":
            messages = [{k: x for k, x in m.items() if k not in THOUGHTS} for m in messages]
        if context.system:
            messages = [{"role": "system", "content": context.system_text}, *messages]
        prompt: dict[str, Any] = {"model": self._server.name, "messages": messages}
        if context.tools:
            prompt["tools"] = tools_of(context, FORMAT)
        return {**self._extra, **self._server.written(prompt)}

    def _wishes(self, ask: Ask) -> dict[str, Any]:
        schema = None
        if ask.answer_schema is not None:
            inner = {"name": "answer", "schema": dict(ask.answer_schema)}
            schema = {"type": "json_schema", "json_schema": inner}
        return wished(
            length=ask.max_tokens, temperature=ask.temperature, stop=list(ask.stop), schema=schema
        )

    def _answer_in_pieces(self) -> StreamedAnswer:
        return StreamedAnswer()

    def _reply(self, answer: Mapping[str, Any]) -> Reply:
        choices = answer.get("choices")
        choice = choices[0] if isinstance(choices, Sequence) and choices else None
        said = choice.get("message") if isinstance(choice, Mapping) else None
        if not isinstance(choice, Mapping) or not isinstance(said, Mapping):
            raise ModelFailed(f"{self.name} answered without a message", model=self.name)
        with reading(self.name):
            message = _message(said, str(answer.get("id") or "call"))
        finish = _FINISH.get(str(choice.get("finish_reason")), "unknown")
        if said.get("refusal"):
            finish = "refusal"
        elif message.tool_calls and finish == "stop":
            finish = "tool_calls"
        return Reply(
            message=message,
            usage=usage_in(answer.get("usage")),
            finish=finish,
            model=str(answer.get("model") or self._server.name),
        )


# --- reading --------------------------------------------------------------------------------------


def _message(said: Mapping[str, Any], answer_id: str) -> Message:
    raw = {key: x for key, x in said.items() if x not in (None, [], {})}
    raw["role"] = "assistant"
    raw["content"] = said.get("content")
    calls = raw.get("tool_calls")
    if isinstance(calls, Sequence):
        raw["tool_calls"] = [
            {**call, "id": call.get("id") or f"{answer_id}_{i}"}
            if isinstance(call, Mapping)
            else call
            for i, call in enumerate(calls)
        ]
    if raw["content"] is None and not calls and not raw.get("refusal"):
        raw["content"] = ""
    return format_named(FORMAT).parse(raw, 0).model_copy(update={"id": clock_and_ids.new_id()})


def usage_in(said: object) -> Usage | None:
    """Return the usage that an answer reports."""
    if not isinstance(said, Mapping):
        return None
    details = said.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    cached = cached or said.get("prompt_cache_hit_tokens")
    return usage_of(said.get("prompt_tokens"), said.get("completion_tokens"), cached)


class StreamedAnswer:
    """Collects an answer that arrives in pieces."""

    def __init__(self) -> None:
        self.finish = ""
        """Why the answer ended. It is empty before the end."""
        self._head: dict[str, Any] = {}
        self._said: dict[str, str] = {"content": "", "refusal": ""}
        self._thought: dict[str, Any] = {}
        """Field name → the reasoning in that field: a text, or a list of blocks."""
        self._calls: list[tuple[int, dict[str, Any]]] = []
        self._open: dict[int, dict[str, Any]] = {}
        """Index of the pieces → the unfinished call."""

    @property
    def whole(self) -> dict[str, Any] | None:
        """The answer as if it had come in one response. None before its end."""
        if not self.finish:
            return None
        message: dict[str, Any] = {key: text or None for key, text in self._said.items()}
        message |= self._thought
        message["tool_calls"] = [call for _, call in sorted(self._calls, key=itemgetter(0))]
        return {**self._head, "choices": [{"message": message, "finish_reason": self.finish}]}

    def take(self, event: Mapping[str, Any]) -> str:
        """Add a piece. Return the text that it adds to the answer."""
        self._head |= {key: event[key] for key in ("id", "model", "usage") if event.get(key)}
        choices = event.get("choices")
        if not choices:
            return ""
        choice = choices[0]
        self.finish = choice.get("finish_reason") or self.finish
        delta = choice.get("delta") or {}
        for i, call in enumerate(delta.get("tool_calls") or ()):
            index = call.get("index")
            self._call(call, i if index is None else index)
        for field in THOUGHTS:
            if isinstance(delta.get(field), str | list):
                self._thought[field] = _grown(self._thought.get(field), delta[field])
        return "".join(self._text(key, delta.get(key)) for key in self._said)

    def _text(self, key: str, said: object) -> str:
        if isinstance(said, Sequence) and not isinstance(said, str):
            said = "".join(str(x.get("text", "")) for x in said if isinstance(x, Mapping))
        if not isinstance(said, str) or not said:
            return ""
        seam = "\n" if key == "refusal" and self._said["content"] and not self._said[key] else ""
        self._said[key] += said
        return seam + said

    def _call(self, piece: Mapping[str, Any], index: int) -> None:
        function = piece.get("function") or {}
        known = self._open.get(index)
        named = piece.get("id")
        if known is None or (named and known["id"] not in (None, named)):
            # Some servers give all calls the same index. Then a new id begins a new call.
            known = {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
            self._open[index] = known
            self._calls.append((index, known))
        known["id"] = named or known["id"]
        known["function"]["name"] += function.get("name") or ""
        known["function"]["arguments"] += function.get("arguments") or ""


def _grown(before: Any, piece: Any) -> Any:  # noqa: ANN401 - a text or blocks
    """Add a piece to the reasoning so far. Pieces of one block have the same type and index."""
    if not before or isinstance(piece, str):
        return (before or "") + piece if isinstance(piece, str) else list(piece)
    *blocks, last = before
    for block in piece:
        if any(block.get(key) != last.get(key) for key in ("type", "index")):
            blocks, last = [*blocks, last], block
            continue
        texts = {k: last[k] + x for k, x in block.items() if k in _BLOCK_TEXTS and last.get(k)}
        last = {**last, **block, **texts}
    return [*blocks, last]
