"""The gate: judges a summary before it may stand in for messages. Pure: no I/O, no model.

Start reading at `RULES`. A rule that is broken has one of three consequences: the summary is
rejected, it is repaired by code, or it is only told. A verdict says how the summary was *written*,
and what was done about it; size and cap are measured last, after all repairs. Nothing is cut to
make a summary fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from compact.compression import echoes
from compact.compression.extractive import FILES, MENTIONED, NAMES, ORDER
from compact.compression.notes import note_call, note_result
from compact.core.anchors import Ledger, Use
from compact.core.checkpoints import (
    REFERENCE_LINE,
    Summary,
    SummaryRequest,
    Verdict,
    summary_of,
)
from compact.core.messages import visible_texts
from compact.core.redaction import Secret, redact, secrets_of
from compact.core.tokens import TokenCounter
from compact.core.voices import person_text, voice_of

SMALLEST = 32
"""Tokens up to which a summary may be as large as its source: there is no saying it shorter."""
SECTIONS_FROM = 200
"""Tokens of cap and source from which a summary of a task's state is asked for sections."""
ANCHOR_TOKENS = 40
"""Tokens of cap for each anchor that a summary is asked for ..."""
MOST_ANCHORS, FEWEST_ANCHORS = 60, 5
"""... at most so many; where the cap has no room for so few, none."""
LEAST_COVERED = 0.5
"""Share of those anchors that must be in view; the extractive summaries of real sessions name all
in 114 of 117 cases, and at least half in the others."""
ECHO_SHARE = 0.5
LOOP_SHARE = 0.5
TRANSCRIPT_SHARE = 0.5
"""Shares of a summary from which it counts as copied, looped or a transcript (`echoes`)."""
GOAL_WORDS = 0.8
"""Share of a goal's words that a line must hold to be about the goal."""

Consequence = Literal["rejects", "repairs", "tells"]


@dataclass(frozen=True, slots=True)
class Judged:
    """A summary, possibly repaired, and what each rule found."""

    summary: Summary
    verdicts: tuple[Verdict, ...]
    """One of each rule, in the order of `RULES`."""

    @property
    def accepted(self) -> bool:
        """Whether it may stand in: it breaks no rule that rejects."""
        return all(verdict.passed or verdict.rule not in _REJECTING for verdict in self.verdicts)


def judge(
    summary: Summary,
    request: SummaryRequest,
    counter: TokenCounter,
    *,
    source_tokens: int,
) -> Judged:
    """Hold a summary to the rules. Never raises, whatever was written.

    `source_tokens` is the size of all it stands in for.
    """
    matter = Matter(request, counter, source_tokens, request.goals, summary.prompt)
    verdicts: list[Verdict] = []
    for rule in RULES:
        found = rule.check(summary, matter)
        summary = found.repaired or summary
        verdicts.append(Verdict(rule=rule.name, passed=found.passed, detail=found.detail))
    return Judged(summary, tuple(verdicts))


def missing_names(
    summary: Summary, request: SummaryRequest, counter: TokenCounter
) -> tuple[str, ...]:
    """The anchors that a summary is asked for and that neither it nor what is kept names, likeliest
    first.
    """
    matter = Matter(request, counter, 0, request.goals, summary.prompt)
    return tuple(name for name, _ in _missing(_likeliest(matter), summary.text, matter))


@dataclass(frozen=True)
class Matter:
    """What a summary is judged by."""

    request: SummaryRequest
    counter: TokenCounter
    source_tokens: int
    goals: tuple[str, ...]
    prompt: str

    @cached_property
    def source(self) -> list[str]:
        """Every text of the messages, one for each part."""
        return list(visible_texts(self.request.messages))

    @cached_property
    def secrets(self) -> dict[str, str]:
        """The secrets in the source, and their kinds."""
        return secrets_of(self.source)

    @property
    def most(self) -> int:
        """Tokens from which a summary would be larger than its source."""
        return max(SMALLEST, self.source_tokens)

    def fits(self, text: str) -> bool:
        """Whether a repaired text is within the cap, and no larger than its source."""
        return self.counter.text(text) <= min(self.request.max_tokens, self.most)

    def redacted(self, text: str) -> tuple[str, tuple[Secret, ...]]:
        """The text without secrets, those that are known from the source among them."""
        return redact(text, self.secrets)


