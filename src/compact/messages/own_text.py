"""Text that compact itself puts into a prompt, and how it is recognized later.

Each such text opens with a heading that carries a keyed digest of the text below it. If no key
gives that digest, the text counts as written by the author of its message. Recognized text is never
stored, searched or summarized as if somebody had said it. The titles of the headings are defined in
`messages.checkpoints`, `messages.goals`, `text.prompts`, `text.recalls` and `session.views`. The
session layer keeps the keys.
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
"""The places where one of compact's texts may end inside a longer text."""
MOST_AROUND = 8
"""How many headings are tried as texts that quote other headings. The limit bounds the time,
because each try reads the whole text."""
_DIGITS = 15
"""How many decimal digits a digest has (50 bits). Three are one token: headings cost the same."""


class OwnText:
    """Makes and recognizes headings with keys. `load` returns the keys when they are first needed.
    The first key is for new text. If `load` returns no key, `make` makes one.
    """

    def __init__(self, load: Callable[[], Sequence[bytes]], make: Callable[[], bytes]) -> None:
        self._load, self._make = load, make
        self._keys: Sequence[bytes] = ()

    def digest(self, words: str) -> str:
        """Return the digest of the text. CRLF counts as LF, and outer white space is left out,
        because clients change both.
        """
        if not self._keys:
            self._keys = self._load() or (self._make(),)
        return _digest(self._keys[0], words)

    def under(self, title: str, words: str) -> str:
        """Return the text under a heading. `title` begins with a kind, such as `Goals`."""
        return f"[{title} · digest {self.digest(words)}]\n{words}"

    def kind_of(self, text: str) -> str | None:
        """Return the kind (such as `Checkpoint`) if compact made the text, or else None."""
        heading = _HEADING.match(text)
        if heading is None:
            return None
        words, digest = text[heading.end() :], heading["digest"]
        is_ours = any(hmac.compare_digest(digest, _digest(key, words)) for key in self._all())
        return heading["kind"] if is_ours else None

    def without(self, text: str, kinds: Collection[str]) -> str:
        """Return the text without compact's texts of these kinds, wherever they are in it."""
        return self.parted(text, kinds)[1]

    def parted(
        self, text: str, kinds: Collection[str], known: Iterable[str] = ()
    ) -> tuple[list[str], str]:
        """Return compact's texts of these kinds with their headings, and the rest of the text. A
        heading with an unknown key counts if one of the `known` texts follows it.
        """
        headings = list(_HEADING.finditer(text))
        starts = [*(heading.start() for heading in headings), len(text)]
        rest = [row for row in zip(headings, starts[1:], strict=True) if row[0]["kind"] in kinds]
        ends, keys = dict[int, int](), self._all()
        while rest and (key := next(keys, None)) is not None:
            ends |= {h.start(): end for h, stop in rest if (end := _end(text, h, stop, key))}
            rest = [row for row in rest if row[0].start() not in ends]
        for key in self._keys:  # compact's own text may quote a heading that somebody made up
            for heading, _ in rest[:MOST_AROUND]:
                if (end := _end(text, heading, len(text), key)) is not None:
                    ends[heading.start()] = end
        for heading, stop in rest:
            begin = stop - len(text[heading.end() : stop].lstrip())
            if word := next((x for x in known if x and text.startswith(x, begin, stop)), ""):
                ends[heading.start()] = begin + len(word)
        quotes, others, start = list[str](), list[str](), 0
        for begin, end in sorted(ends.items()):
            if begin < start:
                continue
            quotes.append(text[begin:end])
            others.append(text[start:begin])
            start = end
        return quotes, rejoined([*others, text[start:]]) if others else text

    def _all(self) -> Iterator[bytes]:
        """Yield the known keys. Then load the keys again, and yield those that are new."""
        known = self._keys
        yield from known
        self._keys = self._load() or known
        yield from (key for key in self._keys if key not in known)


def keyed(key: bytes) -> OwnText:
    """Return an `OwnText` with one fixed key."""
    return OwnText(lambda: (key,), lambda: key)


def headed(text: str) -> str | None:
    """Return the kind in the heading, or None. Only for trusted text: the digest is not checked."""
    heading = _HEADING.match(text)
    return heading["kind"] if heading else None


def below(text: str) -> str:
    """Return the text below the heading. Return the whole text if there is no heading."""
    heading = _HEADING.match(text)
    return text[heading.end() :] if heading else text


def rejoined(pieces: Sequence[str]) -> str:
    """Strip the pieces and join them. Between two pieces, the longer run of white space is kept."""
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
    for match in _ENDS.finditer(text, start, stop):
        words.update(_bytes(text[start : match.end()]))
        if hmac.compare_digest(_shown(words), heading["digest"]):
            return match.end()
        start = match.end()
    return None


def _bytes(words: str) -> bytes:
    """Return the bytes that are digested. Half a surrogate pair and U+FFFD both count as `?`."""
    return carried(words).replace("\r\n", "\n").replace("\ufffd", "?").encode("utf-8", "replace")
