"""The invariants of compression on generated histories, in both wire forms, at windows of 300 to
128,000 tokens.

Histories come from `tests.strategies`, the judges from `tests.engine.judging`, the counts and
the providers' rules from
`tests.checker`; none of them shares code with the product.
"""

import json
import os
import random
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compact import compress, plan
from compact.errors import CannotFit
from tests import checker, strategies
from tests.engine import judging
from tests.engine.judging import TOKENIZER, Case, judged
from tests.sizes import size

SLOW_INPUT = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
quick = settings(max_examples=size(20, 120), deadline=None, suppress_health_check=SLOW_INPUT)
long = settings(max_examples=size(60, 3_000), deadline=None, suppress_health_check=SLOW_INPUT)
HISTORIES = size(30, 150)
FILLED = 0.9
FAIR = 1.5
"""A history exceeds a window by a fair margin when it has so many times its tokens."""


def case_of(made: strategies.Generated, window: int) -> Case:
    return Case.of(
        made.wire, made.messages, window, persons=made.persons, pinned=made.pinned, valid=made.valid
    )


def holds(made: strategies.Generated, window: int) -> None:
    untouched = deepcopy(made.messages)
    case = case_of(made, window)
    assert judged(case) == []
    assert made.messages == untouched


@st.composite
def cases(draw: st.DrawFn, history: st.SearchStrategy) -> tuple[strategies.Generated, int]:
    made = draw(history)
    return made, draw(strategies.windows(checker.prompt_tokens(made.messages)))


@pytest.mark.slow
@quick
@given(cases(strategies.ordinary()))
def test_what_applications_send(case):
    """K-4, C-3, C-7, FR-3, FR-8: every judge agrees on histories that a working application
    sends."""
    holds(*case)


@pytest.mark.slow
@quick
@given(cases(strategies.wild()))
def test_whatever_is_left_behind(case):
    """K-4, C-3, C-7, FR-3, FR-8: and on histories with everything in them that crashed tools and
    odd clients leave."""
    holds(*case)


@pytest.mark.slow
@long
@given(cases(strategies.wild() | strategies.ordinary()))
def test_many_histories(case):
    """K-4, K-13: the same on thousands of them."""
    holds(*case)


def filled(made: strategies.Generated, window: int) -> float | None:
    """The share of the window that is used; None where the promise does not apply."""
    total = checker.prompt_tokens(made.messages)
    if total < FAIR * window:
        return None
    try:
        done = plan(made.messages, max_tokens=window, tokenizer=TOKENIZER, format=made.wire)
    except CannotFit:
        return None
    return done.tokens_after / window


def ordinary_history(seed: int) -> strategies.Generated:
    """A history of plain texts from a seed: without images and long arguments, which are not
    clipped to measure."""
    w = strategies.Writer(strategies.WIRES[seed % 2], seed, strategies.ORDINARY)
    unclipped = (strategies.long_arguments, strategies.rich_parts)
    events = [e for e in strategies.ORDINARY_EVENTS if e not in unclipped]
    w.system(strategies.prose(w.r, 30))
    w.person(strategies.prose(w.r, 12))
    for _ in range(w.r.randint(3, 14)):
        w.r.choice(events)(w, w.r.choice(strategies.SIZES[:6]))
    return w.made


@pytest.mark.slow
@pytest.mark.parametrize(("window", "rare"), [(1_000, 0.06), (2_000, 0.04), (8_000, 0.0)])
def test_the_window_is_used(window, rare, capsys):
    """C-6: 90 % of the ceiling is used where an ordinary history has half as much again, or more.

    Where it may not hold: windows below 1,000; a group at the cut that cannot be clipped to
    measure (images, long call
    arguments, parallel results in less room than a line for each). How rare that is, is measured.
    """
    shares = shares_of(window)
    low = {seed: round(share, 2) for seed, share in shares.items() if share < FILLED}
    with capsys.disabled():
        print(
            f"\n  window {window}: {len(shares)} histories, "
            f"least {min(shares.values()):.2f}, below 90 %: {low}"
        )
    assert len(low) <= rare * len(shares)
    assert min(shares.values()) > 0.6


