"""A model whose answers are written by hand: its requests become files, and so do its answers.

Whoever answers should see the requests alone, and not judge what comes of them.
"""

from __future__ import annotations

from pathlib import Path

from compact.engine.stories.abstractive import ModelSummarizer
from compact.errors import ModelFailed
from compact.messages.asking import ASK, Ask
from compact.messages.context import ActiveContext
from compact.messages.messages import Message
from compact.messages.replies import Reply
from compact.testing import ScriptedModel
from compact.wiring import token_counter

WINDOW = 200_000
"""Tokens of the window that such a model has."""


class ByHand(ScriptedModel):
    """Writes each request to `NAME.1.request.txt`, and answers with what stands in
    `NAME.1.reply.txt`; it fails where that is missing.
    """

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(name="by hand")
        self._path, self.waiting = folder / name.replace("/", "_"), 0

    async def complete(self, context: ActiveContext, ask: Ask = ASK) -> Reply:
        """Answer from the file.

        Raises:
            ModelFailed: there is no reply yet.
        """
        await super().complete(context, ask)
        return Reply(message=Message(role="assistant", content=self._answer(context)))

    def _answer(self, context: ActiveContext) -> str:
        stem = f"{self._path}.{len(self.contexts)}"
        rules, data = (message.text for message in context.messages)
        Path(f"{stem}.request.txt").write_text(f"{rules}\n\n{data}\n", encoding="utf-8")
        reply = Path(f"{stem}.reply.txt")
        if not reply.is_file():
            self.waiting += 1
            raise ModelFailed(f"{reply} is to be written")
        return reply.read_text(encoding="utf-8")

    def summarizer(self) -> ModelSummarizer:
        """What `compress` takes."""
        counter = token_counter("chat_completions", tokenizer="o200k")
        return ModelSummarizer(self, counter, window=WINDOW)
