"""Tells which session a resent list continues, by the hashes of its beginnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compact.messages import chain
from compact.messages.messages import SYSTEM_ROLES, Message
from compact.messages.protocols import FindsChains, SessionStore

MOST_ALIKE = 64
"""How many sessions with one beginning are looked at, the newest first."""


def continued(
    store: SessionStore, scope: str, given: Sequence[Message | Mapping[str, Any]]
) -> str | None:
    """Return the id of the session that knows most of a list: at least all before its last answer.
    None if there is none, or if several know it equally and have gone on.
    """
    roles = [_role_of(message) for message in given]
    asked = roles.index("user") if "user" in roles else len(roles)
    last = max((i for i, role in enumerate(roles) if role == "answer"), default=-1)
    if last < asked or not isinstance(store, FindsChains):
        return None  # nothing was answered yet: it begins a conversation
    links = [chain.START]
    for message in given:
        links.append(chain.link(links[-1], message))
    for known in range(len(given), last - 1, -1):
        found = store.beginning(links[known], scope=scope, most=MOST_ALIKE)
        waiting = [name for name, ends in found if ends]
        if waiting or len({name for name, _ in found}) == 1:
            return (waiting or [found[0][0]])[0]
        if found:
            return None
    return None


def _role_of(message: Message | Mapping[str, Any]) -> str:
    """Return who a message is from: `user`, `system`, `tool` or `answer`."""
    if isinstance(message, Message):
        role: object = message.role
    else:
        role = message.get("role") or message.get("type")
    if role in SYSTEM_ROLES:
        return "system"
    if role in ("user", "tool") or str(role).endswith("_output"):
        return str(role)
    return "answer"
