"""Names of 0.1 that have moved. They work until 0.3, with a warning."""

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
"""Old method of `ContextManager` → where it is now."""


class MovedName(DeprecationWarning):
    """A name was used that 0.3 removes. The warning gives the new one."""


def moved(owner: object, name: str) -> object:
    """Return what a name of 0.1 stands for now, and warn.

    Raises:
        AttributeError: there was no such name.
    """
    if name not in METHODS:
        # raises an error that says what is wrong, also inside a property
        return object.__getattribute__(owner, name)
    text = f"{type(owner).__name__}.{name} is now {METHODS[name]}; the old name goes with 0.3"
    warnings.warn(text, MovedName, stacklevel=3)
    return attrgetter(METHODS[name])(owner)
