"""An embedder whose failures are all of one kind, whoever wrote it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from compact.errors import InvalidInput, ModelFailed
from compact.messages.protocols import CutsTexts, Embedder
from compact.models.providers.failures import mapped, reading
from compact.models.providers.named_embedders import embedder
from compact.text.embedding import Numbers, cut

T = TypeVar("T")


class TypedEmbedder:
    """The embedder of that name, or one that is given: whatever fails as it is asked for anything
    is raised as `ModelFailed`. Of a question that is longer than its window, the first piece is
    embedded. Nothing is asked before the first use.

    Raises:
        UnknownModel: the name means nothing.
    """

    def __init__(self, chosen: str | Embedder) -> None:
        self._own = embedder(chosen) if isinstance(chosen, str) else chosen

    @property
    def name(self) -> str:
        """The model's key."""
        return self._own.name

    @property
    def version(self) -> str:
        """Changes where vectors are no longer comparable."""
        return self._asked(lambda: self._own.version)

    @property
    def dimensions(self) -> int:
        """Numbers in each vector."""
        return self._asked(lambda: self._own.dimensions)

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[Numbers]:
        """The vector of each text.

        Raises:
            InvalidInput: a document is longer than the model's window.
            ModelFailed: the model cannot be asked, or its answer cannot be used.
        """
        if not query:
            with mapped(self.name):
                return self._own.embed(texts)
        first = [next(iter(self.pieces(text)), text) for text in texts]
        found = self._asked(lambda: self._own.embed(first, query=True))
        with reading(self.name):
            if [len(row) for row in found] != [self.dimensions] * len(first):
                raise InvalidInput(f"not one vector of {self.dimensions} numbers for each text")
        return found

    def pieces(self, text: str) -> list[str]:
        """The text in pieces that the model reads whole."""
        own = self._own
        return self._asked(lambda: own.pieces(text) if isinstance(own, CutsTexts) else cut(text))

    def _asked(self, work: Callable[[], T]) -> T:
        try:
            with mapped(self.name):
                return work()
        except InvalidInput as error:
            raise ModelFailed(f"{self.name}: {error}", model=self.name) from error
