"""Reading `.env`: only the command line does, and only for settings.

Lines `NAME=value`, with or without `export` and quotes. Only `COMPACT_*` names are looked at: the
file belongs to a whole project.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from compact.config import PREFIX
from compact.errors import InvalidConfig

NAME = ".env"
_LINE = re.compile(rf"\s*(?:export\s+)?(?P<name>{PREFIX}\w+)\s*=\s*(?P<value>.*?)\s*$")
_QUOTED = re.compile(r"""(?P<quote>['"])(?P<text>.*?)(?P=quote)\s*(?:#.*)?$""")
_COMMENT = re.compile(r"\s+#.*$")


def with_env_file(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The environment, and what the folder's `.env` adds to it; the environment counts more.

    Raises:
        InvalidConfig: the file is there and cannot be read as text.
    """
    path = folder / NAME
    if not path.is_file():
        return dict(environ)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidConfig(NAME, "not UTF-8 text") from None
    except OSError as error:
        raise InvalidConfig(NAME, f"cannot be read: {error.strerror or error}") from None
    return {**parsed(text), **environ}


def is_from_env_file(origin: str, environ: Mapping[str, str]) -> bool:
    """Whether a setting that came from this place came from `.env`: a variable that is not set."""
    return origin.startswith(PREFIX) and origin not in environ


def named(origin: str, environ: Mapping[str, str]) -> str:
    """Where a setting came from, with the file's name where a variable stands in `.env`."""
    return f"{origin} in {NAME}" if is_from_env_file(origin, environ) else origin


def parsed(text: str) -> dict[str, str]:
    """The settings among the lines; the last of a name counts."""
    found = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            found[match["name"]] = _unquoted(match["value"])
    return found


def _unquoted(value: str) -> str:
    if quoted := _QUOTED.match(value):
        return quoted["text"]
    return _COMMENT.sub("", f" {value}").strip()
