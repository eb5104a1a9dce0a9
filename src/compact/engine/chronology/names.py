"""List names that the prompt shows nowhere else, the likeliest to be needed first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from itertools import chain

from compact.engine.chronology.notes import Notes
from compact.engine.visible import VisibleText, names_in
from compact.messages.tokens import TokenCounter

THRIFT = 0.5
"""A name's weight is divided by its tokens to this power: short names are worth more."""
ROOT_SHARE = 0.7
"""Least share of the absolute paths that the root contains."""
LEAST_NAME = 3
"""Fewest tokens of room for which a name is looked for."""
MOST_FOLDERS = 1_000
"""For how many files the folders are cached: each compression asks for the same ones."""


def listed(
    notes: Notes,
    told: str,
    room: int,
    counter: TokenCounter,
    seen: VisibleText,
) -> str:
    """Return the likeliest names that fit and that neither `told` nor `seen` has. Paths are shown
    relative to the root that most files share.
    """
    known = seen.names | names_in(told)
    root = root_of(notes)
    names = list[str]()
    weights = {text: odds for text, _, odds in notes.ranked() if text not in seen.names}
    for name in Likeliest(weights, counter):
        if room < LEAST_NAME:
            break
        short = below(name, root)
        if known.isdisjoint((name, short)):
            cost = counter.text(" " + short) + 1
            if cost <= room:
                names.append(short)
                room -= cost
                known.update((name, short, name.rsplit("/", 1)[-1], name.rstrip("/")))
    return ", ".join(names)


class Likeliest:
    """Yields names by weight for their tokens. Tokens are counted only for a name that may come
    next: each name has at least two.
    """

    def __init__(self, weights: Mapping[str, float], counter: TokenCounter) -> None:
        self._left = sorted([(weight, text) for text, weight in weights.items()])
        self._heap: list[tuple[float, str]] = []
        self._found: list[str] = []
        self._counter = counter

    def __iter__(self) -> Iterator[str]:
        place = 0
        while place < len(self._found) or self._find():
            yield self._found[place]
            place += 1

    def _find(self) -> bool:
        left, heap = self._left, self._heap
        while left and not (heap and heap[0][0] < -left[-1][0] / 2**THRIFT):
            weight, text = left.pop()
            tokens = self._counter.text(" " + text) + 1
            heappush(heap, (-weight / tokens**THRIFT, text))
        if heap:
            self._found.append(heappop(heap)[1])
            return True
        return False


def root_of(notes: Notes) -> str:
    """Return the folder that most absolute paths share, with its slash. Empty if there is none."""
    files = [*notes.work.files, *notes.work.read]
    folders = Counter(chain.from_iterable(map(_folders_of, files)))
    total = sum(file.startswith("/") for file in files)
    common = [folder for folder, n in folders.items() if n > 1 and n >= ROOT_SHARE * total]
    return max(common, key=len) + "/" if common else ""


@lru_cache(maxsize=MOST_FOLDERS)
def _folders_of(file: str) -> tuple[str, ...]:
    """Return the folders of an absolute path; empty for other paths."""
    parts = file.split("/") if file.startswith("/") else []
    return tuple("/".join(parts[:depth]) for depth in range(3, len(parts)))


def below(name: str, root: str) -> str:
    """Return a name relative to the root, even if it starts in a folder within the root."""
    if not root or name.startswith(root):
        return name.removeprefix(root)
    parts = name.split("/")
    within = next((i for i in range(len(parts) - 1, 0, -1) if _ends(root, parts[:i])), 0)
    return "/".join(parts[within:])


def _ends(root: str, parts: Sequence[str]) -> bool:
    return bool(parts[0]) and root.endswith(f"/{'/'.join(parts)}/")
