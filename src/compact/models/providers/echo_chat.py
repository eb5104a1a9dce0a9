"""A model that repeats the user's words and states how large the prompt was.

It needs no network and no weights. Use it to try out sessions, windows and compressions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from compact.messages.asking import ASK, Abilities, Ask, Limits
from compact.messages.budget import size_in
from compact.messages.context import ActiveContext, sendable
from compact.messages.messages import Message
from compact.messages.replies import Delta, Reply, Usage
from compact.text.speakers import own_words_of, speaker_of

WINDOW = 8_192
"""The window in tokens if the model's name is not a size."""
QUOTED = 1_200
"""How many characters of a message are repeated at most."""
PAUSE = 0.01
"""Seconds between two words, so that people see the answer grow."""
LETTERS = 4
"""Roughly how many letters a token has. It is used to cut an answer that has a token limit."""


class EchoChat:
    """A model whose name may give the size of its window: `echo:4k`, `echo:offline`.

    `timeout` has no effect. It exists because all models take it.
    """

    def __init__(self, name: str, *, timeout: float = 600) -> None:
        self.name = f"echo:{name}"
        self.abilities = Abilities(tools=False, counts=True)
        self._window = size_in(name) or WINDOW

    async def complete(self, context: ActiveContext, ask: Ask = ASK) -> Reply:
        """Return the answer, at once.

        Raises:
            WrongLayer: `context` is no active context.
        """
        await asyncio.sleep(0)
        return self._reply(sendable(context), ask)

    async def stream(self, context: ActiveContext, ask: Ask = ASK) -> AsyncIterator[Delta]:
        """Yield the answer word by word.

        Raises:
            As `complete`.
        """
        reply = await self.complete(context, ask)
        assert isinstance(reply.message, Message), "it makes messages itself"
        first, *others = reply.message.text.split(" ")
        for piece in (first, *(f" {word}" for word in others)):
            await asyncio.sleep(PAUSE)
            yield Delta(text=piece)
        yield Delta(reply=reply)

    async def count(self, context: ActiveContext) -> int | None:
        """Return the prompt's tokens as the session counted them."""
        return max(1, sendable(context).tokens)

    async def limits(self) -> Limits:
        """Return the window that the model's name gives."""
        return Limits(window=self._window)

    def _reply(self, context: ActiveContext, ask: Ask) -> Reply:
        text = _answer(context)
        most = LETTERS * ask.max_tokens if ask.max_tokens else len(text)
        tokens = max(1, len(text[:most]) // LETTERS)
        return Reply(
            message=Message(role="assistant", content=text[:most]),
            usage=Usage(prompt_tokens=max(1, context.tokens), completion_tokens=tokens),
            finish="stop" if len(text) <= most else "length",
            model=self.name,
        )


def _answer(context: ActiveContext) -> str:
    texts = [own_words_of(m) for m in context.messages if speaker_of(m) == "person"]
    words = next((text for text in reversed(texts) if text), "Nothing.")
    quoted = words if len(words) <= QUOTED else f"{words[:QUOTED].rstrip()} …"
    lines = "\n".join(f"> {line}" for line in quoted.splitlines())
    held = f"{len(context.messages):,} messages, {context.tokens:,} tokens"
    summaries = f", {len(context.checkpoints):,} of them checkpoints" * bool(context.checkpoints)
    return f"You said:\n\n{lines}\n\nThis prompt has **{held}**{summaries}. I only echo."
