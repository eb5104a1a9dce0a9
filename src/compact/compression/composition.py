"""The machine's part of a checkpoint, composed from notes: the record, and around it the whole.

Facts that code knows are written by code, whole, in room that is reserved first. What fills a
section stands here under its title; how much room it has, and what gives way, says the outline.
What the reader sees beside it is not told again. A section that has nothing is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from compact.compression.extraction.notes import MOST_FACTS, Exchange, Notes
from compact.compression.extraction.story import Teller, shortened
from compact.compression.extraction.turns import Turn
from compact.compression.extraction.work import Attempt
from compact.compression.listing import Listing
from compact.compression.page import HEADING_TOKENS, LINE_TOKENS, Page, Row
from compact.compression.seen import NOTHING, Seen
from compact.core import anchors
from compact.core.anchors import NameUse
from compact.core.cached import cached_property
from compact.core.instructions import Instruction
from compact.core.messages import short_id
from compact.core.modes import emphasis_of
from compact.core.outline import (
    DECISIONS,
    ERRORS,
    FACTS,
    GOAL,
    NEXT,
    OPEN,
    OUTLINE,
    RULES,
    STATE,
    STORY,
    Emphasis,
)
from compact.core.sentences import Topic, topic_of
from compact.core.tokens import TokenCounter

LISTS_SHARE = 0.4
"""Largest share of a checkpoint that lists of names may take."""
SMALL_ROOM = 1_500
"""Tokens of a checkpoint below which the share of its lists is smaller, down to half."""
RECORD_LISTS = 0.5
"""Share of what a checkpoint would list for which a standing record keeps room."""
MOST_CHECKS, MOST_ERRORS, MOST_FILES = 4, 8, 8
"""Newest checks, failures that are told where not all are, and files that one line names: the more
of them, the less room for the story."""
LAST_MESSAGES = 12
"""Messages up to which what was said before the newest call still says what is being done."""
MOST_DONE, MOST_TICKED = 4, 8
"""Calls of an application's own functions, and done tasks of a list, that are told."""
_FUNCTION = re.compile(r"[a-z][a-z0-9]*_\w+\([^,)]*")
"""A function's name, and the first thing that it was given: what it is about."""
LAST_SENTENCES = 2
"""Of the assistant's last words, where they tell what is next."""
LONGEST_FACT = 600
"""Characters of a fact, which is told whole or not at all."""
WORDS_TOKENS = 60
"""Tokens of the newest request where it is shown beside it anyway."""
POINTER = 12
"""Words below which a request is taken to point to what was asked before."""
REFERENCE_ROOM, REFERENCE_SHARE, ID_TOKENS = 40, 0.15, 5
"""Tokens of the line that names the messages of rules and facts that find no room, at least; the
largest share of the room that it takes; and what an id takes of it."""
CLEAR_RULE = 0.4
"""Score from which a rule that found no room is named by its message."""
REFERENCE_TOKENS = 24
"""Tokens of the line that says what a checkpoint is."""
AFTER_TOKENS = 32
"""Tokens of the sentence that says what stands below it."""
RECORD_PART, PLAIN_PART, RULES_PART = 0.45, 0.2, 0.3
"""Shares of a checkpoint's room within which the record is planned, the second one where people
only talk; it takes what the story leaves. And the share that a session's clear rules may take more
there: each compression makes the record anew, and a story forgets."""
TOLD_PART = 0.45
"""Share of the room that a model's story may take whatever record and lists would."""
LONGEST_ERROR, ERROR_CHARS = 200, 800
"""Characters of a line that says what failed, and of all lines of one attempt, about."""
TELLING = 5
"""Spaces in a line that says what was wrong, at least: fewer only name a test."""
_OUTCOMES = {"fails": "still fails", "passed": "went well since", "checked": "a check passed since"}


