"""Taking in a list that was recognized: its new messages, the branch where its past was edited, and
its system prompt. What in it is new is decided in `recognition`.
"""

from __future__ import annotations

from collections.abc import Sequence

from compact.errors import InvalidMessage, Superseded
from compact.messages import chain
from compact.messages.events import BranchTaken
from compact.messages.given import Given as Anything
from compact.messages.given import messages_given, plain
from compact.messages.messages import SYSTEM_ROLES, Message
from compact.messages.sessions import Branch, Destination, Projection
from compact.session.intake import parsed_all
from compact.session.lists.merged import Given
from compact.session.lists.recognition import Recognized
from compact.session.lists.system_prompt import show_system
from compact.session.state import NEWEST_MOVES, SessionState
from compact.session.views import time_travel
from compact.session.views.view import View

MOST_BRANCHES = 64
"""Newest branches of which one may say what a list says, beside those that the newest moves led
to."""


def checked(messages: Sequence[Anything], known: int = 0) -> list[Given]:
    """The list, if every one in it may be a message, and plain; so many are known to be.

    Raises:
        InvalidMessage: one is none, or there are none: an empty list tells nothing, least of all
            that a conversation is to begin again.
    """
    found = messages_given(messages)
    if not found:
        raise InvalidMessage("messages", "the list is empty; open another session to begin again")
    rest = [
        each if isinstance(each, Message) else plain(each, f"messages[{i}]")
        for i, each in enumerate(found[known:], known)
    ]
    return [*found[:known], *rest]


def take(
    state: SessionState, view: View, given: Sequence[Given], found: Recognized
) -> list[Message]:
    """Take in what is new, durably; the messages that the history got.

    Raises:
        InvalidMessage: one of the new messages is malformed; nothing was changed.
        Superseded: the history is another one by now; the list is to be recognized again.
    """
    new = _parsed(state, given, found.new, found.known)
    system = _parsed(state, given, found.system, 0)
    if found.known < len(state.history):
        _branch_off(state, view, found)
    if new:
        state.history.append(lambda _: new, expected=found.known)
    if system:
        show_system(state, system, found.own_system)
    return new


def _parsed(
    state: SessionState, given: Sequence[Given], chosen: Sequence[Given], at: int
) -> list[Message]:
    """These messages of the list, as they go on from that position of the history; one that is
    wrong is named by its place in the list.
    """
    places = {id(message): i for i, message in enumerate(given)}
    placed = [(places.get(id(message), 0), message) for message in chosen]
    return parsed_all(state.wire, placed, state.history, at)


# --- an edited past -------------------------------------------------------------------------------


def _branch_off(state: SessionState, view: View, found: Recognized) -> None:
    """Go on from where the list leaves the history: on a branch that says what it says, as after
    another delivery of the same list, else on a new one. All or nothing.
    """
    known, left = found.known, len(state.history) - found.known
    unknown = found.is_lost or not _says_more(state, known)
    links = [state.store.chain(state.branch_id, known)]
    for message in found.new:
        links.append(chain.link(links[-1], message))
    parent = state.branch_id

    def there() -> Destination:
        same = _same_branch(state, parent, links, known)
        if same is not None:
            return Destination(same.id, same.messages, in_force(state, view.size, same.id))
        return time_travel.forked(view, parent, known)

    view.go("restore", there)
    said = len(state.history) - known
    event = BranchTaken(
        branch_id=state.branch_id,
        known=known,
        left=left,
        new=len(found.new) - said,
        reason="unknown" if unknown else "edited",
    )
    state.emit(event)
    if said:
        raise Superseded("another branch says more of the list")


def _says_more(state: SessionState, known: int) -> bool:
    """Whether the beginning of the history is more than a system prompt."""
    return known > 0 and state.history[known - 1].role not in SYSTEM_ROLES


def _same_branch(
    state: SessionState, parent: str, links: Sequence[bytes], known: int
) -> Branch | None:
    """The branch that has most of what the list says and nothing else, among the newest and those
    that were used last.
    """
    branches = state.store.branches(state.id)
    used = {move.branch_id for move in state.store.moves(state.id, most=NEWEST_MOVES)}
    known_of = {branch.id for branch in branches[-MOST_BRANCHES:]} | used
    same = [
        branch
        for branch in branches
        if branch.id in known_of - {parent}
        and 0 <= branch.messages - known < len(links)
        and state.store.chain(branch.id, branch.messages) == links[branch.messages - known]
    ]
    return max(same, key=lambda branch: branch.messages, default=None)


def in_force(state: SessionState, window: int, branch_id: str) -> Projection | None:
    """What was in force for a window on a branch."""
    rows = state.store.moves(state.id, window, most=NEWEST_MOVES)
    names = (move.projection_id for move in rows if move.branch_id == branch_id)
    name = next(names, None)
    return None if name is None else state.projection(name)
