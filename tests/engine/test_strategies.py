"""What a strategy changes where no model writes (K-5)."""

from functools import cache
from typing import get_args

import pytest

from compact import CompactPolicy, ContextManager, Message, plan
from compact.messages.policy import Strategy
from compact.text.modes import MODES, STRATEGIES_WEIGH
from tests.engine.saying import COUNTER, edit, run, said, section
from tests.engine.test_modes import of_sample, summary

STRATEGIES = tuple(STRATEGIES_WEIGH)
DWELLING = ("brief", "decision_log", "code_delta")


def test_every_strategy_that_summarizes_has_its_weights() -> None:
    assert ("task_state", *DWELLING) == STRATEGIES
    assert set(STRATEGIES) == set(get_args(Strategy)) - {"off", "mask"}


@pytest.mark.parametrize("cap", [2_000, 4_000])
def test_strategies_differ_as_their_names_say(cap: int) -> None:
    """K-5: a brief lists no names and tells nothing that was only looked at, a log of decisions
    lists fewer names; what is told is within the cap.
    """
    told = {x: of_sample("assistant", cap, x) for x in STRATEGIES}
    assert len(set(told.values())) == 4
    assert max(map(COUNTER.text, told.values())) <= cap
    names = {x: COUNTER.text(section(text, "Names")) for x, text in told.items()}
    assert names["brief"] == 0 < names["decision_log"] < names["task_state"]
    people = {x: text.count("- User") for x, text in told.items()}
    assert people["decision_log"] > people["task_state"] > people["code_delta"]


def turn(i: int) -> list[Message]:
    return [
        said("user", f"Mend part {i} of the pier, and tell me what you find there."),
        *edit(i, f"src/part_{i}.py", new=f"def mended_{i}(): ..."),
        *run(1_000 + i, f"pytest tests/part_{i}.py", "3 passed"),
        said("assistant", f"We decided to use slate {i} instead of tin for part {i}."),
    ]


def test_a_brief_is_short() -> None:
    """K-5: half the room is enough, also of one call; what it leaves free shows more of the newest
    messages.
    """
    messages = [message for i in range(120) for message in turn(i)]
    plans = {
        x: plan(messages, max_tokens=6_000, tokenizer="o200k", policy=CompactPolicy(strategy=x))
        for x in ("task_state", "brief")
    }
    sizes = {x: done.checkpoint.token_count for x, done in plans.items() if done.checkpoint}
    assert sizes["brief"] < 0.7 * sizes["task_state"]
    assert len(plans["brief"].context.messages) > len(plans["task_state"].context.messages)


def test_a_delta_of_code_tells_what_was_written_before_what_was_said() -> None:
    """K-5: where there is not room for both."""
    messages = [said("user", "Go on with the mail.")]
    for i in range(30):
        messages += edit(i, f"src/part_{i}.py", new=f"def new_{i}(): ...")
        messages += run(100 + i, f"look {i}", "fine")
        messages += [said("assistant", f"The harbour of pier {i} has {i} lamps and is open today.")]
        messages += [said("user", f"And then the ropes of pier {i + 1}, please.", id=f"m{i}")]
    told = {
        x: section(summary(messages, "assistant", 700, strategy=x), "Story") for x in STRATEGIES
    }
    wrote = {x: text.count("wrote part_") for x, text in told.items()}
    talk = {x: text.count("lamps") + text.count("- User") for x, text in told.items()}
    assert wrote["code_delta"] > wrote["task_state"]
    assert talk["code_delta"] < talk["task_state"]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_any_two_go_together(mode: str, strategy: str) -> None:
    """FR-12, K-5: within the cap, whatever is asked for."""
    assert 0 < COUNTER.text(of_sample(mode, 1_000, strategy)) <= 1_000


@cache
def of_session(strategy: Strategy, window: int = 8_192) -> str:
    """What checkpoints and record of a session say."""
    ctx = ContextManager(window=window, tokenizer="o200k", policy=CompactPolicy(strategy=strategy))
    for i in range(window // 80):
        ctx.add_messages([m.model_copy(update={"id": f"{i}-{n}"}) for n, m in enumerate(turn(i))])
    shown = ctx.active_context().messages
    return "\n".join(m.text for m in shown if m.metadata.source == "checkpoint")


def test_a_session_is_told_by_its_strategy() -> None:
    """K-5: record and checkpoints; nothing that a brief leaves out comes back beside it."""
    told = {strategy: of_session(strategy) for strategy in STRATEGIES}
    assert len(set(told.values())) == 4
    assert COUNTER.text(told["brief"]) < 0.7 * COUNTER.text(told["task_state"])
    assert "## Names" not in told["brief"]
    wrote = {x: text.count("wrote part_") for x, text in told.items()}
    assert wrote["code_delta"] > wrote["task_state"]
    said_ = {x: text.count("- User: ") for x, text in told.items()}
    assert said_["decision_log"] > said_["code_delta"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_small_session_is_told_something_of_its_past(strategy: Strategy) -> None:
    """K-5: whatever a strategy dwells on; and what is said to stand in the record stands there."""
    told = of_session(strategy, 4_096)
    assert "- User: Mend part" in told or "Did: " in told
    assert "record below" not in told or "## Story" in told
