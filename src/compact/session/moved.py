"""Names of 0.1 that are elsewhere now. They work until 0.3, with a warning."""

from __future__ import annotations

import warnings
from operator import attrgetter

METHODS = {
    "set_goals": "goals.set",
    "confirm_goal": "goals.confirm",
    "snapshot": "time.snapshot",
    "snapshots": "time.snapshots",
    "delete_snapshot": "time.delete_snapshot",
    "restore": "time.restore",
    "branch": "time.branch",
    "branches": "time.branches",
    "undo": "time.undo",
    "redo": "time.redo",
    "moves": "time.moves",
    "context_at": "time.context_at",
    "propose_compression": "review.propose",
    "apropose_compression": "review.apropose",
    "accept": "review.accept",
    "aaccept": "review.aaccept",
    "recall_tools": "tools.schemas",
    "call_tool": "tools.call",
}
"""Methods of `ContextManager`, and where each one is now."""


class MovedName(DeprecationWarning):
    """A name is used that will go with 0.3. The warning says the new one."""


def moved(owner: object, name: str) -> object:
    """Return what a name of 0.1 means, and warn.

    Raises:
        AttributeError: there was no such name.
    """
    if name not in METHODS:
        return object.__getattribute__(owner, name)  # says what is wrong, also in a property
    text = f"{type(owner).__name__}.{name} is now {METHODS[name]}; the old name goes with 0.3"
    warnings.warn(text, MovedName, stacklevel=3)
    return attrgetter(METHODS[name])(owner)
