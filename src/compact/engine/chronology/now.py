"""The section on the present: last request, open tasks, outcomes of checks, branch and commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compact.engine.chronology.cutting import Cuttable
from compact.engine.chronology.items import Item, question_of
from compact.engine.chronology.names import below, root_of
from compact.engine.chronology.notes import Notes
from compact.engine.chronology.work import Check
from compact.engine.visible import VisibleText
from compact.messages.messages import short_id
from compact.messages.tokens import TokenCounter
from compact.text.sentences import plain

MOST_CHECKS, MOST_SINCE, MOST_FILES, MOST_OPEN = 4, 4, 14, 8
"""Most checks, files written since a check, files in the other lines, and open tasks."""
ASKED_TOKENS, POINTED = 60, 12
"""Most tokens of the last request, and of the last result; most words of a request that the prompt
shows anyway."""


def lines_of(notes: Notes, seen: VisibleText, counter: TokenCounter) -> Iterator[str]:
    """Yield the lines on the present: what is asked, what comes next, what stands."""
    work = notes.work
    asked = next((x for x in reversed(notes.items.rows) if x.kind == "request"), None)
    is_answered = asked is not None and _is_answered(notes, asked)
    if asked is not None and not (notes.is_plain_talk and seen.tells(asked.text)):
        yield _asked(asked, seen, counter, is_answered=is_answered)
    if notes.is_plain_talk:
        return
    if step := _next(notes, is_answered=is_answered):
        yield f"- Next: {step}"
    if root := root_of(notes):
        yield f"- Paths are below {root}"
    yield from (f"- To do: {words}" for words in work.open_tasks()[:MOST_OPEN])
    at, call, result = work.reported
    if at > (asked.position if asked else 0) and not (is_answered or seen.tells(result)):
        yield f"- Result of {call}: {_within(result, counter)}"
    yield from _checks_and_commits(notes)
    if work.waiting:
        yield f"- Called last, without a result: {work.waiting}"
    if work.plan and work.plan[1] != "proposed":
        title = work.plan[0].strip().splitlines()[0].lstrip("# ")[:100]
        yield f"- The plan “{title}” was {work.plan[1]}"
    if work.files:
        times = (f" ×{n}" if n > 1 else "" for n, _ in reversed(work.files.values()))
        files = [f"{below(f, root)}{n}" for f, n in zip(reversed(work.files), times, strict=True)]
        yield f"- Written, the newest first: {_some(files)}"


def _checks_and_commits(notes: Notes) -> Iterator[str]:
    work = notes.work
    for check in reversed(list(work.checked.values())[-MOST_CHECKS:]):
        later = _written_after(notes, check)
        since = f"; written since: {_last_parts(later, MOST_SINCE)}" if later else ""
        yield f"- `{check.step}` came to: {check.outcome}{since}"
    if work.branch or work.commit:
        where = [f"branch {work.branch}"] if work.branch else []
        where += [f"last commit {work.commit}"] if work.commit else []
        yield f"- On {', '.join(where)}"
    if work.commit and work.uncommitted:
        yield f"- Written since that commit: {_last_parts(work.uncommitted)}"


def _next(notes: Notes, *, is_answered: bool) -> str:
    """Return the one step that the log names as next. Empty if it names none."""
    work = notes.work
    if is_answered and (question := question_of(notes.items.rows[-1].text)):
        return f"the user has not answered “{plain(question)}”"
    if tasks := work.open_tasks():
        return f"“{work.doing}”, which is begun" if work.doing in tasks else f"“{tasks[0]}”"
    check = next(reversed(work.checked.values()), None)
    if check is None or is_answered:
        return ""
    if _written_after(notes, check):
        return f"run `{check.step}` again: files were written since"
    return "" if check.passed else f"`{check.step}` has to pass"


def _written_after(notes: Notes, check: Check) -> list[str]:
    return [file for file, (_, last) in notes.work.files.items() if last > check.position]


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
        said, below = _within(asked.text, counter), ""
    answered = ", and answered" if is_answered else ""
    return f"- Asked last ({short_id(asked.message_id)}{below}){answered}{to}: “{said}”"


def _within(text: str, counter: TokenCounter) -> str:
    return Cuttable(" ".join(text.split()), counter).within(ASKED_TOKENS, "")


def _last_parts(files: Iterable[str], most: int = MOST_FILES) -> str:
    """Name files by the last part of their paths, the newest first."""
    return _some([file.rsplit("/", 1)[-1] for file in files][::-1], most)


def _some(files: list[str], most: int = MOST_FILES) -> str:
    more = len(files) - most
    return ", ".join(files[:most]) + (f" … {more} more" if more > 0 else "")
