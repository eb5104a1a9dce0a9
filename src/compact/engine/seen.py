"""What a reader sees beside what is written: told once, asked hundreds of times.

What stands there needs no second telling. Each text is looked through once: for its names, and for
chunks of a few characters, by which nearly every question is answered without a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import overload

from compact.messages.cached import cached_property
from compact.messages.messages import Message, visible_texts
from compact.text import anchors
from compact.text.sentences import SHORTEST

TOLD_CHARS = 80
"""First characters of a line by which it is known whether its text stands elsewhere."""
CHUNK = SHORTEST // 2
"""Characters of a chunk: every statement has a whole one in it, wherever it stands. Larger ones
would take less memory, and answer for fewer statements."""


class Visible:
    """Texts that a reader sees together, such as those of a group of messages."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = tuple(filter(None, texts))

    @classmethod
    def of(cls, messages: Iterable[Message]) -> Visible:
        """What messages say."""
        return cls(tuple(visible_texts(messages)))

    @cached_property
    def text(self) -> str:
        """The texts, a line end between them."""
        return "\n".join(self._texts)

    @cached_property
    def chunks(self) -> frozenset[str]:
        """The text in pieces of `CHUNK` characters, the last one without its rest."""
        text = self.text
        return frozenset([text[i : i + CHUNK] for i in range(0, len(text), CHUNK)])

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in it."""
        return frozenset(names_in(self.text))


class Seen:
    """Everything that a reader sees. `said in seen` says whether one of the parts holds these
    words, which stand in one line.
    """

    def __init__(self, parts: Iterable[Visible | str] = (), beside: Seen | None = None) -> None:
        self._beside = beside
        self._parts = [Visible((x,)) if isinstance(x, str) else x for x in parts]

    @cached_property
    def _places(self) -> dict[str, Visible]:
        """A part in which each chunk stands."""
        places: dict[str, Visible] = {}
        for part in self._parts:
            places.update(dict.fromkeys(part.chunks, part))
        return places

    @cached_property
    def names(self) -> set[str]:
        """The names in it, of paths their last parts, too."""
        beside = self._beside.names if self._beside is not None else set[str]()
        return beside.union(*(part.names for part in self._parts))

    def __contains__(self, said: str) -> bool:
        chunks = [said[i : i + CHUNK] for i in range(CHUNK)] if len(said) >= 2 * CHUNK else []
        return not said or self._holds(said, chunks)

    def tells(self, text: str) -> bool:
        """Whether a text stands in one of the parts, by the beginning of its longest line; of a few
        letters nobody knows.
        """
        line = max(text.splitlines(), key=len, default="")[:TOLD_CHARS]
        return len(line) >= SHORTEST and line in self

    def _holds(self, said: str, chunks: Sequence[str]) -> bool:
        """Whether a part holds these words; every part that does has one of the chunks."""
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


class WhenAsked(Sequence[Message]):
    """Messages that are put together when somebody looks at them."""

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


class InView(WhenAsked):
    """Messages in view, with what is known of what they say."""

    def __init__(self, messages: list[Message], seen: Seen) -> None:
        super().__init__(lambda: messages)
        self.seen = seen


NOTHING = Seen()
"""Nothing stands beside it."""


def names_in(text: str) -> set[str]:
    """The names in a text, of paths their last parts, too."""
    names = anchors.texts_of(anchors.find_all(text))
    return names | {path.rsplit("/", 1)[1] for path in names if "/" in path}
