"""A server that speaks OpenAI's APIs: requests, streams, and facts about the models.

`openai_chat` and `openai_responses` ask through an `OpenAIServer`. Compatible servers add and leave
out fields as they like.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from compact.errors import CompactError, ModelRefused
from compact.messages.asking import Limits
from compact.messages.control_tokens import all_defused
from compact.models.model_keys import ModelKey
from compact.models.providers.clients import NO_KEY, http_client, is_own, key_for
from compact.models.providers.dialect import Body, Dialect
from compact.models.providers.failures import key_hint
from compact.models.providers.vendor_server import TIMEOUT, VendorServer, number, row_of

LLAMA, LM_STUDIO = "llama.cpp", "LM Studio"
ENFORCES = ("openai", LLAMA, "vllm")
"""Servers that make an answer follow a JSON schema."""
_KINDS: Mapping[str, str] = {"llamacpp": LLAMA, "organization_owner": LM_STUDIO}
"""The owner that a server names for a model -> the server's program."""


class OpenAIServer(VendorServer):
    """A server with one model. A key without an address means OpenAI itself, or the server that
    `OPENAI_BASE_URL` names.
    """

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
        """The server's program, such as `openai`, `llama.cpp` or `vllm`; None before `limits` has
        asked, empty if the server does not say.
        """
        return "openai" if is_own("openai", self._base_url) else self._kind

    @property
    def enforces_schemas(self) -> bool:
        """Whether the server makes answers follow a schema, as far as that is known."""
        return self.kind in ENFORCES and self.dialect.knows("schema")

    def _made(self, vendor: ModuleType) -> Any:  # noqa: ANN401 - a client of a package that may be missing
        settings = client_settings(self._key, self._base_url, self._api_key, self._timeout)
        http = http_client(vendor.DefaultAsyncHttpxClient)
        return vendor.AsyncOpenAI(**settings, max_retries=0, http_client=http)

    def written(self, prompt: Body) -> dict[str, Any]:
        """Return the prompt without control tokens. Only OpenAI itself reads them as plain text."""
        if is_own("openai", self._base_url):
            return dict(prompt)
        return {**all_defused(prompt), "model": self.name}

    # --- what it says of its models ---------------------------------------------------------------

    async def limits(self) -> Limits:
        """Return the model's limits as the server states them; OpenAI itself states none.

        Raises:
            ModelUnavailable, ModelRefused: as `ChatModel.complete`.
        """
        if self.kind == "openai":
            return Limits()
        row = row_of((await self.asked("GET", "/models")).get("data"), self.name)
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
        """Return llama.cpp's token count of a chat prompt; None for all other servers."""
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
        # Pages outside OpenAI's API are a bonus: a server without them is no error.
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
