"""How long a server that takes connections and never answers is waited for (K-5)."""

import asyncio
import importlib
import socket
import time

import pytest
from pydantic import ValidationError

from compact import ContextManager, Patience
from compact.errors import ModelUnavailable
from compact.messages.context import ActiveContext
from compact.messages.messages import Message
from compact.wiring import chat_model

HELLO = ActiveContext(messages=(Message(role="user", content="hello"),), tokens=10)
SLACK = 1.4
"""How much longer than it may a wait is on a slow machine, as a factor."""


@pytest.fixture
def mute():
    """The address of a server that says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def _seconds(work):
    start = time.monotonic()
    with pytest.raises(ModelUnavailable):
        work()
    return time.monotonic() - start


for _each in ("openai", "anthropic", "ollama"):
    importlib.import_module(_each)  # takes its time, which is not the server's
FACES = ("ollama+{}#m", "{}/v1#m", "anthropic+{}#m")


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
def test_one_answer_takes_no_longer_than_its_time(mute, face):
    """With all that the server is asked for it before."""

    async def completed(model):
        await model.complete(HELLO)

    async def streamed(model):
        async for _ in model.stream(HELLO):
            pass

    model = chat_model(face.format(mute), timeout=1)
    assert _seconds(lambda: asyncio.run(completed(model))) < SLACK
    assert _seconds(lambda: asyncio.run(streamed(model))) < SLACK


@pytest.mark.timing
@pytest.mark.sampled(5)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "patience",
    [Patience(attempts=1, each=1), Patience(each=1, together=1), Patience(each=0.6, together=1)],
)
def test_a_session_waits_no_longer_than_it_says(mute, face, patience):
    with ContextManager(face.format(mute), window=8_000, patience=patience) as ctx:
        ctx.add_message(role="user", content="hello")
        assert _seconds(ctx.send) < SLACK


@pytest.mark.parametrize(
    "wrong",
    [{"each": -3}, {"each": "x"}, {"together": float("nan")}, {"attempts": 0}],
)
def test_what_is_no_time_is_refused(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        Patience(**wrong)


def test_help_explains_each_field():
    for name, value in Patience.__dataclass_fields__.items():
        assert f"{name} (" in str(Patience.__doc__), value
