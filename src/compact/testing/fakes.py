"""Fakes of models and summarizers for tests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from compact.errors import ContextOverflow
from compact.messages.asking import ASK, Abilities, Ask, Limits
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.context import ActiveContext, sendable
from compact.messages.messages import Message
from compact.messages.replies import Delta, Reply, Usage


class ScriptedSummarizer:
    """Returns the texts of a script one by one, then repeats the last.

    An exception in the script is raised. It yields to the event loop once, as a model would.
    """

    name = "scripted"
    waits = True

    def __init__(self, *texts: str | Exception) -> None:
        self._texts = list(texts)
        self.requests: list[SummaryRequest] = []
        """All requests, in order."""

    async def summarize(self, request: SummaryRequest) -> Summary:
        """Return the next text of the script."""
        self.requests.append(request)
        await asyncio.sleep(0)
        text = self._texts.pop(0) if len(self._texts) > 1 else self._texts[0]
        if isinstance(text, Exception):
            raise text
        return Summary(text=text, made_by=self.name)


Answer = str | Message | Mapping[str, Any] | Reply | Exception


class ScriptedModel:
    """Returns the answers of a script one by one, then repeats the last.

    It raises an exception in the script. It takes only an active context. With `limit` it refuses a
    prompt that is larger by `count`, its own tokenizer, as a server with a hidden window does.
    """

    def __init__(
        self,
        *answers: Answer,
        limit: int | None = None,
        count: Callable[[ActiveContext], int] | None = None,
        name: str = "scripted",
    ) -> None:
        self.name = name
        self.contexts: list[ActiveContext] = []
        """All prompts in order, including refused ones."""
        self._answers = list(answers) or ["ok"]
        self._limit = limit
        self._count = count
        self.asks: list[Ask] = []
        """The `Ask` of each prompt."""
        self.abilities = Abilities(counts=count is not None)

    async def stream(self, context: ActiveContext, ask: Ask = ASK) -> AsyncIterator[Delta]:
        """Yield the next answer of the script, word by word."""
        reply = await self.complete(context, ask)
        answer = reply.message
        text = answer.text if isinstance(answer, Message) else str(answer.get("content") or "")
        for word in re.findall(r"\s*\S+|\s+$", text):
            yield Delta(text=word)
        yield Delta(reply=reply)

    async def count(self, context: ActiveContext) -> int | None:
        """Return the prompt's tokens by the model's own tokenizer, or None without one."""
        return self._count(sendable(context)) if self._count else None

    async def limits(self) -> Limits:
        """Return no limits, because the window is hidden."""
        return Limits()

    async def complete(self, context: ActiveContext, ask: Ask = ASK) -> Reply:
        """Return the next answer of the script.

        Raises:
            WrongLayer: the prompt is no active context.
            ContextOverflow: the prompt is larger than the limit.
        """
        self.contexts.append(sendable(context))
        self.asks.append(ask)
        await asyncio.sleep(0)
        size = self._count(context) if self._count else context.tokens
        if self._limit is not None and size > self._limit:
            raise ContextOverflow(
                f"request ({size} tokens) exceeds the available context size "
                f"({self._limit} tokens), try increasing it",
                tokens=size,
                limit=self._limit,
            )
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Reply):
            return answer
        if isinstance(answer, str):
            answer = Message(role="assistant", content=answer)
        return Reply(message=answer, usage=Usage(prompt_tokens=size) if self._count else None)
