"""The extractive summarizer: a checkpoint's text written from notes, without any model.

Sections as in `task_state`: goal, instructions, decisions, facts, done, open, errors, commands,
files, names. Prose is taken over word for word; files and names are anchors, whole and ranked.
Budgets, in order of precedence: the goal, the person's instructions (up to their own share), then
prose and anchors share what is left. What the reader sees beside the summary anyway is not told
again. A mode divides the room otherwise (`core.modes.Emphasis`), within the same cap. The same
messages give the same text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from compact.compression.extraction.notes import GOAL, INSTRUCTIONS, Line, Notes, note_all
from compact.compression.extraction.work import Attempt
from compact.core import anchors
from compact.core.anchors import Ledger, Use
from compact.core.checkpoints import REFERENCE_LINE, Summary, SummaryRequest
from compact.core.instructions import Instruction
from compact.core.messages import Message, MessageMetadata, visible_texts
from compact.core.modes import Emphasis, emphasis_of
from compact.core.sentences import TOPICS, Topic
from compact.core.tokens import TokenCounter

GOAL_SHARE = 0.12
ANCHOR_SHARE = 0.65
ANCHOR_TOKENS = 900
"""Of what is left after goal and instructions, anchors take at most `ANCHOR_SHARE`, and at most
this many tokens and ..."""
ANCHOR_MORE = 0.30
"""... this share on top: a long summary needs more prose rather than ever rarer names."""
_TITLES: dict[Topic, str] = {
    "decisions": "Decisions",
    "facts": "Facts",
    "done": "Done",
    "open": "Open",
    "plan": "Open",
    "errors": "Errors",
}
REFERENCE_SHARE = 0.08
"""Share of the instructions' room that is kept for ids, where not all of them fit word for word."""
PLENTY = 0.5
"""Share of that room from which on questions and fragments of a person are left to the prose."""
_PLAIN = 0.2
_CLEAR = 0.4
_SHORT_LINE = 15.0
"""Tokens, about, below which a sentence gains nothing by being shorter."""
_RANDOM_ID = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$")
_SECTION_TOKENS = 5
_LINE_TOKENS = 2
_MOST_COMMANDS = 8
_MOST_ERRORS = 6
_MOST_ARGUMENTS = 6
_TARGET_CHARS = 100
_OUTCOMES = {"fails": "fails", "passed": "went well since", "checked": "a check passed since"}
_NOW_TOKENS = 90
_MOST_CHECKS = 2
_FRESH = 4
_MOST_UNCHECKED = 8
_TOOL_TOKENS = 110
THRIFT = 0.5
"""Power of its tokens by which an anchor's weight is divided: short names give more for their
room."""
_MOST_RANKED = 1_500
_TYPICAL = 60
"""Rank of the anchor whose weight counts as one when sentences are compared."""
_LEAST_LINE = 16
_ALIKE = 0.7
"""Share of common words from which a sentence says nothing new."""
Ranking = list[tuple[str, Use, float]]


class ExtractiveSummarizer:
    """Writes summaries by extraction; deterministic, offline."""

    name = "extractive"
    waits = False

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter

    async def summarize(self, request: SummaryRequest) -> Summary:
        """Summarize the request's messages within its token cap."""
        return self.extracted(request)

    def extracted(self, request: SummaryRequest) -> Summary:
        """The same for those who cannot wait."""
        notes = self.continued(request)
        text, used = write(notes, request, self._counter)
        return Summary(text=text, made_by=self.name, anchors=tuple(used), memo=notes)

    def continued(self, request: SummaryRequest) -> Notes:
        """The notes of the request's messages, carried on from the summary before, where there is
        one.
        """
        previous = request.previous
        notes = previous.memo if previous and isinstance(previous.memo, Notes) else Notes()
        if previous and notes.position == 0:
            source = MessageMetadata(source="checkpoint")
            notes.read([Message(role="user", content=previous.text, metadata=source)])
        notes.read(request.messages, request.answers)
        return notes


@dataclass(slots=True)
class _Page:
    """The summary while it grows: lines by section, and the tokens left."""

    counter: TokenCounter
    left: int
    sections: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    told: list[set[str]] = field(default_factory=list)
    """The words of sentences that were written, so that none is told twice."""

    def add(self, section: str, line: str, order: int = 0, *, limit: int | None = None) -> int:
        """Put a line into a section if it fits; the tokens it took, 0 if it did not fit."""
        cost = self.counter.text(line) + _LINE_TOKENS
        if section not in self.sections:
            cost += _SECTION_TOKENS
        if cost > (self.left if limit is None else min(limit, self.left)):
            return 0
        self.sections.setdefault(section, []).append((order, line))
        self.left -= cost
        return cost

    def text(self, titles: Iterable[str]) -> str:
        """The finished text, sections in the given order, lines in the order of the log."""
        blocks = [REFERENCE_LINE]
        for title in titles:
            rows = sorted(self.sections.get(title, ()), key=lambda row: row[0])
            if rows:
                blocks.append(f"## {title}\n" + "\n".join(line for _, line in rows))
        return "\n\n".join(blocks)


