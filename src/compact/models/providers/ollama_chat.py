"""Models of an Ollama server, asked through Ollama's own API.

Ollama silently cuts a prompt that is larger than `num_ctx`. So every request carries `num_ctx`, and
this module refuses a prompt that does not fit. The package `ollama` only carries the requests: its
own types drop unknown fields, and take an image for a file name.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from compact.errors import ContextOverflow, ModelFailed, ModelRefused
from compact.messages import clock_and_ids
from compact.messages.asking import Abilities, Ask, Limits
from compact.messages.characters import all_defused
from compact.messages.context import ActiveContext, sendable
from compact.messages.formats.known import format_named, prompt_of, tools_of
from compact.messages.messages import Message
from compact.messages.replies import Finish, Reply, Usage, usage_of
from compact.messages.tokens import OLLAMA_FRAMING, TokenCounter
from compact.models.model_keys import ModelKey
from compact.models.providers.clients import address_of, certificates, is_here, key_for
from compact.models.providers.dialect import Body, Dialect, Wish
from compact.models.providers.failures import reading
from compact.models.providers.tokenizers import tokenizer
from compact.models.providers.vendor_server import TIMEOUT, ServedModel, VendorServer, wished

FORMAT = "ollama"
NUM_CTX = 4096
"""The window in tokens if nothing else is known: the smallest default of a server."""
_REQUEST_FIELDS = ("format", "keep_alive", "think")
"""Options that are fields of the request, not options of the model."""
_NO_TOOLS = "does not support tools"
_FINISH: Mapping[str, Finish] = {"stop": "stop", "length": "length"}
_WISHES = {name: Wish((name,), needed=True) for name in ("format", "keep_alive")}


@dataclass(frozen=True, slots=True)
class Shown:
    """What the server reports about the model."""

    limits: Limits
    capabilities: tuple[str, ...] | None


class OllamaServer(VendorServer):
    """A server with one model. If `base_url` is None, it is the one in `OLLAMA_HOST`."""

    def __init__(
        self, model: str, base_url: str | None, *, api_key: str | None, timeout: float
    ) -> None:
        super().__init__(model, "ollama", Dialect(_WISHES), timeout=timeout)
        self._base_url = base_url
        self._api_key = api_key
        self.refused_tools = False
        """Whether the server refused a prompt because the model cannot call tools."""

    def _new_client(self, vendor: ModuleType) -> Any:  # noqa: ANN401 - a client of a package that may be missing
        return ollama_client(vendor.AsyncClient, self._base_url, self._api_key, self.timeout)

    async def _sent(self, client: Any, method: str, path: str, body: Body | None) -> object:  # noqa: ANN401 - as above
        # the package has no public way to get the raw JSON
        return await client._request(dict, method, path, json=body)

    async def _pieces(self, path: str, body: Body) -> AsyncGenerator[object, None]:
        client = await self._clients.current()
        lines = await client._request(dict, "POST", path, json=body, stream=True)
        async with aclosing(lines):
            async for line in lines:
                yield line
                if line.get("done"):  # not every proxy ends the stream after this line
                    return

    def _learned(self, prompt: Body, wishes: Body, refusal: ModelRefused) -> bool:
        self.refused_tools = self.refused_tools or _NO_TOOLS in str(refusal)
        return super()._learned(prompt, wishes, refusal)


class OllamaChat(ServedModel):
    """A model behind `/api/chat`. A prompt is not sent if it and its answer would exceed `num_ctx`.

    `base_url` is read from `OLLAMA_HOST` in the process's environment (not from a `.env` file); the
    default is the local server. `api_key` is read from `OLLAMA_API_KEY` (`key_for`). The window is
    the request's, else `num_ctx`, else the one in the model's own file, else 4,096 tokens.
    `keep_alive` says how long the model stays loaded; None leaves it to the server. `timeout` is in
    seconds, for one answer.
    """

    _path = "/api/chat"
    _server: OllamaServer

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        num_ctx: int | None = None,
        keep_alive: float | str | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        key = str(ModelKey("ollama", name, base_url or None))
        self._name = name
        self._server = OllamaServer(key, base_url, api_key=api_key, timeout=timeout)
        self._num_ctx = num_ctx
        self._keep_alive = keep_alive
        self._shown: Shown | None = None

    @property
    def abilities(self) -> Abilities:
        """What the model can do. Whether it calls tools is known after `limits` or a first answer.
        If the server refuses tools, the model loses that ability.
        """
        capabilities = self._shown.capabilities if self._shown else None
        tools = None if capabilities is None else "tools" in capabilities
        return Abilities(tools=False if self._server.refused_tools else tools, schemas=True)

    async def count(self, context: ActiveContext) -> int | None:
        """Return None: the server reports token counts only with an answer."""
        sendable(context)
        return None

    async def limits(self) -> Limits:
        """Return the window from the model's own file, and the window it was trained for."""
        if self._shown is None:
            self._shown = shown(
                await self._server.asked("POST", "/api/show", {"model": self._name})
            )
        return self._shown.limits

    # --- asking -----------------------------------------------------------------------------------

    async def _whole_prompt(self, context: ActiveContext, ask: Ask) -> dict[str, Any]:
        prompt = self._prompt(context)
        if not ask.waited:  # a server that reports no limits may still answer
            with suppress(ModelFailed, TimeoutError):
                async with asyncio.timeout(self._server.timeout / 2):
                    await self.limits()
        if context.tools and self._server.refused_tools:
            raise ModelRefused(f"{self.name} {_NO_TOOLS}", model=self.name, status=400)
        beside = {name: ask.options[name] for name in _REQUEST_FIELDS if name in ask.options}
        return {**beside, **prompt, "options": self._options(context, ask)}

    def _prompt(self, context: ActiveContext) -> dict[str, Any]:
        messages = prompt_of(context, FORMAT)
        if context.system:
            messages = [{"role": "system", "content": context.system_text}, *messages]
        prompt = {"model": self._name, "messages": all_defused(messages), "stream": False}
        if context.tools:
            prompt["tools"] = all_defused(tools_of(context, FORMAT))
        return prompt

    def _wishes(self, ask: Ask) -> dict[str, Any]:
        schema = None if ask.answer_schema is None else dict(ask.answer_schema)
        return wished(format=schema, keep_alive=self._keep_alive)

    def _answer_in_pieces(self) -> StreamedLines:
        return StreamedLines()

    def _options(self, context: ActiveContext, ask: Ask) -> dict[str, Any]:
        limits = self._shown.limits if self._shown else Limits()
        window = ask.window or self._num_ctx or limits.default or NUM_CTX
        held = min(window, limits.trained or window)
        tokens, reserve = context.tokens or _estimated(context), ask.max_tokens or 1
        if tokens + reserve > held:
            raise ContextOverflow(
                f"{self.name} would cut the prompt without a word: it has {tokens:,} tokens, the "
                f"answer may have {reserve:,}, and the context size is {held:,}",
                tokens=tokens,
                limit=held,
            )
        options = {name: ask.options[name] for name in ask.options if name not in _REQUEST_FIELDS}
        return options | wished(
            num_ctx=window,
            num_predict=ask.max_tokens,
            temperature=ask.temperature,
            stop=list(ask.stop),
        )

    def _reply(self, answer: Mapping[str, Any]) -> Reply:
        said = answer.get("message")
        if not isinstance(said, Mapping):
            raise ModelFailed(f"{self.name} answered without a message", model=self.name)
        with reading(self.name):
            message = _message(said)
        finish = _FINISH.get(str(answer.get("done_reason")), "unknown")
        if message.tool_calls and finish == "stop":
            finish = "tool_calls"
        return Reply(message=message, usage=usage_in(answer), finish=finish, model=self.name)


