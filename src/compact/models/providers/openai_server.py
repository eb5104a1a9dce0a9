"""A server that speaks OpenAI's APIs: requests, streams, and what it says of its models.

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
from compact.models.providers.clients import NO_KEY, http_client, key_for
from compact.models.providers.dialect import Body, Dialect
from compact.models.providers.failures import key_hint
from compact.models.providers.vendor_server import TIMEOUT, VendorServer, number, row_of

LLAMA, LM_STUDIO = "llama.cpp", "LM Studio"
ENFORCES = ("openai", LLAMA, "vllm")
"""Servers that hold answers to a JSON schema."""
_KINDS: Mapping[str, str] = {"llamacpp": LLAMA, "organization_owner": LM_STUDIO}
"""What servers write as the owner of a model, where it is not their name."""


class OpenAIServer(VendorServer):
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
        super().__init__(str(key), "openai", dialect, timeout=timeout)
        self.name = key.name
        self._kind: str | None = None
        self._address = key.base_url
        self._base_url = key.base_url or os.environ.get("OPENAI_BASE_URL")
        self._api_key = api_key

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

    def _made(self, vendor: ModuleType) -> Any:  # noqa: ANN401 - a client of a package that may be missing
        key = self._api_key or key_for("openai", self._address)
        if not key and self.kind == "openai":
            text = f"there is no key for {self.model}: {key_hint(self.model)}"
            raise ModelRefused(text, model=self.model)
        url = self._base_url
        if url is not None and re.fullmatch(r"https?://[^/]+/?", url):
            url = f"{url.rstrip('/')}/v1"
        return vendor.AsyncOpenAI(
            api_key=key or NO_KEY,
            base_url=url,
            max_retries=0,
            timeout=self._timeout,
            http_client=http_client(vendor),
        )

    def written(self, prompt: Body) -> dict[str, Any]:
        """The prompt as this server may be sent it: others than OpenAI itself read control tokens
        in what people wrote as real ones.
        """
        if is_openai(self._base_url):
            return dict(prompt)
        return {**all_defused(prompt), "model": self.name}

    # --- what it says of its models ---------------------------------------------------------------

    async def limits(self) -> Limits:
        """What the server says of the model's limits; OpenAI itself says nothing.

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
        """Tokens of a chat prompt, where the server counts: llama.cpp does."""
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
        """What a server of a known kind says outside the API; nothing where it does not."""
        try:
            return await self.asked("GET", f"{self._root}/{path}")
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
