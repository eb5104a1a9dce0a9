"""Unmodified clients with a real llama.cpp server behind the proxy: no turn fails for its context.

Ollama is the scripted server, which drops silently what exceeds `num_ctx`, as Ollama does.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

import anthropic
import ollama
import openai
import pytest

from compact.messages.overflow import refusal_of
from tests.scripted import ScriptedServer
from tests.sizes import at_night
from tests.strategies import prose

WINDOW, ANSWER = 2_048, 32
SYSTEM = "You help with the harbour's programs. Answer briefly."
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "start_line": {"type": "integer"}},
    "required": ["path"],
}
LOOK = {"name": "read_file", "description": "Read a file of the harbour.", "parameters": SCHEMA}


class Client(Protocol):
    """A conversation by one client, which resends its whole list."""

    client: Any

    def ask(self, words: str, *, stream: bool) -> None:
        """Say something, and take the answer into the list."""

    def use_tool(self, number: int, result: str) -> None:
        """Add a call of a tool and its result to the list, as if the model had called it."""


class Chat:
    """`openai`, chat completions."""

    def __init__(self, url: str) -> None:
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        self.said: list[Any] = [{"role": "system", "content": SYSTEM}]

    def ask(self, words: str, *, stream: bool) -> None:
        self.said.append({"role": "user", "content": words})
        given: dict[str, Any] = {"model": "tiny", "messages": self.said, "max_tokens": ANSWER}
        given |= {"tools": [{"type": "function", "function": LOOK}], "tool_choice": "none"}
        if not stream:
            answer = self.client.chat.completions.create(**given)
            self.said.append(answer.choices[0].message)
            return
        chunks = self.client.chat.completions.create(**given, stream=True)
        texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
        self.said.append({"role": "assistant", "content": "".join(texts)})

    def use_tool(self, number: int, result: str) -> None:
        body = {"name": "read_file", "arguments": f'{{"path": "pier/{number}.py"}}'}
        call = {"id": f"call_{number}", "type": "function", "function": body}
        self.said.append({"role": "assistant", "content": None, "tool_calls": [call]})
        self.said.append({"role": "tool", "tool_call_id": f"call_{number}", "content": result})


class Responses:
    """`openai`, Responses."""

    def __init__(self, url: str) -> None:
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        self.said: list[Any] = []

    def ask(self, words: str, *, stream: bool) -> None:
        self.said.append({"role": "user", "content": words})
        given: dict[str, Any] = {"model": "tiny", "input": self.said, "instructions": SYSTEM}
        given |= {"max_output_tokens": ANSWER, "tools": [{"type": "function", **LOOK}]}
        given |= {"tool_choice": "none", "store": False}
        if stream:  # llama.cpp leaves out what the package's `stream` needs
            events = [*self.client.responses.create(**given, stream=True)]
            answer: Any = events[-1].response
        else:
            answer = self.client.responses.create(**given)
        self.said += answer.output

    def use_tool(self, number: int, result: str) -> None:
        named = {"call_id": f"call_{number}", "name": "read_file"}
        arguments = f'{{"path": "pier/{number}.py"}}'
        self.said.append({"type": "function_call", **named, "arguments": arguments})
        self.said.append(
            {"type": "function_call_output", "call_id": f"call_{number}", "output": result}
        )


class Messages:
    """`anthropic`."""

    def __init__(self, url: str) -> None:
        self.client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
        self.said: list[Any] = []

    def ask(self, words: str, *, stream: bool) -> None:
        text = {"type": "text", "text": words}
        if self.said and self.said[-1]["role"] == "user":  # behind a result
            self.said[-1]["content"].append(text)
        else:
            self.said.append({"role": "user", "content": [text]})
        given: dict[str, Any] = {"model": "tiny", "messages": self.said, "system": SYSTEM}
        tool = {"name": "read_file", "description": "Read a file.", "input_schema": SCHEMA}
        given |= {"max_tokens": ANSWER, "tools": [tool], "tool_choice": {"type": "none"}}
        if stream:
            with self.client.messages.stream(**given) as events:
                answer = events.get_final_message()
        else:
            answer = self.client.messages.create(**given)
        self.said.append({"role": "assistant", "content": answer.content})

    def use_tool(self, number: int, result: str) -> None:
        called = {"type": "tool_use", "id": f"call_{number}", "name": "read_file"}
        call = {**called, "input": {"path": f"pier/{number}.py"}}
        self.said[-1]["content"] = [*self.said[-1]["content"], call]
        given = {"type": "tool_result", "tool_use_id": f"call_{number}", "content": result}
        self.said.append({"role": "user", "content": [given]})


class Ollama:
    """`ollama`."""

    def __init__(self, url: str) -> None:
        self.client: Any = ollama.Client(host=url)
        self.said: list[Any] = [{"role": "system", "content": SYSTEM}]

    def ask(self, words: str, *, stream: bool) -> None:
        self.said.append({"role": "user", "content": words})
        given: dict[str, Any] = {"model": "tiny", "messages": self.said}
        given |= {"tools": [{"type": "function", "function": LOOK}]}
        given |= {"options": {"num_predict": ANSWER}}
        if not stream:
            self.said.append(self.client.chat(**given).message)
            return
        text = "".join(p.message.content or "" for p in self.client.chat(**given, stream=True))
        self.said.append({"role": "assistant", "content": text})

    def use_tool(self, number: int, result: str) -> None:
        body = {"name": "read_file", "arguments": {"path": f"pier/{number}.py"}}
        self.said.append({"role": "assistant", "content": "", "tool_calls": [{"function": body}]})
        self.said.append({"role": "tool", "tool_name": "read_file", "content": result})


LLAMA: dict[str, Callable[[str], Client]] = {
    "chat": Chat,
    "responses": Responses,
    "messages": Messages,
}


def talked(kind: Callable[[str], Client], url: str, turns: int) -> int:
    """Have so many turns. Return how many the server refused for their context."""
    client, refused = kind(url), 0
    for turn in range(turns):
        r = random.Random(turn)
        if turn % 3 == 1:
            client.use_tool(turn, prose(r, 150 if turn % 5 else 500))
        try:
            client.ask(f"Turn {turn}: {prose(r, 40)}", stream=turn % 2 == 1)
        except (openai.APIStatusError, anthropic.APIStatusError) as error:
            refused += refusal_of(error.body) is not None
        except AssertionError:  # llama.cpp cannot read all that such a model writes: no end came
            continue
    client.client.close()
    return refused


SIZES = [pytest.param(12, id="12"), pytest.param(100, id="100", marks=at_night)]


@pytest.mark.parametrize("turns", SIZES)
@pytest.mark.parametrize("api", LLAMA)
def test_no_turn_is_refused_for_its_context(llama, proxy, api, turns):
    upstream = llama(WINDOW)
    served = proxy(upstream)
    assert talked(LLAMA[api], served.url, turns) == 0
    assert served.count("requests_total", done="failed_open") == 0
    assert served.count("failures_total") == 0
    assert served.count("requests_total", done="fitted") > turns // 3
    assert served.count("sessions_total") == 1
    if turns == 12:
        assert talked(LLAMA[api], upstream, turns) > 0, "without the proxy it is refused"


@pytest.mark.parametrize("turns", SIZES)
def test_ollama_cuts_nothing(proxy, turns):
    with ScriptedServer("All lamps burn, as they should.", model="tiny") as upstream:
        served = proxy(upstream.url, max_context_tokens=WINDOW)
        talked(Ollama, served.url, turns)
        assert len(upstream.prompts) == turns
        assert [request.cut for request in upstream.prompts] == [0] * turns
        assert served.count("failures_total") == 0
        assert served.count("sessions_total") == 1
        if turns == 12:
            talked(Ollama, upstream.url, 2 * turns)
            assert any(request.cut for request in upstream.prompts[turns:]), "else it cuts"
