"""Many turns in the real frameworks, a hundred at night; some results exceed the window."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.integrations.hosts import HOSTS, Host, Kept, manager
from tests.integrations.turns import HUGE, NEEDS, Judge, asked_of, question
from tests.integrations.turns import TURNS as ALL
from tests.sizes import size

TURNS = size(45, ALL)
PACKAGES = {"pydantic-ai": "pydantic_ai", "Google ADK": "google.adk"}
EACH = [
    pytest.param(
        name,
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(
                importlib.util.find_spec(PACKAGES[name].partition(".")[0]) is None,
                reason=f"{name} is not installed",
            ),
        ],
    )
    for name in HOSTS
]


@contextmanager
def talking(name: str, judge: Judge, kept: Kept) -> Iterator[Host]:
    host = HOSTS[name](judge.url, kept)
    try:
        yield host
    finally:
        host.close()


@pytest.mark.parametrize("name", EACH)
def test_many_turns(name: str) -> None:
    """No request is too large or out of order, the prefix stays, and the host's list is whole."""
    with Judge() as judge, manager() as kept, talking(name, judge, kept) as host:
        for turn in range(TURNS):
            assert host.say(question(turn)).startswith("It burns")
        assert len(judge.asked) == 2 * TURNS
        assert judge.overflows == 0
        assert judge.broken_rules == []
        assert judge.stable >= 0.85
        state = host.state()
        assert len(state) == 4 * TURNS
        assert all(question(turn) in str(state[4 * turn]) for turn in range(TURNS))
        rules = [NEEDS[turn] for turn in (3, 42)]
        assert all(rule in judge.asked[-1].prompt for rule in rules)


@pytest.mark.parametrize("name", EACH)
def test_without_us_it_overflows(name: str) -> None:
    """The judge sees what it is asked to see."""
    with Judge() as judge, talking(name, judge, None) as host:
        for turn in range(min(HUGE) + 1):
            host.say(question(turn))
        assert judge.overflows == 1


@pytest.mark.parametrize("name", EACH)
def test_a_real_server(name: str, llama: Callable[..., str]) -> None:
    """The same before a llama.cpp server of 2,048 tokens, which nobody told of its tokenizer."""
    count = asked_of(llama(2048))
    with Judge(2048, count) as judge, manager(2048) as kept, talking(name, judge, kept) as host:
        for turn in range(12):
            host.say(question(turn))
        assert judge.overflows == 0
        assert all(each.tokens for each in judge.asked)
