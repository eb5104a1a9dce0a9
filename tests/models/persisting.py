"""What tests of models that are asked again, and of others in their place, share."""

import asyncio

from compact.errors import ModelUnavailable
from compact.messages.asking import ASK, Limits, Patience
from compact.messages.context import ActiveContext
from compact.messages.events import Event
from compact.messages.messages import Message
from compact.messages.replies import Delta
from compact.models.providers.fallback_model import FallbackModel
from compact.testing import ScriptedModel
from tests.pace import run_at_once

PROMPT = ActiveContext(messages=(Message(role="user", content="Are you there?"),), tokens=8)
BUSY = ModelUnavailable("busy", model="one")


class Clock:
    """Time that passes only where somebody waits."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


def asked(*models, patience=None):
    clock = Clock()
    events: list[Event] = []
    persistent = FallbackModel(
        models, patience or Patience(), emit=events.append, sleep=clock.sleep
    )
    return persistent, clock, events


def answer(persistent):
    return run_at_once(persistent.complete(PROMPT))


class Sized(ScriptedModel):
    """Says what its window is."""

    def __init__(self, *answers, window=None, trained=None, **options):
        super().__init__(*answers, **options)
        self._limits = Limits(window=window, trained=trained)

    async def limits(self):
        return self._limits


class Hanging(ScriptedModel):
    """Never answers."""

    async def complete(self, context, ask=ASK):
        await asyncio.Event().wait()
        raise AssertionError

    async def stream(self, context, ask=ASK):
        yield Delta(text="I am ")
        await asyncio.Event().wait()


async def pieces_of(persistent):
    return [piece async for piece in persistent.stream(PROMPT)]
