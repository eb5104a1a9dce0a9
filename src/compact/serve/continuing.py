"""Knows a list that continues the one before it, and whether it certainly fits.

Such a request need not wait: it goes on as it is, while the session takes it in. Whatever is not
known here is looked for in the store, and is fitted first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

MOST = 4_096
"""How many lists are remembered: those used last."""
LATEST = 32
"""Messages that a list may have more than the one before it."""
_LARGE = (b'"image', b'"input_', b'"file', b'"document', b'"audio')
"""Signs of content that may take more tokens than it has bytes: an address of a picture."""


class Begun(NamedTuple):
    """A list that was taken into a session."""

    session_id: str
    """Empty if several sessions have that list."""
    left: int
    """Tokens that may be added before something may have to change. 0 if something was changed."""


class Continued(NamedTuple):
    """A list, and what is known of it."""

    digest: bytes
    session_id: str | None
    """None if its session must be looked for."""
    fits: bool
    """Whether it certainly fits: a token is at least one byte."""


class Lists:
    """The lists that were sent last, by digests of their bytes."""

    def __init__(self) -> None:
        self._begun: OrderedDict[bytes, Begun] = OrderedDict()

    def continued(self, beside: Mapping[str, Any], messages: Sequence[Any]) -> Continued:
        """Look for the longest beginning of a list. `beside` is what must be the same. An equal
        list is none: it may begin another conversation with the same words.
        """
        hashed = blake2b(orjson.dumps(beside, option=orjson.OPT_SORT_KEYS), digest_size=16)
        head = max(1, len(messages) - LATEST)
        hashed.update(orjson.dumps(messages[:head])[:-1])  # without the bracket that ends it
        found = self._begun.get(hashed.digest()) if head < len(messages) else None
        new = list[bytes]()
        for i, message in enumerate(messages[head:], head + 1):
            new.append(orjson.dumps(message))
            hashed.update(b"," + new[-1])
            if i < len(messages) and (known := self._begun.get(hashed.digest())):
                found, new = known, []
        if found is None or not found.session_id:
            return Continued(hashed.digest(), None, fits=False)
        is_large = any(sign in row for row in new for sign in _LARGE)
        fits = sum(map(len, new)) < found.left and not is_large
        return Continued(hashed.digest(), found.session_id, fits)

    def keep(self, digest: bytes, begun: Begun) -> None:
        """Remember a list."""
        before = self._begun.get(digest)
        if before is not None and before.session_id != begun.session_id:
            begun = Begun("", 0)
        self._begun[digest] = begun
        self._begun.move_to_end(digest)
        if len(self._begun) > MOST:
            self._begun.popitem(last=False)
