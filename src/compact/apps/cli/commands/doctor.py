"""`compactctl doctor`: checks the packages, the token counts, a compression and the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from compact.apps import cli
from compact.apps.cli.options import CountOptions, Store, command, flag, number_option
from compact.apps.cli.told import Part, Styled, Table, Telling
from compact.apps.cli.words import counted, spans, whole

if TYPE_CHECKING:
    from compact.wiring import RepairReport

STYLES = {"ok": "green", "note": "yellow", "broken": "bold red"}
"""What a finding may be, and what that looks like."""


@command
def doctor(
    options: CountOptions,
    *,
    store: Store = None,
    check: Annotated[
        bool, flag("--check", "Also check every message and page of the store.")
    ] = False,
    repair: Annotated[
        bool,
        flag("--repair", "Recover what can be read from a damaged store; the old file is kept."),
    ] = False,
    window: Annotated[int | None, number_option("The window to test the trigger with.")] = None,
) -> Telling:
    """Check what is installed, and prove that it works.

    Checks the packages, the token counts of known texts, and the store with its schema. Fills a
    session until it is compressed, to prove that the trigger can fire with these settings. --check
    also verifies the contents of the store. Exit code 2 if something is broken.

    Examples:
      compactctl doctor
      compactctl doctor --store chat.db --check
      compactctl doctor --store chat.db --repair
    """
    settings = cli.settings.settings_of(options, store=store, window=window)
    repaired = None
    with cli.progress.Progress("Checking") as progress:
        if repair:
            progress.now("Repairing the store")
            repaired = cli.checks.repaired(settings)
        found = {
            "installed": list(cli.checks.installed()),
            "tokens": list(cli.checks.vocabularies()),
            "trigger": list(cli.checks.trigger(settings)),
            "store": list(cli.checks.stored(settings, check=check or repair)),
        }
    wrong = sum(each.state == "broken" for part in found.values() for each in part)
    told = {} if repaired is None else {"repair": _repair_json(repaired)}
    yield told | {
        name: [{"about": e.about, "state": e.state, "text": e.text, **e.facts} for e in part]
        for name, part in found.items()
    }
    if repaired is not None:
        yield from _repair_parts(repaired)
    for name, part in found.items():
        rows = [(each.about, Styled(each.state, STYLES[each.state]), each.text) for each in part]
        yield Table((name, "", ""), rows, whole=(name,))
        yield ""
    yield _end(wrong, repaired)
    if wrong or (repaired is not None and not repaired.is_complete):
        raise typer.Exit(cli.errors.BAD_INPUT)


def _repair_json(repaired: RepairReport) -> dict[str, object]:
    return {**asdict(repaired), "complete": repaired.is_complete}


def _end(wrong: int, repaired: RepairReport | None) -> str:
    """The last line: what is broken, and what a repair could not save."""
    if repaired is None or repaired.is_complete:
        return f"{wrong} broken" if wrong else "Nothing is broken."
    each = repaired.branches
    lost = sum(b.lost or len(b.missing) for b in each)
    may_be_more = not repaired.is_whole or any(b.lost is None for b in each)
    told = [f"{'at least ' * may_be_more}{counted(lost, 'message')} lost"] if lost else []
    told += ["more messages may be lost without a trace"] if may_be_more and not lost else []
    altered = sum(len(b.altered) for b in each)
    told += [f"{counted(altered, 'message')} altered"] if altered else []
    rest = f"{wrong} broken" if wrong else "Nothing is broken any more"
    return f"{rest}, but not all was saved: {', '.join(told)}."


def _repair_parts(repaired: RepairReport) -> Iterator[Part]:
    """What was saved of each branch, and what was not."""
    if repaired.kept_as is None:
        yield "repair: nothing is wrong with the store, and nothing was done\n"
        return
    yield f"repaired; the damaged file is kept as {repaired.kept_as}"
    rows = []
    for branch in repaired.branches:
        least = f"at least {len(branch.missing):,}" if branch.missing else "unknown"
        lost = least if branch.lost is None else branch.lost
        wrong = (len(branch.altered), len(branch.unproven))
        which = spans(sorted({*branch.missing, *branch.altered}))
        rows.append((whole(branch.branch_id), branch.saved, lost, *wrong, which))
    names = ("saved", "lost", "altered", "not provable")
    yield Table(("branch", *names, "which"), rows, right=names)
    yield from (f"- {remark}" for remark in repaired.remarks)
    yield ""
