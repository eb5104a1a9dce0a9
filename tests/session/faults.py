"""Sessions that speak over real HTTP to servers which fail as they are told, and what must hold of
such a session at every moment.
"""

from __future__ import annotations

import atexit
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

from compact import CompactPolicy, ContextManager, Patience
from compact.messages.events import Event
from compact.messages.protocols import SessionStore
from compact.telemetry.plain_words import sentence
from tests import checker
from tests.scripted import Answer, Received, ScriptedServer

WINDOW = 4_096
USABLE = WINDOW - 512
KEYS = {
    "openai": "{url}/v1#scripted",
    "responses": "responses+{url}/v1#scripted",
    "anthropic": "anthropic+{url}#scripted",
    "ollama": "ollama+{url}#scripted",
}
QUICK = Patience(attempts=2, each=10, together=20, first_wait=0.001, longest_wait=0.002)
BRIEF = replace(QUICK, each=0.5)
"""For servers that hang."""
GOALS = ("Move the harbour ledger to the new scheduler.", "Keep every public name as it is.")
SECRET = "sk-" + "proj-" + "mT4qWc81ZsLx0vKeR7uJ"
"""What nobody in the session said, and a summarizer plants."""
SUMMARY = (
    "The user asked for one drawer after the other to be taken out of the old ledger and put into "
    "a file of its own, src/harbour/anchor_0.py first. The assistant moved the entries and told "
    "what it found there, and the new scheduler read them all."
)
ANSWER = "I moved that drawer, looked at what it holds, and the tests still pass."
_THINGS = ("anchor", "barrel", "crane", "dock", "ferry", "gangway", "hawser", "jetty")


def asked(number: int) -> str:
    """What a person says at that turn: long enough that its language can be told."""
    thing, other = _THINGS[number % 8], _THINGS[(number * 5 + 3) % 8]
    return (
        f"Question {number}: please take the {thing} drawer out of the old ledger and put it into "
        f"src/harbour/{thing}_{number}.py, then tell me what you found there. The {other} is not to"
        " be touched, because another team is still working on it and wants to see it as it was."
    )


def answered(number: int) -> str:
    """What an assistant says at that turn."""
    return (
        f"Answer {number}: the {_THINGS[number % 8]} drawer held {number + 3} entries, which I "
        "moved one after the other. All of them are read by the new scheduler now, and nothing of "
        "what the old one wrote was lost on the way. I ran the tests, and they pass."
    )


