"""List names that the prompt shows nowhere else, the likeliest to be needed first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from itertools import chain

from compact.engine.chronology.notes import Notes
from compact.engine.visible import VisibleText, names_in
from compact.messages.tokens import TokenCounter

THRIFT = 0.5
"""A name's weight is divided by its tokens to this power: short names are worth more."""
ROOT_SHARE = 0.7
"""The root contains at least this share of the absolute paths."""
LEAST_NAME = 3
"""Fewest tokens of room for which a name is looked for: with its comma, none takes fewer."""
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
    known, root, names = names_in(told), root_of(notes), list[str]()
    likeliest = ((odds, text) for text, odds in notes.likeliest() if not seen.has_name(text))
    for name in for_their_tokens(likeliest, counter):
        if room < LEAST_NAME:
            break
        short = below(name, root)
        if known.isdisjoint((name, short)) and not seen.has_name(short):
            cost = counter.text(" " + short) + 1
            if cost <= room:
                names.append(short)
                room -= cost
                known.update((name, short, name.rsplit("/", 1)[-1], name.rstrip("/")))
    return ", ".join(names)


def for_their_tokens(names: Iterable[tuple[float, str]], counter: TokenCounter) -> Iterator[str]:
    """Yield names in the order of their weight ÷ √tokens. `names` come by falling weight. Tokens
    are counted only for a name that may come next: each name has at least two.
    """
    heap, rest = list[tuple[float, str]](), iter(names)
    following = next(rest, None)
    while heap or following:
        while following and not (heap and heap[0][0] < -following[0] / 2**THRIFT):
            weight, text = following
            tokens = counter.text(" " + text) + 1
            heappush(heap, (-weight / tokens**THRIFT, text))
            following = next(rest, None)
        yield heappop(heap)[1]


def root_of(notes: Notes) -> str:
    """Return the folder that most absolute paths share, with its slash. Empty if there is none."""
    files = [*notes.work.files, *notes.work.read]
    folders = Counter(chain.from_iterable(map(_folders_of, files)))
    total = sum(file.startswith("/") for file in files)
    common = [folder for folder, n in folders.items() if n > 1 and n >= ROOT_SHARE * total]
    return max(common, key=len) + "/" if common else ""


@lru_cache(maxsize=MOST_FOLDERS)
def _folders_of(file: str) -> tuple[str, ...]:
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
