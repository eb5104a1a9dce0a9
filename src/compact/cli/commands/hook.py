"""`compactctl hook`: the command that Claude Code and Codex call before and after they compact."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading

from compact.integrations import compaction_hooks
from compact.integrations.compaction_hooks import AFTER, BEFORE

SECONDS = 2.0
"""After so many seconds the hook ends without output."""


def hook(event: str) -> None:
    """Called by Claude Code and Codex before (pre-compact) and after (session-start) they compact a
    conversation. Reads their JSON on standard input. See compactctl install.

    Exit code 0, whatever happens. In doubt nothing is printed.
    """
    answers = list[str]()

    def answer() -> None:
        with contextlib.suppress(Exception):
            given = json.loads(sys.stdin.buffer.read())
            if event == BEFORE:
                compaction_hooks.pre_compact(given)
            elif event == AFTER:
                answers.append(compaction_hooks.session_start(given))

    if event == BEFORE:
        answer()  # it forks, which a process with threads should not do
        return
    worker = threading.Thread(target=answer, daemon=True)
    worker.start()
    worker.join(SECONDS)
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.buffer.write("".join(answers).encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    if worker.is_alive():
        os._exit(0)
