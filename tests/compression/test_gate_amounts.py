"""Amounts in a summary: what nobody said is marked, what was said is known (FR-6, idea 7)."""

import pytest

from compact.compression.gate.rules import judge
from compact.core.checkpoints import REFERENCE_LINE, Summary
from compact.core.tokens import TokenCounter
from compact.providers.tokenizers import tokenizer
from tests.compression.test_gate import COUNTER, GOOD, TALK, asked, broken, detail, judged, said
from tests.compression.test_gate_room import ORDERS, RULES, at_its_cap

TIMED = [*TALK, said("tool", "took 48,317 ms, 973.16 MB; 2741 passed, 1236 ms each")]


@pytest.mark.parametrize(
    "amount", ["48,217 ms", "873.1 MB", "2,641 tests", "1,337 lines", "61.75 %"]
)
def test_an_amount_that_nobody_said_is_marked(amount):
    """A number with its unit that stands nowhere misleads as a path does (FR-6)."""
    done = judged(f"{GOOD}\n- It came to {amount} in the end.", asked(TIMED))
    assert done.accepted
    assert f"- It came to {amount} in the end. (not in the source: {amount})" in done.summary.text
    assert "1 amounts are not in the source" in detail(done, "hallucinated")
    assert judged(done.summary.text, asked(TIMED)).summary.text.count("not in the source") == 1


@pytest.mark.parametrize(
    "amount",
    ["48317 ms", "973.2 MB", "2,741 tests", "1.24 s", "1.23 s", "7 files", "99 %", "48.3 s"],
)
def test_an_amount_that_was_said_is_known_in_any_writing(amount):
    """Parted otherwise, rounded, in another unit; small ones are counted by whoever writes."""
    done = judged(f"{GOOD}\n- It came to {amount} in the end.", asked(TIMED))
    assert "hallucinated" not in broken(done)


@pytest.mark.parametrize(
    ("spoken", "written"),
    [
        ("Let it wait 0.5 s.", "500 ms"),
        ("sleep(0.5)", "500 ms"),
        ("It took 0,75 s.", "750 milliseconds"),
        ("It may take 250ms.", "0.25 s"),
        ("It ran for 2.5 hours.", "150 minutes"),
        ("It ran for 4,500 s.", "1.250 hours"),
        ("It ran for 10 minutes.", "600 seconds"),
        ("It holds 1.5 MB.", "1,500 kB"),
        ("It holds 2 KiB.", "2048 bytes"),
    ],
)
def test_an_amount_is_known_in_another_unit(spoken, written):
    """Who turns seconds into milliseconds has invented nothing; without that it is marked."""
    line = f"{GOOD}\n- It came to {written} in the end."
    assert "hallucinated" not in broken(judged(line, asked([*TALK, said("user", spoken)])))
    assert "hallucinated" in broken(judged(line, asked([*TALK, said("user", "Let it wait 7 s.")])))


@pytest.mark.parametrize("share", ["100%", "100 %", "100.0%", "100,00 %"])
def test_all_of_it_is_no_amount(share):
    """A model says it where the source says that all tests pass."""
    done = judged(f"{GOOD}\n- {share} of the tests pass now.")
    assert "hallucinated" not in broken(done)
    assert "hallucinated" in broken(judged(f"{GOOD}\n- 150% of the tests pass now."))


@pytest.mark.parametrize("number", ["7" * 5_000, "7," * 5_000 + "7", "7." * 5_000 + "7"])
def test_a_number_without_end_is_judged(number):
    """Whatever was written is judged; so many digits are no amount."""
    done = judged(f"{GOOD}\n- It took {number} tokens.", asked(max_tokens=20_000))
    assert "hallucinated" not in broken(done)


def test_an_amount_never_costs_its_line():
    """Where the mark finds no room the line stays; a path that nobody can find goes then."""
    amount, path = "- The login has 250 tests now.", "- The rest is in lib/odd/thing.go."
    whole = f"{REFERENCE_LINE}\n\n{RULES}\n\n## Done\n{ORDERS[0]}\n{{}}"
    done = at_its_cap(whole.format(amount))
    assert done.accepted, done.verdicts
    assert "hallucinated" in broken(done)
    assert amount in done.summary.text.split("\n")
    assert path not in at_its_cap(whole.format(path)).summary.text
    for line in (amount, path):
        assert f"{line} (not in the source: " in judged(whole.format(line)).summary.text


class Counting(TokenCounter):
    """Tells how often it counted a text."""

    times = 0

    def text(self, text: str) -> int:
        self.times += 1
        return super().text(text)


@pytest.mark.parametrize("spare", [0, 100, 5_000])
def test_marks_cost_little(spare):
    """The whole text is not counted for each line that is marked."""
    lines = [f"- Step {number} took {number}17 ms." for number in range(10, 210)]
    whole = f"{REFERENCE_LINE}\n\n{RULES}\n\n## Done\n" + "\n".join(lines)
    counter = Counting(tokenizer("o200k"))
    request = asked(max_tokens=COUNTER.text(whole) + spare)
    done = judge(Summary(text=whole, made_by="model"), request, counter, source_tokens=99_000)
    assert "200 amounts" in detail(done, "hallucinated")
    assert (done.summary.text.count("not in the source") > 0) == (spare > 0)
    assert counter.times < 100
