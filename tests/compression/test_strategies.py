"""What a strategy changes where no model writes (K-5)."""

import pytest

from compact import CompactPolicy, ContextManager, plan
from compact.core.modes import MODES, emphasis_of
from compact.core.outline import PLAIN, STRATEGIES, TITLES
from tests.compression.saying import COUNTER, edit, run, said, section
from tests.compression.test_modes import of_sample, summary

DWELLING = ("brief", "decision_log", "code_delta")


def test_every_strategy_has_a_line_of_the_table():
    """K-5: and what is not known gives what there is without one."""
    assert tuple(STRATEGIES) == ("task_state", *DWELLING)
    assert emphasis_of("assistant", "task_state") == emphasis_of("x", "y") == PLAIN
    for emphasis in STRATEGIES.values():
        assert set(emphasis.sections) <= set(TITLES)
    both = emphasis_of("debugger", "code_delta")
    assert both.of("Errors") == 3.0
    assert both.of("Files") == 2.0
    assert both.attempts


@pytest.mark.slow
@pytest.mark.parametrize("cap", [600, 2_000, 6_000])
def test_strategies_differ_as_their_names_say(cap):
    """K-5: a brief lists no names; a log of decisions tells more of them, a delta of
    code more files; rules stay in all.
    """
    told = {x: of_sample("assistant", cap, x) for x in STRATEGIES}
    assert len(set(told.values())) == 4
    assert max(map(COUNTER.text, told.values())) <= cap
    for title in ("Names", "Commands", "Errors"):
        assert not section(told["brief"], title)

    def lines(strategy, title):
        return len(section(told[strategy], title).splitlines())

    assert all(lines(x, "Rules") for x in STRATEGIES)
    assert lines("decision_log", "Decisions") >= lines("task_state", "Decisions")
    assert not section(told["decision_log"], "Names")


def test_a_brief_is_short():
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


def test_a_delta_of_code_tells_what_was_written_before_what_was_said():
    """K-5: where there is not room for both."""
    messages = [said("user", "Go on with the mail.")]
    for i in range(30):
        messages += edit(
            i, f"src/part_{i}.py", old=f"def old_{i}(): ...", new=f"def new_{i}(): ..."
        )
        messages += run(100 + i, f"look {i}", "fine")
        messages += [said("assistant", f"The harbour of pier {i} has {i} lamps and is open today.")]
        messages += [said("user", f"And then pier {i + 1}, please.")]
    told = {x: summary(messages, "assistant", 700, strategy=x) for x in STRATEGIES}
    files = {x: sum(f"part_{i}.py" in text for i in range(30)) for x, text in told.items()}
    talk = {x: text.count("lamps") for x, text in told.items()}
    assert files["code_delta"] > files["task_state"] > 0
    assert talk["code_delta"] < talk["task_state"]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_any_two_go_together(mode, strategy):
    """FR-12, K-5: within the cap, whatever is asked for."""
    assert 0 < COUNTER.text(of_sample(mode, 1_000, strategy)) <= 1_000


def test_a_session_is_told_by_its_strategy():
    """K-5: record and stories, also of a session that was loaded at once."""
    told = {}
    for strategy in STRATEGIES:
        ctx = ContextManager(
            window=4_096, tokenizer="o200k", policy=CompactPolicy(strategy=strategy)
        )
        for i in range(60):
            ctx.add_messages(
                [m.model_copy(update={"id": f"{i}-{n}"}) for n, m in enumerate(turn(i))]
            )
        shown = ctx.active_context().messages
        told[strategy] = "\n".join(m.text for m in shown if m.metadata.source == "checkpoint")
    assert len(set(told.values())) == 4
    assert COUNTER.text(told["brief"]) < 0.7 * COUNTER.text(told["task_state"])
    decisions = {x: len(section(text, "Decisions").splitlines()) for x, text in told.items()}
    assert decisions["decision_log"] > decisions["task_state"]


def turn(i):
    return [
        said("user", f"Mend part {i} of the pier, and tell me what you find there."),
        *edit(i, f"src/part_{i}.py", new=f"def mended_{i}(): ..."),
        *run(1_000 + i, f"pytest tests/part_{i}.py", "3 passed"),
        said("assistant", f"We decided to use slate {i} instead of tin for part {i}."),
    ]
