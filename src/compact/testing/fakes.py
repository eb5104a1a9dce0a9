"""What stands in for the outside world in tests."""

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
    """Writes the given texts in turn, the last one again and again; waits once for the loop, as a
    model would. A text may be an exception, which is raised.
    """

    name = "scripted"
    waits = True

    def __init__(self, *texts: str | Exception) -> None:
        self._texts = list(texts)
        self.requests: list[SummaryRequest] = []
        """What was asked for, in order."""

    async def summarize(self, request: SummaryRequest) -> Summary:
        """The next text of the script."""
        self.requests.append(request)
        await asyncio.sleep(0)
        text = self._texts.pop(0) if len(self._texts) > 1 else self._texts[0]
        if isinstance(text, Exception):
            raise text
        return Summary(text=text, made_by=self.name)


Answer = str | Message | Mapping[str, Any] | Reply | Exception


class ScriptedModel:
    """Gives the answers in turn, the last one again and again; an answer may be an exception, which
    is raised. Takes an active context and nothing else.

    With `limit` it has a window of its own that nobody was told of: a prompt that is larger by
    `count`, its own tokenizer, is refused as a server refuses it.
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
        """What it was given, in order, refused prompts included."""
        self._answers = list(answers) or ["ok"]
        self._limit = limit
        self._count = count
        self.asks: list[Ask] = []
        """How each answer was wanted."""
        self.abilities = Abilities(counts=count is not None)

    async def stream(self, context: ActiveContext, ask: Ask = ASK) -> AsyncIterator[Delta]:
        """The next answer of the script, word by word."""
        reply = await self.complete(context, ask)
        said = reply.message
        text = said.text if isinstance(said, Message) else str(said.get("content") or "")
        for word in re.findall(r"\s*\S+|\s+$", text):
            yield Delta(text=word)
        yield Delta(reply=reply)

    async def count(self, context: ActiveContext) -> int | None:
        """Tokens of the prompt by its own tokenizer, where it has one."""
        return self._count(sendable(context)) if self._count else None

    async def limits(self) -> Limits:
        """Nothing: nobody is told of its window."""
        return Limits()

    async def complete(self, context: ActiveContext, ask: Ask = ASK) -> Reply:
        """The next answer of the script.

        Raises:
            WrongLayer: it was given something else than an active context.
            ContextOverflow: the prompt is larger than its limit.
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
