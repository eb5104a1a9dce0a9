"""Speed, as far as a busy machine can tell: ratios within one run, with room for noise. Figures:
`python -m bench`.
"""

import statistics
import time

import pytest

from bench.cold_plan import cold_plan
from bench.counting import pairs_whole, tail_count, verdict
from bench.histories import history
from bench.measuring import in_turn
from bench.session import session
from compact.core.formats.known import format_named

NOISE = 2.0
"""By how much a ratio may exceed its limit here."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def messages():
    return history(20_000)


@pytest.mark.parametrize("budget", [8_000, 128_000])
def test_a_cold_plan_costs_little_more_than_counting_the_tail(messages, budget):
    tail, ours = in_turn(
        [lambda: tail_count(messages, budget), lambda: cold_plan(messages, budget)], 5
    )
    assert min(ours.values) / min(tail.values) <= 1.5 * NOISE


@pytest.mark.parametrize("budget", [8_000, 128_000])
def test_a_cold_plan_can_be_sent(messages, budget):
    plan = cold_plan(messages, budget)
    result = format_named("chat_completions").render(plan.context.messages)
    judged = verdict(result, messages, budget)
    assert (judged.fits, judged.pairs, judged.system, judged.newest) == (True,) * 4


@pytest.mark.parametrize("window", [8_000, 128_000])
def test_a_prompt_costs_the_same_whatever_the_length_of_the_history(messages, window):
    costs = [prompt_ms(messages[1:size], window) for size in (1_000, 20_000)]
    assert costs[1] <= 1.5 * NOISE * costs[0]
    assert max(costs) <= 0.2 * NOISE


def prompt_ms(messages, window):
    manager = session(window)
    for message in messages:
        manager.add_message(message)
    manager.get_context_for_model()
    taken = []
    for i in range(50):
        manager.add_message({"role": "user", "content": f"And {i}?"})
        started = time.process_time_ns()
        manager.get_context_for_model()
        taken.append((time.process_time_ns() - started) / 1e6)
    return statistics.median(taken)


@pytest.mark.parametrize("window", [8_000, 128_000])
def test_turns_stay_as_fast_as_they_were(messages, window):
    manager, turns = session(window), []
    for message in messages[:10_000]:
        started = time.process_time_ns()
        manager.add_message(message)
        manager.get_context_for_model()
        turns.append((time.process_time_ns() - started) / 1e6)
    assert statistics.mean(turns[-2_000:]) <= 1.3 * NOISE * statistics.mean(turns[:2_000])
    assert statistics.mean(turns) <= 0.1 * 5


def test_histories_are_of_the_kind_they_say():
    made = history(2_000)
    assert made == history(2_000)
    assert len(made) == 2_000
    assert pairs_whole(made)
    tools = [m for m in made if m["role"] == "tool"]
    large = [m for m in tools if len(m["content"]) >= 2_000]
    assert len(tools) / len(made) == pytest.approx(0.43, abs=0.03)
    assert len(large) / len(tools) == pytest.approx(0.22, abs=0.03)
