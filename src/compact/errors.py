"""The error tree: every error compact raises on purpose, each also a matching builtin.

    CompactError
    ├── InvalidInput (ValueError)          the input cannot be used as it is
    │   ├── InvalidArgument (TypeError)    an argument has a wrong name, type or value; names it
    │   ├── InvalidMessage                 a message is malformed; names the field's path
    │   ├── InvalidTranscript              a file is unknown or broken; names line and reason
    │   ├── InvalidConfig                  a setting has a wrong name or value; names the field
    │   ├── UnknownModel (LookupError)     no profile, tokenizer or format has that name
    │   └── ServerHeldState                a server would keep the conversation
    ├── NotFound (LookupError)             no session, snapshot, checkpoint or message has that name
    ├── WrongLayer (TypeError)             a history or a snapshot was handed to a model
    ├── CannotFit                          the floor alone exceeds the budget; carries its breakdown
    ├── ContextOverflow                    a provider refused a prompt as too large
    ├── ModelFailed (RuntimeError)         the answer of a model or its server cannot be used
    │   ├── ModelUnavailable (ConnectionError)  it may answer later: busy, down, too slow
    │   └── ModelRefused (PermissionError) it will never answer this: key, name, request, policy
    ├── SummaryRejected (ValueError)       a summary may not replace its source
    ├── CompressionFailed (RuntimeError)   a stage of a compression failed; nothing was changed
    ├── Superseded (RuntimeError)          another writer was faster: read again and continue
    ├── StoreFailed (OSError)              a store cannot be read or written: full, locked …
    │   └── StoreDamaged                   its contents were altered; names the repair command
    └── BlockingCallInLoop (RuntimeError)  a blocking call would have to wait in an event loop

Texts say what happened, which value, and what to do. Vendors' errors are mapped in `providers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


class CompactError(Exception):
    """The base class of every error that compact raises on purpose.

    `stage` is the stage of the compression that failed; empty if none did.
    """

    stage: str = ""


class InvalidInput(CompactError, ValueError):
    """The input cannot be used as it is."""


class InvalidArgument(InvalidInput, TypeError):
    """An argument of a call has a wrong name, type or value; `name` is its name."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(reason)


