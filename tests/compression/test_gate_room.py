"""The gate beside a summary that fills its cap: what must be in it takes the room of its least
worthy lines, and what is left is judged anew (FR-6, FR-8, C-8)."""

import pytest

from compact.compression.gate import instructions, matter, room
from compact.compression.gate.rules import Judged, judge
from compact.core.checkpoints import REFERENCE_LINE, Summary, SummaryRequest
from tests.compression.test_gate import COUNTER, SUBJECTS, TALK, asked, broken, detail, judged, said
from tests.compression.test_gate_attacks import NO_CARDS, TUESDAYS
from tests.compression.test_gate_models import SPOKE, TASK

RULES = f"## Instructions\n- {NO_CARDS}\n- {TUESDAYS}"
DECIDED = "- The parser asks the index before it writes, which was decided."
NAMED = "- src/app/parser_mail.py keeps its order."
PLAIN = [f"- The order of the {word} page is kept now." for word in ("mail", "index", "cache")]
FACTS = "\n".join((*PLAIN, NAMED, "- The report keeps the order of the schedule."))
ORDERS = [
    f"- The {a} of the {b} now keeps its {b} order." for a in SUBJECTS for b in SUBJECTS if a != b
]
FULL = f"{REFERENCE_LINE}\n\n## Decisions\n{DECIDED}\n\n## Facts\n{FACTS}"


def at_its_cap(text: str, request: SummaryRequest | None = None) -> Judged:
    """Judged with the tokens that the text has as its cap."""
    request = request or asked()
    tight = request.model_copy(
        update={"max_tokens": COUNTER.text(text), "max_instruction_tokens": 200}
    )
    return judge(Summary(text=text, made_by="model"), tight, COUNTER, source_tokens=9_000)


def test_a_rule_takes_the_room_of_the_least_worthy_lines():
    """Facts go before decisions, what names nothing before what names something, the last first;
    whole lines, no more than must, and the detail says so."""
    done = at_its_cap(FULL)
    text = done.summary.text
    assert done.accepted, done.verdicts
    assert COUNTER.text(text) <= COUNTER.text(FULL)
    assert f"- {NO_CARDS}" in text
    assert DECIDED in text
    assert NAMED in text
    left = [line for line in FACTS.split("\n") if line in text.split("\n")]
    assert left == [*PLAIN[: len(left) - 1], NAMED]
    assert 1 < len(left) < 5
    assert detail(done, "instructions").endswith(room.CUT)
    assert judged(text).rejected_by == ()


def test_a_dropped_task_takes_it_as_well():
    """An open task is worth more than a fact (issue 4, goals)."""
    whole = f"{FULL}\n\n{RULES}"
    done = at_its_cap(whole, asked(SPOKE, open_tasks=(TASK,)))
    assert done.accepted, done.verdicts
    assert f"## Open\n- {TASK}" in done.summary.text
    assert RULES in done.summary.text
    assert detail(done, "tasks").endswith(room.CUT)


def test_names_take_it_until_enough_are_in_view():
    """Half of the names that are asked for; prose makes room for no more of them (idea 6)."""
    lines = "\n".join(ORDERS[:40])
    whole = f"{FULL}\n{lines}\n\n{RULES}"
    done = at_its_cap(whole)
    assert done.accepted, done.verdicts
    assert "anchors" in broken(done)
    assert RULES in done.summary.text
    assert NAMED in done.summary.text
    asked_for = COUNTER.text(whole) // 40
    assert asked_for / 2 <= 1 + len(done.summary.anchors) <= asked_for / 2 + 3


def test_what_tells_of_a_rule_or_a_task_never_goes():
    """However little it would be worth by its section, and wherever it stands."""
    needed = ["- We ship on Tuesdays only.", f"- Next: {TASK.lower()}."]
    whole = FULL + "\n" + "\n".join(needed)
    done = at_its_cap(whole, asked(SPOKE, open_tasks=(TASK,)))
    assert done.accepted, done.verdicts
    assert f"- {NO_CARDS}" in done.summary.text
    assert TUESDAYS not in done.summary.text
    assert all(line in done.summary.text for line in needed)


def test_the_last_line_below_a_heading_stays():
    """A section is not emptied; what finds no room then is not made to fit."""
    whole = f"{REFERENCE_LINE}\n\n" + "\n\n".join(
        f"## {title}\n{line}"
        for title, line in zip(("Done", "Facts", "Errors"), PLAIN, strict=True)
    )
    assert "instructions" in at_its_cap(whole).rejected_by


def test_what_is_indented_goes_with_its_line():
    """A part of a line is none."""
    whole = FULL.replace("of the schedule.", "of the schedule.\n  - and of the login\n  - and all")
    text = at_its_cap(whole).summary.text
    assert "of the schedule" not in text
    assert "and of the login" not in text