class Finding(NamedTuple):
    """What one rule found, and the summary as the rule repaired it."""

    passed: bool
    detail: str
    repaired: Summary | None = None


# --- what rejects ---------------------------------------------------------------------------------


def _size(summary: Summary, matter: Matter) -> Finding:
    """It says something, and is no larger than what it stands in for."""
    if not summary.text.strip():
        return Finding(False, "it is empty")
    tokens = matter.counter.text(summary.text)
    return Finding(
        tokens <= matter.most, f"{tokens:,} for a source of {matter.source_tokens:,} tokens"
    )


def _cap(summary: Summary, matter: Matter) -> Finding:
    """It is within the tokens that were asked for."""
    tokens, most = matter.counter.text(summary.text), matter.request.max_tokens
    return Finding(tokens <= most, f"{tokens:,} of {most:,} tokens")


def _pins(_: Summary, matter: Matter) -> Finding:
    """No message that must stay word for word is among those it stands in for."""
    pinned = [m.id for m in matter.request.messages if m.is_pinned]
    if pinned:
        return Finding(False, f"{len(pinned):,} pinned messages would be covered: {pinned[0]}")
    return Finding(True, f"none among {len(matter.request.messages):,} messages")


def _echo(summary: Summary, matter: Matter) -> Finding:
    """It is no copy of its source or of the prompt, no loop, and no transcript."""
    copied = echoes.copied(summary.text, [matter.prompt, *matter.source])
    looped = echoes.looped(summary.text, matter.source)
    spoken = echoes.spoken(summary.text)
    said = (
        f"{'all' if copied.whole else f'{copied.share:.0%}'} copied in one piece or long ones, "
        f"{looped:.0%} repeated, {spoken:.0%} of the lines a speaker's"
    )
    is_copy = copied.whole or copied.share >= ECHO_SHARE
    return Finding(not is_copy and looped < LOOP_SHARE and spoken < TRANSCRIPT_SHARE, said)


# --- what is repaired -----------------------------------------------------------------------------

_MARKER = re.compile(
    r"^(\W{0,4})(?:\[GOALS?\b[^\]\n]{0,80}\]:?[ \t]*)+", re.IGNORECASE | re.MULTILINE
)
"""What sets a goal in a model's output, or heads the goals in a prompt."""
_ENDED = re.compile(
    r"\b(?:done|completed?|finished|achieved|accomplished|fulfilled|reached|cancell?ed|dropped|"
    r"abandoned|no longer (?:needed|wanted|relevant)|erledigt|abgeschlossen|fertig|erreicht|"
    r"verworfen)\b|✅|✓|\[x\]|完成|取消|放弃",
    re.IGNORECASE,
)
_NOT_ENDED = re.compile(
    r"\b(?:not|never|still|yet|until|before|unless|to be|when|once|nicht|noch|bis)\b|n't\b|"
    r"\d ?%|未|尚|还",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_WORD = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u9fff\uac00-\ud7af]+")
_STILL_OPEN = " (said so; the goal is still open)"
_MORE_WORDS = 8
"""A line with so many more words than twice a goal's is about something else, too."""


def _goals(summary: Summary, matter: Matter) -> Finding:
    """It sets no goal by a marker, and calls no open goal done or dropped.

    The goals stand in every prompt beside the summary; what contradicts them is marked as such, or
    left out where the mark does not fit. A marker is taken off its words.
    """
    text, markers = _MARKER.subn(r"\1", summary.text)
    goals = [words for goal in matter.goals if (words := _words_of(goal))]
    lines = text.split("\n")
    told = list(_claims(lines, goals)) if goals else []
    for number in reversed(told):
        marked = [*lines[:number], lines[number] + _STILL_OPEN, *lines[number + 1 :]]
        short = [*lines[:number], *lines[number + 1 :]]
        lines = marked if matter.fits("\n".join(marked)) else short
    if not markers and not told:
        return Finding(True, f"{len(matter.goals):,} open, none contradicted")
    done = f"{markers:,} goal markers taken off, {len(told):,} claims of an open goal's end marked"
    return Finding(False, done, _with_text(summary, "\n".join(lines)))


