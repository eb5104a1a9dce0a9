"""`compactctl look`: shows what agents forgot, from people's own transcripts. It only reads."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from compact import wiring
from compact.cli import output
from compact.cli.errors import Stop
from compact.cli.options import (
    SettingsOptions,
    command,
    day_option,
    number_option,
    whole_number,
)
from compact.cli.progress import Progress
from compact.cli.render import Report, Styled
from compact.cli.settings import settings_of
from compact.cli.words import counted, one_line
from compact.look.measures import AFTER, MESSAGES
from compact.look.page import page_of
from compact.look.report import Looker, session_of
from compact.secrets.redaction import Known, redact

ROWS, WIDTH = 44, 80
"""The most lines and columns of the first screen."""
_BAR = 28
"""How many columns a bar of 100 % has."""
_NEXT = (
    "",
    "  compactctl look SESSION --at N       one of them: before, summary, after",
    "  compactctl look --html look.html     all of them, as one page",
)
_INSTALL = "  compactctl install claude-code       give the agent back what summaries lose"
_PROGRAMS = {"claude_code": "Claude Code", "codex": "Codex", "pi": "pi", "opencode": "OpenCode"}
_ROWS: Mapping[str, tuple[str, str]] = {
    "again": ("look-ups of what it had just seen", "count"),
    "again_tokens": ("tokens of these", "tokens"),
    "lookups": ("look-ups in all", "count"),
    "refused": ("edits refused as “not read yet”", "count"),
    "repeated": ("errors it had made before", "count"),
    "names_shown": ("names shown again before its use³", "share"),
}
"""Measure → the name of its row, and how its numbers are written."""
_ACTIONS: Mapping[str, str] = {
    "looked_up_again": "brought what it had seen before",
    "refused_edits": "refused: not read yet",
    "repeated_errors": "failed as before",
}
"""List of actions of a compaction → what these actions were."""
_HOOK_ROWS = ("again", "refused", "names_shown")
"""Measures that are shown with a hook next to those without."""


@command
def look(
    options: SettingsOptions,
    *,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATHS]",
            help="Files, folders or a session's id. Default: the agents' folders.",
        ),
    ] = None,
    since: Annotated[datetime | None, day_option("Only compactions since this day.")] = None,
    project: Annotated[
        str, typer.Option(metavar="TEXT", help="Only files with this text in their path.")
    ] = "",
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Write all of it as one page.")
    ] = None,
    at: Annotated[
        int | None,
        number_option("Show a session's N-th compaction: before, summary, after.", whole_number),
    ] = None,
) -> Report:
    """Show what your coding agent forgot when it compacted, from its own transcripts.

    Reads the files of Claude Code, Codex, pi, OpenCode and Gemini CLI. It writes nothing, imports
    nothing, sends nothing, and masks secrets. Each number stands beside the same number at moments
    of the same sessions without a compaction.

    Examples:
      compactctl look
      compactctl look ~/.claude --since "last month"
      compactctl look --html look.html
      compactctl look 98-78b7 --at 1
    """
    output.check_name("--html", html)
    redactor = settings_of(options).redactor()
    known = Known(redactor=redactor)
    looker = Looker(
        since=since.timestamp() if since else None,
        project=project,
        mask=lambda text: redact(text, known).text,
    )
    places, wanted = _places(paths or [])
    with Progress("Looking for transcripts") as progress:
        for number, file in enumerate(wiring.find_transcripts(places)):
            progress.now(f"Reading file {number + 1:,}")
            if not wanted or session_of(file.path).startswith(wanted):
                looker.take(file)
        value = looker.report(whole=bool(html or at), told=progress.now)
    if at is not None:
        one = _numbered(value["each"], at)
        yield one
        yield from map(Styled, _screen_of(*_detail(one)))
        return
    yield value
    if html:
        lines = lines_of(value, paths or [], rows=None)
        size = output.write(html, page_of(lines, map(_detail, value["each"])))
        yield f"wrote {html} ({counted(value['compactions'], 'compaction')}, {size or 0:,} bytes)"
        return
    yield from map(Styled, lines_of(value, paths or []))


def _screen_of(head: str, parts: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield head
    for name, lines in parts.items():
        yield "\n".join(("", name.upper(), *(f"  {line}" for line in lines)))


def _places(names: Sequence[str]) -> tuple[list[Path], tuple[str, ...]]:
    """Return the files and folders to search, and the beginnings of the wanted session ids."""
    paths = {name: Path(name).expanduser() for name in names}
    ids = tuple(name for name, path in paths.items() if not path.exists())
    if wrong := next((name for name in ids if "/" in name or name.startswith(".")), None):
        raise Stop(f"{wrong}: no such file or folder")
    places = [path for name, path in paths.items() if name not in ids]
    places = places or wiring.transcript_homes()
    if not places:
        raise Stop("no coding agent keeps transcripts here: name files or folders")
    return places, ids


def _numbered(each: Sequence[dict[str, Any]], number: int) -> dict[str, Any]:
    own = [one for one in each if not one["subagent"]]
    sessions = {one["session"] for one in own}
    if len(sessions) > 1:
        raise Stop(f"--at is for one session, and these are {len(sessions)}: name its file or id")
    found = [one for one in own if one["number"] == number]
    if not found:
        many = counted(len(own), "compaction")
        raise Stop(f"no compaction {number} in what was found: {many} in one session")
    return found[0]


# --- the first screen -----------------------------------------------------------------------------


def lines_of(value: Mapping[str, Any], paths: Sequence[str], rows: int | None = ROWS) -> list[str]:
    """Return the lines of the first screen: at most `rows`, of at most 80 columns each."""
    title = "compactctl look · read only, nothing leaves this machine"
    name = f" · {one_line(' '.join(paths), WIDTH - len(title) - 3)}" if paths else ""
    lines = [title + name, *_session_counts(value)]
    if not value["compactions"]:
        return lines
    lines += ["", *_table(value), *_user_quotes(value["said"])]
    is_claude = any(said["format"] == "claude_code" for said in value["said"])
    following = [] if rows is None else [*_NEXT, *([_INSTALL] if is_claude else [])]
    shown = list[str]()
    for number, moment in enumerate(value["moments"], 1):
        told = (line for text in _moment(moment) for line in textwrap.wrap(text, WIDTH - 7))
        block = [f"  {' ' if index else number}  {line}" for index, line in enumerate(told)]
        if rows is not None and len(lines + shown + block + following) > rows - 2:
            break
        shown += block
    return [*lines, *(["", "The worst moments", *shown] if shown else []), *following]


def _session_counts(value: Mapping[str, Any]) -> Iterator[str]:
    if not value["sessions"] and not value["compactions"]:
        yield "No session found: nothing to show."
        return
    size = max(1, round(value["bytes"] / 1e6))
    line = f"{counted(value['sessions'], 'session')} ({size:,} MB)."
    if value["compactions"]:
        line += f" {value['compacted_sessions']:,} were compacted, "
        line += counted(value["compactions"], "time")
        line += f" ({value['automatic']:,} automatically)." if value["automatic"] else "."
    else:
        since = f" since {value['since'][:16]}" if value["since"] else ""
        line += f" None of them was compacted{since}: nothing to show."
    yield line
    if value["in_subagents"]:
        yield f"{counted(value['in_subagents'], 'of these', 'of these')} in sub-agents."
    expiring = value["expiring"]
    if expiring["sessions"]:
        yield (
            f"Claude Code deletes transcripts after {expiring['days']} days: "
            f"{expiring['sessions']:,} of them within a week."
        )
    broken = value["unreadable"]
    if broken["lines"]:
        many = counted(broken["files"], "file")
        yield f"{counted(broken['lines'], 'line')} in {many} could not be read; left out."


def _table(value: Mapping[str, Any]) -> Iterator[str]:
    rows = list(_rows(value))
    for row in rows:
        yield f"  {row[0]:37}{row[1]:>7}{row[2]:>10}{row[3]:>24}"
        if row is rows[0]:
            yield " " + "─" * (WIDTH - 2)
    yield from _notes(value)


def _rows(value: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    yield f"In the {AFTER} actions after a compaction", "here", "without¹", "due to it²"
    yield from _compared(value["compared"], _ROWS)
    pauses = value["pauses"]
    if pauses["known"]:
        total = f"{pauses['total'] / 60:,.0f} min in all"
        yield "the pause itself (median)", f"{pauses['median']:.0f} s", "", total
    if (hook := value.get("hook")) and hook["compared"]:
        given = counted(hook["given"], "time")
        yield f"Our hook gave something back {given}", "with", "without", "difference²"
        yield from _compared(hook["compared"], _HOOK_ROWS)


def _compared(compared: Mapping[str, Any], names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    for name in names:
        if row := compared.get(name):
            line, kind = _ROWS[name]
            here, without = (_number(row[key], kind) for key in ("here", "without"))
            yield line, here, without, _due(row, kind)


def _notes(value: Mapping[str, Any]) -> Iterator[str]:
    if not value["compared"]:
        yield f"  No session went on for {AFTER} actions and has as many without one to compare."
        return
    row = next(iter(value["compared"].values()))
    sessions, compared = counted(row["sessions"], "session"), row["compactions"]
    every = value["compactions"]
    yield f"¹ other moments of the same {sessions} ({compared} of the {every} can be compared)."
    yield "² and its 95 % interval, sessions drawn; “–”: under 10 compared, or chance."
    yield f"³ of the names known from before that it used in the next {MESSAGES} messages."


def _due(row: Mapping[str, Any], kind: str) -> str:
    if not row["due_to_it"]:
        return "–"
    low, high = (_number(row[key], kind).removesuffix(" %") for key in ("low", "high"))
    difference = _number(row["difference"], kind).removesuffix(" %")
    points = " points" if kind == "share" else ""
    return f"{'+' if row['difference'] > 0 else ''}{difference}{points} [{low}, {high}]"


def _number(number: float, kind: str) -> str:
    if kind == "share":
        return f"{100 * number:.0f} %"
    text = f"{number:,.0f}" if kind == "tokens" or abs(number) >= 10 else f"{number:.1f}"
    return text.replace("-", "−")


def _user_quotes(programs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for said in sorted(programs, key=lambda p: -p["messages"])[:2]:
        if not said["messages"]:
            continue
        yield ""
        yield f"What you had said before {_program(said)} compacted"
        for label, part, whole in _quoted(said):
            share = part / whole
            bar = "█" * round(share * _BAR) or "▏"
            yield f"  {label:36}{bar:{_BAR}}{100 * share:4.0f} % of {whole:,}"
        if example := said.get("example"):
            yield f"  “{one_line(example['text'], 44)}” ({_day(example['time'])}): gone by then"


def _program(said: Mapping[str, Any]) -> str:
    return _PROGRAMS.get(said["format"], str(said["format"]))


def _quoted(said: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    if said["messages"]:
        yield "is quoted after it", said["in_summary"], said["messages"]
    if said["followed"]:
        yield "is quoted after the next one", said["in_next"], said["followed"]


def _day(time: str) -> str:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return "no date"
    return f"{moment.day} {moment:%b, %H:%M}"


def _moment(moment: Mapping[str, Any]) -> Iterator[str]:
    yield from _event_lines(moment)
    yield from _kept_lines(moment)


def _event_lines(moment: Mapping[str, Any]) -> Iterator[str]:
    where = f"{moment['id']} --at {moment['number']}"
    if moment["kind"] == "asked":
        prompt, before = moment["prompt"], moment["before"]
        yield f"[{where}] You, {_day(prompt['time'])}: “{one_line(prompt['text'], 90)}”"
        lines = one_line(" … ".join(before["lines"]), 100)
        yield f"Before it, {before['by']}, {_day(before['time'])}: “{lines}”"
        kept = one_line(" … ".join(moment["summary"][:1]), 110)
        yield f"The summary: “{kept}”" if kept else "The summary says nothing of it."
        return
    actions = moment["actions"]
    largest = ", ".join(
        f"{action['tool']} {one_line(_short(action['subject']), 40)} ({action['tokens']:,} tokens)"
        for action in actions[:2]
    )
    if moment["kind"] == "refused":
        files = ", ".join(dict.fromkeys(one_line(_short(a["subject"]), 40) for a in actions))
        edits = counted(len(actions), "edit")
        yield f"[{where}] {edits} refused, “File has not been read yet”: {files}"
        if moment["agent"]:
            yield f"The agent: “{one_line(moment['agent'], 140)}”"
    else:
        yield (
            f"[{where}] {len(actions)} of the next {moment['lookups']} look-ups brought what it "
            f"had just seen: {largest}"
        )


def _short(subject: str) -> str:
    return subject.rsplit("/", 1)[-1] if "/" in subject and " " not in subject else subject


def _kept_lines(moment: Mapping[str, Any]) -> Iterator[str]:
    kept, summary, messages = (
        moment[key] for key in ("kept_by_compact", "kept_by_summary", "messages")
    )
    if kept:
        yield (
            f"Your {counted(messages, 'message')}: the summary quotes {summary['messages']}, "
            f"compact in as many tokens {kept['messages']}."
        )
        yield (
            f"The {moment['names_used']} names used next: {summary['names']} in the summary, "
            f"{kept['names']} in compact's."
        )


# --- one compaction -------------------------------------------------------------------------------


def _detail(one: Mapping[str, Any]) -> tuple[str, dict[str, list[str]]]:
    size = f", {one['tokens_before']:,} tokens" if one["tokens_before"] else ""
    pause = f", pause {one['pause_seconds']:.0f} s" if one["pause_seconds"] else ""
    quoted = f"{one['messages_in_summary']} of {counted(one['messages'], 'message')}"
    said = (
        f"{'in the summary    ' if said['in_summary'] else 'not in the summary'} "
        f"“{one_line(said['text'], 200)}”"
        for said in one["said"]
    )
    actions = (
        f"{label}: {action['tool']} {one_line(action['subject'], 120)} "
        f"({action['tokens']:,} tokens)"
        for key, label in _ACTIONS.items()
        for action in one[key]
    )
    after = f"The next {one['actions_after']} actions: {one['lookups']} look-ups"
    return f"{one['session']} · compaction {one['number']} · {_day(one['time'])}{size}{pause}", {
        "Before": [f"The summary quotes {quoted} of yours", *said, *_spoken(one["before"])],
        "Summary": one["summary"].split("\n"),
        "After": [after, *_spoken(one["after"]), *actions, *_kept_lines(one)],
    }


def _spoken(spoken: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for each in spoken:
        who = "you" if each["by_person"] else "agent"
        yield f"{_day(each['time'])} {who}: {one_line(each['text'], 300)}"