class StreamedLines:
    """Collects an answer that arrives as lines of JSON."""

    def __init__(self) -> None:
        self.whole: dict[str, Any] | None = None
        self._said: dict[str, Any] = {"role": "assistant", "content": ""}

    def take(self, line: Mapping[str, Any]) -> str:
        """Add a line. Return the text that it adds to the answer."""
        piece = line.get("message")
        piece = piece if isinstance(piece, Mapping) else {}
        for field, value in piece.items():
            if field in ("content", "thinking") and isinstance(value, str):
                self._said[field] = self._said.get(field, "") + value
            elif field == "tool_calls":
                self._said[field] = [*self._said.get(field, ()), *(value or ())]
            else:
                self._said[field] = value
        if line.get("done"):
            self.whole = {**line, "message": self._said}
        return str(piece.get("content") or "")


def _message(said: Mapping[str, Any]) -> Message:
    """Return the answer as a message. The message and its tool calls get new ids."""
    raw = {field: value for field, value in said.items() if value not in (None, [], "")}
    raw |= {"role": "assistant", "content": said.get("content") or ""}
    made = clock_and_ids.new_id()
    if calls := raw.get("tool_calls"):
        raw["tool_calls"] = [{"id": f"{made}_{i}", **call} for i, call in enumerate(calls)]
    message = format_named(FORMAT).parse(raw, 0)
    return message.model_copy(update={"id": made, "timestamp": clock_and_ids.now()})


