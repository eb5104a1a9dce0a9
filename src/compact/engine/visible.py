"""The text that a reader already sees, so that a checkpoint does not repeat it.

Each text is scanned once: for names, and for chunks of a few characters. The chunks answer nearly
all look-ups without a search of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import overload

from compact.messages.cached import cached_property
from compact.messages.messages import Message, visible_texts
from compact.text import anchors
from compact.text.sentences import SHORTEST

TOLD_CHARS = 80
"""A line counts as shown if this many of its first characters are shown."""
CHUNK = SHORTEST // 2
"""Characters of a chunk. It is so short that each searched statement contains a whole chunk,
wherever it starts. Larger chunks take less memory but answer fewer look-ups."""


class VisiblePart:
    """Texts that a reader sees together, such as those of a group."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = tuple(filter(None, texts))

    @classmethod
    def of(cls, messages: Iterable[Message]) -> VisiblePart:
        """Return the visible texts of messages."""
        return cls(tuple(visible_texts(messages)))

    @cached_property
    def text(self) -> str:
        """The texts, joined by line ends."""
        return "\n".join(self._texts)

    @cached_property
    def chunks(self) -> frozenset[str]:
        """The text in pieces of `CHUNK` characters, with the shorter last piece."""
        text = self.text
        return frozenset([text[i : i + CHUNK] for i in range(0, len(text), CHUNK)])

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in the text."""
        return frozenset(names_in(self.text))


class VisibleText:
    """All text that the reader sees. `words in seen` is true if a single part contains all of the
    words.
    """

    def __init__(
        self, parts: Iterable[VisiblePart | str] = (), beside: VisibleText | None = None
    ) -> None:
        self._beside = beside
        self._parts = [VisiblePart((x,)) if isinstance(x, str) else x for x in parts]

    @cached_property
    def _levels(self) -> list[VisibleText]:
        beside = self._beside._levels if self._beside is not None else []
        return [*beside, self] if any(part.text for part in self._parts) else beside

    @cached_property
    def _places(self) -> dict[str, VisiblePart]:
        """Chunk → a part that contains it, for this object's own parts."""
        places: dict[str, VisiblePart] = {}
        for part in self._parts:
            places.update(dict.fromkeys(part.chunks, part))
        return places

    def has_name(self, name: str) -> bool:
        """Whether a part has the name, or a path that ends in it."""
        return any(name in part.names for level in self._levels for part in level._parts)

    def __contains__(self, said: str) -> bool:
        return not said or self._holds(said, _chunks_of(said))

    def tells(self, text: str) -> bool:
        """Whether a part contains the start of the text's longest line; false for short texts."""
        return self.shows(probed(text))

    def shows(self, probe: tuple[str, frozenset[str]]) -> bool:
        """Whether a part contains the text that `probed` made."""
        return bool(probe[0]) and self._holds(*probe)

    def _holds(self, said: str, chunks: frozenset[str]) -> bool:
        for level in self._levels:  # noqa: SIM110 - asked hundreds of times
            if level._has(said, chunks):
                return True
        return False

    def _has(self, said: str, chunks: frozenset[str]) -> bool:
        if not chunks:
            return any(said in part.text for part in self._parts)
        places = self._places
        if places.keys().isdisjoint(chunks):
            return False
        hits = [chunk for chunk in chunks if chunk in places]
        return any(said in places[chunk].text for chunk in hits) or any(
            said in part.text for part in self._parts if not part.chunks.isdisjoint(hits)
        )


def probed(text: str) -> tuple[str, frozenset[str]]:
    """Return the start of the text's longest line, and its chunks. Empty for a very short text."""
    line = max(text.splitlines(), key=len, default="")[:TOLD_CHARS]
    return (line, _chunks_of(line)) if len(line) >= SHORTEST else ("", frozenset())


def _chunks_of(said: str) -> frozenset[str]:
    is_short = len(said) < 2 * CHUNK
    return frozenset() if is_short else frozenset([said[i : i + CHUNK] for i in range(CHUNK)])


class LazyMessages(Sequence[Message]):
    """Messages that are built on first use."""

    def __init__(self, make: Callable[[], list[Message]]) -> None:
        self._make = make

    @cached_property
    def _messages(self) -> list[Message]:
        return self._make()

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, place: int) -> Message: ...

    @overload
    def __getitem__(self, place: slice) -> list[Message]: ...

    def __getitem__(self, place: int | slice) -> Message | list[Message]:
        return self._messages[place]


class MessagesInView(LazyMessages):
    """Messages that the prompt shows, with the text that a reader sees in them."""

    def __init__(self, messages: list[Message], seen: VisibleText) -> None:
        super().__init__(lambda: messages)
        self.seen = seen


NOTHING = VisibleText()
"""For a text whose reader sees nothing else."""


def names_in(text: str) -> set[str]:
    """Return the names in a text, and the last parts of paths."""
    names = anchors.texts_of(anchors.find_all(text))
    return names | {path.rsplit("/", 1)[1] for path in names if "/" in path}
