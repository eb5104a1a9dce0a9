"""Conversations for the tests at the doors, and what is read of prompts: plain dictionaries."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from compact import ContextManager, Patience
from compact.protocols import Summary, SummaryRequest
from tests import checker
from tests.scripted import Received, ScriptedServer

Dict = dict[str, Any]
THINGS = ("anchor", "barrel", "crane", "dock", "ferry", "gangway", "hawser", "jetty")
QUICK = Patience(attempts=2, each=5, together=10, first_wait=0.001, longest_wait=0.002)
"""For servers that fail as they are told."""
BRIEF = replace(QUICK, each=1)
"""For servers that hang."""
STORY = (
    "The user asked for one drawer after the other to be taken out of the old ledger and put into "
    "a file of its own: src/harbour/anchor_0.py, src/harbour/crane_2.py, src/harbour/ferry_4.py "
    "and src/harbour/hawser_6.py. The assistant moved the entries and told what it found there, "
    "and the new scheduler read them all. The other drawers were not touched, because another "
    "team was still working on them."
)
"""A summary of `turns` that a good model could have written."""


class Listener(list[Any]):
    """The events of a session, in order."""

    def names(self) -> list[str]:
        return [event.name for event in self]

    def named(self, name: str) -> list[Any]:
        return [event for event in self if event.name == name]


class Retelling:
    """Tells any `turns`, as a good model would: by the files that they name."""

    name, waits = "retelling", True

    async def summarize(self, request: SummaryRequest) -> Summary:
        """As `STORY` begins, of other files."""
        begins = STORY.partition(": src/")[0]
        said = " ".join(message.text for message in request.messages)
        files = list(dict.fromkeys(re.findall(r"src/\S+?\.py", said)))
        return Summary(text=f"{begins}: {', '.join(files[:4])}.", made_by=self.name)


def turns(count: int, *, start: int = 0, words: int = 60) -> Iterator[Dict]:
    """So many questions with their answers, each of about that many words."""
    for i in range(start, start + count):
        thing, other = THINGS[i % 8], THINGS[(i * 5 + 3) % 8]
        question = (
            f"Question {i}: please take the {thing} drawer out of the old ledger and put it into "
            f"src/harbour/{thing}_{i}.py, then tell me what you found there."
        )
        answer = (
            f"Answer {i}: the {thing} drawer is in src/harbour/{thing}_{i}.py now; I found "
            f"{i + 2} entries there and left the {other} drawer alone."
        )
        more = f" The {other} stays as it was, the {thing} was counted by the keeper twice."
        yield {"role": "user", "content": padded(question, more, words)}
        yield {"role": "assistant", "content": padded(answer, more, words)}


def called(call_id: str, name: str, answer: str, **arguments: str) -> list[Dict]:
    """A call of a tool, and its result."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    made = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": call_id, "content": answer},
    ]


def padded(text: str, more: str, words: int) -> str:
    """The text, followed by more until it has about so many words."""
    return text + more * max(0, (words - len(text.split())) // len(more.split()))


def words_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """All that a model reads of provider dictionaries."""
    return "\n".join(text for message in messages for text in checker.visible(message))


def size_of(messages: Sequence[Mapping[str, Any]]) -> int:
    """Tokens of a prompt by a count of our own (o200k)."""
    return checker.prompt_tokens(messages) + 3


def server_size(body: Mapping[str, Any]) -> int:
    """Tokens of a chat request as an exact server counts them."""
    return size_of(body["messages"])


def verbatim(said: Sequence[Mapping[str, Any]], prompt: Sequence[Mapping[str, Any]]) -> list[Dict]:
    """Those messages that stand in the prompt as they were said, by themselves or joined with
    others of their role.
    """
    there = {checker.freeze(message) for message in prompt}
    texts: dict[str, str] = {}
    for message in prompt:
        texts[message["role"]] = f"{texts.get(message['role'], '')}\n{words_of([message])}\n"
    return [
        dict(message)
        for message in said
        if checker.freeze(message) in there
        or (set(message) == {"role", "content"} and _stands_in(message, texts))
    ]


def _stands_in(message: Mapping[str, Any], texts: Mapping[str, str]) -> bool:
    text = words_of([message])
    return bool(text) and f"\n{text}\n" in texts.get(message["role"], "")


def chat_key(server: ScriptedServer) -> str:
    """The key of a server's model, spoken to as OpenAI's are."""
    return f"{server.url}/v1#scripted"


def is_summary(request: Received) -> bool:
    """Whether a request asks for a summary, rather than for the next answer of a conversation."""
    return "summar" in request.instructions.lower()


@contextmanager
def down() -> Iterator[str]:
    """The key of a server that is not there any more."""
    with ScriptedServer() as server:
        key = chat_key(server)
    yield key


def session(**options: Any) -> Any:
    """A session whose tokens are counted exactly."""
    return ContextManager(**{"window": 4_096, "tokenizer": "o200k", **options})
