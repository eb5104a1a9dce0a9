"""Reads texts: the names in them, and digests by which their lines are known again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from string import ascii_letters

LETTERS = 12
"""The fewest letters of a line that counts. `}` or `return nil` is known from everywhere."""
_OTHERS = bytes(set(range(128)) - set(b"\n" + ascii_letters.encode()))
"""Bytes that are no letters. Line ends stay, for the letters of each line are counted."""
_MOST_WORDS = 60_000
"""Words that are remembered, some 8 MB. Then they are read anew."""
_NUMBER = re.compile(r"\n(?:[^\S\n]*\d+(?:→|[:\-\t])|[\w./@+-]+?[:-]\d+[:-])")
"""The number before a line of a file, and the path and number before a line that was searched.
A pattern that begins with a letter is searched for much faster than one that begins with `^`."""
_ENDINGS = (
    "go py pyi ts tsx js jsx mjs rs java kt swift c h cc cpp hpp rb php sh sql html css scss md "
    "json jsonl yaml yml toml txt lock cfg ini mod sum"
)
_NAME = re.compile(
    r"\n"
    r"|https?://[^\s\"'<>)\]]+"
    r"|(?<![\w.@-])(?:[\w.@-]+/)+[\w.@-]+"
    rf"|(?<![\w-])[\w-]+\.(?:{_ENDINGS.replace(' ', '|')})\b"
    r"|\b(?:[a-z]+[A-Z]\w+|[A-Z][a-z0-9]+[A-Z]\w*|\w+_\w+|[0-9a-f]{7,40})\b|#\d+\b"
    r"|\bv?\d+\.\d+\.\d+\b"
)
"""A name: an address, a path, a file, an identifier of several words, a commit, an issue, a
version. No name has white space in it; a line's end tells where the next word begins."""


class NameReader:
    """Finds the names in texts. It looks at each word once, as most occur in many texts."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, ...]] = {}
        """Word → its names."""
        self._plain = set[str]()
        """Words without a name."""

    def names(self, texts: Iterable[str]) -> set[str]:
        """Return the names in texts."""
        if len(self._names) + len(self._plain) > _MOST_WORDS:
            self._names.clear()
            self._plain.clear()
        words = set[str]()
        for text in texts:
            words.update(text.split())
        words = words - self._plain
        if new := tuple(words.difference(self._names)):
            self._read(new)
        return set(chain.from_iterable(filter(None, map(self._names.get, words))))

    def _read(self, words: Sequence[str]) -> None:
        """Learn words. One search through all of them costs a fifth of one for each."""
        reading, names = iter(words), list[str]()
        for found in _NAME.findall("\n".join((*words, ""))):
            if found != "\n":
                names.append(found.strip(".,;:"))
                continue
            word = next(reading)
            if names:
                self._names[word], names = tuple(names), []
            else:
                self._plain.add(word)


def digests(texts: Iterable[str]) -> set[int]:
    """Return by what the lines of texts are known again, without the numbers before them. Lines
    with few letters are left out.
    """
    found = set[int]()
    for text in texts:
        plain = _NUMBER.sub("\n", "\n" + text)
        lines = plain.split("\n")
        letters = plain.encode("ascii", "replace").translate(None, _OTHERS).split(b"\n")
        found.update(
            hash(line.strip())
            for line, n in zip(lines, map(len, letters), strict=True)
            if n >= LETTERS or (not line.isascii() and sum(map(str.isalpha, line)) >= LETTERS)
        )
    return found


def with_file_names(names: Iterable[str]) -> set[str]:
    """Return names, and the file name of each path: who sees a path sees both."""
    names = set(names)
    return names | {name.rsplit("/", 1)[-1] for name in names if "/" in name}