def usage_in(answer: Mapping[str, Any]) -> Usage | None:
    """Return the usage that an answer reports."""
    # A server that has the whole prompt in its cache reports no prompt tokens.
    return usage_of(answer.get("prompt_eval_count"), answer.get("eval_count"), 0)


def _estimated(context: ActiveContext) -> int:
    counter = TokenCounter(tokenizer("chars"), OLLAMA_FRAMING)
    beside = counter.text(context.system_text) + counter.tools(context.tools)
    return beside + counter.messages(context.messages)


def shown(answer: Mapping[str, Any]) -> Shown:
    """Read the answer of `/api/show` about a model."""
    facts = answer.get("model_info")
    facts = facts if isinstance(facts, Mapping) else {}
    trained = facts.get(f"{facts.get('general.architecture')}.context_length")
    set_up = re.search(r"^num_ctx\s+(\d+)", str(answer.get("parameters") or ""), re.MULTILINE)
    said = answer.get("capabilities")
    return Shown(
        Limits(
            default=int(set_up[1]) if set_up else None,
            trained=trained if isinstance(trained, int) and trained > 0 else None,
        ),
        tuple(map(str, said)) if isinstance(said, list) else None,
    )


def ollama_client(kind: Any, url: str | None, api_key: str | None, timeout: float) -> Any:  # noqa: ANN401 - of a package that may be missing
    """Make a client of the package `ollama`. `kind` is the client's class."""
    client = kind(host=url, timeout=timeout, verify=certificates("httpx"))
    headers = client._client.headers
    # The package sends OLLAMA_API_KEY to any address, so it is set here instead.
    headers.pop("authorization", None)
    if key := api_key or key_for("ollama", url):
        headers["authorization"] = f"Bearer {key}"
    return client


# --- which models a server has --------------------------------------------------------------------

PORT = 11434
"""The port that Ollama listens on by default."""
MOST_BYTES = 4_000_000
"""Longest list of models in bytes. A longer answer counts as no list."""
_EMBEDDERS = ("bert", "nomic-bert")
"""Model families that only embed texts and do not write."""


async def ollama_models(*, patience: float = 1.0) -> list[str] | None:
    """Return the keys of the chat models that Ollama has on this machine, newest first.

    Return None if no server answers within `patience` seconds, or if `OLLAMA_HOST` names another
    machine. Other machines are never asked for a list. The request needs no package.
    """
    address = _base(address_of("ollama"))
    if not is_here(address):
        return None
    try:
        answer = await asyncio.to_thread(_list_of, f"{address}/api/tags", patience)
        rows = json.loads(answer)["models"]
        return [f"ollama:{row['name']}" for row in rows if _talks(row)]
    except (URLError, OSError, ValueError, LookupError, TypeError):
        return None


def _base(address: str) -> str:
    """Return the address, with Ollama's default scheme and port added where missing."""
    text = address if "://" in address else f"http://{address}"
    parts = urlsplit(text.rstrip("/"))
    host = "127.0.0.1" if parts.hostname in (None, "0.0.0.0") else parts.hostname
    if parts.port or "://" in address:
        return text.rstrip("/").replace("//0.0.0.0", f"//{host}")
    return f"http://{host}:{PORT}"


def _list_of(address: str, timeout: float) -> bytes:
    with build_opener(ProxyHandler({})).open(address, timeout=timeout) as answer:
        data: bytes = answer.read(MOST_BYTES)
        return data


def _talks(row: Mapping[str, Any]) -> bool:
    details = row.get("details") or {}
    return details.get("family") not in _EMBEDDERS and "embed" not in str(row["name"])