class InvalidMessage(InvalidInput):
    """A message is malformed.

    `path` names the field, for example `messages[3].tool_calls[0].id`.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class InvalidTranscript(InvalidInput):
    """A conversation file is damaged or in an unknown format.

    `source` is the file's name as given. `line` counts from 1; None if no line can be named.
    `is_foreign` says that the file does not look like a conversation at all.
    """

    def __init__(
        self, source: str, reason: str, *, line: int | None = None, is_foreign: bool = False
    ) -> None:
        self.source = source
        self.reason = reason
        self.line = line
        self.is_foreign = is_foreign
        where = source if line is None else f"{source}, line {line}"
        super().__init__(f"{where}: {reason}")


class InvalidConfig(InvalidInput):
    """A setting has an unknown name or a wrong value; `field` is its name."""

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"{field}: {reason}")


class UnknownModel(InvalidInput, LookupError):
    """No profile, tokenizer or format has that name. `reason` is the error text without the
    suggested remedy.
    """

    def __init__(self, reason: str, *, way: str = "") -> None:
        self.reason = reason
        super().__init__(f"{reason}; {way}" if way else reason)


class ServerHeldState(InvalidInput):
    """The request asks the provider's server to keep the conversation (`previous_response_id`,
    `conversation`). The model would read more than compact counted. The text names the remedy.
    """


class NotFound(CompactError, LookupError):
    """No such thing was found. The text says what was searched for and where to look."""


class WrongLayer(CompactError, TypeError):
    """Something that is not an active context was handed to a model or a formatter."""


class ContextOverflow(CompactError):
    """A provider refused a prompt as too large.

    `tokens` is the provider's count and `limit` its limit; None if it gave none. `stand_in` is the
    key of the fallback model that refused; empty if the requested model refused. `others` says
    whether other models are left that were not asked.
    """

    def __init__(
        self, message: str, *, tokens: int | None = None, limit: int | None = None
    ) -> None:
        self.tokens = tokens
        self.limit = limit
        self.stand_in = ""
        self.others = False
        super().__init__(message)


class ModelFailed(CompactError, RuntimeError):
    """A model or its server gave no usable answer.

    `model` is the model's key, `status` the HTTP status, if there was one.
    """

    def __init__(self, message: str, *, model: str = "", status: int | None = None) -> None:
        self.model = model
        self.status = status
        super().__init__(message)


class ModelUnavailable(ModelFailed, ConnectionError):
    """A model does not answer now but may later: its server is busy, down or too slow.

    `retry_after` is the wait in seconds that the server asks for, if any. `waited` is how many
    seconds compact waited before it gave up on a slow server; None for other failures.
    """

    def __init__(
        self,
        message: str,
        *,
        model: str = "",
        status: int | None = None,
        retry_after: float | None = None,
        waited: float | None = None,
    ) -> None:
        self.retry_after = retry_after
        self.waited = waited
        super().__init__(message, model=model, status=status)


class ModelRefused(ModelFailed, PermissionError):
    """A model will not answer this request, however often it is asked: a wrong key, an unknown
    name, a malformed request, a policy.

    `part` names the kind of content that the model does not accept: `image`, `audio`, `media`
    (both), or `part` for kinds unknown to the server. `file` means that a single file cannot be
    read. `turns` means that the server refuses the order of the messages, or one of their roles.
    It is empty if something else was refused.
    """

    def __init__(
        self, message: str, *, model: str = "", status: int | None = None, part: str = ""
    ) -> None:
        self.part = part
        super().__init__(message, model=model, status=status)


class Superseded(CompactError, RuntimeError):
    """Another writer was faster; nothing was stored. Read again and continue from there."""


class StoreFailed(CompactError, OSError):
    """A store cannot be read or written. The failed call stored nothing."""


class StoreDamaged(StoreFailed):
    """The contents of a store were altered; the text names the repair command."""


class CannotFit(CompactError):
    """The floor (the content that may not be shortened) is larger than the whole budget.

    `floor` maps each part of the floor to its tokens; `limit` is the budget in tokens. The text
    names remedies that are enough, each alone or else together. It names none if none are enough.
    """

    def __init__(self, floor: Mapping[str, int], limit: int) -> None:
        self.floor = dict(floor)
        self.limit = limit
        self.total = sum(self.floor.values())
        super().__init__(self.told(WAYS))

    def told(self, ways: Mapping[str, str]) -> str:
        """Return the error text with these remedies: one for each floor part, and `limit`."""
        taken = sorted(self.floor.items(), key=lambda row: -row[1])
        parts = ", ".join(f"{name} {tokens:,}" for name, tokens in taken if tokens)
        helping = [(ways[name], tokens) for name, tokens in taken if name in ways and tokens]
        out = [ways["limit"], *_enough(helping, self.total - self.limit)]
        return (
            f"cannot fit {self.limit:,} tokens: what may not be shortened needs {self.total:,} "
            f"({parts}). {', or '.join(out)}."
        )


WAYS: Mapping[str, str] = {
    "limit": "Raise the limit",
    "newest user message": "shorten the newest user message (in a session, put_aside() shows its "
    "head and tail and keeps the whole for recall)",
    "pins": "pin fewer messages (in a session, unpin(id) lets one go, put_aside(id) shows head and "
    "tail of one)",
    "system prompt": "shorten the system prompt",
    "goals": "end goals or say less of them",
    "tools": "offer fewer tools",
}
"""Part of the floor -> the remedy if that part takes too many tokens."""


def _enough(ways: Sequence[tuple[str, int]], excess: int) -> list[str]:
    """Return which ways free at least `excess` tokens: every way that is enough by itself, largest
    first; if no way is, the smallest set that is enough together.
    """
    if alone := [way for way, tokens in ways if tokens >= excess]:
        return alone
    together = list[str]()
    for way, tokens in ways:
        together.append(way)
        excess -= tokens
        if excess <= 0:
            return [", and ".join(together)]
    return []


class SummaryRejected(CompactError, ValueError):
    """A summary may not replace its source; the text says which rule it broke."""


class CompressionFailed(CompactError, RuntimeError):
    """A stage of a compression failed unexpectedly. The text names the stage and the reason, and
    the cause is the original error. Nothing was changed.
    """

    def __init__(self, stage: str, cause: Exception) -> None:
        self.stage = stage
        super().__init__(f"compressing broke at {stage!r}: {type(cause).__name__}: {cause}")


@contextmanager
def failing_at(stage: str) -> Iterator[None]:
    """Turn any error raised in the block into a `CompactError` that names the failed stage."""
    try:
        yield
    except CompactError as error:
        error.stage = stage
        raise
    except Exception as error:
        raise CompressionFailed(stage, error) from error


class BlockingCallInLoop(CompactError, RuntimeError):
    """A blocking call was made inside a running event loop and would have to wait.

    The text names the async form to await instead.
    """


def unreadable(error: OSError | ValueError) -> str:
    """Return, in words for the user, why a file could not be read."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "a directory, not a file"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return "not a file's name"
