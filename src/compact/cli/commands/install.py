"""`compactctl install` and `uninstall`: compact's hooks in Claude Code or Codex."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import suppress
from typing import Annotated, Literal

import typer

from compact.cli.errors import Stop
from compact.cli.options import JsonOptions, command, flag
from compact.cli.render import Report
from compact.integrations import coding_agents, compaction_hooks
from compact.integrations.coding_agents import HOSTS

HostName = Annotated[
    Literal["claude-code", "codex"], typer.Argument(metavar="HOST", help="claude-code or codex.")
]
Yes = Annotated[bool, flag("--yes", "Write without asking.")]


@command
def install(
    options: JsonOptions,
    *,
    host: HostName,
    yes: Yes = False,
    show: Annotated[bool, flag("--print", "Only print the entry, to add it by hand.")] = False,
) -> Report:
    """Add two hooks to Claude Code or Codex, for all your sessions.

    After the program has compacted a conversation, the hooks give its model what summaries lose.
    That is what you said before the previous compaction (only in Claude Code: Codex keeps it),
    where the work stands, and the names that it will most likely need, in about 650 tokens. What
    is added to the settings file is shown before it is written. The rest of the file stays as it
    is. `compactctl uninstall` removes the hooks.

    Examples:
      compactctl install claude-code
      compactctl install codex --yes
      compactctl install claude-code --print
    """
    chosen = HOSTS[host]
    entry: dict[str, dict[str, object]] = {"hooks": {}}
    for (outer, event), group in coding_agents.entries().items():
        entry[outer][event] = [group]
    told = {"host": host, "file": str(chosen.file), "entry": entry}
    if show:
        yield {**told, "changed": False}
        yield json.dumps(entry, indent=2, ensure_ascii=False)
        return
    is_new = coding_agents.install(chosen, only_try=True)
    if is_new:
        shown = f"To {chosen.file} is added:\n{json.dumps(entry, indent=2, ensure_ascii=False)}"
        agreed(shown, yes=yes)
        coding_agents.install(chosen)
    yield {**told, "changed": is_new}
    done = f"Installed for {chosen.title}. {chosen.afterwards}"
    yield done if is_new else f"It was there already, in {chosen.file}; nothing was changed."


@command
def uninstall(options: JsonOptions, *, host: HostName, yes: Yes = False) -> Report:
    """Take the hooks out of Claude Code or Codex.

    The file is then as it was before `compactctl install`, to the byte, unless it was edited in the
    meantime: edits stay. With the last host, the notes on what was given are deleted too.

    Examples:
      compactctl uninstall claude-code
      compactctl uninstall codex --yes
    """
    chosen = HOSTS[host]
    is_there = coding_agents.uninstall(chosen, only_try=True)
    if is_there:
        agreed(f"From {chosen.file} the hooks of compact are taken out.", yes=yes)
        coding_agents.uninstall(chosen)
    if not any(coding_agents.installed(each) for each in HOSTS.values()):
        shutil.rmtree(compaction_hooks.folder(), ignore_errors=True)
        with suppress(OSError):  # the folder may contain other files
            compaction_hooks.folder().parent.rmdir()
    yield {"host": host, "file": str(chosen.file), "changed": is_there}
    done = f"Taken out of {chosen.title}, in {chosen.file}."
    yield done if is_there else f"There was nothing of ours in {chosen.file}."


def agreed(shown: str, *, yes: bool) -> None:
    """Show what will be written, and ask for permission.

    Raises:
        Stop: the user says no, or there is no terminal to ask on.
    """
    typer.echo(shown, err=True)
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise Stop("nothing was written: nobody can be asked here; add --yes")
    if not typer.confirm("Write it?", err=True):
        raise Stop("nothing was written")