@pytest.mark.slow
def test_small_windows_are_used_fairly(capsys):
    """C-6: at 300 and 500 tokens half of the room is used nearly always, on average more than 85
    %."""
    for window in (300, 500):
        shares = sorted(shares_of(window).values())
        mean = sum(shares) / len(shares)
        with capsys.disabled():
            print(
                f"\n  window {window}: {len(shares)} histories, mean {mean:.2f}, least {shares[:3]}"
            )
        assert mean > 0.85
        assert shares[len(shares) // 20] > 0.5


def shares_of(window: int) -> dict[int, float]:
    """Seeds of ordinary histories, and the share of the window that each uses."""
    shares = ((seed, filled(ordinary_history(seed), window)) for seed in range(HISTORIES))
    return {seed: share for seed, share in shares if share is not None}


# --- single histories worth naming ---

USER = {"role": "user", "content": "Please go on."}


def chat(*messages: dict) -> strategies.Generated:
    persons = [i for i, m in enumerate(messages) if m["role"] == "user"]
    return strategies.Generated("chat_completions", list(messages), persons)


def test_what_was_said_last_leaves_a_checkpoint_its_least_room():
    """C-6: a large request, and after it a few words: both and a checkpoint do not fit."""
    history = chat(
        {"role": "user", "content": strategies.prose(random.Random(1), 300)},
        {"role": "assistant", "content": strategies.prose(random.Random(2), 300)},
        {"role": "user", "content": strategies.prose(random.Random(3), 400)},
        {"role": "assistant", "content": strategies.prose(random.Random(4), 12)},
    )
    floor = checker.prompt_tokens(history.messages[2:3])
    for beside in range(60, 160, 6):
        holds(history, floor + beside)


def call(*ids: str) -> dict:
    made = [
        {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(call_id: str, text: str = "fine") -> dict:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


LONG = strategies.prose(random.Random(1), 3_000)

SINGLE = {
    "nothing at all": [],
    "system only": [{"role": "system", "content": "Be brief."}],
    "an assistant only": [{"role": "assistant", "content": LONG}] * 5,
    "one empty message": [{"role": "user", "content": ""}],
    "tool first": [result("gone", LONG), USER],
    "a call that crashed in the middle": [
        USER,
        call("a"),
        USER,
        {"role": "assistant", "content": LONG},
        USER,
    ],
    "a call that waits at the end": [USER, {"role": "assistant", "content": LONG}, USER, call("a")],
    "half of the parallel calls answered": [USER, call("a", "b", "c"), result("b", LONG), USER],
    "a result given twice": [USER, call("a"), result("a", LONG), result("a"), USER],
    "a result given twice among parallel ones": [
        USER,
        call("a", "b"),
        result("a"),
        result("a"),
        result("b", LONG),
        USER,
    ],
    "an id used again": [USER, *[call("a"), result("a", LONG)] * 4, USER],
    "the same words a hundred times": [USER, {"role": "assistant", "content": "Done."}] * 100
    + [USER],
    "one huge word": [USER, {"role": "assistant", "content": "x" * 200_000}, USER],
    "lone surrogates": [USER, {"role": "assistant", "content": "\ud83d " * 5_000}, USER],
}


@pytest.mark.parametrize("window", [300, 1_000, 4_000])
@pytest.mark.parametrize("name", SINGLE)
def test_a_history_worth_naming(name, window):
    """K-4, FR-3: dead calls, double results, lone tools, one huge word: every judge agrees."""
    made = chat(*SINGLE[name])
    made.valid = not checker.broken_rules(made.messages, made.wire)
    holds(made, window)


@pytest.mark.slow
def test_a_tool_result_of_five_megabytes():
    """FR-3, NFR-1: fits like any other, whether it is the newest message or an old one."""
    huge = strategies.log(random.Random(3), 1_000_000)[:5_000_000]
    assert len(huge) == 5_000_000
    holds(chat(USER, call("a"), result("a", huge)), 4_000)
    holds(
        chat(USER, call("a"), result("a", huge), {"role": "assistant", "content": "Seen."}, USER),
        4_000,
    )


def test_a_person_may_type_our_heading():
    """K-6: a typed checkpoint heading is a person's words, and stays as such."""
    typed = strategies.headings(random.Random(2), 40)
    made = chat(USER, {"role": "assistant", "content": LONG}, {"role": "user", "content": typed})
    holds(made, 600)


def test_a_pin_draws_no_foreign_result_into_the_floor():
    """FR-3: a result that answers nothing is not protected by the pinned words that it follows."""
    pin = {"role": "assistant", "content": "Keep this.", "metadata": {"pinned": True}}
    made = chat(USER, pin, result("gone", LONG))
    made.pinned, made.valid = [1], False
    holds(made, 600)
    assert pin in compress(made.messages, max_tokens=600, tokenizer=TOKENIZER)


def test_cannot_fit_says_what_is_too_large():
    """FR-3: the one legitimate error shows each part of the floor, and nothing was changed."""
    messages = [{"role": "system", "content": LONG}, USER]
    with pytest.raises(CannotFit) as caught:
        compress(messages, max_tokens=2_000, tokenizer=TOKENIZER)
    assert caught.value.limit == 2_000
    assert caught.value.floor["system prompt"] >= checker.tokens(LONG)
    assert f"{caught.value.floor['system prompt']:,}" in str(caught.value)
    assert messages == [{"role": "system", "content": LONG}, USER]


@pytest.mark.slow
def test_the_same_bytes_in_every_process(tmp_path):
    """K-5: the order of sets and hashes, which differs from process to process, decides nothing."""
    made = ordinary_history(8)
    source = tmp_path / "history.json"
    source.write_text(json.dumps(made.messages))
    program = (
        "import json, sys; from compact import compress; messages = json.load(open(sys.argv[1]));"
        "done = compress(messages, max_tokens=2000, tokenizer='o200k', format=sys.argv[2],"
        " key=b'a key of this test');"
        "print(json.dumps(done))"
    )
    paths = os.pathsep.join([str(Path(__file__).resolve().parents[2] / "src"), *sys.path])
    outputs = set()
    for seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        command = [sys.executable, "-c", program, str(source), made.wire]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert "[Checkpoint ck-" in outputs.pop()


# --- each judge is seen to find ---


def a_case() -> Case:
    made = ordinary_history(8)
    w = strategies.Writer(made.wire, 1, strategies.ORDINARY)
    strategies.tool_step(w, 8)
    made.messages += w.made.messages
    case = case_of(made, 2_000)
    assert case.plan is not None
    assert case.plan.covered
    assert judged(case) == []
    case.after = list(deepcopy(case.after))
    return case


def too_large(case: Case) -> None:
    case.window = case.plan.tokens_after - 1  # type: ignore[union-attr]


def without_a_result(case: Case) -> None:
    tool = next(i for i, m in enumerate(case.after) if judging._answers(m))
    del case.after[tool]  # type: ignore[attr-defined]


def without_the_system_prompt(case: Case) -> None:
    del case.after[0]  # type: ignore[attr-defined]


def without_the_newest_words(case: Case) -> None:
    case.after = [m for m in case.after if m != case.before[case.persons[-1]]]


def turned_round(case: Case) -> None:
    case.after = case.after[::-1]


def with_a_message_twice(case: Case) -> None:
    case.after = [*case.after, case.before[-1]]


def with_an_invention(case: Case) -> None:
    case.after = [*case.after, {"role": "assistant", "content": "I never said this."}]


def with_more_than_fits(case: Case) -> None:
    case.after = case.sent = list(case.before)


BROKEN = {
    too_large: "fits",
    without_a_result: "provider_would_take_it",
    without_the_system_prompt: "protected_stays",
    without_the_newest_words: "protected_stays",
    turned_round: "order_stays",
    with_a_message_twice: "nothing_is_lost_or_doubled",
    with_an_invention: "everything_shown_was_said",
    with_more_than_fits: "compressing_again_changes_nothing",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("spoil", "judge"), BROKEN.items(), ids=lambda x: getattr(x, "__name__", x)
)
def test_the_judge_sees(spoil, judge):
    """K-13: each judge is seen to find what it is there for."""
    case = a_case()
    spoil(case)
    assert any(said.startswith(judge) for said in judged(case)), judged(case)


@pytest.mark.slow
def test_an_unjust_error_is_seen():
    """FR-3: the judge of the one legitimate error knows when it is not."""
    case = a_case()
    case.plan = None
    assert judged(case)
    case.window = 100
    assert judged(case) == []
