"""`compactctl doctor`: checks the packages, the token counts, the trigger and the store."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from compact.apps import cli
from compact.apps.cli.options import CountOptions, Store, command, flag, number_option
from compact.apps.cli.told import Styled, Table, Telling

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
    """Check what is installed, and whether it works.

    Checks the packages, the token counts of a known text, whether the trigger can fire with these
    settings, and the store with its schema. --check also verifies the contents of the store. Exit
    code 2 if something is broken.

    Examples:
      compactctl doctor
      compactctl doctor --store chat.db --check
      compactctl doctor --store chat.db --repair
    """
    settings = cli.settings.settings_of(options, store=store, window=window)
    report = None
    with cli.progress.Progress("Checking") as progress:
        found = {}
        if repair:
            progress.now("Repairing the store")
            report = cli.wiring.repair_store(cli.settings.name_of_store(settings))
            found["repair"] = list(cli.checks.saved(report))
        installed = {each.about: each for each in cli.checks.installed()}  # extras share some
        found["installed"] = list(installed.values())
        found["tokens"] = list(cli.checks.vocabularies())
        found["trigger"] = list(cli.checks.trigger(settings))
        found["store"] = list(cli.checks.stored(settings, check=check or repair))
    found = {name: list(map(cli.checks.clean, part)) for name, part in found.items()}
    told: dict[str, Any] = {
        name: [{"about": e.about, "state": e.state, "text": e.text, **e.facts} for e in part]
        for name, part in found.items()
    }
    if report is not None:
        told["repair"] = cli.errors.without_secrets(asdict(report))
        told["repair"]["complete"] = report.is_complete
    yield told
    for name, part in found.items():
        rows = [(each.about, Styled(each.state, STYLES[each.state]), each.text) for each in part]
        yield Table((name, "", ""), rows, whole=(name,))
        yield ""
    wrong = sum(each.state == "broken" for part in found.values() for each in part)
    end = f"{wrong} broken" if wrong else "Nothing is broken"
    end = f"{end}." if report is None or report.is_complete else f"{end}: not all was saved."
    yield Styled(end, "bold red" if wrong else "bold")
    if wrong:
        raise typer.Exit(cli.errors.BAD_INPUT)
