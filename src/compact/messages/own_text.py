"""Text that compact itself puts into a prompt: it opens with a heading that carries a digest of the
words below, made with a key, and is recognized by it when it comes back.

Whoever does not have the key can write such a heading, and it does not match: it is plain text of
whoever said it. Nothing that is recognized is ever stored, searched or summarized as if someone had
said it. The headings' own words live beside what they head: `messages.checkpoints`,
`messages.goals`, `text.prompts`, `text.recalls`, `session.remembered`; where keys are kept, in
`managers`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from compact.messages.characters import carried
from compact.patterns import regex

_HEADING = regex(
    r"\[(?P<kind>Checkpoint|Record|Goals|Prompt|Recalled|Memory)\b[^\]\n]{0,200} "
    r"digest (?P<digest>[0-9]{15})\]\r?\n"
)

_ENDS = regex(r"(?<=\S)(?=[\s<]|\Z)")
"""Where a text of ours may end that others stand behind."""
MOST_AROUND = 8
"""Headings of a text that may have others inside them: each costs a look at the whole text."""
_DIGITS = 15
"""Of a digest, 50 bits: in tokens of three digits, so that every heading takes as many of them."""


class OwnText:
    """Makes and recognizes headings by keys: those that `load` gives when one is needed, the first
    of them for new text; where it gives none, the one that `make` gives.
    """

    def __init__(self, load: Callable[[], Sequence[bytes]], make: Callable[[], bytes]) -> None:
        self._load, self._make = load, make
        self._keys: Sequence[bytes] = ()

    def digest(self, words: str) -> str:
        """Of the words: line ends and outer white space change on the way through clients."""
        if not self._keys:
            self._keys = self._load() or (self._make(),)
        return _digest(self._keys[0], words)

    def under(self, title: str, words: str) -> str:
        """The words under their heading, which opens with one of the kinds."""
        return f"[{title} · digest {self.digest(words)}]\n{words}"

    def kind_of(self, text: str) -> str | None:
        """Its kind where the text is one of ours, such as `Checkpoint`, else None."""
        found = _HEADING.match(text)
        if found is None:
            return None
        words, given = text[found.end() :], found["digest"]
        is_ours = any(hmac.compare_digest(given, _digest(key, words)) for key in self._all())
        return found["kind"] if is_ours else None

    def without(self, text: str, kinds: Collection[str]) -> str:
        """The text without what of these kinds of ours stands in it word for word, wherever; the
        same object where there is nothing.
        """
        return self.parted(text, kinds)[1]

    def parted(
        self, text: str, kinds: Collection[str], known: Iterable[str] = ()
    ) -> tuple[list[str], str]:
        """What of these kinds of ours stands in the text, each with its heading, and `without`.
        Where no key knows it, it is ours if it is one of the `known` words.
        """
        found = list(_HEADING.finditer(text))
        starts = [*(heading.start() for heading in found), len(text)]
        rest = [row for row in zip(found, starts[1:], strict=True) if row[0]["kind"] in kinds]
        ends, keys = dict[int, int](), self._all()
        while rest and (key := next(keys, None)) is not None:
            ends |= {h.start(): end for h, stop in rest if (end := _end(text, h, stop, key))}
            rest = [row for row in rest if row[0].start() not in ends]
        for key in self._keys:  # what we quote may hold a heading that somebody made up
            for heading, _ in rest[:MOST_AROUND]:
                if (end := _end(text, heading, len(text), key)) is not None:
                    ends[heading.start()] = end
        for heading, stop in rest:
            begin = stop - len(text[heading.end() : stop].lstrip())
            if word := next((x for x in known if x and text.startswith(x, begin, stop)), ""):
                ends[heading.start()] = begin + len(word)
        ours, left, start = list[str](), list[str](), 0
        for begin, end in sorted(ends.items()):
            if begin < start:
                continue
            ours.append(text[begin:end])
            left.append(text[start:begin])
            start = end
        return ours, rejoined([*left, text[start:]]) if left else text

    def _all(self) -> Iterator[bytes]:
        """The keys; they are loaded again, once, where those that are known find nothing."""
        known = self._keys
        yield from known
        self._keys = self._load() or known
        yield from (key for key in self._keys if key not in known)


def keyed(key: bytes) -> OwnText:
    """Text of our own by one key."""
    return OwnText(lambda: (key,), lambda: key)


def headed(text: str) -> str | None:
    """The kind that a text's heading names, whoever wrote it: for text that is known to be ours."""
    found = _HEADING.match(text)
    return found["kind"] if found else None


def below(text: str) -> str:
    """The words below a heading; the whole text where there is none."""
    found = _HEADING.match(text)
    return text[found.end() :] if found else text


def rejoined(pieces: Sequence[str]) -> str:
    """The pieces of a text, stripped; of the white space where two meet the longer one stays."""
    whole = ""
    for piece in pieces:
        head, tail = whole.rstrip(), piece.lstrip()
        gaps = whole[len(head) :], piece[: len(piece) - len(tail)]
        whole = head + max(gaps, key=len) + tail
    return whole.strip()


def _digest(key: bytes, words: str) -> str:
    return _shown(hmac.new(key, _bytes(words.strip()), hashlib.sha256))


def _shown(digest: hmac.HMAC) -> str:
    return f"{int.from_bytes(digest.digest()) % 10**_DIGITS:0{_DIGITS}}"


def _end(text: str, heading: re.Match[str], stop: int, key: bytes) -> int | None:
    words = hmac.new(key, digestmod=hashlib.sha256)
    start = stop - len(text[heading.end() : stop].lstrip())
    for found in _ENDS.finditer(text, start, stop):
        words.update(_bytes(text[start : found.end()]))
        if hmac.compare_digest(_shown(words), heading["digest"]):
            return found.end()
        start = found.end()
    return None


def _bytes(words: str) -> bytes:
    """What a digest is made of; half a character counts as the sign that is sent in its place."""
    return carried(words).replace("\r\n", "\n").replace("\ufffd", "?").encode("utf-8", "replace")
