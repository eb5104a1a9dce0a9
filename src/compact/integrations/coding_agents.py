"""Where Claude Code and Codex read their hooks, and what compact adds to those files.

Both read the same form: event → list of groups → list of commands. A group's `matcher` says when it
is run. Claude Code has it in its settings, Codex in a file of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from compact.errors import InvalidConfig
from compact.files import LARGEST_TEXT, make_folders, read_small, write_whole
from compact.integrations.compaction_hooks import AFTER, BEFORE, own_command
from compact.integrations.json_lists import added, removed

SECONDS = 10
"""After so many seconds a host stops a hook. Ours ends after two by itself."""


class Host(NamedTuple):
    """A program that runs hooks."""

    title: str
    variable: str
    """The environment variable that names its folder."""
    folder: str
    """The folder otherwise, in the home directory."""
    name: str
    """The file in it."""
    afterwards: str
    """What a person still has to do."""

    @property
    def file(self) -> Path:
        """The path of the host's settings file. Links in it are not resolved."""
        folder = os.environ.get(self.variable)
        return (Path(folder) if folder else Path.home() / self.folder) / self.name


HOSTS: Mapping[str, Host] = {
    "claude-code": Host(
        "Claude Code",
        "CLAUDE_CONFIG_DIR",
        ".claude",
        "settings.json",
        "Sessions that are open now have it after a restart; /hooks lists it.",
    ),
    "codex": Host(
        "Codex",
        "CODEX_HOME",
        ".codex",
        "hooks.json",
        "Codex asks once whether to trust it: type /hooks in Codex.",
    ),
}


def entries() -> dict[tuple[str, ...], dict[str, Any]]:
    """Return what is added to which list of a host's file."""
    found = dict[tuple[str, ...], dict[str, Any]]()
    for event, argument, matcher in (
        ("PreCompact", BEFORE, {}),
        ("SessionStart", AFTER, {"matcher": "compact"}),
    ):
        hook = {"type": "command", "command": f"{own_command()} hook {argument}"}
        found["hooks", event] = {**matcher, "hooks": [{**hook, "timeout": SECONDS}]}
    return found


def is_ours(entry: object) -> bool:
    """Whether a group is one that compact added, by this or another installation."""
    match entry:
        case {"hooks": [{"command": str(command)}]}:
            return "compact" in command and command.endswith((f" hook {BEFORE}", f" hook {AFTER}"))
    return False


def installed(host: Host) -> list[dict[str, Any]]:
    """Return our groups in the host's file, in the order of `entries`.

    Raises:
        InvalidConfig: the file cannot be read, or is no JSON object.
    """
    text = _read(host)
    hooks = json.loads(text).get("hooks") if text else None
    lists = [hooks.get(event) for _, event in entries()] if isinstance(hooks, dict) else []
    return [
        each for groups in lists if isinstance(groups, list) for each in groups if is_ours(each)
    ]


def is_turned_off(host: Host) -> bool:
    """Whether the host's file says that no hook is run (`disableAllHooks`).

    Raises:
        InvalidConfig: as `installed`.
    """
    text = _read(host)
    return bool(text) and json.loads(text).get("disableAllHooks") is True


def install(host: Host, *, only_try: bool = False) -> bool:
    """Add our groups to the host's file. Return whether that changes the file.

    Raises:
        InvalidConfig: the file is not what it should be, or cannot be written.
    """
    wanted = entries()
    if installed(host) == list(wanted.values()):
        return False
    _edit(host, lambda text: added(_without_ours(text), wanted), only_try=only_try)
    return True


def uninstall(host: Host, *, only_try: bool = False) -> bool:
    """Take our groups out of the host's file. Return whether that changes the file. A file that
    `install` made, and that holds nothing else, is deleted.

    Raises:
        InvalidConfig: as `install`.
    """
    if not installed(host):
        return False
    _edit(host, _without_ours, only_try=only_try)
    return True


def _without_ours(text: str) -> str:
    for keys in entries():
        text = removed(text, keys, is_ours) if text else text
    return text


def _read(host: Host) -> str:
    """Return the text of the host's file; empty if there is none."""
    try:
        text = read_small(host.file, LARGEST_TEXT).decode("utf-8")
        is_object = isinstance(json.loads(text), dict)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _wrong(host, error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:
        raise _wrong(host, f"not JSON: {error}") from None
    if not is_object:
        raise _wrong(host, "not a JSON object")
    return text


def _edit(host: Host, change: Callable[[str], str], *, only_try: bool) -> None:
    path = Path(os.path.realpath(host.file))  # a link stays a link
    try:
        text = change(_read(host))
        if text and not only_try:
            make_folders(path.parent)
            write_whole(path, text.encode(), mode=0o666)
        elif not only_try:
            path.unlink()
            with suppress(OSError):  # other files are in it
                path.parent.rmdir()
    except OSError as error:
        raise _wrong(host, f"cannot be written: {error.strerror or error}") from None
    except InvalidConfig:
        raise
    except ValueError as error:
        raise _wrong(host, str(error)) from None


def _wrong(host: Host, reason: str) -> InvalidConfig:
    how = "Nothing was changed. Mend the file, or add the entry by hand (--print shows it)"
    return InvalidConfig(str(host.file), f"{reason}. {how}")
