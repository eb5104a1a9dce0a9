"""`compactctl look`: what agents forgot, in people's own transcripts. Read only."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from compact import wiring
from compact.cli import output
from compact.cli.errors import Stop
from compact.cli.options import SettingsOptions, command, day_option, flag, number_option, whole_number
from compact.cli.progress import Progress
from compact.cli.render import Report, Styled
from compact.cli.settings import settings_of
from compact.cli.words import counted, one_line
from compact.look.measures import AFTER, MESSAGES
from compact.look.report import Looker, session_of
from compact.secrets.redaction import Known, redact

WIDTH = 80
"""Columns."""
_BAR = 30
_PROGRAMS = {"claude_code": "Claude Code", "codex": "Codex", "pi": "pi", "opencode": "OpenCode"}
_ROWS: Mapping[str, tuple[str, str]] = {
    "again": ("look-ups that brought known text", "count"),
    "again_tokens": ("tokens of that text", "tokens"),
    "lookups": ("look-ups in all", "count"),
    "refused": ("edits refused: file not read", "count"),
    "repeated": ("errors made once more", "count"),
    "names_shown": ("known names, shown first³", "share"),
}
"""Measure → its line, and how its numbers are written."""


@command
def look(
    options: SettingsOptions,
    *,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATHS]", help="Files, folders or a session's id. Default: the agents' folders."
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
    with Progress("Looking for transcripts") as progress:
        places = [_place(name) for name in paths or ()] or wiring.transcript_homes()
        if not places:
            raise Stop("no folder of a coding agent here: name files or folders")
        for number, file in enumerate(wiring.find_transcripts(places)):
            progress.now(f"Reading file {number + 1:,}")
            looker.take(file)
        value = looker.report(whole=bool(html or at), told=progress.now)
    if at is not None:
        one = _numbered(value["each"], at)
        yield one
        yield from map(Styled, _detail(one))
        return
    yield value
    if html:
        from compact.look.page import page_of

        size = output.write(html, page_of(value))
        yield f"wrote {html} ({counted(value['compactions'], 'compaction')}, {size or 0:,} bytes)"
        return
    yield from (Styled(line) for line in lines_of(value, paths or []))


def _place(name: str) -> Path:
    """Return the path of a file or a folder, or of the session with this id."""
    path = Path(name).expanduser()
    if path.exists():
        return path
    homes = wiring.transcript_homes()
    found = [f.path for f in wiring.find_transcripts(homes) if session_of(f.path).startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise Stop(f"{len(found)} sessions begin with {name!r}: give more of the id")
    raise Stop(f"{name}: no such file or folder, and no session's id")


def _numbered(each: Sequence[dict[str, Any]], number: int) -> dict[str, Any]:
    found = [one for one in each if one["number"] == number and not one["subagent"]]
    if len({one["session"] for one in each}) > 1:
        raise Stop("--at is for one session: name its file or its id")
    if not found:
        raise Stop(f"no compaction {number}: the session has {len(each)}")
    return found[0]


# --- the first screen -----------------------------------------------------------------------------


def lines_of(value: Mapping[str, Any], paths: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the first screen, at most 44 of at most 80 columns."""
    yield f"compactctl look {' '.join(paths)}".strip() + " · read only, nothing leaves this machine"
    yield from _found(value)
    if not value["compactions"]:
        return
    yield ""
    yield from _table(value)
    yield from _said(value["said"])
    yield from _moments(value)
    yield ""
    yield "  compactctl look SESSION --at N       one compaction: before, summary, after"
    yield "  compactctl look --html look.html     all of them, as one page"


def _found(value: Mapping[str, Any]) -> Iterator[str]:
    size = max(1, round(value["bytes"] / 1e6))
    line = f"{counted(value['sessions'], 'session')}, {size:,} MB."
    if value["compactions"]:
        times = counted(value["compactions"], "time")
        line += f" {value['compacted_sessions']:,} were compacted, {times}"
        by_itself = value["automatic"]
        line += f" ({by_itself:,} of them by itself)." if by_itself else "."
    else:
        line += " None of them was compacted: there is nothing to show."
    yield line
    if value["in_subagents"]:
        yield f"{counted(value['in_subagents'], 'compaction')} happened in sub-agents."
    expiring = value["expiring"]
    if expiring["sessions"]:
        yield (
            f"Claude Code deletes transcripts after {expiring['days']} days: "
            f"{expiring['sessions']:,} of these go within a week."
        )
    broken = value["unreadable"]
    if broken["lines"]:
        many = counted(broken["files"], "file")
        yield f"{counted(broken['lines'], 'line')} in {many} could not be read, and are left out."


def _table(value: Mapping[str, Any]) -> Iterator[str]:
    compared = value["compared"]
    yield f"  {f'In the {AFTER} actions after it':34}{'here':>8}{'without¹':>11}{'due to it²':>24}"
    yield " " + "─" * (WIDTH - 2)
    for name, (line, kind) in _ROWS.items():
        if row := compared.get(name):
            here, without = (_number(row[key], kind) for key in ("here", "without"))
            yield f"  {line:34}{here:>8}{without:>11}{_due(row, kind):>24}"
    pauses = value["pauses"]
    if pauses["known"]:
        total = f"{pauses['total'] / 60:,.0f} min in all"
        yield f"  {'the pause itself (median)':34}{pauses['median']:>6.0f} s{'–':>11}{total:>24}"
    if not compared:
        yield f"  no session went on for {AFTER} actions, with another such stretch to compare"
        return
    row = next(iter(compared.values()))
    yield (
        f"¹ moments of the same {counted(row['sessions'], 'session')} without a compaction "
        f"({row['compactions']} of {value['compactions']} compared)."
    )
    yield "² with its 95 % interval, sessions drawn. “–”: fewer than 10, or chance may do it."
    yield f"³ of the known names used in the next {MESSAGES} messages, those that a tool showed before."


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


