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
    """The base class of every error compact raises on purpose.

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
    """A conversation file is unknown or broken.

    `source` is the file's name as given. `line` counts from 1; None if no line can be named.
    `is_foreign` says that the file looks like no conversation at all.
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
    """No profile, tokenizer or format has that name; `reason` is the text without the suggested
    remedy.
    """

    def __init__(self, reason: str, *, way: str = "") -> None:
        self.reason = reason
        super().__init__(f"{reason}; {way}" if way else reason)


class ServerHeldState(InvalidInput):
    """The request asks the provider's server to keep the conversation (`previous_response_id`,
    `conversation`). More would be sent than was counted. The text names the remedy.
    """


class NotFound(CompactError, LookupError):
    """Nothing has that name; the text says what was searched for and where to look."""


class WrongLayer(CompactError, TypeError):
    """Something that is not an active context was handed to a model or a formatter."""


class ContextOverflow(CompactError):
    """A provider refused a prompt as too large.

    `tokens` is the provider's count and `limit` its limit; None if it gave none. `stand_in` is the
    key of the fallback model that refused it; empty if the requested model did. `others` says
    whether there are models that were not asked.
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

    `model` is its key, `status` the HTTP status, if there was one.
    """

    def __init__(self, message: str, *, model: str = "", status: int | None = None) -> None:
        self.model = model
        self.status = status
        super().__init__(message)


class ModelUnavailable(ModelFailed, ConnectionError):
    """A model does not answer now but may later: its server is busy, down or too slow.

    `retry_after` is the wait in seconds that the server asks for; None if it gave none. `waited` is
    the seconds until compact gave up on a slow server; None if it failed otherwise.
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
    (both), or `part` for kinds unknown to the server. `file` is a single file that it cannot read;
    `turns` is no part: the server refuses the order of the messages, or one of their roles. Empty
    if it refused something else.
    """

    def __init__(
        self, message: str, *, model: str = "", status: int | None = None, part: str = ""
    ) -> None:
        self.part = part
        super().__init__(message, model=model, status=status)


class Superseded(CompactError, RuntimeError):
    """Another writer was faster; nothing was stored. Read again and continue from there."""


class StoreFailed(CompactError, OSError):
    """A store cannot be read or written; nothing of the call was stored."""


class StoreDamaged(StoreFailed):
    """The contents of a store were altered; the text names the repair command."""


class CannotFit(CompactError):
    """The floor, which may not be shortened, is alone larger than the budget.

    `floor` maps each part of the floor to its tokens; `limit` is the budget in tokens. The text
    names remedies that are enough, each alone or else together; none if all are not enough.
    """

    def __init__(self, floor: Mapping[str, int], limit: int) -> None:
        self.floor = dict(floor)
        self.limit = limit
        self.total = sum(self.floor.values())
        super().__init__(self.told(WAYS))

    def told(self, ways: Mapping[str, str]) -> str:
        """The error text, with these remedies: one for each part of the floor, and `limit`."""
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
"""What helps where a part of the floor takes too much."""


def _enough(ways: Sequence[tuple[str, int]], excess: int) -> list[str]:
    """What frees so many tokens: of ways with their tokens, the largest first, each that does it
    alone, else the fewest that do it together.
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
    """A stage of a compression failed unexpectedly. The text says which and how; the cause is the
    original error. Nothing was changed.
    """

    def __init__(self, stage: str, cause: Exception) -> None:
        self.stage = stage
        super().__init__(f"compressing broke at {stage!r}: {type(cause).__name__}: {cause}")


@contextmanager
def failing_at(stage: str) -> Iterator[None]:
    """Turn any error of the block into a `CompactError` that names the stage of a compression."""
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
    """Why a file could not be read, in words for a person."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "a directory, not a file"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return "not a file's name"