def test_most_of_it_is_not_given_up():
    """More than the half is no repair: the extractive summary stands in."""
    whole = f"{REFERENCE_LINE}\n\n## Facts\n" + "\n".join(ORDERS[:8])
    open_tasks = tuple(f"Write the migration of table {number}" for number in range(7))
    talk = [*TALK[1:], *(said("assistant", f"Next: {task}.") for task in open_tasks)]
    assert at_its_cap(whole, asked(talk, open_tasks=open_tasks[:4])).accepted
    assert at_its_cap(whole, asked(talk, open_tasks=open_tasks)).rejected_by == ("tasks",)


def test_what_was_written_too_long_is_not_made_to_fit():
    """Who writes more than was asked for is refused with or without a rule (FR-6)."""
    tokens = COUNTER.text(FULL) - 2
    assert not judged(FULL, asked(max_tokens=tokens)).accepted


def test_what_is_left_is_judged_anew():
    """Other lines beside a copy must not have hidden it, nor names that code put in; the verdict
    says it."""
    row = "Row {} of the schedule keeps the order that the index of the page gave."
    page = [row.format(number) for number in range(24)]
    request = asked([*TALK, said("assistant", "\n".join(page))], max_tokens=4_000)
    copied, lines = "- " + " ".join(page), "\n".join(ORDERS[:30])
    whole = f"{REFERENCE_LINE}\n\n## Decisions\n{copied}\n\n## Facts\n{NAMED}\n{lines}"
    made = Summary(text=whole, made_by="model")
    assert judge(made, request, COUNTER, source_tokens=9_000).accepted
    done = at_its_cap(whole, request)
    assert done.rejected_by == ("echo",)
    assert detail(done, "echo").startswith("5")


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_a_broken_off_summary_is_shortened_like_any_other(finish):
    """Its unfinished line is taken out once, and no other for that."""
    request = asked(max_tokens=COUNTER.text(FULL))
    made = Summary(text=FULL, made_by="model", finish=finish)
    request = request.model_copy(update={"max_instruction_tokens": 200})
    done = judge(made, request, COUNTER, source_tokens=9_000)
    assert done.accepted, done.verdicts
    assert done.summary.finish == finish


# --- what only one line tells ---------------------------------------------------------------------

CHECK = "Always run the tests with `make check` before you commit."
PLAN = "Split src/app/berths.py into two modules"


def test_a_list_keeps_the_line_that_tells_of_a_rule():
    """Code cannot make that one again (C-8)."""
    talk = [said("user", f"Build the booking page. {NO_CARDS} {CHECK}"), *TALK[1:]]
    lines = "\n".join(ORDERS[:10])
    whole = f"{REFERENCE_LINE}\n\n## Done\n{lines}\n\n## Commands\n- make all\n- {CHECK}"
    done = at_its_cap(whole, asked(talk))
    assert done.accepted, done.verdicts
    assert f"## Commands\n- {CHECK}" in done.summary.text
    assert "make all" not in done.summary.text
    assert NO_CARDS in done.summary.text


def test_a_list_keeps_the_line_that_tells_of_an_open_task():
    """Nor that one (issue 4, goals)."""
    talk = [*TALK, said("assistant", f"Next: {PLAN}.")]
    lines = "\n".join(ORDERS[:10])
    whole = f"{REFERENCE_LINE}\n\n## Done\n{lines}\n\n## Files\n- a/b.py: new\n- to do: {PLAN}"
    done = at_its_cap(whole, asked(talk, open_tasks=(PLAN,)))
    assert done.accepted, done.verdicts
    assert f"## Files\n- to do: {PLAN}" in done.summary.text
    assert "a/b.py" not in done.summary.text


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        (f"- Store card numbers, then {TASK.lower()}.", f"## Open\n- {TASK}"),
        ("- Store card numbers; we only ship on Tuesdays.", f"- {TUESDAYS}"),
    ],
)
def test_a_line_that_goes_for_its_mark_takes_nothing_else_along(line, lost):
    """What only that line told is put in again, a task or a rule (C-8)."""
    lines = "\n".join(ORDERS[:6])
    rules = f"## Instructions\n- {NO_CARDS}" + (f"\n- {TUESDAYS}" if TASK in lost else "")
    whole = f"{REFERENCE_LINE}\n\n## Facts\n{lines}\n{line}\n\n{rules}"
    done = at_its_cap(whole, asked(SPOKE, open_tasks=(TASK,) if TASK in lost else ()))
    assert done.accepted, done.verdicts
    assert "store card numbers," not in done.summary.text.lower()
    assert lost in done.summary.text


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("- Always store card numbers", "instructions"),
        (f"- Done: {TASK.lower()}", "tasks"),
        ("- It stands in lib/odd/thing.go", "hallucinated"),
    ],
)
def test_a_summary_of_one_line_that_goes_is_none(line, rule):
    """Where there was no room to mark it, what code put in for it is no summary (FR-6)."""
    talk = [said("user", f"Build the booking page. {NO_CARDS}"), *SPOKE[1:]]
    request = asked(talk if rule == "instructions" else talk[1:], open_tasks=(TASK,))
    request = request if rule == "tasks" else request.model_copy(update={"open_tasks": ()})
    done = at_its_cap(f"## Facts\n{line}" + ", and then some more" * 6, request)
    assert rule in broken(done)
    assert line not in done.summary.text
    assert not done.accepted


