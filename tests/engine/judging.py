"""The invariants of compression, each a judge of its own over one case; what they say is empty
where all is well.

A case is a history, a window, and what compression made of it. Judges look at provider
dictionaries through
`tests.checker`, which shares no code with the product.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from compact import compress, plan
from compact.engine.plan import Plan
from compact.errors import CannotFit
from compact.messages.characters import all_carried
from compact.messages.formats.known import format_named
from tests import checker

Dict = dict[str, Any]
TOKENIZER = "o200k"
MARGIN = 256
"""Tokens beside the floor below which even a good compression may say that it cannot fit."""
STUB = 300
"""Tokens that a masked result, or a call whose arguments were clipped, may still have."""
THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details")
"""Fields of a message that hold what a model thought."""
TEXTS = ("content", "tool_calls", "arguments", "input", "output")
SHORTENED = ("tokens left out; the whole text is", " masked \\u00b7 ", "more characters]")
"""What shortened texts say of themselves, as `checker.freeze` writes it."""
PICTURE = {"chat_completions": 425, "anthropic": 410}
"""Tokens of the generated picture of 640 by 480: 85 + 2 × 170 (OpenAI), 640 × 480 / 750
(Anthropic)."""


@dataclass(slots=True)
class Case:
    """A history of provider dictionaries, and what became of it in a window."""

    wire: str
    before: Sequence[Dict]
    window: int
    persons: Sequence[int] = ()
    pinned: Sequence[int] = ()
    valid: bool = True
    plan: Plan | None = None
    """None where it could not fit."""
    floor: Mapping[str, int] = field(default_factory=dict)
    after: Sequence[Dict] = ()
    """Each message as the history keeps it."""
    sent: Sequence[Dict] = ()
    """As they go out: neighbours of one role are one message."""

    @classmethod
    def of(cls, wire: str, before: Sequence[Dict], window: int, **known: Any) -> "Case":
        """Compress a history; its dictionaries are compared with a copy taken before."""
        case = cls(wire, deepcopy(before), window, **known)
        try:
            case.plan = plan(before, max_tokens=window, tokenizer=TOKENIZER, format=wire)
        except CannotFit as error:
            case.floor = error.floor
            return case
        case.after = format_named(wire).render(case.plan.context.messages)
        case.sent = all_carried(format_named(wire).render(case.plan.context.sent))
        return case

    def prompt_again(self, messages: Sequence[Dict]) -> list[Dict]:
        return compress(messages, max_tokens=self.window, tokenizer=TOKENIZER, format=self.wire)

    @property
    def protected(self) -> list[int]:
        """Positions of what may never be shortened: system, pins, the newest message of a
        person."""
        system = [i for i, m in enumerate(self.before) if m["role"] in ("system", "developer")]
        return sorted({*system, *self.pinned, *self.persons[-1:]})


Judge = Callable[[Case], Iterator[str]]


def fits(case: Case) -> Iterator[str]:
    """FR-3: by an exact count that is not ours, and never counted too low."""
    assert case.plan is not None
    exact, joined = checker.prompt_tokens(case.after), checker.joined_tokens(case.after)
    if not max(exact, joined) <= case.plan.tokens_after <= case.window:
        ours = case.plan.tokens_after
        yield f"{exact} exact, {joined} joined, {ours} by our count, window {case.window}"


def provider_would_take_it(case: Case) -> Iterator[str]:
    """K-4: groups are whole, results stand where the provider wants them; the first message stays
    the user's."""
    yield from checker.broken_rules(case.after, case.wire)
    if case.wire == "anthropic" and first_role(case.before) == "user" != first_role(case.after):
        yield "the first message is no longer the user's"


def first_role(messages: Sequence[Dict]) -> str:
    """The role of the first message after the system prompt; the user's where there is none."""
    roles = (m["role"] for m in messages)
    return next((role for role in roles if role not in ("system", "developer")), "user")


def what_is_sent_takes_turns(case: Case) -> Iterator[str]:
    """Issue 24, A1: where user and assistant took turns they still do; nothing is said otherwise
    than in the list with each message by itself, and it takes no more room.
    """
    assert case.plan is not None
    yield from checker.broken_rules(case.sent, case.wire)
    if case.valid and not checker.takes_turns(case.before, case.wire):
        yield from checker.takes_turns(case.sent, case.wire)
    if checker.prompt_tokens(case.sent) > case.plan.tokens_after:
        yield "it takes more than was counted"
    parted = [all_carried(text).strip() for m in case.after for text in checker.visible(m)]
    whole = "\n".join(text for m in case.sent for text in checker.visible(m))
    if not all(text in whole for text in parted):
        yield "not all of it is sent"


