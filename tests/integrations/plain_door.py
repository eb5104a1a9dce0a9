"""The smallest door: a loop over dictionaries, and doors that break one promise each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from compact import CompactManager
from compact.testing.doors import How, Judge, Tool

Dict = dict[str, Any]


class Loop:
    """An agent: ask the model, call its tools, until it answers."""

    def __init__(
        self, judge: Judge, tools: Sequence[Tool], manager: CompactManager | None, thread: str
    ) -> None:
        self.judge, self.manager, self.thread = judge, manager, thread
        self.tools = {tool.name: tool for tool in tools}
        self.messages: list[Dict] = []
        if manager is not None:
            manager.check()

    def turn(self, text: str, how: How = "sync") -> None:
        self.messages.append(self.noted({"role": "user", "content": text}))
        while self.messages[-1]["role"] != "assistant":
            answer = self.asked() if how == "sync" else asyncio.run(self.aasked())
            self.messages.append(self.noted(answer))
            for call in answer.get("tool_calls", ()):
                item = json.loads(call["function"]["arguments"])["item"]
                said = self.tools[call["function"]["name"]].call(item)
                result = {"role": "tool", "tool_call_id": call["id"], "content": said}
                self.messages.append(self.noted(result))

    def noted(self, message: Dict) -> Dict:
        """The message with an id, as a framework keeps it."""
        return {**message, "id": f"m{len(self.messages)}"}

    def asked(self) -> Dict:
        if self.manager is None:
            return self.judge.answer(self.messages)
        fitted = self.manager.fit(self.thread, self.messages)
        return self.judge.answer(fitted.messages)

    async def aasked(self) -> Dict:
        if self.manager is None:
            return self.judge.answer(self.messages)
        fitted = await self.manager.afit(self.thread, self.messages)
        return self.judge.answer(fitted.messages)

    def state(self) -> list[Dict]:
        return self.messages

    def edit(self, turns: int, text: str) -> None:
        said = [i for i, message in enumerate(self.messages) if message["role"] == "user"]
        del self.messages[said[turns] :]
        self.turn(text)


class PlainDoor:
    """A loop over dictionaries as a door."""

    hows: Sequence[How] = ("sync", "async")
    kind: type[Loop] = Loop

    def agent(
        self, judge: Judge, tools: Sequence[Tool], manager: CompactManager | None, thread: str
    ) -> Loop:
        return self.kind(judge, tools, manager, thread)


# --- doors that break a promise -------------------------------------------------------------------


class Idle(Loop):
    """Its adapter does nothing."""

    def asked(self) -> Dict:
        return self.judge.answer(self.messages)


class Cutting(Loop):
    """Its adapter drops what is old: also a call whose result it keeps."""

    def asked(self) -> Dict:
        return self.judge.answer(self.messages[-10:] if self.manager else self.messages)


class Rewriting(Loop):
    """Its adapter puts what is sent into the framework's own messages."""

    def asked(self) -> Dict:
        if self.manager is not None:
            self.messages = list(self.manager.fit(self.thread, self.messages).messages)
        return self.judge.answer(self.messages)


class Stamping(Loop):
    """Its adapter begins each prompt with a number of its own."""

    def asked(self) -> Dict:
        assert self.manager is not None
        fitted = self.manager.fit(self.thread, self.messages)
        stamp = {"role": "system", "content": f"Prompt {len(self.messages)}."}
        return self.judge.answer([stamp, *fitted.messages])


class Mixing(Loop):
    """Its adapter has one session for all conversations, and sends what was said in all."""

    said: list[Dict] = []  # noqa: RUF012 - shared on purpose

    def asked(self) -> Dict:
        self.said.append(self.messages[-1])
        words = "\n".join(str(message["content"]) for message in list(self.said))
        return self.judge.answer([{"role": "user", "content": words}])


class Unchecked(Loop):
    """Its adapter looks at no setting, and hides each failure."""

    def __init__(
        self, judge: Judge, tools: Sequence[Tool], manager: CompactManager | None, thread: str
    ) -> None:
        super().__init__(judge, tools, None, thread)


class Fragile(Loop):
    """Its adapter needs the store."""

    def asked(self) -> Dict:
        assert self.manager is not None
        ctx = self.manager.session(self.thread)
        ctx.sync(self.messages)
        return self.judge.answer(ctx.get_context_for_model())


class Marking(Loop):
    """Its adapter marks every message."""

    def asked(self) -> Dict:
        marked = [{**message, "mark": 1} for message in self.messages]
        return self.judge.answer(marked if self.manager else self.messages)


class Stale(Loop):
    """Its adapter goes on with what it was given first."""

    def edit(self, turns: int, text: str) -> None:
        self.turn(text)


class SyncOnly(Loop):
    """Its adapter fits only what is not awaited."""

    async def aasked(self) -> Dict:
        return self.judge.answer(self.messages[-4:])
