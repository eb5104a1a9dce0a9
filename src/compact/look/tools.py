"""What a tool call does: whether it only looks something up, about what, and what it writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compact.transcripts.boundaries import Call

_LOOKUPS = "read grep glob ls list find webfetch websearch web_search view read_file search"
"""Tools that only look something up, in lower case."""
_SHELLS = "bash shell exec_command shell_command local_shell"
_READERS = (
    "cat head tail ls grep egrep rg find wc sort uniq cut tr nl jq tree stat file which pwd echo "
    "cd sed awk diff"
)
"""Commands that read, if nothing of `_WRITES` stands beside them."""
_GIT_READS = "log show diff status blame grep ls-files ls-tree rev-parse cat-file merge-base"
_WRITES = re.compile(r"(?<![0-9&])>(?!&|\s*/dev/null)|\bsed\b.*\s-i|\bfind\b.*-(?:delete|exec)\b")
_PARTS = re.compile(r"\|\|?|&&|;|\n")
_TO_NOWHERE = re.compile(r"\d?>\s*/dev/null|2>&1")
_SUBJECTS = ("file_path", "path", "filePath", "notebook_path", "pattern", "query", "url")
"""Arguments that say what a call is about."""
_WRITTEN = (
    "content",
    "new_string",
    "newString",
    "newText",
    "new_source",
    "edits",
    "patch",
    "input",
)
"""Arguments with what a call writes."""


def command_of(call: Call) -> str:
    """Return the command that a call runs in a shell; empty if it runs none."""
    if call.tool.lower() not in _SHELLS.split():
        return ""
    given = call.arguments if isinstance(call.arguments, dict) else {}
    command = given.get("command", given.get("cmd"))
    if isinstance(command, list):  # ["bash", "-lc", "…"]
        command = command[-1] if command else ""
    return command if isinstance(command, str) else ""


def is_lookup(call: Call) -> bool:
    """Return whether a call only looks something up."""
    if command := command_of(call):
        return reads_only(command)
    return call.tool.lower() in _LOOKUPS.split()


def reads_only(command: str) -> bool:
    """Return whether a shell command only reads. In doubt it does not."""
    plain = _TO_NOWHERE.sub("", command)
    if _WRITES.search(plain):
        return False
    parts = [part.split() for part in _PARTS.split(plain) if part.strip()]
    return bool(parts) and all(map(_reads, parts))


def _reads(words: list[str]) -> bool:
    if words[0] == "git":
        options = iter(words[1:])
        for word in options:
            if word in ("-C", "-c"):
                next(options, None)
            elif not word.startswith("-"):
                return word in _GIT_READS.split()
        return False
    return words[0] in _READERS.split()


def subject_of(call: Call) -> str:
    """Return what a call is about: its command, file, pattern or address."""
    given = call.arguments
    if not isinstance(given, dict):
        return ""
    told = command_of(call) or " ".join(str(given[key]) for key in _SUBJECTS if given.get(key))
    return " ".join(told.split())[:300]


def written_by(call: Call) -> Iterator[str]:
    """Yield the texts that a call writes."""
    given = call.arguments
    if isinstance(given, str):  # a patch
        given = {"input": given}
    if not isinstance(given, dict) or call.tool.lower() in f"{_LOOKUPS} {_SHELLS}".split():
        return
    for key in _WRITTEN:
        for text in _texts(given.get(key)):
            yield "\n".join(line[line.startswith("+") :] for line in text.split("\n"))


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for key in _WRITTEN:
            yield from _texts(value.get(key))