def protected_stays(case: Case) -> Iterator[str]:
    """K-4, FR-8: system prompt, pins and the newest words of a person are there word for word, as
    often as before."""
    after = Counter(map(checker.freeze, case.after))
    shown = [text for m in case.after for text in checker.visible(m)]
    wanted = Counter(checker.freeze(case.before[i]) for i in case.protected)
    for i in case.protected:
        message, key = case.before[i], checker.freeze(case.before[i])
        if after[key] >= wanted[key]:
            continue
        spoken = i not in case.pinned and _answers(message)
        texts = _words(message) if spoken else checker.visible(message)
        if (case.valid and not spoken) or not all(any(t in s for s in shown) for t in texts):
            yield f"message {i} is not there: {key[:200]}"


def _is_result(message: Dict) -> bool:
    blocks = message.get("content")
    blocks = blocks if isinstance(blocks, list) else []
    kinds = {block.get("type") for block in blocks if isinstance(block, dict)}
    is_output = str(message.get("type", "")).endswith("_output")
    return is_output or message.get("role") == "tool" or "tool_result" in kinds


def order_stays(case: Case) -> Iterator[str]:
    """K-4: what is in view word for word stands in the order of the log; a result that came late
    stands at its call.
    """
    before = [checker.freeze(m) for m in case.before if not _is_result(m)]
    known = set(before)
    if not checker.is_subsequence(
        [f for f in map(checker.freeze, case.after) if f in known], before
    ):
        yield "kept messages changed their order"


def nothing_is_lost_or_doubled(case: Case) -> Iterator[str]:
    """K-6: of identical messages as many are in view as the plan says, never more than there
    were."""
    assert case.plan is not None
    before = [checker.freeze(m) for m in case.before]
    after, had = Counter(map(checker.freeze, case.after)), Counter(before)
    kept = Counter(before[i] for i, fate in case.plan.fates.items() if fate in ("kept", "pinned"))
    for key, times in kept.items():
        if case.valid and after[key] < times:
            yield f"{times} kept, {after[key]} in view: {key[:200]}"
    yield from (
        f"{after[key]} in view, {had[key]} before: {key[:200]}"
        for key in had
        if after[key] > had[key]
    )


def every_message_has_a_reason(case: Case) -> Iterator[str]:
    """FR-11: the plan says of each why it is in view, or what stands in for it."""
    assert case.plan is not None
    said = list(map(case.plan.why_of, range(case.plan.messages_before)))
    names = {checkpoint.id for checkpoint in case.plan.context.checkpoints}
    for position, why in enumerate(said):
        fate, _, reason = why.partition(": ")
        if case.plan.fates and fate != case.plan.fates.get(position, "covered"):
            yield f"{position}: {why}"
        if not reason or (fate == "covered" and reason.split()[0] not in names):
            yield f"no reason for {position}: {why}"


def everything_shown_was_said(case: Case) -> Iterator[str]:
    """C-3: what is in view is a message of the history, a shortened one with its other fields, or
    known as ours."""
    known = {checker.freeze(m) for m in case.before}
    originals: dict[str, list[Dict]] = {}
    for message in case.before:
        originals.setdefault(checker.key_of(message), []).append(message)
    for message in case.after:
        if checker.freeze(message) in known or checker.is_ours(message):
            continue
        if not case.valid and any(mark in checker.freeze(message) for mark in SHORTENED):
            continue  # a result without its call was given another role before it was shortened
        candidates = originals.get(checker.key_of(message), [])
        if not any(_is_shortened(message, original) for original in candidates):
            yield f"nobody said {checker.freeze(message)[:300]}"


def _is_shortened(message: Dict, original: Dict) -> bool:
    """Whether it is the original with texts shortened, which says so, or without its reasoning."""
    varies = (*TEXTS, *(field for field in THOUGHTS if field not in message))
    if {k: v for k, v in message.items() if k not in varies} != {
        k: v for k, v in original.items() if k not in varies
    }:
        return False
    thoughts = ('"type": "thinking"', *(f'"{field}": ' for field in THOUGHTS))
    was, now = checker.freeze(original), checker.freeze(message)
    reasoned = any(thought in was and thought not in now for thought in thoughts)
    return reasoned or any(mark in checker.freeze(message) for mark in SHORTENED)


