"""LangChain's SummarizationMiddleware over a session; executed by the Python of `.venv-peers`,
knows nothing of compact.

At its best setting: the same tokenizer as everybody, each text counted once; its summarizer writes
the end of what it is given, as many tokens as it may, so that each summary is another one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import BaseMessage, RemoveMessage, convert_to_messages
from langchain_core.messages.utils import convert_to_openai_messages
from tokenizers import Tokenizer

PER_MESSAGE, PER_CALL = 5, 3


def main(given: str, tokenizer: str, trigger: str, keep: str, summary: str, out: str) -> None:
    script = json.loads(Path(given).read_text(encoding="utf-8"))
    encoder = Tokenizer.from_file(tokenizer)
    encoder.encode_special_tokens = True
    known: dict[str, int] = {}
    summaries = 0

    def text_tokens(text: str) -> int:
        if text not in known:
            known[text] = len(encoder.encode(text, add_special_tokens=False))
        return known[text]

    def count(messages: Iterable[BaseMessage]) -> int:
        total = 0
        for message in messages:
            total += PER_MESSAGE + text_tokens(str(message.content))
            total += PER_CALL * (message.type == "tool")
            for call in getattr(message, "tool_calls", ()):
                total += (
                    PER_CALL + text_tokens(call["name"]) + text_tokens(json.dumps(call["args"]))
                )
        return total

    def written(messages: Iterable[BaseMessage]) -> str:
        nonlocal summaries
        summaries += 1
        told = "\n".join(str(m.content) for m in messages)
        return str(encoder.decode(encoder.encode(told).ids[-int(summary) :]))

    middleware: Any = SummarizationMiddleware(
        FakeListChatModel(responses=["never asked"]),
        trigger=("tokens", int(trigger)),
        keep=("tokens", int(keep)),
        token_counter=count,
        trim_tokens_to_summarize=None,
        summarizer=written,
    )
    system, *rest = convert_to_messages(script)
    state: list[BaseMessage] = []
    prompts = []
    for number, message in enumerate(rest):
        if message.type == "ai":
            changed = middleware.before_model({"messages": state}, None)
            if changed:
                state = [m for m in changed["messages"] if not isinstance(m, RemoveMessage)]
            prompts.append(convert_to_openai_messages([system, *state]))
        message.id = f"m{number}"
        state.append(message)
    record = {"prompts": prompts, "summaries": summaries}
    Path(out).write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
