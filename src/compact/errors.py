"""The error tree: every failure compact raises on purpose, each also a fitting builtin.

    CompactError
    ├── InvalidInput (ValueError)          what was given cannot be used as it is
    │   ├── InvalidArgument (TypeError)    a call was given a wrong name, type or value; names it
    │   ├── InvalidMessage                 breaks the message model; names the field's path
    │   ├── InvalidTranscript              a file unknown or broken; names line and reason
    │   ├── InvalidConfig                  a setting has a wrong name or value; names the field
    │   ├── UnknownModel (LookupError)     no profile, tokenizer or format of that name
    │   └── ServerHeldState                a server would keep the conversation
    ├── NotFound (LookupError)             no session, snapshot, checkpoint or message of that name
    ├── WrongLayer (TypeError)             a history or a snapshot was handed to a model
    ├── CannotFit                          the floor alone exceeds the budget; carries its breakdown
    ├── ContextOverflow                    a provider refused a prompt as too large
    ├── ModelFailed (RuntimeError)         what a model or its server answered cannot be used
    │   ├── ModelUnavailable (ConnectionError)  it may answer later: busy, down, too slow
    │   └── ModelRefused (PermissionError) it will not answer this: key, name, request, policy
    ├── SummaryRejected (ValueError)       a summary may not stand in for its source
    ├── CompressionFailed (RuntimeError)   a stage of a compression broke; nothing was changed
    ├── Superseded (RuntimeError)          another writer was faster: read again and go on
    ├── StoreFailed (OSError)              a store cannot be read or written: full, locked …
    │   └── StoreDamaged                   what it holds is not what was written; names the repair
    └── BlockingCallInLoop (RuntimeError)  a blocking form was called where it would have to wait

Texts say what happened, which value, and what to do. What does not live here: mapping of vendors'
errors (providers).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


class CompactError(Exception):
    """The root of everything compact raises on purpose.

    `stage` is the stage of the compression that it ended, empty where it ended none.
    """

    stage: str = ""


class InvalidInput(CompactError, ValueError):
    """What was given cannot be used as it is."""


class InvalidArgument(InvalidInput, TypeError):
    """An argument of a call has a wrong name, type or value; `name` is its name."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(reason)


class InvalidMessage(InvalidInput):
    """A message breaks the message model.

    `path` names the field, for example `messages[3].tool_calls[0].id`.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class InvalidTranscript(InvalidInput):
    """A conversation file is unknown or broken.

    `source` is the file's name as given, `line` counts from 1 (None where no line can be named).
    """

    def __init__(self, source: str, reason: str, *, line: int | None = None) -> None:
        self.source = source
        self.reason = reason
        self.line = line
        where = source if line is None else f"{source}, line {line}"
        super().__init__(f"{where}: {reason}")


class InvalidConfig(InvalidInput):
    """A setting has an unknown name or a wrong value; `field` is its name."""

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"{field}: {reason}")


class UnknownModel(InvalidInput, LookupError):
    """No profile, tokenizer or format is known by that name; `reason` is the text without the way
    out that is named for the call.
    """

    def __init__(self, reason: str, *, way: str = "") -> None:
        self.reason = reason
        super().__init__(f"{reason}; {way}" if way else reason)


class ServerHeldState(InvalidInput):
    """A request would have the provider's server keep the conversation (`previous_response_id`,
    `conversation`): what is sent then is more than what was counted. The text names the way out.
    """


class NotFound(CompactError, LookupError):
    """There is nothing of that name; the text says what was looked for and where to look."""


class WrongLayer(CompactError, TypeError):
    """Something that is not an active context was handed to a model or a formatter."""


class ContextOverflow(CompactError):
    """A provider refused a prompt as too large.

    `tokens` is what it counted and `limit` what it allows, each None where it did not say.
    `stand_in` is the key of the model that refused it in the place of the one that was asked, empty
    where that one did; `others` says whether there are models that were not asked.
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
    """A model or its server did not answer in a way that can be used.

    `model` is its key, `status` the HTTP status where there was one.
    """

    def __init__(self, message: str, *, model: str = "", status: int | None = None) -> None:
        self.model = model
        self.status = status
        super().__init__(message)


class ModelUnavailable(ModelFailed, ConnectionError):
    """A model does not answer now, and may do so later: its server is busy, down or too slow.

    `retry_after` is what the server asks to wait, in seconds; None where it does not say. `waited`
    are the seconds after which it was given up as too slow; None where it failed otherwise.
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

    `part` says what of the prompt it takes none of: `image`, `audio`, `media` (both), or `part` for
    kinds that the server does not know; `file` is one that it cannot read, where it may read
    others; empty where it refused something else.
    """

    def __init__(
        self, message: str, *, model: str = "", status: int | None = None, part: str = ""
    ) -> None:
        self.part = part
        super().__init__(message, model=model, status=status)


class Superseded(CompactError, RuntimeError):
    """Another writer was faster; nothing was stored. Read again and go on from there."""


class StoreFailed(CompactError, OSError):
    """A store cannot be read or written; nothing of the call was stored."""


class StoreDamaged(StoreFailed):
    """What a store holds is not what was written; the text names the repair command."""


class CannotFit(CompactError):
    """What may not be shortened is alone larger than the budget.

    `floor` maps each part of the floor to its tokens; `limit` is the budget in tokens. The text
    names the ways out that would be enough, each alone, else together; none where even that is not.
    """

    def __init__(self, floor: Mapping[str, int], limit: int) -> None:
        self.floor = dict(floor)
        self.limit = limit
        self.total = sum(self.floor.values())
        super().__init__(self.told(WAYS))

    def told(self, ways: Mapping[str, str]) -> str:
        """The text, with the ways out in these words: by part of the floor, and `limit`."""
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
    """A summary may not stand in for its source; the text says which rule it broke."""


class CompressionFailed(CompactError, RuntimeError):
    """A stage of a compression broke in a way that nobody foresaw; the text says which and how, the
    cause is the error itself. Nothing was changed.
    """

    def __init__(self, stage: str, cause: Exception) -> None:
        self.stage = stage
        super().__init__(f"compressing broke at {stage!r}: {type(cause).__name__}: {cause}")


@contextmanager
def failing_at(stage: str) -> Iterator[None]:
    """Whatever the block raises becomes one of ours that says at which stage of a compression."""
    try:
        yield
    except CompactError as error:
        error.stage = stage
        raise
    except Exception as error:
        raise CompressionFailed(stage, error) from error


class BlockingCallInLoop(CompactError, RuntimeError):
    """A blocking form was called inside a running event loop and would have to wait.

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