NOW, RULES, COMMANDS = "Now", INSTRUCTIONS, "Commands"
TOOLS, FILES, NAMES = "Tools", "Files", "Names"
EDITED, MENTIONED = "edited", "read or named"
ORDER = (
    GOAL,
    NOW,
    RULES,
    *dict.fromkeys(_TITLES[topic] for topic in TOPICS),
    COMMANDS,
    TOOLS,
    FILES,
    NAMES,
)


def write(notes: Notes, request: SummaryRequest, counter: TokenCounter) -> tuple[str, list[str]]:
    """The summary's text within the request's cap, and the anchors it lists."""
    reference = counter.text(REFERENCE_LINE) + 2
    page = _Page(counter, request.max_tokens - reference)
    if page.left <= 0:
        return REFERENCE_LINE, []
    seen = "\n".join(visible_texts(request.kept))
    _write_goal(page, notes, request, seen)
    _write_instructions(page, notes, request, seen)
    emphasis = emphasis_of(request.mode)
    for_anchors = min(ANCHOR_SHARE * page.left, ANCHOR_TOKENS + ANCHOR_MORE * page.left)
    for_anchors = int(emphasis.listed * for_anchors)
    ranked = notes.ledger.ranked(notes.position, min(_MOST_RANKED, request.max_tokens))
    best = _ranked_lines(notes, ranked, emphasis)
    lines = iter(best)
    prose = page.left - for_anchors
    prose -= _write_state(page, notes, seen, prose, emphasis)
    _write_lines(page, lines, seen, prose)
    rows = _likeliest(page, notes, request, ranked, emphasis)
    listed = _write_anchors(page, rows, f"{seen}\n{page.text(ORDER)}")
    if emphasis.listed != 1:
        lines = iter(best)  # what found no room in the first pass may find some now
    _write_lines(page, lines, seen, page.left)
    return page.text(ORDER), listed