def _said(programs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    told = sorted((p for p in programs if p["messages"]), key=lambda p: -p["messages"])[:2]
    for said in told:
        yield ""
        name = _PROGRAMS.get(said["format"], said["format"])
        yield f"What you had said   {counted(said['messages'], 'message')} before {name} compacted"
        yield _bar("quoted in the summary made then", said["in_summary"], said["messages"])
        if said["followed"]:
            yield _bar("quoted in the next summary after it", said["in_next"], said["followed"])
        if example := said.get("example"):
            words = one_line(example["text"], 60)
            yield f"  gone by then: “{words}” ({_day(example['time'])})"


def _bar(label: str, part: int, whole: int) -> str:
    share = part / whole
    bar = "█" * round(share * _BAR) or "▏"
    return f"  {label:36}{bar:{_BAR}} {share:4.0%} of {whole:,}".replace("%", " %")


def _day(time: str) -> str:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return "no date"
    return f"{moment.day} {moment:%b, %H:%M}"


def _moments(value: Mapping[str, Any]) -> Iterator[str]:
    moments = value["moments"]
    if not moments:
        return
    yield ""
    yield "The worst moment" if len(moments) == 1 else f"The {len(moments)} worst moments"
    for number, moment in enumerate(moments, 1):
        where = f"{moment['session'][:7]} --at {moment['number']}"
        text = "\n".join([*_told(moment), *_kept(moment), where])
        lines = [
            wrapped
            for line in text.split("\n")
            for wrapped in textwrap.wrap(line, WIDTH - 7) or [""]
        ]
        for index, line in enumerate(lines):
            yield f"  {number if not index else ' '}  {line}"


def _told(moment: Mapping[str, Any]) -> Iterator[str]:
    if moment["kind"] == "asked":
        before = moment["before"]
        yield f"You: “{one_line(moment['prompt']['text'], 100)}” ({_day(moment['prompt']['time'])})"
        lines = " … ".join(one_line(line, 60) for line in before["lines"])
        yield f"Before, {before['by']} ({_day(before['time'])}): “{lines}”"
        kept = " … ".join(one_line(line, 60) for line in moment["summary"][:1])
        yield f"The summary: “{kept}”" if kept else "The summary has nothing of it."
        return
    actions = moment["actions"]
    largest = "; ".join(
        f"{action['tool']} {one_line(_short(action['subject']), 40)} ({action['tokens']:,} tokens)"
        for action in actions[:2]
    )
    if moment["kind"] == "refused":
        yield f"{counted(len(actions), 'edit')} refused, “File has not been read yet”: {largest}."
        if moment["agent"]:
            yield f"The agent: “{one_line(moment['agent'], 140)}”"
    else:
        yield (
            f"{len(actions)} of the next {moment['lookups']} look-ups brought what it had seen "
            f"before: {largest}."
        )


def _short(subject: str) -> str:
    """Shorten a path to its file's name."""
    return subject.rsplit("/", 1)[-1] if "/" in subject and " " not in subject else subject


def _kept(moment: Mapping[str, Any]) -> Iterator[str]:
    if kept := moment["kept_by_compact"]:
        yield (
            f"compact keeps in the summary's {kept['tokens']:,} tokens {kept['messages']} of your "
            f"{moment['messages']} messages and {kept['names']} of {moment['names_used']} names "
            "used next."
        )


# --- one compaction -------------------------------------------------------------------------------


def _detail(one: Mapping[str, Any]) -> Iterator[str]:
    size = f", {one['tokens_before']:,} tokens" if one["tokens_before"] else ""
    pause = f", pause {one['pause_seconds']:.0f} s" if one["pause_seconds"] else ""
    yield f"{one['session']} · compaction {one['number']} · {_day(one['time'])}{size}{pause}"
    yield ""
    yield f"BEFORE   what you had said: {one['messages_in_summary']} of {one['messages']} in it"
    for said in one["said"]:
        mark = "in the summary " if said["in_summary"] else "not in it      "
        yield f"  {mark} “{one_line(said['text'], 200)}”"
    yield from _spoken(one["before"])
    yield ""
    yield "SUMMARY"
    yield from (f"  {line}" for line in one["summary"].split("\n"))
    yield ""
    yield f"AFTER    the next {one['actions_after']} actions: {one['lookups']} look-ups"
    yield from _spoken(one["after"])
    for key, label in (
        ("looked_up_again", "brought what it had seen before"),
        ("refused_edits", "refused: not read yet"),
        ("repeated_errors", "failed as before"),
    ):
        for action in one[key]:
            subject = one_line(action["subject"], 120)
            yield f"  {label}: {action['tool']} {subject} ({action['tokens']:,} tokens)"
    if kept := one["kept_by_compact"]:
        yield ""
        yield (
            f"compact keeps in the summary's {kept['tokens']:,} tokens {kept['messages']} of "
            f"{one['messages']} messages and {kept['names']} of {one['names_used']} names used next."
        )


def _spoken(spoken: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for each in spoken:
        who = "you" if each["by_person"] else "agent"
        yield f"  {_day(each['time'])} {who}: {one_line(each['text'], 300)}"
