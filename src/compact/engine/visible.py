"""What a reader sees beside a text, so that it is not said twice.

Each text is scanned once: for names, and for chunks of a few characters. Chunks answer nearly every
of the hundreds of questions without a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import overload

from compact.messages.cached import cached_property
from compact.messages.messages import Message, visible_texts
from compact.text import anchors
from compact.text.sentences import SHORTEST

TOLD_CHARS = 80
"""A line counts as shown if so many of its first characters are."""
CHUNK = SHORTEST // 2
"""Characters of a chunk. Each statement holds a whole one wherever it starts. Larger chunks take
less memory and answer for fewer statements."""


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
        """The texts, one line end between them."""
        return "\n".join(self._texts)

    @cached_property
    def chunks(self) -> frozenset[str]:
        """The text in pieces of `CHUNK` characters, without the rest."""
        text = self.text
        return frozenset([text[i : i + CHUNK] for i in range(0, len(text), CHUNK)])

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in it."""
        return frozenset(names_in(self.text))


class VisibleText:
    """Everything that a reader sees. `words in seen` says whether one part holds these words."""

    def __init__(
        self, parts: Iterable[VisiblePart | str] = (), beside: VisibleText | None = None
    ) -> None:
        self._beside = beside
        self._parts = [VisiblePart((x,)) if isinstance(x, str) else x for x in parts]

    @cached_property
    def _places(self) -> dict[str, VisiblePart]:
        """A part that holds each chunk."""
        places: dict[str, VisiblePart] = {}
        for part in self._parts:
            places.update(dict.fromkeys(part.chunks, part))
        return places

    @cached_property
    def names(self) -> set[str]:
        """The names in it, and the last parts of paths."""
        beside = self._beside.names if self._beside is not None else set[str]()
        return beside.union(*(part.names for part in self._parts))

    def __contains__(self, said: str) -> bool:
        chunks = [said[i : i + CHUNK] for i in range(CHUNK)] if len(said) >= 2 * CHUNK else []
        return not said or self._holds(said, chunks)

    def tells(self, text: str) -> bool:
        """Whether a part holds the start of the longest line of a text. False for a very short
        text.
        """
        line = max(text.splitlines(), key=len, default="")[:TOLD_CHARS]
        return len(line) >= SHORTEST and line in self

    def _holds(self, said: str, chunks: Sequence[str]) -> bool:
        if self._beside is not None and self._beside._holds(said, chunks):
            return True
        if not chunks:
            return any(said in part.text for part in self._parts)
        places = self._places
        hits = [chunk for chunk in chunks if chunk in places]
        if any(said in places[chunk].text for chunk in hits):
            return True
        return bool(hits) and any(
            said in part.text for part in self._parts if not part.chunks.isdisjoint(hits)
        )


class LazyMessages(Sequence[Message]):
    """Messages that are made when they are first used."""

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
    """Messages in view, with what they say."""

    def __init__(self, messages: list[Message], seen: VisibleText) -> None:
        super().__init__(lambda: messages)
        self.seen = seen


NOTHING = VisibleText()
"""Nothing stands beside it."""


def names_in(text: str) -> set[str]:
    """Return the names in a text, and the last parts of paths."""
    names = anchors.texts_of(anchors.find_all(text))
    return names | {path.rsplit("/", 1)[1] for path in names if "/" in path}
