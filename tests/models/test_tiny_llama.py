"""The tiny model's server is a real one: it counts and refuses (issue 4).

Other tests build on what is shown here: that its counts are those of the tokenizer file, and that
`FRAMING` says what its chat template adds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from compact.messages.characters import defused
from compact.messages.formats.known import format_named
from compact.messages.messages import Message
from compact.messages.overflow import OverflowRefusal, refusal_of
from compact.messages.tokens import TokenCounter
from compact.models.providers.tokenizers import HuggingFaceEstimator
from compact.session.prompt_overhead import overhead_of
from compact.testing import SAMPLES
from compact.wiring import token_counter
from tests.models import tiny_llama

TEXTS = (
    *(sample for sample in SAMPLES if "\ud800" not in sample),
    "def find(self, path: str) -> int:\n\treturn self._paths[path]  # 0 where unknown\n",
    '{"a": [1, 2.5, null], "b": "it\'s"}',
    "  two  spaces,\n\n\nand 12345 lines … 🙂👍🏽",
)
READ: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a file and return its text, or the part between two lines.",
        "parameters": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Where the file is."},
                "first": {"type": "integer", "description": "The first line."},
                "mode": {"type": "string", "enum": ["text", "lines", "hex"]},
            },
            "required": ["path"],
        },
    },
}
SEARCH: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Find lines that match.",
        "parameters": {
            "type": "object",
            "properties": {
                "words": {"type": "array", "items": {"type": "string"}},
                "within": {"type": "object", "properties": {"folder": {"type": "string"}}},
            },
        },
    },
}


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def called(*calls: tuple[str, str, dict[str, Any]], content: str | None = None) -> dict[str, Any]:
    wanted = [
        {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for key, name, given in calls
    ]
    return said("assistant", content, tool_calls=wanted)


SYSTEM = said("system", "You help a person with the harbour's programs. Keep answers short.")
ASKED = said("user", "Which function reads the tide table, and where is it called?")
STEP = [
    called(("c1", "read_file", {"path": "src/tides.py", "first": 10})),
    said(
        "tool",
        "def read_table(path):\n    return [float(x) for x in path.open()]",
        tool_call_id="c1",
    ),
]
PARALLEL = [
    called(
        ("c2", "search", {"words": ["tide"]}),
        ("c3", "read_file", {"path": "a.py"}),
        content="Both.",
    ),
    said("tool", "a.py:12: tide = read_table(PATH)", tool_call_id="c2"),
    said("tool", "", tool_call_id="c3"),
]
TOLD = said("assistant", "It is `read_table` in src/tides.py;\nit is called in a.py, line 12.")
CONVERSATIONS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "one message": ([ASKED], []),
    "with a system prompt": ([SYSTEM, ASKED], []),
    "several turns": ([SYSTEM, *[ASKED, TOLD] * 20, ASKED], []),
    "a tool": ([SYSTEM, ASKED], [READ]),
    "tools": ([ASKED], [READ, SEARCH]),
    "a call and its result": ([SYSTEM, ASKED, *STEP], [READ, SEARCH]),
    "calls at once": ([SYSTEM, ASKED, *PARALLEL, TOLD, ASKED], [READ, SEARCH]),
    "everything, long": ([SYSTEM, *[ASKED, *STEP, *PARALLEL, TOLD] * 8, ASKED], [READ, SEARCH]),
}

Llama = Callable[[int], str]


def tokens_of(
    counter: TokenCounter, messages: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> int:
    return sum(map(counter.message, read("chat_completions", messages))) + overhead_of(
        counter, None, tools
    )


def read(wire: str, messages: list[dict[str, Any]]) -> list[Message]:
    parse = format_named(wire).parse
    return [parse(message, position) for position, message in enumerate(messages)]


@pytest.fixture(scope="module")
def client() -> Any:
    with httpx.Client(timeout=30, verify=False, trust_env=False) as opened:
        yield opened


def chat(client: httpx.Client, url: str, **body: Any) -> httpx.Response:
    given = {"messages": [ASKED], "max_tokens": 4, **body}
    return client.post(f"{url}/v1/chat/completions", json=given)


@pytest.fixture(scope="module")
def counter(tiny_model: tiny_llama.Model) -> TokenCounter:
    estimator = HuggingFaceEstimator(tiny_model.tokenizer, framing=tiny_llama.FRAMING)
    return token_counter("chat_completions", tokenizer=estimator)


# --- counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:12]))
def test_a_text_has_the_servers_tokens(
    llama: Llama, client: httpx.Client, counter: TokenCounter, text: str
) -> None:
    """The estimator equals the server's own tokenizer, of what is sent of a text (K-3)."""
    asked = {"content": defused(text), "parse_special": True}
    tokens = client.post(f"{llama(2048)}/tokenize", json=asked).json()["tokens"]
    assert counter.text(text) == len(tokens)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_prompt_has_the_servers_tokens(
    llama: Llama, client: httpx.Client, counter: TokenCounter, name: str
) -> None:
    """Messages, calls, results and schemas within 2 % of the server's `prompt_tokens` (issue 4)."""
    messages, tools = CONVERSATIONS[name]
    answer = chat(client, llama(8192), messages=messages, tools=tools).json()
    ours = tokens_of(counter, messages, tools)
    theirs = answer["usage"]["prompt_tokens"]
    print(f"{name}: {ours} counted, {theirs} by the server")
    assert abs(ours - theirs) <= 0.02 * theirs


# --- what it refuses and remembers ----------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_is_too_large_is_refused_with_numbers(
    llama: Llama, client: httpx.Client, counter: TokenCounter, stream: bool
) -> None:
    large = [said("user", "tide " * 3000)]
    refused = chat(client, llama(1024), messages=large, stream=stream)
    assert refused.status_code == 400
    assert refused.json()["error"]["type"] == "exceed_context_size_error"
    assert refusal_of(refused.json()) == OverflowRefusal(tokens_of(counter, large, []), 1024)
