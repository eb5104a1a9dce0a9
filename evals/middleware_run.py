"""LangChain's SummarizationMiddleware over conversations; executed by the Python of `.venv-peers`,
knows nothing of compact.

Reads a line of JSON for each conversation, and writes lines: what to summarize, of which the
summary is the next line it reads; at the end what it would send before each answer. Nothing is
trimmed before a summary, and every message counts what it is said to count.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import BaseMessage, RemoveMessage, convert_to_messages


def asked(question: dict[str, Any]) -> dict[str, Any]:
    print(json.dumps(question), flush=True)
    return json.loads(sys.stdin.readline())


def played(task: dict[str, Any]) -> dict[int, dict[str, Any]]:
    messages = convert_to_messages(task["messages"])
    tokens = {str(i): count for i, count in enumerate(task["tokens"])}
    summary = {"text": "", "tokens": 0}
    at = 0

    def count(listed: Iterable[BaseMessage]) -> int:
        return sum(tokens.get(str(m.id), summary["tokens"]) for m in listed)

    def written(listed: Iterable[BaseMessage]) -> str:
        covered = [int(m.id) for m in listed if m.id in tokens]
        summary.update(asked({"at": at, "covered": covered, "before": summary["text"]}))
        return summary["text"]

    middleware: Any = SummarizationMiddleware(
        FakeListChatModel(responses=["never asked"]),
        trigger=("tokens", task["trigger"]),
        keep=("tokens", task["keep"]),
        token_counter=count,
        trim_tokens_to_summarize=None,
        summarizer=written,
    )
    state: list[BaseMessage] = []
    prompts = {}
    for at, message in enumerate(messages):
        if message.type == "ai":
            changed = middleware.before_model({"messages": state}, None)
            if changed:
                state = [m for m in changed["messages"] if not isinstance(m, RemoveMessage)]
            prompts[at] = {
                "kept": [int(m.id) for m in state if m.id in tokens],
                "said": [m.content for m in state if m.id not in tokens],
                "fits": count(state) <= task["trigger"],
            }
        message.id = str(at)
        state.append(message)
    return prompts


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps({"prompts": played(json.loads(line))}), flush=True)
