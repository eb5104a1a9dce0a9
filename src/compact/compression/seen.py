"""What a reader sees beside what is written: told once, asked hundreds of times.

What stands there needs no second telling. Each text is looked through once: for its names, and for
chunks of a few characters, by which nearly every question is answered without a search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from compact.core import anchors
from compact.core.cached import cached_property
from compact.core.messages import Message, visible_texts

CHUNK = 16
"""Characters of a chunk. Smaller ones take more memory, larger ones answer fewer questions: only
words of twice as many characters have a whole chunk in them wherever they stand."""


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

    def __init__(self, parts: Iterable[Visible | str] = ()) -> None:
        self._parts = [Visible((x,)) if isinstance(x, str) else x for x in parts]

    @cached_property
    def _chunks(self) -> set[str]:
        return set[str]().union(*(part.chunks for part in self._parts))

    @cached_property
    def names(self) -> set[str]:
        """The names in it, of paths their last parts, too."""
        return set[str]().union(*(part.names for part in self._parts))

    def __contains__(self, said: str) -> bool:
        if len(said) < 2 * CHUNK:
            return not said or any(said in part.text for part in self._parts)
        chunks = {said[i : i + CHUNK] for i in range(CHUNK)}
        if chunks.isdisjoint(self._chunks):
            return False
        return any(said in part.text for part in self._with(chunks))

    def _with(self, chunks: set[str]) -> Iterator[Visible]:
        """The parts that have one of these chunks."""
        return (part for part in self._parts if not part.chunks.isdisjoint(chunks))


class InView(Sequence[Message]):
    """Messages in view, with what is known of what they say."""

    def __init__(self, rows: Iterable[tuple[Sequence[Message], Visible]]) -> None:
        rows = list(rows)
        self._messages = [message for messages, _ in rows for message in messages]
        self.parts = [visible for _, visible in rows]

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, place: int) -> Message: ...

    @overload
    def __getitem__(self, place: slice) -> list[Message]: ...

    def __getitem__(self, place: int | slice) -> Message | list[Message]:
        return self._messages[place]


NOTHING = Seen()
"""Nothing stands beside it."""


def names_in(text: str) -> set[str]:
    """The names in a text, of paths their last parts, too."""
    names = anchors.texts_of(anchors.find_all(text))
    return names | {path.rsplit("/", 1)[1] for path in names if "/" in path}