# --- whole lines ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "item",
    [
        "- The report keeps, since it was moved behind the schedule and\nbefore the login, the "
        "order that the index of the page had given to it when\nall were written for the mail.",
        "The report keeps, since it was moved behind the schedule and\nbefore the login, the "
        "order that the index of the page had given to it when\nall were written for the mail.",
        "- It runs with:\n```\nschedule --all\n\n## all of it\nreport\n```",
        "It runs with all of these, one behind the other:\n```\nschedule and the report of it\n"
        "- report of the schedule, in its order\n\nindex, and all of the login behind it\n```",
    ],
)
def test_what_goes_on_below_its_line_goes_with_it(item):
    """No half of a sentence stays, nor of a block of code."""
    whole = FULL.replace("- The report keeps the order of the schedule.", item)
    done = at_its_cap(whole)
    assert done.accepted, done.verdicts
    left = (set(item.split("\n")) - {""}) & set(done.summary.text.split("\n"))
    assert not left or item in done.summary.text


def test_a_fence_that_is_never_closed_opens_none():
    """Or all that follows would be one piece."""
    whole = FULL.replace(PLAIN[0], "- It runs with:\n```\nmake all")
    done = at_its_cap(whole)
    assert done.accepted, done.verdicts


def test_what_is_larger_than_the_half_stays_where_small_lines_will_do():
    """However little it is worth (FR-6)."""
    story = "- The work went on with the pages. " + " ".join(order[2:] for order in ORDERS[:9])
    small = "\n".join(f"- The {word} page is kept, and so is its row." for word in SUBJECTS[:6])
    whole = f"{REFERENCE_LINE}\n\n## Done\n{small}\n\n## Facts\n- The page works.\n{story}\n{NAMED}"
    assert len(story) > len(whole) / 2
    done = at_its_cap(whole)
    assert done.accepted, done.verdicts
    assert story in done.summary.text
    assert NO_CARDS in done.summary.text


# --- how much may go ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(6, 24))
def test_tasks_and_rules_together_take_no_more_than_the_half(count):
    """Of what was written, whichever rules took it (FR-6)."""
    more = "Never log the passwords of guests in any file. Always ask before you delete a berth."
    open_tasks = tuple(f"Write the migration of table {number}" for number in range(4))
    talk = [
        said("user", f"{TALK[0].text} {more}"),
        *TALK[1:],
        *(said("assistant", f"Next: {task}.") for task in open_tasks),
    ]
    whole = f"{REFERENCE_LINE}\n\n## Facts\n" + "\n".join(ORDERS[:count])
    for most in range(1, 5):
        done = at_its_cap(whole, asked(talk, open_tasks=open_tasks[:most]))
        left = [line for line in done.summary.text.split("\n") if line in whole.split("\n")]
        assert not done.accepted or len("\n".join(left)) >= len(whole) / 2


def test_marked_lines_are_their_makers():
    """A mark behind a line does not make it ours (FR-6)."""
    lines = [
        f"- The {a} of the {b} was moved behind the {c}, and 250 tests pass."
        for a, b, c in zip(SUBJECTS, SUBJECTS[1:], SUBJECTS[2:], strict=False)
    ]
    whole = f"{REFERENCE_LINE}\n\n## Done\n" + "\n".join(lines) + "\n- Fine."
    for spare in range(0, 200, 10):
        request = asked(max_tokens=COUNTER.text(whole) + spare)
        request = request.model_copy(update={"max_instruction_tokens": 200})
        done = judge(Summary(text=whole, made_by="m"), request, COUNTER, source_tokens=9_000)
        assert done.accepted, (spare, done.verdicts)


def test_looking_for_room_costs_little(monkeypatch):
    """Lines and rules are cut up once each, not once for each other."""
    cut_up = list[str]()

    def telling(text: str) -> frozenset[str]:
        cut_up.append(text)
        return matter.telling(text)

    monkeypatch.setattr(instructions, "telling", telling)
    rules = [f"Never touch the {word} of week {n} again." for n, word in enumerate(SUBJECTS)]
    talk = [*TALK, *(said("user", rule) for rule in rules)]
    lines = ORDERS[:50]
    at_its_cap(f"{REFERENCE_LINE}\n\n## Facts\n" + "\n".join(lines), asked(talk))
    assert len(cut_up) < 12 * (len(lines) + len(rules))