@dataclass(frozen=True)
class Composer:
    """Composes from notes what stands beside a story."""

    notes: Notes
    counter: TokenCounter
    seen: Seen = NOTHING
    """What the reader sees beside it."""
    mode: str = "assistant"
    shortened: Iterable[NameUse] = ()
    """The uses of names in what the reader sees shortened: what it lost may be worth naming."""
    strategy: str = "task_state"

    @cached_property
    def emphasis(self) -> Emphasis:
        """What mode and strategy give more room."""
        return emphasis_of(self.mode, self.strategy)

    @cached_property
    def listing(self) -> Listing:
        """The lists of names."""
        return Listing(self.notes, self.counter, self.seen, self.emphasis, self.shortened)

    @cached_property
    def rows(self) -> Mapping[str, Sequence[Row]]:
        """Everything the record could say: by section, the most needed first."""
        fillers: Mapping[str, Callable[[], Iterator[Row]]] = {
            GOAL: self._goal,
            RULES: self._rules,
            STATE: self._state,
            OPEN: self._open,
            NEXT: self._next,
            DECISIONS: self._decisions,
            FACTS: self._facts,
            ERRORS: self._errors,
        }
        return {x: list(fill()) if self.emphasis.of(x) else [] for x, fill in fillers.items()}

    def record(self, room: int, rules: int = 0) -> Page:
        """The record within so many tokens: each section up to its share, those first that are
        given more; then what is left over by what gives way last. `rules` are tokens more for
        clear rules.
        """
        page, kept = self._laid(room)
        page.left += kept + rules
        clear = {f"- {x.text}" for x in self._distinct_rules() if x.score >= CLEAR_RULE}
        page.fill(RULES, [x for x in self._over(page, RULES) if x.text in clear], page.left)
        self._reference(page)
        return page

    def _laid(self, room: int) -> tuple[Page, int]:
        """The record, and the tokens kept for naming the messages of what found no room."""
        said = [row for title in (RULES, FACTS) for row in self.rows[title]]
        too_much = max(0, (cost := sum(map(self._cost, said))) - room)
        named = REFERENCE_ROOM + ID_TOKENS * len(said) * too_much // max(1, cost)
        kept = min(named, max(REFERENCE_ROOM, int(REFERENCE_SHARE * room))) if too_much else 0
        page = Page(self.counter, room - kept)
        weight = self.emphasis.of
        sections = [s for s in OUTLINE if s.part == "record"]
        for section in sorted(sections, key=lambda s: -weight(s.title)):
            share = section.most * weight(section.title)
            most = max(section.least, int(share * room))
            page.fill(section.title, self.rows[section.title], most)
        self._fill(page)
        return page, kept

    def _fill(self, page: Page) -> None:
        """Use the room that is left for what found none, by what gives way last."""
        for section in sorted(OUTLINE, key=lambda s: s.gives_way):
            page.fill(section.title, self._over(page, section.title), page.left)

    def _over(self, page: Page, title: str) -> list[Row]:
        told = set(page.sections.get(title, ()))
        return [row for row in self.rows.get(title, ()) if row not in told]

    def _cost(self, row: Row) -> int:
        return self.counter.text(row.text) + LINE_TOKENS

    def _reference(self, page: Page) -> None:
        """Name what a person said that found no room by its messages."""
        left = {row.text for title in (RULES, FACTS) for row in self._over(page, title)}
        said = (r for r in (*self.notes.rules, *self.notes.facts) if r.score >= CLEAR_RULE)
        said = (r for r in said if left & {f"- {r.text}", f"- “{r.text}”"})
        ids = list(dict.fromkeys(short_id(r.message_id) for r in said))
        while ids:
            line = f"- {len(left)} more, by message: {', '.join(ids)}"
            if page.add(RULES, Row(line, self.notes.position)):
                return
            ids = ids[: len(ids) * 3 // 4]

    def standing(self, room: int) -> str:
        """The standing record of a session within so much room; where people only talk, what they
        said that matters is in it.
        """
        room = int(room * self.emphasis.room)
        if not self.notes.is_plain_talk:
            return self._fitted("", room - REFERENCE_TOKENS)
        page = self.record(int(room * PLAIN_PART), int(room * RULES_PART))
        page.left = room - REFERENCE_TOKENS - self.record_tokens(page)
        teller = Teller(self.notes, self.counter, seen=self.seen)
        if said := teller.tell(page.left - HEADING_TOKENS - LINE_TOKENS):
            page.sections[FACTS] = [Row(said)]
        return page.text()

    def planned(self, room: int) -> tuple[Page, int]:
        """The record of a checkpoint with so much room, and the tokens that are left for its
        story beside it and the lists.
        """
        room = max(1, room - REFERENCE_TOKENS - AFTER_TOKENS)
        part = int(room * (PLAIN_PART if self.notes.is_plain_talk else RECORD_PART))
        record = self.record(part)
        taken = part - record.left + self._lists_need(room)
        return record, room - taken - HEADING_TOKENS - LINE_TOKENS

    def story_room(self, room: int) -> int:
        """Tokens that a model's story may take of a checkpoint with so much room at least."""
        return int(TOLD_PART * (room - REFERENCE_TOKENS - AFTER_TOKENS))

    def _lists_need(self, room: int) -> int:
        """Tokens that the lists of a checkpoint with so much room take."""
        most = self._lists_room(room)
        scratch = Page(self.counter, most)
        self.listing.put(scratch, most)
        return most - scratch.left

    def _lists_room(self, room: int) -> int:
        """Tokens that the lists of a checkpoint with so much room may take."""
        share = LISTS_SHARE * (1 + min(1.0, room / SMALL_ROOM)) / 2
        return int(room * share * self.emphasis.listed)

    def written(self, story: str, room: int) -> str:
        """A checkpoint's text within so much room: the record, the story as it is, and lists that
        take no more than their share of it.
        """
        return self._fitted(story, room - REFERENCE_TOKENS - AFTER_TOKENS)

    def _fitted(self, story: str, room: int) -> str:
        """The page's text, composed for less where it would take more than the room."""
        for less in range(0, max(1, room), max(8, room // 50)):  # joined, lines may take more
            text = self._page(story, room - less).text()
            if self.counter.composed(text) <= room:
                return text
        return ""

    def _page(self, story: str, room: int) -> Page:
        """A page with the story; without one the record comes before the lists."""
        told = self.counter.composed(story) + HEADING_TOKENS + LINE_TOKENS if story else 0
        lists = self._lists_need(room if story else int(room * RECORD_LISTS))
        page, kept = self._laid(max(0, room - told - lists))
        page.left = room - told - self.record_tokens(page) - kept
        if story:
            page.sections[STORY] = [Row(story)]
        self.listing.put(page, self._lists_room(room))
        self._fill(page)
        page.left += kept
        self._reference(page)
        return page

    @property
    def demand(self) -> int:
        """Tokens that the record would take if it had all the room it wants."""
        if self.notes.is_plain_talk:
            return 1 << 30
        return self.record_tokens(self.record(1 << 30))

    def record_tokens(self, page: Page) -> int:
        """Tokens of a record as it is written."""
        return self.counter.composed(page.text())

    # --- sections ---------------------------------------------------------------------------------

    def _goal(self) -> Iterator[Row]:
        """The newest request with its fate, what it is part of, and how it began."""
        rows = self.notes.turns.rows
        turns = [t for t in rows if t.words and not t.is_empty]
        if not turns:
            return
        *before, turn = turns
        if self.notes.is_plain_talk and self.notes.turns.is_record:
            yield Row(self._quoted("A record of what people said to each other; last", turn))
            return
        later = rows[rows.index(turn) + 1 :]
        fate = _fate_of(turn)
        answering = f", answering “{shortened(turn.question, WORDS_TOKENS, self.counter)}”"
        closed = f"; then: “{shortened(later[-1].said, 12, self.counter)}”" if later else ""
        said = f"{self._quoted('Asked last', turn)}{answering if turn.question else ''}"
        yield Row(f"{said}; {fate}{closed}", 2)
        if before and (turn.question or len(turn.said.split()) < POINTER):
            asked = next((t for t in before[::-1] if len(t.said.split()) >= POINTER), before[-1])
            yield Row(self._quoted("Before that", asked), 1)
        if before and before[0].said[:80] not in self.seen:
            yield Row(self._quoted("Began with", before[0]), 0)

    def _quoted(self, label: str, turn: Turn) -> str:
        is_seen = turn.said[:80] in self.seen
        below = ", shown below" if is_seen else ""
        most = WORDS_TOKENS // 2 if is_seen else 2 * WORDS_TOKENS
        told = shortened(turn.said, most, self.counter)
        return f"- {label} ({short_id(turn.message_id)}{below}): “{told}”"

    def _distinct_rules(self) -> list[Instruction]:
        """Each rule once, where it was said last; the clearest first."""
        talk = self.notes.is_plain_talk
        said = () if talk and self.notes.turns.is_record else self.notes.rules
        latest = {x.same: x for x in said if x.is_demand or not talk}
        rules = [x for x in latest.values() if x.text not in self.seen]
        return sorted(rules, key=lambda x: (-x.score, -x.position))

    def _rules(self) -> Iterator[Row]:
        return (Row(f"- {x.text}", x.position) for x in self._distinct_rules())

    def _state(self) -> Iterator[Row]:
        """What is true now, as far as code can tell."""
        work = self.notes.work
        checks = sorted(work.checked.values(), key=lambda row: -row[0])
        for order, (position, step, failed) in enumerate(checks[:MOST_CHECKS]):
            outcome = "passed" if failed is None else f"failed: {failed[:120]}"
            later = [file for file, (_, last) in work.files.items() if last > position]
            since = f"; written since: {_last_parts(later)}" if later else ""
            yield Row(f"- `{step[:100]}` {outcome}{since}", 1 + order / 10)
        if work.branch or work.commit:
            where = [f"branch {work.branch}"] if work.branch else []
            where += [f"last commit {work.commit}"] if work.commit else []
            yield Row(f"- On {', '.join(where)}", 0)
        if work.commit and work.uncommitted:
            yield Row(f"- Written since that commit: {_last_parts(work.uncommitted)}", 0.5)
        if work.plan and work.plan[1] != "proposed":
            title = work.plan[0].strip().splitlines()[0].lstrip("# ")[:100]
            yield Row(f"- The plan “{title}” was {work.plan[1]}", 3)
        if ticked := work.done_tasks():
            yield Row(f"- Done: {'; '.join(ticked[-MOST_TICKED:])}", 2.5)
        outcomes = [x.text for turn in self.notes.turns.rows for x in turn.outcomes]
        newest = {found[0]: text for text in outcomes if (found := _FUNCTION.match(text))}
        done = [text for text in outcomes if text in newest.values()]
        for order, text in enumerate(done[: -MOST_DONE - 1 : -1]):
            yield Row(f"- {text}", 2 - order / 10)
        yield from self._said("done")

    def _open(self) -> Iterator[Row]:
        """Open work by its last state."""
        notes = self.notes
        boxes = [words for words, done in notes.turns.boxes.items() if not done]
        open_ = list(dict.fromkeys((*notes.work.open_tasks(), *boxes)))
        if not notes.work.tasks and not notes.work.tracked:
            open_ += [x.removeprefix("- ") for x in notes.carried]
        return (Row(f"- {words}", order) for order, words in enumerate(open_))

    def _next(self) -> Iterator[Row]:
        """What was begun last, what was said last, what waits for an answer, what is to be done
        again.
        """
        turns, work = self.notes.turns, self.notes.work
        newest = turns.rows[-1] if turns.rows else None
        if newest and newest.calls and not newest.is_answered:
            if work.doing in work.open_tasks():
                yield Row(f"- In work: {work.doing}", -1)
            said = [s for s in (*newest.narration, *newest.closing) if s.is_sentence][-1:]
            said = [s for s in said if s.position + LAST_MESSAGES >= self.notes.position]
            yield from (Row(f"- In the middle of it; said last: {s.text}", 0) for s in said)
            if work.last_call:
                yield Row(f"- Done last: {work.last_call}", 1)
        elif newest and newest.closing:
            ending = [s.text for s in newest.closing if s.is_sentence or s.asks][-LAST_SENTENCES:]
            if ending:
                waits = "; it waits for an answer" if ending[-1].endswith(("?", "？")) else ""
                yield Row(f"- The assistant said last{waits}: “{' '.join(ending)}”", 2)
        refused = [x for x in self.notes.exchanges if x.is_refusal and newest]
        if refused and newest and refused[-1].position >= newest.position:
            asked = refused[-1]
            yield Row(f"- Refused last: {_refused(asked)} — “{asked.answer}”", 3)
        if work.unchecked and work.checked:
            yield Row(f"- To check, written since a check passed: {_last_parts(work.unchecked)}", 4)

    def _decisions(self) -> Iterator[Row]:
        """Questions with their answers, the newest first, where people do more than talk; behind
        these, where it is wanted, what the assistant said that it decided.
        """
        talk = self.notes.is_plain_talk
        asked = [x for x in self.notes.exchanges if x.is_refusal or not _asks_back(x.answer)]
        for exchange in reversed(asked if not talk else ()):
            answer = f"“{exchange.answer}”" if exchange.answer else ""
            if exchange.is_refusal:
                yield Row(f"- Refused {_refused(exchange)}: {answer}", exchange.position)
            else:
                joined = " — ".join(x for x in (exchange.question, answer) if x)
                yield Row(f"- {joined}", exchange.position)
        yield from self._said("decisions")

    def _said(self, topic: Topic) -> Iterator[Row]:
        """What the assistant said about a topic, where it is wanted, the newest first."""
        if topic not in self.emphasis.said:
            return
        for turn in reversed(self.notes.turns.rows):
            for one in reversed((*turn.narration, *turn.closing)):
                about = "errors" if anchors.error_lines(one.text) else topic_of(one.text)
                if about == topic and not one.is_plan and one.text not in self.seen:
                    yield Row(f"- {one.text}", one.position)

    def _facts(self) -> Iterator[Row]:
        """What persons said that is no clear rule, the most telling first, and of these the oldest:
        the story has more words for what is new. Where people only talk, the story is made of it.
        """
        if self.notes.is_plain_talk:
            return iter(())
        said = {x.same: x for x in self.notes.facts if x.text not in self.seen}
        rows = [x for x in said.values() if _is_fact(x)]
        worth = {x.same: x.score + min(2, _names_in(x.text)) for x in rows}
        rows.sort(key=lambda x: (-worth[x.same], x.position))
        return (Row(f"- “{x.text}”", x.position) for x in rows)

    def _errors(self) -> Iterator[Row]:
        """What failed, by what was tried, with what came of it: what still fails first, and what
        tools refused only as far as it still holds.
        """
        told: set[str] = set()
        wants_all = self.emphasis.attempts
        rows = list(reversed(self.notes.work.attempts.items()))
        rows = rows if wants_all else list(_newest_of_kind(rows, self.notes.work.checked))
        rows.sort(key=lambda row: row[1].outcome != "fails")
        for (tool, target), attempt in rows if wants_all else rows[:MOST_ERRORS]:
            lines = [x for x in reversed(attempt.lines) if x not in told and x not in self.seen]
            lines = list(_first(lines, ERROR_CHARS)) if wants_all else lines[:1]
            told.update(lines)
            if lines:
                tried = f"{_tried(tool, target, attempt)}: " if tool else ""
                errors = "; ".join(f"`{line[:LONGEST_ERROR]}`" for line in lines)
                yield Row(f"- {tried}{errors}", attempt.position)
        yield from self._said("errors")


@lru_cache(maxsize=2 * MOST_FACTS)
def _names_in(said: str) -> int:
    """How many names a fact holds; each compression asks it of the same ones."""
    return len(anchors.find(said))


def _is_fact(said: Instruction) -> bool:
    """Whether it can stand among the facts: neither a question, nor what only leads to one."""
    return len(said.text) <= LONGEST_FACT and not said.text.endswith((":", "：", "？", "?"))


def _asks_back(answer: str) -> bool:
    """Whether an answer only asks: nothing is decided by it."""
    return answer.rstrip("”\"' ").endswith(("?", "？"))


def _refused(exchange: Exchange) -> str:
    """What was refused, folders left out."""
    return " ".join(w.rsplit("/", 1)[-1] for w in exchange.question[:160].split())


def _last_parts(files: Iterable[str]) -> str:
    """Files by their last parts, the newest first."""
    return ", ".join([file.rsplit("/", 1)[-1] for file in files][::-1][:MOST_FILES])


def _fate_of(turn: Turn) -> str:
    if turn.is_answered:
        return "answered"
    return "in work, nothing said since the last call" if turn.calls else "the newest message"


def _newest_of_kind(
    rows: Iterable[tuple[tuple[str, str], Attempt]], told: Collection[str]
) -> Iterator[tuple[tuple[str, str], Attempt]]:
    """Of checks that failed, the newest first, one for each kind of check; those that still fail
    only where their state is not told, the others where they say what was wrong.
    """
    seen: set[str] = set()
    for key, attempt in rows:
        if attempt.outcome == "fails":
            is_news = not attempt.kinds.issubset(told)
        else:
            is_news = any(line.count(" ") >= TELLING for line in attempt.lines)
        if attempt.kinds - seen and is_news:
            seen |= attempt.kinds
            yield key, attempt


def _first(lines: Iterable[str], most: int) -> Iterator[str]:
    """The first of these lines up to so many characters, at least one."""
    for line in lines:
        if most <= 0:
            return
        yield line
        most -= min(len(line), LONGEST_ERROR)


def _tried(tool: str, target: str, attempt: Attempt) -> str:
    """What was tried, how often it failed, what was written then, and what came of it."""
    said = f"{tool} `{target[:100]}`" if target else tool
    if attempt.times > 1:
        said += f" ×{attempt.times}"
    if attempt.written:
        said += f", then wrote {', '.join(f.rsplit('/', 1)[-1] for f in attempt.written)}"
    return f"{said}, {_OUTCOMES[attempt.outcome]}"
