"""The section on the present: last request, open tasks, outcomes of checks, branch and commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compact.engine.chronology.cutting import Cuttable
from compact.engine.chronology.items import Item, probe_of
from compact.engine.chronology.names import below, root_of
from compact.engine.chronology.notes import Notes
from compact.engine.visible import VisibleText
from compact.messages.messages import short_id
from compact.messages.tokens import TokenCounter

MOST_CHECKS, MOST_SINCE, MOST_FILES, MOST_OPEN = 4, 4, 14, 8
"""Most checks, files written since a check, files in the other lines, and open tasks."""
ASKED_TOKENS, POINTED = 60, 12
"""Most tokens of the last request; most of its words if the prompt shows it anyway."""


def lines_of(notes: Notes, seen: VisibleText, counter: TokenCounter) -> Iterator[str]:
    """Yield the lines on the present."""
    work = notes.work
    asked = next((x for x in reversed(notes.items.rows) if x.kind == "request"), None)
    if asked is not None and not (notes.is_plain_talk and seen.shows(probe_of(asked))):
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
    is_seen = seen.shows(probe_of(asked))
    to = f", to “{asked.before}”" if asked.before else ""
    if is_seen:
        words = asked.text.split()
        said, below = " ".join(words[:POINTED]) + " …" * (len(words) > POINTED), ", shown below"
    else:
        said, below = Cuttable(" ".join(asked.text.split()), counter).within(ASKED_TOKENS, ""), ""
    answered = ", and answered" if is_answered else ""
    where = f"{short_id(asked.message_id)}{below}".removeprefix(", ")
    return f"- Asked last{where and f' ({where})'}{answered}{to}: “{said}”"


def _last_parts(files: Iterable[str], most: int = MOST_FILES) -> str:
    """Name files by the last part of their paths, the newest first."""
    return _some([file.rsplit("/", 1)[-1] for file in files][::-1], most)


def _some(files: list[str], most: int = MOST_FILES) -> str:
    more = len(files) - most
    return ", ".join(files[:most]) + (f" … {more} more" if more > 0 else "")
