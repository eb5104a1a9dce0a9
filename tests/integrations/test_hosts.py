"""pydantic-ai and Google ADK keep what the conformance suite promises, before a real server too."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from compact.testing.doors import PROMISES, Suite
from tests.integrations.host_doors import HostDoor
from tests.integrations.hosts import HOSTS, manager
from tests.integrations.turns import HUGE, Judge, asked_of, question

PACKAGES = {"pydantic-ai": "pydantic_ai", "Google ADK": "google"}
HERE = [name for name in HOSTS if importlib.util.find_spec(PACKAGES[name])]
SMALL = 2048
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", HOSTS)
def test_the_host_is_installed(name: str) -> None:
    if name not in HERE:
        pytest.skip(f"{name} is not installed: none of its promises is tried")


@pytest.fixture(scope="module", params=HERE)
def suite(request: pytest.FixtureRequest) -> Iterator[Suite]:
    with closing(HostDoor(request.param)) as door:
        yield Suite(door)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_every_promise_is_kept(suite: Suite, promise: Callable[[Suite], None]) -> None:
    promise(suite)


@pytest.mark.parametrize("name", HERE)
def test_a_real_server(name: str, llama: Callable[..., str]) -> None:
    """A llama.cpp server of 2,048 tokens would refuse nothing, and nobody named its tokenizer."""
    with Judge(SMALL, asked_of(llama(SMALL))) as judge, manager(SMALL) as kept:
        with closing(HOSTS[name](judge.url, kept)) as host:
            for turn in range(min(HUGE) + 2):
                host.say(question(turn))
        assert judge.overflows == 0
        assert judge.broken_rules == []
        assert all(each.tokens for each in judge.asked)


@pytest.mark.parametrize("name", HERE)
def test_without_us_it_is_too_large(name: str) -> None:
    """The judge sees what it is asked to see."""
    with Judge() as judge, closing(HOSTS[name](judge.url)) as host:
        for turn in range(min(HUGE) + 1):
            host.say(question(turn))
        assert judge.overflows == 1
