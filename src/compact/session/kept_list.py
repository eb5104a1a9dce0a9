"""A list of items that a framework keeps in a session. Items are read, added, and removed from its
end. They come back exactly as they were given.

The list is the first items of a branch. A note in the session says which branch, and how many
items. So removing the last item, or all, only moves the end and loses nothing. If other items are
added after that, they begin a branch. A call of a model may store items before the framework adds
them. They are recognized, and not stored twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from compact.messages.copies import copied
from compact.messages.given import Given, plain
from compact.messages.messages import Message, MessageMetadata
from compact.messages.sessions import Destination
from compact.session.context_manager import ContextManager
from compact.session.entering import OURS
from compact.session.intake import parsed_all, taken_in
from compact.session.resent_list import in_force
from compact.session.state import SessionState
from compact.session.views import time_travel

NOTE = "kept list"
"""The name of the note that says where the list ends."""
AS_GIVEN = "as_given"
"""The metadata key for an item's own values in the fields that compact uses itself."""
_FLAGS = ("pinned", "protected", "important")

Item = dict[str, Any]


class End(NamedTuple):
    """Where the list ends."""

    branch_id: str
    length: int
    """How many items of the branch belong to the list."""


class KeptList:
    """The list of a session. Changes hold the session's turn, and may wait for it."""

    def __init__(self, ctx: ContextManager) -> None:
        self._session = ctx._session
        if NOTE not in self._state.store.notes(self._state.id):
            self._keep(self._end())

    @property
    def _state(self) -> SessionState:
        return self._session.state

    def items(self, limit: int | None = None) -> list[Item]:
        """Return the list's items, or only the last `limit`. They are copies."""
        end = self._end()
        start = 0 if limit is None or limit < 0 else max(0, end.length - limit)
        return self._read(end.branch_id, start, end.length)

    def add(self, items: Sequence[Given]) -> None:
        """Add items at the end, all or none.

        Raises:
            InvalidMessage: one is malformed; the text names its place among these.
            StoreFailed: they could not be stored.
        """
        added: list[Item] = [plain(item, f"items[{i}]") for i, item in enumerate(items)]
        if not added:
            return
        with self._session.turn:
            self._session.read(added)  # in a format that can hold them
            with self._state.lock:
                self._add(added)

    def pop(self) -> Item | None:
        """Remove the last item and return it; None if the list is empty. It stays on its branch."""
        with self._session.turn:
            branch_id, length = self._end()
            if not length:
                return None
            (item,) = self._read(branch_id, length - 1, length)
            self._keep(End(branch_id, length - 1))
            return item

    def clear(self) -> None:
        """Remove all items from the list. They stay on their branch."""
        with self._session.turn:
            self._keep(self._end()._replace(length=0))

    # --- where it ends ----------------------------------------------------------------------------

    def _end(self) -> End:
        """Return the stored end; before it is first stored, the end of the open branch."""
        noted = self._state.store.notes(self._state.id).get(NOTE)
        if noted is not None:
            return End(noted["branch"], noted["length"])
        self._state.history.catch_up()
        return End(self._state.branch_id, len(self._state.history))

    def _keep(self, end: End) -> None:
        note = {"branch": end.branch_id, "length": end.length}
        self._state.store.note(self._state.id, NOTE, note)

    def _read(self, branch_id: str, start: int, stop: int) -> list[Item]:
        return [_item_of(entry.message) for entry in self._state.store.read(branch_id, start, stop)]

    # --- adding -----------------------------------------------------------------------------------

    def _add(self, items: Sequence[Item]) -> None:
        state, view = self._state, self._session.view
        view.refresh()
        length = self._go_to(self._end())
        there = self._read(state.branch_id, length, length + len(items))
        same = 0
        while same < len(there) and there[same] == items[same]:
            same += 1
        if same < len(items):
            if length + same < len(state.history):
                time_travel.branch_off(state, view, length + same)
            taken_in(state, self._parsed(items[same:], length + same), view.window)
        self._keep(End(state.branch_id, length + len(items)))

    def _go_to(self, end: End) -> int:
        """Open the branch of the list, and return the list's length. A branch that a call began
        after the list's end has the list too.
        """
        state, view = self._state, self._session.view
        there = state.store.branch(state.branch_id)
        is_behind = there.parent == end.branch_id and there.fork >= end.length
        if there.id != end.branch_id and not is_behind:
            branch = state.store.branch(end.branch_id)
            projection = in_force(state, view.size, branch.id)
            view.go("restore", lambda: Destination(branch.id, branch.messages, projection))
        return end.length

    def _parsed(self, items: Sequence[Item], at: int) -> list[Message]:
        state = self._state
        made = parsed_all(state.wire, list(enumerate(items)), state.history, at)
        return [_exact(message, item) for message, item in zip(made, items, strict=True)]


def _exact(message: Message, item: Item) -> Message:
    """Return the message, with what is needed to return exactly this item."""
    if _item_of(message) == item:
        return message
    marks = {key: item[key] for key in OURS if key in item}
    noted = message.metadata.model_dump(exclude_defaults=True) | {AS_GIVEN: marks}
    return message.model_copy(update={"metadata": MessageMetadata.model_validate(noted)})


def _item_of(message: Message) -> Item:
    item = copied(dict(message.wire or {"role": message.role, "content": message.text}))
    extra = message.metadata.model_extra or {}
    if AS_GIVEN in extra:
        return {**item, **copied(extra[AS_GIVEN])}
    marks: Item = {name: True for name in _FLAGS if getattr(message.metadata, name)}
    if marks:
        item["metadata"] = marks
    return item
