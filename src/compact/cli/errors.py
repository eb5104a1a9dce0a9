"""Exit codes of commands, and the line on stderr that tells why a command failed.

0: done. 1: it cannot fit, or was refused. 2: wrong input or usage, or a store or model that cannot
be used. 70: a bug in compact. 130: interrupted. 141: the reader of the output closed the pipe.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import typer

from compact.cli.interrupts import INTERRUPTED, TRACEBACK, is_interrupt
from compact.cli.words import WRONG, painted, wants_colour
from compact.errors import (
    WAYS,
    CannotFit,
    CompactError,
    InvalidInput,
    ModelFailed,
    NotFound,
    StoreFailed,
    SummaryRejected,
    Superseded,
)
from compact.secrets.redaction import Known, redact, without_credentials
from compact.secrets.redactor import NOTHING_ELSE, Redactor

CANNOT_FIT, BAD_INPUT, OUR_MISTAKE, NOBODY_READS = 1, 2, 70, 141
"""Exit codes. Scripts read them, so they must never change. 70 is EX_SOFTWARE of sysexits.h. 141 is
128 plus the number of SIGPIPE."""
_PACKAGES = {"rs_bpe": "rs-bpe", "bpe_openai": "rs-bpe", "yaml": "pyyaml"}
"""Module → its package, if the names differ."""
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""The error that Typer raises for a wrong command line. It has no public name."""


class Stop(CompactError):
    """The command cannot continue, for example because a file must not be replaced."""


WAYS_HERE = {
    **WAYS,
    "limit": "Raise the limit (--max-tokens N; of a session, --window N)",
    "newest user message": "shorten the newest user message (in a session, `mark SESSION "
    "--put-aside newest` shows its head and tail and keeps the whole for recall)",
    "pins": "pin fewer messages (in a session, `mark SESSION --put-aside MESSAGE` shows the head "
    "and tail of one)",
    "goals": "end goals with `mark SESSION --done ID`",
}
"""Advice as commands and options, for content that does not fit and cannot be shortened."""


def ending_of(error: BaseException) -> tuple[int, str | None]:
    """Return an error's exit code and the line to print. The line is None if nothing is printed."""
    match error:
        case _ if is_interrupt(error):
            return INTERRUPTED, "interrupted; nothing was written"
        case CannotFit() | SummaryRejected():
            line = error.told(WAYS_HERE) if isinstance(error, CannotFit) else str(error)
            return CANNOT_FIT, line
        case InvalidInput() | Stop() | NotFound() | StoreFailed() | ModelFailed():
            return BAD_INPUT, str(error)
        case Superseded():
            return BAD_INPUT, f"another process was faster, nothing was changed: {error}. Try again"
        case BrokenPipeError() | SystemExit():  # Rich and Typer exit so on a closed pipe
            is_done = getattr(error, "code", NOBODY_READS) == 0  # as shell completions end
            return 0 if is_done else NOBODY_READS, None
        case OSError():
            return BAD_INPUT, f"{error.filename or 'output'}: {error.strerror or error}"
        case ImportError() if missing := what_is_missing(error):
            return BAD_INPUT, missing
        case MemoryError():
            return BAD_INPUT, "not enough memory for this input"
        case _ if isinstance(error, _UsageError):
            return BAD_INPUT, _usage(error)
    what = f"{type(error).__name__}: {error}"
    return OUR_MISTAKE, f"a bug in compact: {what} ({TRACEBACK}=1 shows where)"


def what_is_missing(error: BaseException) -> str | None:
    """Return a line that names the package to install for a missing import, or None."""
    root = (getattr(error, "name", None) or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or root in ("", "compact"):
        return None
    package = _PACKAGES.get(root, root)
    return f"{package} is missing: pip install {package}"


def _usage(error: Exception) -> str:
    words: str = getattr(error, "format_message", error.__str__)()
    context = getattr(error, "ctx", None)
    command = "compactctl" if context is None else context.command_path
    join = " See" if words.endswith("?") else "; see"
    return f"{words.rstrip('.')}{join} {command} --help"


# --- standard error -------------------------------------------------------------------------------

REDACTOR: ContextVar[Redactor] = ContextVar("compact_cli_redactor", default=NOTHING_ELSE)
"""Finds the kinds of secrets that the settings name. It is set as soon as the settings are read."""


def without_secrets(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value without the secrets in its texts."""
    match value:
        case str():
            return redact(value, Known(redactor=REDACTOR.get())).text
        case Mapping():
            return {key: without_secrets(item) for key, item in value.items()}
        case list() | tuple():
            return [without_secrets(item) for item in value]
        case _:
            return value


def say(line: str, *, is_error: bool = False) -> None:
    """Print one line on stderr, without control characters. Never raises."""
    # The whole text is redacted first, because a secret may be several words or lines.
    words = " ".join(map(without_credentials, without_secrets(line).split()))
    printable = "".join(c if c.isprintable() else " " for c in words)
    name = "compactctl:"
    _write(f"{painted(name, WRONG) if is_error and wants_colour(sys.stderr) else name} {printable}")


def say_where(error: BaseException) -> None:
    """Print the traceback of an error on stderr."""
    lines = without_secrets("".join(traceback.format_exception(error)))
    _write("".join(c if c.isprintable() or c in "\n\t" else " " for c in lines.rstrip()))


def _write(text: str) -> None:
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return