def _claims(lines: Sequence[str], goals: Sequence[frozenset[str]]) -> Iterator[int]:
    """Numbers of the lines that say of an open goal that it has ended."""
    section = ""
    for number, line in enumerate(lines):
        if heading := _HEADING.match(line):
            section = heading[1]
            continue
        if line.endswith(_STILL_OPEN) or _NOT_ENDED.search(line):
            continue
        if section != "Done" and not _ENDED.search(line):
            continue
        words = _words_of(line)
        if any(_is_about(words, goal) for goal in goals):
            yield number


def _is_about(words: frozenset[str], goal: frozenset[str]) -> bool:
    alike = len(words & goal) >= GOAL_WORDS * len(goal)
    return alike and len(words) <= 2 * len(goal) + _MORE_WORDS


def _words_of(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _secrets(summary: Summary, matter: Matter) -> Finding:
    """It holds no secret: neither one that is known by its look or name, nor one of the source.

    Each is replaced by its kind. Where that takes more tokens than the cap has, lines that held one
    are left out, the last first.
    """
    text, found = matter.redacted(summary.text)
    names = tuple(name for name in summary.anchors if not matter.redacted(name)[1])
    if not found:
        if len(names) == len(summary.anchors):
            return Finding(True, "none found")
        dropped = len(summary.anchors) - len(names)
        repaired = summary.model_copy(update={"anchors": names})
        return Finding(False, f"{dropped:,} taken out of the anchors", repaired)
    lines, left_out = text.split("\n"), 0
    held = [number for number, line in enumerate(lines) if "[redacted: " in line]
    if matter.fits(summary.text):
        while held and not matter.fits("\n".join(lines)):
            del lines[held.pop()]
            left_out += 1
        text, more = matter.redacted("\n".join(lines))
        found += more
    kinds = ", ".join(dict.fromkeys(secret.kind for secret in found))
    detail = f"{len(found):,} replaced: {kinds}"
    if left_out:
        detail += f"; {left_out:,} of their lines left out, to stay within the cap"
    repaired = _with_text(summary, text).model_copy(update={"anchors": names})
    return Finding(False, detail, repaired)


def _anchors(summary: Summary, matter: Matter) -> Finding:
    """Of the source's likeliest anchors, enough are named in it or in what is kept.

    How many are asked for follows from the cap. Too few: the missing ones are appended as far as
    the cap has room.
    """
    asked = _likeliest(matter)
    if not asked:
        return Finding(True, "none asked for")
    missing = _missing(asked, summary.text, matter)
    before = 1 - len(missing) / len(asked)
    share = f"{before:.0%} of {len(asked):,} in view"
    if before >= LEAST_COVERED:
        return Finding(True, share)
    if not summary.text.strip():
        return Finding(False, f"{share}, nothing to append to")
    text, added = _appended(summary.text, missing, matter)
    if not added or matter.redacted(text)[1]:
        return Finding(False, f"{share}, no room for more")
    after = before + len(added) / len(asked)
    repaired = _with_text(summary, text)
    repaired = repaired.model_copy(update={"anchors": (*summary.anchors, *added)})
    return Finding(False, f"{share}, {after:.0%} with {len(added):,} appended", repaired)


Asked = list[tuple[str, Use]]


def _likeliest(matter: Matter) -> Asked:
    """The anchors that a summary of this cap is asked for, likeliest first, without secrets."""
    most = min(MOST_ANCHORS, matter.request.max_tokens // ANCHOR_TOKENS)
    if most < FEWEST_ANCHORS:
        return []
    ledger = _ledger(matter.request)
    position = len(matter.request.messages) + 1
    rows = [(text, use) for text, use, _ in ledger.ranked(position, 2 * most)]
    if matter.redacted("\n".join(text for text, _ in rows))[1]:
        rows = [row for row in rows if not matter.redacted(row[0])[1]]
    return rows[:most]


def _ledger(request: SummaryRequest) -> Ledger:
    """The anchors of the source, weighed by who used them, as the notes do."""
    ledger = Ledger()
    if request.previous:
        ledger.note(request.previous.text, "assistant", 0)
    for position, message in enumerate(request.messages, start=1):
        match voice_of(message):
            case "person":
                ledger.note(person_text(message), "person", position)
            case "checkpoint":
                ledger.note(summary_of(message.text), "assistant", position)
            case "assistant":
                ledger.note(message.text, "assistant", position)
            case "tool" | "observation" if message.text:
                ledger.note(message.text, "result", position)
        for call in message.tool_calls:
            note_call(ledger, call, position)
        for result in message.tool_results:
            note_result(ledger, result, position)
    return ledger


def _missing(asked: Asked, text: str, matter: Matter) -> Asked:
    """The anchors that stand neither in the text nor in what is kept."""
    missing = [row for row in asked if row[0] not in text]
    for kept in visible_texts(matter.request.kept) if missing else ():
        missing = [row for row in missing if row[0] not in kept]
    return missing


def _appended(text: str, missing: Asked, matter: Matter) -> tuple[str, list[str]]:
    """The text with as many of the anchors as fit, the likeliest first, and those that did."""
    low, high = 0, len(missing)
    while low < high:  # the most that fit: each more makes the text longer
        middle = (low + high + 1) // 2
        if matter.fits(_with_anchors(text, missing[:middle])):
            low = middle
        else:
            high = middle - 1
    if not low:
        return text, []
    return _with_anchors(text, missing[:low]), [name for name, _ in missing[:low]]


def _with_anchors(text: str, rows: Asked) -> str:
    files = [name for name, use in rows if use.kind in ("path", "pair", "file", "url")]
    names = [name for name, use in rows if use.kind not in ("path", "pair", "file", "url")]
    if files:
        text = _with_line(text, FILES, f"- {MENTIONED}: {', '.join(files)}")
    return _with_line(text, NAMES, ", ".join(names)) if names else text


def _with_line(text: str, section: str, line: str) -> str:
    """The text with a line at the end of a section, which is made where there is none."""
    for heading in _HEADING.finditer(text):
        if heading[1] == section:
            following = _HEADING.search(text, heading.end())
            end = following.start() if following else len(text)
            body, rest = text[:end].rstrip(), text[end:]
            return f"{body}\n{line}" + (f"\n\n{rest}" if rest else "")
    return f"{text.rstrip()}\n\n## {section}\n{line}"


def _with_text(summary: Summary, text: str) -> Summary:
    return summary.model_copy(update={"text": text})


# --- what is only told ----------------------------------------------------------------------------


def _sections(summary: Summary, matter: Matter) -> Finding:
    """A longer summary of a task's state has at least one of the sections that are known.

    Prose without any is read as prose when it is carried on: it is worth less, not worthless.
    """
    known = [title for title in _HEADING.findall(summary.text) if title in ORDER]
    if known:
        return Finding(True, f"{len(known):,} of {len(ORDER):,} known ones")
    smaller = min(matter.request.max_tokens, matter.source_tokens)
    if matter.request.strategy != "task_state" or smaller <= SECTIONS_FROM:
        return Finding(True, "none asked for")
    if summary.text.strip() == REFERENCE_LINE:
        return Finding(True, "there was nothing to tell")
    return Finding(False, "none of the known ones")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the gate: its name, what it asks, and what follows where it is broken."""

    name: str
    check: Callable[[Summary, Matter], Finding]
    consequence: Consequence


RULES: tuple[Rule, ...] = (
    Rule("pins", _pins, "rejects"),
    Rule("echo", _echo, "rejects"),
    Rule("sections", _sections, "tells"),
    Rule("goals", _goals, "repairs"),
    Rule("secrets", _secrets, "repairs"),
    Rule("anchors", _anchors, "repairs"),
    Rule("size", _size, "rejects"),
    Rule("cap", _cap, "rejects"),
)
"""In the order they are asked: what is measured comes after what repairs."""
_REJECTING = frozenset(rule.name for rule in RULES if rule.consequence == "rejects")
