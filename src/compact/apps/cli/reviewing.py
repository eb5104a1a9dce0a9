"""A proposed compression in a person's editor: read, edited or refused before it counts, as the
message of a commit is.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from compact.apps.cli.errors import Stop
from compact.apps.cli.words import counted
from compact.core.plan import Plan
from compact.errors import InvalidArgument, SummaryRejected
from compact.managers.context_manager import ContextManager
from compact.managers.views.review import CompressionProposal, ProposedCheckpoint

MARK = "#> "
"""How the line begins that stands above each summary."""
HEAD = """\
# Below each line that begins with "{mark}" stands a summary that would take the place of messages.
# Change what is wrong, save, and close the editor: the session is compressed with these texts.
# To refuse, delete everything. The messages themselves stay in the history in any case.
# {covered}, {before:,} > {after:,} tokens.
"""


def reviewed(ctx: ContextManager, proposal: CompressionProposal) -> Plan | None:
    """The proposal, put in force with what the person made of it; None where they refused it. A
    text that cannot be used comes back, with the reason, until it can or is left as it was.

    Raises:
        SummaryRejected, InvalidArgument: a text cannot be used, and was not mended.
        Superseded: the session changed meanwhile.
        Stop: there is no editor, or it failed.
    """
    shown, why = "\n".join(map(_part, proposal.checkpoints)), ""
    while True:
        edited = _in_editor(_head(proposal, why) + shown)
        _, mark, rest = edited.partition(MARK)
        texts = _texts(mark + rest)
        if not any(texts.values()):
            return None
        try:
            return ctx.accept(proposal, summaries=texts)
        except (SummaryRejected, InvalidArgument) as error:
            if why and mark + rest == shown:
                raise
            shown, why = mark + rest, str(error)


def _head(proposal: CompressionProposal, why: str) -> str:
    covered = counted(len(proposal.messages), "message")
    sizes = {"before": proposal.tokens_before, "after": proposal.tokens_after}
    refused = f"#\n# NOT USED: {' '.join(why.split())}\n" if why else ""
    return HEAD.format(mark=MARK.strip(), covered=covered, **sizes) + refused + "\n"


def _part(made: ProposedCheckpoint) -> str:
    span = f"{made.messages[0]:,} to {made.messages[-1]:,}" if made.messages else "older ones"
    about = f"{counted(len(made.messages), 'message')} of {span}, at most {made.room:,} tokens"
    return f"{MARK}{made.id} · {about}\n{made.text}\n"


def _texts(text: str) -> dict[str, str]:
    """What stands below each mark, by the id in it."""
    found = dict[str, str]()
    for part in f"\n{text}".split(f"\n{MARK}")[1:]:
        head, _, words = part.partition("\n")
        found[head.partition(" ")[0]] = words.strip()
    return found


def _in_editor(text: str) -> str:
    """The text as the person leaves it. It lies in a file that only they can read, and that is gone
    afterwards.

    Raises:
        Stop: there is no editor, or it failed.
    """
    default = "notepad" if os.name == "nt" else "vi"
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or default
    handle, name = tempfile.mkstemp(prefix="compact-review-", suffix=".md")
    file = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        done = subprocess.run([*shlex.split(command, posix=os.name != "nt"), name], check=False)
        if done.returncode:
            raise Stop(f"the editor {command!r} ended with {done.returncode}: nothing was changed")
        return file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Stop(f"the editor {command!r} ($VISUAL, $EDITOR) cannot be run: {reason}") from None
    finally:
        file.unlink(missing_ok=True)
