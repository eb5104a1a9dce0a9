"""Runs one peer on one history; executed by the Python of `.venv-peers`, knows nothing of compact.

Each peer at its best setting: messages converted beforehand, vocabulary loaded, every text
counted at most once a run. Runs once uncounted, then as often as asked; where a run takes
longer than `LONG` seconds, that one run counts.
"""

from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LONG = 4.0
Record = dict[str, Any]


def offline_vocabularies() -> None:
    """Point tiktoken to the vocabulary files that litellm's wheel carries."""
    spec = importlib.util.find_spec("litellm")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "litellm_core_utils" / "tokenizers"
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)


def langchain_exact(messages: list[Record], budget: int) -> Callable[[], list[Record]]:
    import tiktoken
    from langchain_core.messages import BaseMessage

    encoding = tiktoken.get_encoding("o200k_base")
    encoding.encode_ordinary("warm")
    known: dict[int, int] = {}

    def count_one(message: BaseMessage) -> int:
        key = id(message)
        if key not in known:
            total = 4 + len(encoding.encode_ordinary(str(message.content)))
            for call in message.additional_kwargs.get("tool_calls", ()):
                function = call["function"]
                total += 3 + len(encoding.encode_ordinary(function["name"] + function["arguments"]))
            known[key] = total
        return known[key]

    def count(listed: list[BaseMessage]) -> int:
        return sum(map(count_one, listed))

    return _langchain(messages, budget, count, before=known.clear)


def langchain_approximate(messages: list[Record], budget: int) -> Callable[[], list[Record]]:
    from langchain_core.messages.utils import count_tokens_approximately

    return _langchain(messages, budget, count_tokens_approximately, before=lambda: None)


def _langchain(
    messages: list[Record], budget: int, counter: object, before: Callable[[], None]
) -> Callable[[], list[Record]]:
    from langchain_core.messages import convert_to_messages, trim_messages
    from langchain_core.messages.utils import convert_to_openai_messages

    converted = convert_to_messages(messages)
    for message, raw in zip(converted, messages, strict=True):
        if raw.get("tool_calls"):
            message.additional_kwargs["tool_calls"] = raw["tool_calls"]

    def work() -> list[Any]:
        before()
        return trim_messages(  # type: ignore[no-any-return]
            converted,
            max_tokens=budget,
            token_counter=counter,
            strategy="last",
            start_on="human",
            include_system=True,
        )

    work.as_records = convert_to_openai_messages  # type: ignore[attr-defined]
    return work


def litellm_trim(messages: list[Record], budget: int) -> Callable[[], list[Record]]:
    import litellm
    from litellm.utils import trim_messages

    litellm.suppress_debug_info = True
    litellm.token_counter(model="gpt-4o", text="warm")
    return lambda: trim_messages(messages, model="gpt-4o", max_tokens=budget, trim_ratio=1.0)


PEERS = {
    "langchain exact": langchain_exact,
    "langchain approximate": langchain_approximate,
    "litellm": litellm_trim,
}


def main(peer: str, history: str, budget: str, runs: str, out: str) -> None:
    messages = json.loads(Path(history).read_text(encoding="utf-8"))
    work = PEERS[peer](messages, int(budget))
    taken: list[float] = []
    for _ in range(int(runs) + 1):
        gc.collect()
        started = time.process_time()
        result = work()
        taken.append((time.process_time() - started) * 1e3)
        if taken[0] > LONG * 1e3:
            break
    taken = taken[1:] or taken
    as_records = getattr(work, "as_records", list)
    record = {"cpu_ms": taken, "messages": as_records(result)}
    Path(out).write_text(json.dumps(record), encoding="utf-8")


def print_versions(requirements: str) -> None:
    lines = Path(requirements).read_text(encoding="utf-8").splitlines()
    names = [line.split("==")[0] for line in lines if "==" in line]
    print(json.dumps({name: importlib.metadata.version(name) for name in names}))


if __name__ == "__main__":
    if sys.argv[1] == "versions":
        print_versions(sys.argv[2])
    else:
        offline_vocabularies()
        main(*sys.argv[1:])