class Breaking:
    """A script that answers well until it is told what to break, and how often."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._fault: Answer | None = None
        self._times = 0

    def breaks(self, fault: Answer, times: int = 1_000_000) -> None:
        """Give this for so many answers."""
        self._fault, self._times = fault, times

    def heals(self) -> None:
        """Answer well again."""
        self._times = 0

    def __call__(self, request: Received) -> Answer:
        if self._fault is None or not self._times:
            return self._text
        self._times -= 1
        return self._fault


class Harbour:
    """A session, the servers of its model, its fallback and its summarizer, and its event log."""

    def __init__(self, ctx: ContextManager, servers: Sequence[ScriptedServer]) -> None:
        self.ctx = ctx
        self.model, self.fallback, self.summarizer = servers
        self.chat, self.other, self.writer = Breaking(""), Breaking(""), Breaking("")
        self.events: list[Event] = []
        self.said: list[tuple[str, str]] = []
        """Who said what so far, as it was said."""

    def talks(self, turns: int) -> None:
        """Some turns that were had before."""
        spoken: list[tuple[str, str]] = []
        for _ in range(turns):
            number = len(self.said) + len(spoken)
            spoken += [("user", asked(number)), ("assistant", answered(number))]
        self.ctx.add_messages([{"role": role, "content": text} for role, text in spoken])
        self.said += spoken

    def fills(self, share: float) -> None:
        """As many turns as take that share, .70 being the trigger."""
        while self.ctx.budget.used_tokens < share / 0.7 * self.ctx.window.trigger:
            self.talks(1)

    def asks(self) -> str:
        """A person's next question."""
        question = asked(len(self.said))
        self.ctx.add_message(role="user", content=question)
        self.said.append(("user", question))
        return question

    def turn(self) -> str:
        """A person's question and the model's answer to it."""
        self.asks()
        return self.again()

    def again(self) -> str:
        """The model's answer to what was asked."""
        reply = self.ctx.send().text
        self.said.append(("assistant", reply))
        return reply

    def streams(self) -> str:
        """A turn, read piece by piece."""
        self.asks()
        pieces = list(self.ctx.stream())
        assert pieces[-1].reply is not None
        reply = self.ctx.history[-1].text
        self.said.append(("assistant", reply))
        return reply

    def of(self, *kinds: type[Event]) -> list[Any]:
        """The events of these kinds."""
        return [event for event in self.events if isinstance(event, kinds)]

    def is_well(self) -> None:
        """Nothing is lost, the prompt fits, the goals are in it, and a turn is served."""
        for server in (self.chat, self.other, self.writer):
            server.heals()
        assert self.turn()
        history = [(message.role, message.text) for message in self.ctx.history]
        assert history == self.said, "the history is not what was said"
        prompt = self.ctx.get_context_for_model()
        assert checker.prompt_tokens(prompt) <= USABLE
        assert checker.broken_rules(prompt, "chat_completions") == []
        shown = json.dumps(prompt)
        assert all(goal in shown for goal in GOALS)
        background = self.ctx._session.view.background
        if not (background._is_at_work or background._draft):
            assert not any(name.startswith("draft:") for name in self.ctx.store.notes(self.ctx.id))
        for event in self.events:
            is_plain(sentence(event) or "nothing to say", at_most=700)


@cache
def _listening() -> tuple[list[ScriptedServer], list[Breaking]]:
    """The three servers of all sessions, which speak every face."""
    scripts = [Breaking(ANSWER), Breaking(f"{ANSWER} (I stand in.)"), Breaking(SUMMARY)]
    servers = [ScriptedServer(script, count=_size).start() for script in scripts]
    for server in servers:
        atexit.register(server.close)
    return servers, scripts


def _size(body: dict[str, Any]) -> int:
    """Tokens of a prompt, as exactly as our own count."""
    told = [{"role": "system", "content": body.get("system") or body.get("instructions") or ""}]
    return checker.prompt_tokens([*told, *body.get("messages", body.get("input", ()))])


@contextmanager
def harbour(
    face: str = "openai",
    *,
    store: SessionStore | None = None,
    fallback: bool = True,
    patience: Patience = QUICK,
    **policy: Any,
) -> Iterator[Harbour]:
    """A session with goals whose model, fallback and summarizer are three servers of that face."""
    servers, scripts = _listening()
    settings = {"draft_ratio": 1.0, "summary_seconds": 5.0, **policy}
    for server, script in zip(servers, scripts, strict=True):
        script.heals()
        server.requests.clear()
    with ExitStack() as stack:
        keys = [KEYS[face].format(url=server.url) for server in servers]
        heard: list[Callable[[Event], None]] = []
        ctx = ContextManager(
            keys[0],
            WINDOW,
            store,
            tokenizer="o200k",
            fallbacks=keys[1:2] if fallback else (),
            summarizer=keys[2:],
            patience=patience,
            policy=CompactPolicy(**settings),
            on_event=lambda event: heard[0](event),
            format="chat_completions",
        )
        stack.enter_context(ctx)
        made = Harbour(ctx, servers)
        heard.append(made.events.append)
        made.chat, made.other, made.writer = scripts
        ctx.goals.set(GOALS)
        yield made


def is_plain(text: str, *, at_most: int = 500) -> None:
    """A person can read it: one sentence or two, no traceback, no JSON, no page."""
    assert 5 < len(text) <= at_most, text
    assert "\n" not in text, text
    assert not re.search(r"Traceback|<html|<!doctype|\{\s*[\"']|0x[0-9a-f]{6}|b'|\bNone\b", text), (
        text
    )
