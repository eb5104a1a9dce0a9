"""Servers reached through their vendors' asynchronous clients, and the models behind them.

The client only carries the requests. It does not retry (`fallback_model` does). It does not parse
either: answers are read as plain JSON. `_sent` and `_pieces` work for the clients of OpenAI and
Anthropic; servers with other clients override them.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from types import ModuleType
from typing import Any, ClassVar, Protocol

from compact.errors import ModelFailed, ModelRefused
from compact.messages.asking import ASK, Ask
from compact.messages.context import ActiveContext
from compact.messages.replies import Delta, Reply
from compact.models.provider_table import PROVIDERS
from compact.models.providers.clients import LoopClients, package
from compact.models.providers.dialect import Body, Dialect, StrictTurns, UnsupportedParts
from compact.models.providers.failures import ErrorInAnswer, failure_of, mapped, reading

TIMEOUT = 600.0
"""Longest time for one answer, in seconds."""


class VendorServer(ABC):
    """A server with one model.

    `model` is the model's key, for errors. `vendor` is the client's package. `dialect` knows the
    names of the request fields other than the prompt.
    """

    def __init__(
        self, model: str, vendor: str, dialect: Dialect, *, timeout: float = TIMEOUT
    ) -> None:
        self.model = model
        self.dialect = dialect
        self._vendor = vendor
        self.timeout = timeout
        self._unsupported = UnsupportedParts()
        self._turns = StrictTurns(PROVIDERS[vendor].format)
        self._clients: LoopClients[Any] = LoopClients(
            lambda: self._new_client(package(vendor, model=model)), lambda client: client.close()
        )

    @abstractmethod
    def _new_client(self, vendor: ModuleType) -> Any:  # noqa: ANN401 - a client of a package that may be missing
        """Make a client of the vendor's package.

        Raises:
            ModelRefused: there is no API key for it.
        """

    async def aclose(self) -> None:
        """Close all connections. The next request opens new ones."""
        await self._clients.aclose()

    async def _sent(self, client: Any, method: str, path: str, body: Body | None) -> object:  # noqa: ANN401 - as above
        if method == "GET":
            return await client.get(path, cast_to=object)
        return await client.post(path, body=body, cast_to=object)

    async def _pieces(self, path: str, body: Body) -> AsyncGenerator[object, None]:
        client = await self._clients.current()
        kind = package(self._vendor, model=self.model).AsyncStream[object]
        async with await client.post(
            path, body=body, cast_to=object, stream=True, stream_cls=kind
        ) as stream:
            if stream.response.headers.get("content-type", "").startswith("application/json"):
                # Some servers answer a streaming request with one JSON error and status 200.
                self._readable(json.loads(await stream.response.aread()))
                text = f"{self.model} answered as a whole where a stream was asked for"
                raise ModelFailed(text, model=self.model)
            async for event in stream:
                yield event

    async def asked(self, method: str, path: str, body: Body | None = None) -> dict[str, Any]:
        """Send one request and return the answer.

        Raises:
            ContextOverflow, ModelFailed: as `ChatModel.complete`.
        """
        with mapped(self.model):
            client = await self._clients.current()
            async with asyncio.timeout(self.timeout):
                return self._readable(await self._sent(client, method, path, body))

    async def post(self, path: str, prompt: Body, wishes: Body) -> dict[str, Any]:
        """Send a prompt and return the answer. If the server refuses a field or a part, it is
        renamed or left out, and the request is sent again.

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
        self, path: str, prompt: Body, wishes: Body, deadline: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Send a prompt and yield the events of the answer, until `deadline` (the loop's clock).

        Raises:
            As `post`, before the first event or at any later one.
        """
        while True:
            pieces = self._pieces(path, {**self._body(prompt, wishes), "stream": True})
            try:
                event = await self._next(pieces, deadline)
                break
            except ModelRefused as refusal:
                if not self._learned(prompt, wishes, refusal):
                    raise
        async with aclosing(pieces):
            while event is not None:
                yield event
                event = await self._next(pieces, deadline)

    async def _next(
        self, pieces: AsyncGenerator[object, None], deadline: float
    ) -> dict[str, Any] | None:
        with mapped(self.model):
            async with asyncio.timeout_at(deadline):
                try:
                    return self._readable(await anext(pieces))
                except StopAsyncIteration:
                    return None

    def _body(self, prompt: Body, wishes: Body) -> dict[str, Any]:
        shown = self._unsupported.written(self._turns.written(prompt))
        return {**shown, **self.dialect.written(wishes)}

    def _learned(self, prompt: Body, wishes: Body, refusal: ModelRefused) -> bool:
        return (
            self.dialect.learned(wishes, refusal)
            or self._turns.learned(prompt, refusal)
            or self._unsupported.learned(prompt, refusal)
        )

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


class AnswerInPieces(Protocol):
    """An answer that arrives as a stream of events."""

    def take(self, event: Mapping[str, Any]) -> str:
        """Add an event. Return the text that it adds to the answer."""

    @property
    def whole(self) -> Mapping[str, Any] | None:
        """The answer as if it had come in one response. None before its end."""


class ServedModel(ABC):
    """A model behind a vendor's API."""

    _path: ClassVar[str]
    _server: VendorServer

    @property
    def name(self) -> str:
        """The model's key."""
        return self._server.model

    async def complete(self, context: ActiveContext, ask: Ask = ASK) -> Reply:
        """Return the whole answer.

        Raises:
            ContextOverflow, ModelFailed: as `ChatModel.complete`.
        """
        try:
            async with asyncio.timeout(self._server.timeout - ask.waited):
                prompt = await self._whole_prompt(context, ask)
                return self._reply(await self._server.post(self._path, prompt, self._wishes(ask)))
        except TimeoutError as error:
            raise failure_of(error, self.name) from error

    async def stream(self, context: ActiveContext, ask: Ask = ASK) -> AsyncIterator[Delta]:
        """Yield the answer while it is written. The last piece carries the whole reply.

        Raises:
            ContextOverflow, ModelFailed: as `ChatModel.stream`; also where the stream breaks off.
        """
        deadline = asyncio.get_running_loop().time() + self._server.timeout - ask.waited
        answer = self._answer_in_pieces()
        prompt = await self._whole_prompt(context, ask)
        wishes = {**self._wishes(ask), **self._streaming_wishes}
        async with aclosing(self._server.events(self._path, prompt, wishes, deadline)) as events:
            async for event in events:
                with mapped(self.name), reading(self.name):
                    text = answer.take(event)
                if text:
                    yield Delta(text=text)
        whole = answer.whole
        if whole is None:
            raise ModelFailed(f"{self.name} broke off in the middle of its answer", model=self.name)
        yield Delta(reply=self._reply(whole))

    async def aclose(self) -> None:
        """Close all connections. The next request opens new ones."""
        await self._server.aclose()

    _streaming_wishes: ClassVar[Body] = {}
    """Extra request fields that only streaming requests carry."""

    async def _whole_prompt(self, context: ActiveContext, ask: Ask) -> dict[str, Any]:
        """Return the fields of the prompt, and the options of this answer."""
        return {**ask.options, **self._prompt(context)}

    @abstractmethod
    def _prompt(self, context: ActiveContext) -> dict[str, Any]:
        """Return the request fields that hold the prompt."""

    @abstractmethod
    def _wishes(self, ask: Ask) -> dict[str, Any]:
        """Return the request fields other than the prompt: name of a `Wish` → value."""

    @abstractmethod
    def _answer_in_pieces(self) -> AnswerInPieces:
        """Return an empty answer to which events are added."""

    @abstractmethod
    def _reply(self, answer: Mapping[str, Any]) -> Reply:
        """Return the reply in an answer."""


def wished(**wishes: object) -> dict[str, Any]:
    """Return the wishes without those that are None or an empty list."""
    return {name: value for name, value in wishes.items() if value not in (None, [])}


def row_of(rows: object, name: str) -> Mapping[str, Any]:
    """Return a model's row in a server's list. Return an empty row if there is none. The only row
    of a list matches any name, because such a server may use its own name for the model.
    """
    listed = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    named = [row for row in listed if row.get("id") == name]
    return next(iter(named or (listed if len(listed) == 1 else ())), {})


def number(places: Sequence[Mapping[str, Any]], names: Sequence[str]) -> int | None:
    """Return the first positive integer in fields of these names. Names are tried in order."""
    values = (place.get(name) for name in names for place in places)
    return next((value for value in values if type(value) is int and value > 0), None)
