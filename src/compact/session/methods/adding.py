"""Adding messages, one by one or as a whole list."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from compact.errors import InvalidMessage, Superseded
from compact.messages.given import Given, fields_given, messages_given
from compact.messages.messages import Message
from compact.session.goal_tracking import track
from compact.session.intake import taken_in
from compact.session.lists import syncing
from compact.session.lists.last_list import ListDigest, understood
from compact.session.lists.recognition import Recognized
from compact.session.lists.system_prompt import MOST_TRIES
from compact.session.methods.looking import Looking
from compact.session.running.off_loop import off_loop

Place = tuple[str, int]
"""A branch, and how many messages it has."""


class Adding(Looking):
    """The methods that take messages in."""

    def add_message(self, message: Given | None = None, /, **fields: object) -> Message:
        """Append a message to the history: a `Message`, a provider's dictionary, an object of its
        client such as `response.choices[0].message`, or the fields as keywords, including marks
        such as `pinned=True`. Pass fields that only a provider knows inside a dictionary.

        Stores the message, and never compresses. Returns it with its id and time. A program that
        reopens a session may add its system prompt again: it is recognized and not stored twice. If
        it differs, prompts show the new one from now on, and the store keeps the first. Marks such
        as `metadata={"pinned": True}` are kept by compact and never sent to a provider.

        Raises:
            InvalidMessage: the message is malformed; the text names the field.
            StoreFailed: the message could not be stored, and is not part of the history.
        """
        if message is not None and fields:
            raise InvalidMessage("message", "give a message or its fields, not both")
        return self._added([fields_given(fields) if message is None else message])[0]

    def add_messages(self, messages: Sequence[Given]) -> list[Message]:
        """Append several messages at once: all of them or none. Markers in an assistant's messages
        update the goals.

        Raises:
            InvalidMessage, StoreFailed: as `add_message`.
        """
        return self._added(messages)

    def _added(self, messages: Sequence[Given]) -> list[Message]:
        given = self._session.read(messages, len(self._session.state.history))
        repeated = self._session.repeated_prompt.repeated_in(given)
        rest, new = given[len(repeated) :], []
        if rest or not repeated:
            new = taken_in(self._session.state, rest, self.window)
        return self._session.repeated_prompt.take(repeated, ends=bool(rest)) + new

    async def aadd_message(self, message: Given | None = None, /, **fields: object) -> Message:
        """`add_message` for async callers: a long message is counted off the event loop."""

        async def added() -> Message:
            return self.add_message(message, **fields)

        return await off_loop(added())

    async def aadd_messages(self, messages: Sequence[Given]) -> list[Message]:
        """`add_messages` for async callers."""

        async def added() -> list[Message]:
            return self.add_messages(messages)

        return await off_loop(added())

    def sync(self, messages: Sequence[Given]) -> Recognized:
        """Take the whole list that a client resends at every turn: known messages are recognized,
        and only new ones are stored. The same list again, from any client, adds nothing.

        Messages are compared by what they say, exactly. A list with an edited past, or one that is
        not known, continues as a branch, reported by the event `BranchTaken` with the reason. A
        list cut off at its beginning continues if it starts with the history's last messages. If
        the system prompt differs, prompts show the new one from now on; the store keeps the first.

        Raises:
            InvalidMessage: one is malformed, named by its place in the list, or the list is empty;
                nothing was changed.
            StoreFailed: as `add_message`.
            Superseded: other writers were faster, again and again.
        """
        return self._synced(messages)[0]

    async def a_sync(self, messages: Sequence[Given]) -> Recognized:
        """`sync` for async callers."""

        async def taken() -> Recognized:
            return self.sync(messages)

        return await off_loop(taken())

    def _synced(self, messages: Sequence[Given]) -> tuple[Recognized, Place]:
        """`sync`, and where the list has its end: the branch, and its length then."""
        session = self._session
        listed = ListDigest(messages_given(messages))
        session.read(listed.messages[session.last_list.known(listed) :])
        state, last = session.state, session.last_list
        for _ in range(MOST_TRIES):
            with state.lock, suppress(Superseded):
                state.history.catch_up()
                view = session.view
                view.refresh()
                given, found = understood(state, view, last, listed)
                new = syncing.take(state, view, given, found)
                track(state, new, found.known, self.window)
                session.repeated_prompt.end()
                last.keep(listed, found.ours)
                return found, (state.branch_id, len(state.history))
        raise Superseded("other writers were faster, again and again")