def _write_goal(page: _Page, notes: Notes, request: SummaryRequest, seen: str) -> None:
    """The first request, where it is not in view, and the last one of the span."""
    limit = int(GOAL_SHARE * request.max_tokens)
    rows = [("Last asked here", *row) for row in notes.requests[-1:]]
    if not request.first_request_kept and len(notes.requests) > 1:
        rows.insert(0, ("First asked", *notes.requests[0]))
    for order, (label, message_id, words) in enumerate(rows):
        if not words or words[:200] in seen:
            continue
        words = " ".join(words.split())
        while page.counter.text(words) > max(24, limit // len(rows)) and len(words) > 60:
            words = words[: int(len(words) * 0.7)].rsplit(" ", 1)[0] + " …"
        page.add(GOAL, f"- {label} ({short_id(message_id)}): {words}", order)


def _write_instructions(page: _Page, notes: Notes, request: SummaryRequest, seen: str) -> None:
    """Instructions word for word, the clearest first; those that find no room by the ids of their
    messages.
    """
    room = min(request.max_instruction_tokens, page.left)
    best = sorted(_distinct(notes.instructions), key=lambda x: (-x.score, -x.position))
    goal = " ".join(line for _, line in page.sections.get(GOAL, ()))
    best = [x for x in best if x.text not in seen and " ".join(x.text.split()) not in goal]
    costs = [page.counter.text(x.text) + 3 for x in best]
    if sum(costs) > room * PLENTY:
        best = [x for x in best if x.score >= _PLAIN]
        costs = [page.counter.text(x.text) + 3 for x in best]
    left = room if sum(costs) <= room else int(room * (1 - REFERENCE_SHARE))
    missing: list[Instruction] = []
    for instruction, cost in zip(best, costs, strict=True):
        if cost > left or not page.add(RULES, f"- {instruction.text}", instruction.position):
            missing.append(instruction)
        else:
            left -= cost
    _reference(page, notes, [x for x in missing if x.score >= _CLEAR])


def _reference(page: _Page, notes: Notes, missing: list[Instruction]) -> None:
    if not missing:
        return
    ids = list(dict.fromkeys(short_id(x.message_id) for x in missing))
    line = f"- {len(missing)} more, by message: {', '.join(ids)}"
    while not page.add(RULES, line, notes.position) and len(ids) > 1:
        ids = ids[: len(ids) * 3 // 4]
        line = f"- {len(missing)} more, the clearest of them by message: {', '.join(ids)} …"


def short_id(message_id: str) -> str:
    """A message's id as it is shown: the first eight digits of a random one, else all of it."""
    return message_id[:8] if _RANDOM_ID.match(message_id) else message_id


def _distinct(instructions: Iterable[Instruction]) -> Iterable[Instruction]:
    """Each instruction once, where it was said last."""
    return {x.same: x for x in instructions}.values()


def _write_state(page: _Page, notes: Notes, seen: str, limit: int, emphasis: Emphasis) -> int:
    """Task list, errors, commands and tools; the tokens they took."""
    before = page.left
    _write_now(page, notes, seen, max(_NOW_TOKENS, limit // 10))
    for order, (words, done) in enumerate(notes.work.tasks):
        page.add(_TITLES["done" if done else "open"], f"- {words}", notes.position + order)
    if emphasis.attempts:
        _write_attempts(page, notes, seen, int(emphasis.attempts * limit))
    else:
        _write_errors(page, notes, seen, limit // 6)
    _write_commands(page, notes, limit // 8)
    _write_tools(page, notes, max(limit // 6, min(_TOOL_TOKENS, limit // 3)))
    return before - page.left


def _write_lines(page: _Page, lines: Iterator[Line], seen: str, limit: int) -> int:
    """Decisions, facts, done, open and errors, the best first until the limit; the tokens they
    took.
    """
    before = page.left
    for line in lines:
        room = limit - (before - page.left)
        if room < _LEAST_LINE:
            break
        if line.text in seen:
            continue
        words = set(line.text.lower().split())
        if any(len(words & other) > _ALIKE * min(len(words), len(other)) for other in page.told):
            continue
        if page.add(_TITLES[line.topic], f"- {line.text}", line.position, limit=room):
            page.told.append(words)
    return before - page.left


def _write_now(page: _Page, notes: Notes, seen: str, limit: int) -> None:
    """Where the work stands, as far as code can tell: the last checks, what they have not seen,
    and what was announced last.
    """
    left = limit
    for order, (command, run) in enumerate(notes.work.checks()[:_MOST_CHECKS]):
        outcome = "passed" if run.outcome is None else f"failed: {run.outcome[:120]}"
        left -= page.add(NOW, f"- `{command[:100]}` {outcome}", order, limit=left)
    files = list(notes.work.unchecked)[::-1]
    if files and notes.work.checks():
        names = ", ".join(file.rsplit("/", 1)[-1] for file in files[:_MOST_UNCHECKED])
        left -= page.add(NOW, f"- Written since a check passed: {names}", 90, limit=left)
    position, announced = notes.announced
    if announced and announced not in seen and notes.position - position <= _FRESH:
        page.add(NOW, f"- Announced last: {announced[:200]}", 91, limit=left)


def _ranked_lines(notes: Notes, ranked: Ranking, emphasis: Emphasis) -> list[Line]:
    """Sentences by their worth for a reader who goes on from here: topic, freshness, the anchors
    they name, and what the mode makes of their topic.
    """
    reference = ranked[min(len(ranked) - 1, _TYPICAL)][2] if ranked else 0.0
    weights = {text: min(1.5, weight / (reference or 1.0)) for text, _, weight in ranked[:800]}

    def worth(line: Line) -> float:
        named = sum([weights.get(text, 0.0) for text in line.anchors])
        size = max(_SHORT_LINE, len(line.text) / 4)
        value = notes.worth(line) * (0.6 + named) / math.pow(size, 0.6)
        return value * emphasis.topics.get(line.topic, 1.0)

    return sorted(notes.lines, key=lambda line: (-worth(line), line.position))


def _write_errors(page: _Page, notes: Notes, seen: str, limit: int) -> None:
    left = limit
    for text, (position, _) in list(notes.work.errors.items())[::-1][:_MOST_ERRORS]:
        if text not in seen:
            left -= page.add(_TITLES["errors"], f"- `{text[:200]}`", position, limit=left)


def _write_attempts(page: _Page, notes: Notes, seen: str, limit: int) -> None:
    """Everything that failed, by what was tried, with what came of it: what still fails first."""
    left = limit
    told: set[str] = set()
    newest = reversed(notes.work.attempts.items())
    for (tool, target), attempt in sorted(newest, key=lambda row: row[1].outcome != "fails"):
        before = f"- {_tried(tool, target, attempt)}:\n  " if tool else ""
        for line in reversed(attempt.lines):
            if line in told or line in seen:
                continue
            row = f"{before}- `{line}`"
            if taken := page.add(_TITLES["errors"], row, attempt.position, limit=left):
                left -= taken
                told.add(line)
                before = "  " if tool else ""


def _tried(tool: str, target: str, attempt: Attempt) -> str:
    """What was tried, how often it failed, what was written then, and what came of it."""
    said = f"{tool} `{target[:_TARGET_CHARS]}`" if target else tool
    if attempt.times > 1:
        said += f" ×{attempt.times}"
    if attempt.written:
        said += f", then wrote {', '.join(f.rsplit('/', 1)[-1] for f in attempt.written)}"
    return f"{said}, {_OUTCOMES[attempt.outcome]}"


def _write_commands(page: _Page, notes: Notes, limit: int) -> None:
    """The commands run most and last, without those that stand above."""
    left, told = limit, page.text([NOW])
    rows = sorted(
        notes.work.commands.items(),
        key=lambda row: -sum(notes.freshness(p) for p in row[1].positions),
    )
    for command, run in rows[:_MOST_COMMANDS]:
        if run.positions and command[:100] not in told:
            times = f" (×{len(run.positions)})" if len(run.positions) > 1 else ""
            left -= page.add(COMMANDS, f"- `{command}`{times}", run.positions[-1], limit=left)


def _write_tools(page: _Page, notes: Notes, limit: int) -> None:
    """The tools that were used, how often, and the arguments they took: most used first."""
    rows = sorted(notes.work.tools.items(), key=lambda row: (-row[1][""], row[0]))
    shown: list[str] = []
    for name, counts in rows:
        keys = [key for key, _ in counts.most_common() if key][:_MOST_ARGUMENTS]
        text = f"{name}({', '.join(keys)}) ×{counts['']}"
        if page.counter.text("; ".join([*shown, text])) > limit - _SECTION_TOKENS:
            continue
        shown.append(text)
    if shown:
        page.add(TOOLS, "; ".join(shown), limit=limit)


def _likeliest(
    page: _Page, notes: Notes, request: SummaryRequest, ranked: Ranking, emphasis: Emphasis
) -> list[tuple[str, Use]]:
    """Anchors by their weight for their room, those of messages that are shown shortened among
    them; the mode says which kinds weigh more.
    """
    rows = {text: (use, weight) for text, use, weight in ranked}
    if request.shortened:
        extra = Ledger()
        note_all(extra, request.shortened, notes.position)
        for text, use, weight in extra.ranked(notes.position):
            rows[text] = (rows[text][0], rows[text][1] + weight) if text in rows else (use, weight)

    def value(row: tuple[str, tuple[Use, float]]) -> tuple[float, str]:
        text, (use, weight) = row
        weight *= emphasis.anchors.get(use.kind, 1.0)
        return -weight / (page.counter.text(" " + text) + 1) ** THRIFT, text

    return [(text, use) for text, (use, _) in sorted(rows.items(), key=value)]


def _write_anchors(page: _Page, rows: Iterable[tuple[str, Use]], seen: str) -> list[str]:
    """Files and names that stand nowhere else in view, the likeliest first, until the page is
    full.
    """
    known = anchors.texts_of(anchors.find_all(seen))
    known |= {path.rsplit("/", 1)[1] for path in known if "/" in path}
    listed: dict[str, list[str]] = {EDITED: [], MENTIONED: [], NAMES: []}
    left = page.left - 3 * (_SECTION_TOKENS + _LINE_TOKENS)
    for text, use in rows:
        if left < 3:
            break
        if text in known:
            continue
        is_file = use.kind in ("path", "pair", "file", "url")
        section = (EDITED if use.edits else MENTIONED) if is_file else NAMES
        shown = f"{text} ×{use.edits}" if use.edits > 1 and is_file else text
        cost = page.counter.text(" " + shown) + 1
        if cost > left:
            continue
        left -= cost
        listed[section].append(shown)
        known.add(text)
        if "/" in text:
            known.add(text.rsplit("/", 1)[1])
    for order, section in enumerate((EDITED, MENTIONED)):
        if listed[section]:
            page.add(FILES, f"- {section}: {', '.join(listed[section])}", order)
    if listed[NAMES]:
        page.add(NAMES, ", ".join(listed[NAMES]))
    return [text for texts in listed.values() for text in texts]
