"""`compactctl uninstall`: takes compact's hooks out of Claude Code or Codex."""

from __future__ import annotations

import shutil
from contextlib import suppress

from compact.cli.commands.install import HostName, Yes, agreed
from compact.cli.options import JsonOptions, command
from compact.cli.render import Report
from compact.integrations import coding_agents, compaction_hooks
from compact.integrations.coding_agents import HOSTS


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
