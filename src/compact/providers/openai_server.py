"""A server that speaks OpenAI's APIs: requests, streams, and what it says of its models.

Both faces (`openai_chat`, `openai_responses`) ask through this one. The official client carries the
requests; it neither tries again (`fallback_model` does) nor parses: what comes back is read
as the JSON it is, as compatible servers add and leave out what they like.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from compact.core.asking import Limits
from compact.core.control_tokens import all_defused
from compact.core.model_keys import ModelKey
from compact.errors import CompactError, ModelFailed, ModelRefused
from compact.providers.clients import NO_KEY, LoopClients, http_client, key_for, package
from compact.providers.dialect import Dialect
from compact.providers.failures import ErrorInAnswer, key_hint, mapped
from compact.providers.listed import number, row_of
from compact.providers.unsupported_parts import UnsupportedParts

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream

TIMEOUT = 600.0
"""Seconds that one answer may take."""
LLAMA, LM_STUDIO = "llama.cpp", "LM Studio"
ENFORCES = ("openai", LLAMA, "vllm")
"""Servers that hold answers to a JSON schema."""
_KINDS: Mapping[str, str] = {"llamacpp": LLAMA, "organization_owner": LM_STUDIO}
"""What servers write as the owner of a model, where it is not their name."""

Body = Mapping[str, Any]


class OpenAIServer:
    """Where a model is asked. `key` is the model's, for errors; `dialect` is what the server knows
    beside the prompt. `base_url` None is OpenAI itself, unless `OPENAI_BASE_URL` says otherwise.
    """

    def __init__(
        self,
        key: ModelKey,
        dialect: Dialect,
        *,
        api_key: str | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self.model = str(key)
        self.name = key.name
        self.dialect = dialect
        self._unseen = UnsupportedParts()
        self._timeout = timeout
        self._kind: str | None = None
        self._address = key.base_url
        self._base_url = key.base_url or os.environ.get("OPENAI_BASE_URL")
        self._api_key = api_key
        self._clients: LoopClients[AsyncOpenAI] = LoopClients(
            self._made, lambda client: client.close()
        )

    @property
    def kind(self) -> str | None:
        """Who serves the model: `openai`, `llama.cpp`, `vllm`; None until `limits` has asked, and
        empty where nobody says.
        """
        return "openai" if is_openai(self._base_url) else self._kind

    @property
    def enforces_schemas(self) -> bool:
        """Whether answers are held to a schema, as far as that is known."""
        return self.kind in ENFORCES and self.dialect.knows("schema")

    def _made(self) -> AsyncOpenAI:
        openai = package("openai", model=self.model)
        key = self._api_key or key_for("openai", self._address)
        if not key and self.kind == "openai":
            text = f"there is no key for {self.model}: {key_hint(self.model)}"
            raise ModelRefused(text, model=self.model)
        url = self._base_url
        if url is not None and re.fullmatch(r"https?://[^/]+/?", url):
            url = f"{url.rstrip('/')}/v1"
        client: AsyncOpenAI = openai.AsyncOpenAI(
            api_key=key or NO_KEY,
            base_url=url,
            max_retries=0,
            timeout=self._timeout,
            http_client=http_client(openai),
        )
        return client

    async def aclose(self) -> None:
        """Close all connections; the next request opens others."""
        await self._clients.aclose()

    def written(self, prompt: Body) -> dict[str, Any]:
        """The prompt as this server may be sent it: others than OpenAI itself read control tokens
        in what people wrote as real ones.
        """
        if is_openai(self._base_url):
            return dict(prompt)
        return {**all_defused(prompt), "model": self.name}

    async def post(self, path: str, prompt: Body, wishes: Body) -> dict[str, Any]:
        """The server's answer; a wish that it does not know is left out, or named otherwise.

        Raises:
            ContextOverflow, ModelFailed: as `ChatModel.complete`.
        """
        while True:
            try:
                body = {**self._unseen.written(prompt), **self.dialect.written(wishes)}
                return await self._asked("POST", path, body)
            except ModelRefused as refusal:
                if not self._learned(prompt, wishes, refusal):
                    raise

    def _learned(self, prompt: Body, wishes: Body, refusal: ModelRefused) -> bool:
        return self.dialect.learned(wishes, refusal) or self._unseen.learned(prompt, refusal)

    async def events(
        self, path: str, prompt: Body, wishes: Body
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The server's answer, event by event, all of them within the time for one answer.

        Raises:
            As `post`, before the first event or at any later one.
        """
        deadline = asyncio.get_running_loop().time() + self._timeout
        async with await self._stream(path, prompt, wishes, deadline) as stream:
            with mapped(self.model):
                await self._check_streams(stream, deadline)
            while True:
                with mapped(self.model):
                    try:
                        async with asyncio.timeout_at(deadline):
                            event = self._readable(await anext(stream))
                    except StopAsyncIteration:
                        return
                yield event

    async def _stream(
        self, path: str, prompt: Body, wishes: Body, deadline: float
    ) -> AsyncStream[object]:
        while True:
            shown = self._unseen.written(prompt)
            body = {**shown, **self.dialect.written(wishes), "stream": True}
            try:
                with mapped(self.model):
                    client = await self._clients.current()
                    kind: type[AsyncStream[object]]
                    kind = package("openai", model=self.model).AsyncStream[object]
                    async with asyncio.timeout_at(deadline):
                        return await client.post(
                            path, body=body, cast_to=object, stream=True, stream_cls=kind
                        )
            except ModelRefused as refusal:
                if not self._learned(prompt, wishes, refusal):
                    raise

    async def _check_streams(self, stream: AsyncStream[object], deadline: float) -> None:
        """Errors come as a whole also where a stream was asked for, even with status 200."""
        if not stream.response.headers.get("content-type", "").startswith("application/json"):
            return
        async with asyncio.timeout_at(deadline):
            self._readable(json.loads(await stream.response.aread()))
        text = f"{self.model} answered as a whole where a stream was asked for"
        raise ModelFailed(text, model=self.model)

    async def _asked(self, method: str, path: str, body: Body | None = None) -> dict[str, Any]:
        with mapped(self.model):
            client = await self._clients.current()
            async with asyncio.timeout(self._timeout):
                if method == "GET":
                    return self._readable(await client.get(path, cast_to=object))
                return self._readable(await client.post(path, body=body, cast_to=object))

    def _readable(self, answer: object) -> dict[str, Any]:
        if not isinstance(answer, dict):
            raise ModelFailed(
                f"{self.model} answered something that is no JSON object: is this the address of "
                "an API?",
                model=self.model,
            )
        if answer.get("error"):
            raise ErrorInAnswer(answer)
        return answer

    # --- what it says of its models ---------------------------------------------------------------

    async def limits(self) -> Limits:
        """What the server says of the model's limits; OpenAI itself says nothing.

        Raises:
            ModelUnavailable, ModelRefused: as `ChatModel.complete`.
        """
        if self.kind == "openai":
            return Limits()
        row = row_of((await self._asked("GET", "/models")).get("data"), self.name)
        owner = str(row.get("owned_by") or "")
        self._kind = _KINDS.get(owner, owner)
        limits = _limits_in(row)
        if limits.window is None and self._kind == LLAMA:
            settings = (await self._elsewhere("props")).get("default_generation_settings")
            return limits.model_copy(update={"window": _limits_in(settings).window})
        if limits.window is None and self._kind == LM_STUDIO:
            return _limits_in(
                row_of((await self._elsewhere("api/v0/models")).get("data"), self.name)
            )
        return limits

    async def count(self, prompt: Body) -> int | None:
        """Tokens of a chat prompt, where the server counts: llama.cpp does."""
        if self.kind is None:
            await self.limits()
        if self.kind != LLAMA:
            return None
        templated = await self._asked("POST", f"{self._root}/apply-template", prompt)
        text = {"content": templated.get("prompt"), "add_special": True, "parse_special": True}
        tokens = (await self._asked("POST", f"{self._root}/tokenize", text)).get("tokens")
        return len(tokens) if isinstance(tokens, list) else None

    @property
    def _root(self) -> str:
        return re.sub(r"/v\d+$", "", (self._base_url or "").rstrip("/"))

    async def _elsewhere(self, path: str) -> dict[str, Any]:
        """What a server of a known kind says outside the API; nothing where it does not."""
        try:
            return await self._asked("GET", f"{self._root}/{path}")
        except CompactError:
            return {}


def is_openai(base_url: str | None) -> bool:
    """Whether an address is OpenAI's own: others know other fields."""
    return base_url is None or re.match(r"https://api\.openai\.com(?:[:/]|$)", base_url) is not None


_WINDOW = ("n_ctx", "loaded_context_length", "max_model_len", "context_length", "context_window")
_TRAINED = ("n_ctx_train", "max_context_length")
_OUTPUT = ("max_completion_tokens", "max_output_tokens")


def _limits_in(row: object) -> Limits:
    if not isinstance(row, Mapping):
        return Limits()
    inner = [x for x in (row.get("meta"), row.get("top_provider")) if isinstance(x, Mapping)]
    places = (*inner, row)
    return Limits(
        window=number(places, _WINDOW),
        trained=number(places, _TRAINED),
        output=number(places, _OUTPUT),
    )
