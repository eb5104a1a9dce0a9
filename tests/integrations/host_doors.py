"""Hosts as doors of the conformance suite: the judge stands behind a server that the host asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from compact import CompactManager
from compact.testing.doors import How, Judge, Refused, Tool
from tests.integrations.hosts import HOSTS, Host
from tests.scripted import Call, Calls, Failed, Received, ScriptedServer


class Conversation:
    """One conversation of a host."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.state, self.edit = host.state, host.edit

    def turn(self, text: str, how: How = "async") -> None:
        self.host.say(text, streamed=how == "stream")


class HostDoor:
    """A door to one of `HOSTS`. Its servers and loops end with `close`."""

    hows: Sequence[How] = ("async", "stream")

    def __init__(self, name: str) -> None:
        self.name = name
        self._opened = ExitStack()
        self.close: Callable[[], None] = self._opened.close

    def agent(
        self, judge: Judge, tools: Sequence[Tool], manager: CompactManager | None, thread: str
    ) -> Conversation:
        def answer(request: Received) -> Any:
            try:
                said = judge.answer(request.messages, request.body.get("tools"))
            except Refused as error:
                return Failed(400, str(error), body={"error": {"message": str(error)}})
            asked = [call["function"] for call in said.get("tool_calls", ())]
            calls = [Call(each["name"], json.loads(each["arguments"])) for each in asked]
            return Calls(calls) if calls else said["content"]

        server = self._opened.enter_context(ScriptedServer(answer))
        host = HOSTS[self.name](server.url, manager, thread, tools[0].call)
        self._opened.callback(host.close)
        return Conversation(host)
