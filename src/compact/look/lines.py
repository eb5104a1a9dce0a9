"""Reads texts: the names in them, and digests by which their lines are known again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from string import ascii_letters

LETTERS = 12
"""The fewest letters of a line that counts. `}` or `return nil` is known from everywhere."""
_OTHERS = bytes(set(range(128)) - set(b"\n" + ascii_letters.encode()))
"""Bytes that are no letters. Line ends stay, for the letters of each line are counted."""
_MOST_WORDS = 150_000
"""Words that are remembered, some 20 MB. Then they are read anew."""
_NUMBER = re.compile(r"(?m)^(?:[^\S\n]*\d+(?:→|[:\-\t])|[\w./@+-]+?[:-]\d+[:-])")
"""The number before a line of a file, and the path and number before a line that was searched."""
_ENDINGS = (
    "go py pyi ts tsx js jsx mjs rs java kt swift c h cc cpp hpp rb php sh sql html css scss md "
    "json jsonl yaml yml toml txt lock cfg ini mod sum"
)
_IDENTIFIERS = r"[a-z]+[A-Z]\w+|[A-Z][a-z0-9]+[A-Z]\w*|\w+_\w+|[0-9a-f]{7,40}"
_IDENTIFIER = re.compile(_IDENTIFIERS)
_NAME = re.compile(
    r"https?://[^\s\"'<>)\]]+"
    r"|(?:[\w.@-]+/)+[\w.@-]+"
    rf"|[\w-]+\.(?:{_ENDINGS.replace(' ', '|')})\b"
    rf"|\b(?:{_IDENTIFIERS})\b|#\d+\b|\bv?\d+\.\d+\.\d+\b"
)
"""A name: an address, a path, a file, an identifier of several words, a commit, an issue, a
version. No name has white space in it."""
_PIECE = re.compile(r"[\w@./#-]+")
"""What may hold a name, in a word without an address."""
_AROUND = "()[]{}<>,;:'\"`*!?="
"""What stands around plain words."""


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
        found = set[str]()
        for text in texts:
            for word in set(text.split()) - self._plain:
                names = self._names.get(word)
                if names is None:
                    names = self._new(word)
                found.update(names)
        return found

    def _new(self, word: str) -> tuple[str, ...]:
        bare = word.strip(_AROUND)
        names: tuple[str, ...] = ()
        if bare.isidentifier():  # it is one name, or none
            if _IDENTIFIER.fullmatch(bare):
                names = (bare,)
        elif "http" in word:
            names = names_in(word)
        else:
            for piece in _PIECE.findall(word):
                if not piece.isidentifier():
                    names += names_in(piece)
                elif _IDENTIFIER.fullmatch(piece):
                    names = (*names, piece)
        if names:
            self._names[word] = names
        else:
            self._plain.add(word)
        return names


def digests(texts: Iterable[str]) -> set[int]:
    """Return by what the lines of texts are known again, without the numbers before them. Lines
    with few letters are left out.
    """
    found = set[int]()
    for text in texts:
        plain = _NUMBER.sub("", text)
        lines = plain.split("\n")
        if plain.isascii():
            letters: Iterable[int] = map(len, plain.encode().translate(None, _OTHERS).split(b"\n"))
        else:
            letters = (sum(map(str.isalpha, line)) for line in lines)
        found.update(hash(x.strip()) for x, n in zip(lines, letters, strict=True) if n >= LETTERS)
    return found


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in a text."""
    return tuple({found.strip(".,;:") for found in _NAME.findall(text)})


def with_file_names(names: Iterable[str]) -> set[str]:
    """Return names, and the file name of each path: who sees a path sees both."""
    names = set(names)
    return names | {name.rsplit("/", 1)[-1] for name in names if "/" in name}
