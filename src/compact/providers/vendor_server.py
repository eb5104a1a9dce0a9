"""A server that is asked through its vendor's asynchronous client. Those of OpenAI and Anthropic
are alike.

The client carries the requests; it neither tries again (`fallback_model` does) nor parses: what
comes back is read as the JSON it is.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from types import ModuleType
from typing import Any

from compact.errors import ModelFailed, ModelRefused
from compact.providers.clients import LoopClients, package
from compact.providers.dialect import Dialect
from compact.providers.failures import ErrorInAnswer, mapped
from compact.providers.unsupported_parts import UnsupportedParts

TIMEOUT = 600.0
"""Seconds that one answer may take."""

Body = Mapping[str, Any]


class VendorServer(ABC):
    """Where a model is asked. `model` is its key, for errors; `vendor` is the client's package;
    `dialect` is what the server knows beside the prompt.
    """

    def __init__(
        self, model: str, vendor: str, dialect: Dialect, *, timeout: float = TIMEOUT
    ) -> None:
        self.model = model
        self.dialect = dialect
        self._vendor = vendor
        self._timeout = timeout
        self._unseen = UnsupportedParts()
        self._clients: LoopClients[Any] = LoopClients(
            lambda: self._made(package(vendor, model=model)), lambda client: client.close()
        )

    @abstractmethod
    def _made(self, vendor: ModuleType) -> Any:  # noqa: ANN401 - a client of a package that may be missing
        """A client of the vendor's package.

        Raises:
            ModelRefused: there is no key for it.
        """

    async def aclose(self) -> None:
        """Close all connections; the next request opens others."""
        await self._clients.aclose()

    async def asked(self, method: str, path: str, body: Body | None = None) -> dict[str, Any]:
        """The server's answer to one request.

        Raises:
            ContextOverflow, ModelFailed: as `ChatModel.complete`.
        """
        with mapped(self.model):
            client = await self._clients.current()
            async with asyncio.timeout(self._timeout):
                if method == "GET":
                    return self._readable(await client.get(path, cast_to=object))
                return self._readable(await client.post(path, body=body, cast_to=object))

    async def post(self, path: str, prompt: Body, wishes: Body) -> dict[str, Any]:
        """The server's answer; a wish that it does not know is left out, or named otherwise, and so
        are parts that it does not take.

        Raises:
            As `asked`.
        """
        while True:
            try:
                return await self.asked("POST", path, self._body(prompt, wishes))
            except ModelRefused as refusal:
                if not self._learned(prompt, wishes, refusal):
                    raise

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
            events = aiter(stream)
            while True:
                with mapped(self.model):
                    try:
                        async with asyncio.timeout_at(deadline):
                            event = self._readable(await anext(events))
                    except StopAsyncIteration:
                        return
                yield event

    async def _stream(self, path: str, prompt: Body, wishes: Body, deadline: float) -> Any:  # noqa: ANN401 - as above
        while True:
            body = {**self._body(prompt, wishes), "stream": True}
            try:
                with mapped(self.model):
                    client = await self._clients.current()
                    kind = package(self._vendor, model=self.model).AsyncStream[object]
                    async with asyncio.timeout_at(deadline):
                        return await client.post(
                            path, body=body, cast_to=object, stream=True, stream_cls=kind
                        )
            except ModelRefused as refusal:
                if not self._learned(prompt, wishes, refusal):
                    raise

    def _body(self, prompt: Body, wishes: Body) -> dict[str, Any]:
        return {**self._unseen.written(prompt), **self.dialect.written(wishes)}

    def _learned(self, prompt: Body, wishes: Body, refusal: ModelRefused) -> bool:
        return self.dialect.learned(wishes, refusal) or self._unseen.learned(prompt, refusal)

    async def _check_streams(self, stream: Any, deadline: float) -> None:  # noqa: ANN401 - as above
        """Errors come as a whole also where a stream was asked for, even with status 200."""
        if not stream.response.headers.get("content-type", "").startswith("application/json"):
            return
        async with asyncio.timeout_at(deadline):
            self._readable(json.loads(await stream.response.aread()))
        text = f"{self.model} answered as a whole where a stream was asked for"
        raise ModelFailed(text, model=self.model)

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
