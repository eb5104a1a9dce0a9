"""`compactctl doctor`: is everything there, does it count right, can it compress, is the store
whole?
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compact.apps.cli.ending import BAD_INPUT
from compact.apps.cli.options import CountOptions, taking, whole_number

if TYPE_CHECKING:
    from rich.console import Console

    from compact.apps.cli.checkup import Finding
    from compact.config import CompactConfig
    from compact.wiring import RepairReport

STYLES = {"ok": "green", "note": "yellow", "broken": "bold red"}


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(CountOptions):
    """What `doctor` takes."""

    store: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The store to look at. Default: the settings' store, else .compact/sessions.db.",
        ),
    ] = None
    check: Annotated[
        bool, typer.Option("--check", help="Also check every message and page of the store.")
    ] = False
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Save what can be read of a damaged store; the old file is kept."
        ),
    ] = False
    window: Annotated[
        int | None,
        typer.Option(parser=whole_number, metavar="N", help="The window to try the trigger with."),
    ] = None


@taking(DoctorOptions)
def doctor(options: DoctorOptions) -> None:
    """Say what is installed, and prove that it works.

    Packages and what they are for; whether known texts have as many tokens as they should; whether
    the trigger can fire with these settings, by filling a session until it is compressed; the store
    and its schema. With --check also whether the store is what was written. Exit code 2 where
    something is broken.

    Examples:
      compactctl doctor
      compactctl doctor --store chat.db --check
      compactctl doctor --store chat.db --repair
    """
    from compact.apps.cli import checkup, output, work
    from compact.apps.cli.progress import Progress

    settings = work.settings_of(options)
    repaired: RepairReport | None = None
    with Progress("Looking") as progress:
        if options.repair:
            progress.now("Repairing the store")
            repaired = _repaired(settings)
        parts: dict[str, list[Finding]] = {}
        for name, looks in (
            ("installed", checkup.installed),
            ("extras", checkup.extras),
            ("tokens", checkup.vocabularies),
            ("trigger", lambda: checkup.trigger(settings)),
            ("store", lambda: checkup.store(settings, check=options.check or options.repair)),
        ):
            progress.now(f"Looking at {name}")
            parts[name] = checkup.found_by(name, looks)
    broken = sum(each.state == "broken" for found in parts.values() for each in found)
    if options.json:
        output.print_json(_json(parts, repaired))
    else:
        _report(parts, repaired, _end(broken, repaired))
    if broken or (repaired is not None and not repaired.is_complete):
        raise typer.Exit(BAD_INPUT)


def _end(broken: int, repaired: RepairReport | None) -> str:
    """The last line: what is broken, and what a repair could not save."""
    from compact.apps.cli.words import counted

    if repaired is None or repaired.is_complete:
        return f"{broken} broken" if broken else "Nothing is broken."
    each = repaired.branches
    lost = sum(b.lost or len(b.missing) for b in each)
    may_be_more = not repaired.is_whole or any(b.lost is None for b in each)
    told = [f"{'at least ' * may_be_more}{counted(lost, 'message')} lost"] if lost else []
    told += ["messages may be lost of which nothing tells"] if may_be_more and not lost else []
    altered = sum(len(b.altered) for b in each)
    told += [f"{counted(altered, 'message')} not what was written"] if altered else []
    rest = f"{broken} broken" if broken else "Nothing is broken any more"
    return f"{rest}, but not all was saved: {', '.join(told)}."


def _report(parts: Mapping[str, list[Finding]], repaired: RepairReport | None, end: str) -> None:
    """Everything for a person: in tables, or plainly where what draws them is missing."""
    from compact.apps.cli import output
    from compact.apps.cli.words import visible

    try:
        from compact.apps.cli import drawing
    except ImportError:
        lines = [] if repaired is None else [f"repair: {remark}" for remark in repaired.remarks]
        for name, found in parts.items():
            lines += [name, *(f"  {e.about:<14} {e.state:<7} {e.text}" for e in found), ""]
        output.print_data(visible("\n".join([*lines, end])) + "\n")
        return
    out = drawing.console()
    if repaired is not None:
        _show_repair(out, repaired)
    _show(out, parts.items())
    out.print(end)


def _repaired(settings: CompactConfig) -> RepairReport:
    """What the repair of the settings' store did.

    Raises:
        StoreFailed: there is none, somebody uses it, or nothing can be written.
    """
    from compact import wiring
    from compact.apps.cli.stores import name_of_store

    return wiring.repair_store(name_of_store(settings))


def _json(parts: Mapping[str, Iterable[Finding]], repaired: RepairReport | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        name: [
            {"about": each.about, "state": each.state, "text": each.text, **each.facts}
            for each in found
        ]
        for name, found in parts.items()
    }
    if repaired is None:
        return told
    return {"repair": {**asdict(repaired), "complete": repaired.is_complete}, **told}


def _show(out: Console, parts: Iterable[tuple[str, list[Finding]]]) -> None:
    from compact.apps.cli.drawing import Text, table, visible

    for name, found in parts:
        rows = table(name, "", "")
        rows.columns[0].no_wrap = rows.columns[1].no_wrap = True
        for each in found:
            state = Text(each.state, style=STYLES[each.state])
            rows.add_row(each.about, state, Text(visible(each.text)))
        out.print(rows)
        out.print()


def _show_repair(out: Console, repaired: RepairReport) -> None:
    """What was saved of each branch, and what was not."""
    from compact.apps.cli.drawing import Text, one_line, table, visible, whole
    from compact.apps.cli.words import spans

    if repaired.kept_as is None:
        out.print("repair: nothing is wrong with the store, and nothing was done\n")
        return
    line = one_line(f"repaired; the damaged file is kept as {repaired.kept_as}", 400)
    out.print(Text(line), soft_wrap=True)
    names = ("saved", "lost", "altered", "not provable")
    rows = table("branch", *names, "which", right=names)
    for branch in repaired.branches:
        wrong = (branch.altered, branch.unproven)
        which = spans(sorted({*branch.missing, *branch.altered}))
        name = Text(whole(branch.branch_id))
        lost = _lost(branch.lost, len(branch.missing))
        counts = (f"{branch.saved:,}", lost, *(f"{len(each):,}" for each in wrong))
        rows.add_row(name, *counts, which)
    out.print(rows)
    for remark in repaired.remarks:
        out.print(Text(visible(f"- {remark}")), soft_wrap=True)
    out.print()


def _lost(lost: int | None, least: int) -> str:
    """How many messages of a branch are lost, as far as that is known."""
    if lost is not None:
        return f"{lost:,}"
    return f"at least {least:,}" if least else "unknown"