def compressing_again_changes_nothing(case: Case) -> Iterator[str]:
    """K-6: the result, compressed at the same ceiling, comes back as it is."""
    if case.prompt_again(list(case.sent)) != list(case.sent):
        yield "compressing again changed it"


def same_input_same_bytes(case: Case) -> Iterator[str]:
    """K-5: nothing in it depends on chance, time or what was compressed before."""
    again = case.prompt_again(deepcopy(list(case.before)))
    if [checker.freeze(m) for m in again] != [checker.freeze(m) for m in case.sent]:
        yield "a second run gave something else"


def what_fits_is_unchanged(case: Case) -> Iterator[str]:
    """C-7: a ceiling knows no trigger: a valid list that fits comes back as it is."""
    assert case.plan is not None
    most = checker.tokens(checker.freeze(list(case.before))) + 40 * len(case.before)
    most += PICTURE[case.wire] * checker.freeze(list(case.before)).count('"image')
    if case.valid and most <= case.window and list(case.after) != list(case.before):
        yield "it fitted and was changed"
    if case.plan.unchanged and case.valid and list(case.after) != list(case.before):
        yield "the plan says unchanged, but it was changed"


JUDGES: tuple[Judge, ...] = (
    fits,
    provider_would_take_it,
    what_is_sent_takes_turns,
    protected_stays,
    order_stays,
    nothing_is_lost_or_doubled,
    every_message_has_a_reason,
    everything_shown_was_said,
    compressing_again_changes_nothing,
    same_input_same_bytes,
    what_fits_is_unchanged,
)


def judged(case: Case, judges: Sequence[Judge] = JUDGES) -> list[str]:
    """What the judges say, by name; where nothing could be made to fit, whether that is true."""
    if case.plan is None:
        return (
            []
            if cannot_fit_is_true(case)
            else [f"cannot fit {case.window}, it says: {dict(case.floor)}"]
        )
    return [f"{judge.__name__}: {said}" for judge in judges for said in judge(case)]


def cannot_fit_is_true(case: Case) -> bool:
    """FR-3: the one legitimate error: the floor and 256 tokens exceed the window.

    The floor is what is protected word for word. A call and its results are one: of those beside a
    protected message, a stub is counted for each; of a result beside a person's words too.
    """
    words = {i for i in case.persons[-1:] if i not in case.pinned}
    floor = {j for i in case.protected for j in _run_of(case.before, i)}
    needed = 0
    for i in floor:
        whole = _most_tokens(case.before[i], case.wire)
        if i in case.protected and not (i in words and _answers(case.before[i])):
            needed += whole
        else:
            spoken = sum(map(checker.tokens, _words(case.before[i]))) if i in words else 0
            needed += min(whole, spoken + STUB * max(1, _ids(case.before[i])))
    return needed + MARGIN > case.window


def _words(message: Dict) -> list[str]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    return [b["text"] for b in blocks if b.get("type") == "text"]


def _ids(message: Dict) -> int:
    written = checker.freeze(message)
    found = written.count('"tool_use"') + written.count('"tool_result"')
    return found + len(message.get("tool_calls") or ()) + ("tool_call_id" in message)


def _most_tokens(message: Dict, wire: str) -> int:
    return checker.prompt_tokens([message], picture=PICTURE[wire]) + 30 * _ids(message)


def _run_of(messages: Sequence[Dict], position: int) -> list[int]:
    """Positions of the call and the results that belong with a message; the message alone for mere
    words."""
    if not _calls(messages[position]) and not _answers(messages[position]):
        return [position]
    start, stop = position, position + 1
    while start > 0 and (_answers(messages[start]) or (_same_reply(messages, start))):
        start -= 1
    while stop < len(messages) and (_answers(messages[stop]) or _same_reply(messages, stop)):
        stop += 1
    return list(range(start, stop))


def _same_reply(messages: Sequence[Dict], position: int) -> bool:
    reply = messages[position].get("id")
    return reply is not None and messages[position - 1].get("id") == reply


def _calls(message: Dict) -> bool:
    return bool(message.get("tool_calls")) or '"type": "tool_use"' in checker.freeze(message)


def _answers(message: Dict) -> bool:
    return message["role"] in ("tool", "function") or '"type": "tool_result"' in checker.freeze(
        message
    )
