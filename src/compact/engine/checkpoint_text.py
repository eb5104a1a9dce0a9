"""The text of a checkpoint, composed from notes: the present, the story (a summary), the user's
words, names.

Code writes what it knows, in room that is reserved first. What the reader sees elsewhere is left
out, and so are empty sections.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import get_args

from compact.engine.chronology.composing import Chronology
from compact.engine.chronology.cutting import Cuttable
from compact.engine.chronology.items import Item
from compact.engine.chronology.names import below, listed, root_of
from compact.engine.chronology.notes import Notes
from compact.engine.chronology.work import Kind as DeedKind
from compact.engine.visible import NOTHING, VisibleText
from compact.messages.cached import cached_property
from compact.messages.messages import short_id
from compact.messages.tokens import TokenCounter
from compact.text.modes import KindWeights, weights_of
from compact.text.outline import NAMES, NOW, OUTLINE, SAID, STORY

NOW_SHARE, LEAST_NOW = 1 / 8, 100
"""The section on the present gets at most this share of the room, but at least this many tokens, up
to a third of the room."""
CODE_NAMES, OTHER_NAMES, MOST_NAMES = 0.34, 0.1, 0.45
"""Shares of the room for names. `CODE_NAMES`: files are written or commands run. `OTHER_NAMES`:
other tools are called. `MOST_NAMES`: the largest that a mode may set. Plain talk has none."""
HEADING_TOKENS = 5
"""Most tokens of a section heading with its blank line."""
REFERENCE_TOKENS, AFTER_TOKENS = 24, 32
"""Tokens of `REFERENCE_LINE`, and of the sentence that says what comes after a checkpoint."""
TOLD_PART, TALK_TOLD, NAMES_BESIDE = 0.6, 0.9, 0.7
"""Share of the room that a model's story may take in any case, and in plain talk. Factor on the
share of names beside such a story, which names most of what is needed."""
MOST_CHECKS, MOST_SINCE, MOST_FILES, MOST_OPEN = 4, 4, 14, 8
"""Most checks, files written since a check, files in the other lines, and open tasks."""
ASKED_TOKENS, POINTED = 60, 12
"""Most tokens of the last request; most of its words if the prompt shows it anyway."""
WORTH_TELLING = 0.05
"""If names leave at least this share of the room unused, the story gets it."""
LEAST_STORY = 24
"""Fewest tokens of room for a story."""


@dataclass(frozen=True)
class Composer:
    """Composes a checkpoint's other sections from notes, and the story if code writes it."""

    notes: Notes
    counter: TokenCounter
    seen: VisibleText = NOTHING
    """Text that the reader sees elsewhere. It is not repeated."""
    mode: str = "assistant"
    strategy: str = "task_state"
    last: int = 1 << 60
    """From this position on, the prompt shows every message word for word."""
    clipped: Collection[int] = ()
    """Positions of shortened messages in the prompt."""
    by_model: bool = False
    """Whether a model writes the story. Code then adds only the user's words."""

    @cached_property
    def weights(self) -> KindWeights:
        """The weights that the mode and strategy set."""
        return weights_of(self.mode, self.strategy)

    def now(self, room: int) -> str:
        """Return the lines on the present that fit into `NOW_SHARE` of the room."""
        room = max(min(LEAST_NOW, room // 3), int(NOW_SHARE * room))
        lines = list[str]()
        for told in lines_on_now(self.notes, self.seen, self.counter):
            line = " ".join(told.split())  # a task must not add lines of its own
            if (cost := self.counter.text(line) + 1) <= room:
                lines.append(line)
                room -= cost
        return "\n".join(lines)

    def planned(self, room: int) -> tuple[str, int]:
        """Return the section on the present, and the tokens left for the story."""
        room -= REFERENCE_TOKENS + AFTER_TOKENS
        now = self.now(room)
        left = room - self.counter.composed(now) - 3 * HEADING_TOKENS
        return _joined({NOW: now}), int(left * (1 - self._names_share))

    def story_room(self, room: int) -> int:
        """Return the tokens that a model's story may take in any case."""
        part = TALK_TOLD if self.notes.is_plain_talk else TOLD_PART
        return int(part * (room - REFERENCE_TOKENS - AFTER_TOKENS))

    @property
    def _names_share(self) -> float:
        if self.notes.is_plain_talk:
            return 0.0
        share = CODE_NAMES if self.notes.is_code else OTHER_NAMES
        return min(MOST_NAMES, share * self.weights.names)

    def written(self, story: str | None, room: int) -> str:
        """Return the text of a checkpoint within `room`. If no story is given, code writes one."""
        by = self if story else replace(self, by_model=False)
        return by._fitted(story, room - REFERENCE_TOKENS - AFTER_TOKENS)

    def standing(self, room: int, checkpoints: Iterable[str] = ()) -> str:
        """Return a session's record within `room`: the present, and what checkpoints leave out."""
        beside = replace(self, seen=VisibleText(checkpoints, self.seen))
        return beside._fitted(None, int(room * self.weights.room) - REFERENCE_TOKENS)

    def _fitted(self, story: str | None, room: int) -> str:
        """Compose with less and less room until the text fits."""
        chronology = self._chronology(story or "")
        for less in range(0, max(1, room), max(8, room // 50)):  # joined lines may take more
            text = self._composed(story, chronology, room - less)
            if self.counter.composed(text) <= room:
                return text
        return ""

    def _composed(self, story: str | None, chronology: Chronology, room: int) -> str:
        parts = {NOW: self.now(room), STORY: story or ""}
        left = room - self._size(parts) - 2 * HEADING_TOKENS
        words = SAID if story or self.by_model else STORY
        if story and self.notes.is_plain_talk:  # single sentences tell little beside it
            left = min(left, int((1 - TALK_TOLD) * room))
        names, most = "", int(self._names_share * room)
        left -= int(most * NAMES_BESIDE) if story else most
        parts[words] = chronology.told(left) if left >= LEAST_STORY else ""
        if most:
            free = min(most, room - self._size(parts))
            names = self._names(parts, free)
            unused = free - self.counter.text(names)
            if unused > WORTH_TELLING * room:
                left += int(0.9 * unused)
                parts[words] = chronology.told(left) if left >= LEAST_STORY else ""
                names = self._names(parts, min(most, room - self._size(parts)))
        return _joined({**parts, NAMES: names}, STORY if story else NOW)

    def _chronology(self, story: str) -> Chronology:
        """Return what neither the story nor the prompt says, in order. Beside a model's story, only
        the user's words.
        """
        weights = self.weights
        if story or self.by_model:
            kinds = ("earlier", "pasted", "closing", "said", *get_args(DeedKind))
            weights = replace(weights, **dict.fromkeys(kinds, 0.0))
        return Chronology(
            self.notes,
            self.counter,
            last=self.last,
            seen=VisibleText([story], self.seen),
            clipped=self.clipped,
            weights=weights,
        )

    def _names(self, parts: Mapping[str, str], room: int) -> str:
        told = "\n".join(parts.values())
        return listed(self.notes, told, room, self.counter, self.seen)

    def _size(self, parts: Mapping[str, str]) -> int:
        return self.counter.composed(_joined(parts))


def _joined(parts: Mapping[str, str], first: str = NOW) -> str:
    """Join the sections: the first one, then the others in order."""
    order = dict.fromkeys((first, *OUTLINE))
    return "\n\n".join(f"## {title}\n{parts[title]}" for title in order if parts.get(title))


# --- the section on the present -------------------------------------------------------------------


def lines_on_now(notes: Notes, seen: VisibleText, counter: TokenCounter) -> Iterator[str]:
    """Yield the lines on the present."""
    work = notes.work
    asked = next((x for x in reversed(notes.items.rows) if x.kind == "request"), None)
    if asked is not None and not (notes.is_plain_talk and seen.tells(asked.text)):
        yield _asked(asked, seen, counter, is_answered=_is_answered(notes, asked))
    root = root_of(notes)
    if root:
        yield f"- Paths are below {root}"
    if not notes.is_plain_talk:
        yield from (f"- To do: {words}" for words in work.open_tasks()[:MOST_OPEN])
        for check in list(work.checked.values())[: -MOST_CHECKS - 1 : -1]:
            later = [file for file, (_, last) in work.files.items() if last > check.position]
            since = f"; written since: {_last_parts(later, MOST_SINCE)}" if later else ""
            yield f"- `{check.step}` came to: {check.outcome}{since}"
        if work.branch or work.commit:
            where = [f"branch {work.branch}"] if work.branch else []
            where += [f"last commit {work.commit}"] if work.commit else []
            yield f"- On {', '.join(where)}"
        if work.commit and work.uncommitted:
            yield f"- Written since that commit: {_last_parts(work.uncommitted)}"
        if work.waiting:
            yield f"- Called last, without a result: {work.waiting}"
        if work.plan and work.plan[1] != "proposed":
            title = work.plan[0].strip().splitlines()[0].lstrip("# ")[:100]
            yield f"- The plan “{title}” was {work.plan[1]}"
        if work.files:
            times = (f" ×{n}" if n > 1 else "" for n, _ in reversed(work.files.values()))
            files = [
                f"{below(f, root)}{n}" for f, n in zip(reversed(work.files), times, strict=True)
            ]
            yield f"- Written, the newest first: {_some(files)}"


def _is_answered(notes: Notes, asked: Item) -> bool:
    """Whether the assistant spoke last, with no call after that."""
    last, work = notes.items.rows[-1], notes.work
    is_said = last.kind in ("said", "closing") and last.position > asked.position
    return is_said and not work.waiting and last.position > work.last


def _asked(asked: Item, seen: VisibleText, counter: TokenCounter, *, is_answered: bool) -> str:
    is_seen = seen.tells(asked.text)
    to = f", to “{asked.before}”" if asked.before else ""
    if is_seen:
        words = asked.text.split()
        said, below = " ".join(words[:POINTED]) + " …" * (len(words) > POINTED), ", shown below"
    else:
        said, below = Cuttable(" ".join(asked.text.split()), counter).within(ASKED_TOKENS, ""), ""
    answered = ", and answered" if is_answered else ""
    return f"- Asked last ({short_id(asked.message_id)}{below}){answered}{to}: “{said}”"


def _last_parts(files: Iterable[str], most: int = MOST_FILES) -> str:
    """Name files by the last part of their paths, the newest first."""
    return _some([file.rsplit("/", 1)[-1] for file in files][::-1], most)


def _some(files: list[str], most: int = MOST_FILES) -> str:
    more = len(files) - most
    return ", ".join(files[:most]) + (f" … {more} more" if more > 0 else "")
