"""Whether a model may call tools, and who says so.

A person's word counts more than what a server says, this more than an error while it was used, and
that more than the file of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

ToolSource = Literal["user_confirmed", "auto_detected", "runtime_error", "profile"]
"""Who says it, the strongest first."""
_STRENGTH: Sequence[str] = get_args(ToolSource)


@dataclass(frozen=True, slots=True)
class ToolSupport:
    """Whether tools may be called: None where nobody knows."""

    value: bool | None
    source: ToolSource = "profile"

    def updated(self, other: ToolSupport) -> ToolSupport:
        """What is known after `other` was said too: the stronger source counts, of equal ones the
        later word. Who does not know takes nothing back.
        """
        if other.value is None:
            return self
        if self.value is None:
            return other
        weaker = _STRENGTH.index(other.source) > _STRENGTH.index(self.source)
        return self if weaker else other
