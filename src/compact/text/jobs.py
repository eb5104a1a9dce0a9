"""Work that a worker does later, as a small value. `memory.jobs.run_job` does it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from compact.errors import InvalidArgument
from compact.messages.calls import of_field

Kind = Literal["age", "compress", "embed", "index"]


class Job(BaseModel, frozen=True, extra="forbid", defer_build=True):
    """A piece of work on a scope, or on one of its sessions. Doing it twice has one effect."""

    kind: Kind
    """`age` writes the digests that are due. `compress` compresses a session if its prompt passes
    the trigger. `embed` makes vectors for messages that have none. `index` stores missing words."""
    scope: str = Field(min_length=1)
    session: str | None = Field(default=None, min_length=1)
    """A session's id. `compress` needs one, `age` may have one, and the others are of a scope."""
    arguments: Mapping[str, Any] = Field(default_factory=dict)
    """`compress` takes `window`, in tokens."""

    @model_validator(mode="after")
    def _is_of_its_kind(self) -> Self:
        if (self.kind == "compress") > (self.session is not None):
            raise ValueError("compress needs a session")
        if self.session is not None and self.kind in ("embed", "index"):
            raise ValueError(f"{self.kind} is of a whole scope, not of a session")
        if wrong := sorted(self.arguments.keys() - ({"window"} if self.kind == "compress" else ())):
            raise ValueError(f"{self.kind} takes no argument {wrong[0]!r}")
        return self

    @classmethod
    def read(cls, given: Job | Mapping[str, Any] | str | bytes) -> Job:
        """Return the job that is given as a job, as its fields, or as JSON.

        Raises:
            InvalidArgument: it is no job; the error names the field.
        """
        if isinstance(given, Job):
            return given
        try:
            fields = json.loads(given) if isinstance(given, str | bytes) else given
        except ValueError as error:
            raise InvalidArgument("job", f"a job is JSON with kind and scope: {error}") from None
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise of_field(error) from None

    def to_json(self) -> str:
        """Return the job as JSON. Equal jobs give equal texts."""
        return json.dumps(self.model_dump(), sort_keys=True)

    @property
    def lock(self) -> str:
        """What no two jobs that run have in common: the session, or the scope and the kind."""
        what = ("session", self.session) if self.session else ("kind", self.kind)
        return digest(self.scope, *what)

    @property
    def key(self) -> str:
        """What no two jobs that wait have in common."""
        return digest(self.to_json())


def digest(*texts: str) -> str:
    """Return a hash of texts."""
    return blake2b(json.dumps(texts).encode(), digest_size=16).hexdigest()
