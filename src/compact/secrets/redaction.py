"""Replaces secrets in a text with `<REDACTED:kind>`. It is pure, offline, and linear in time.

`tables` lists all finders. They find secrets by their form (`secrets.credentials`), by a name
(`secrets.named_credentials`, `secrets.near_names`, `secrets.labelled_lines`,
`secrets.secret_columns`) or because they look generated (`secrets.lone_values`), and card numbers
(`secrets.personal`). `secrets.redactor` finds an application's own secrets.

Secrets that have no name and look like words are not found. A passphrase is found only after the
word `passphrase`: at least three words in quotes, or four up to the line's end. Finders are loaded
at first use.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from compact.secrets.credentials import Place, SecretFinder
    from compact.secrets.occurring import Occurring
    from compact.secrets.redactor import Redactor

_KNOWN_LENGTH, _LONGEST_KNOWN = 8, 256
"""The shortest and the longest known secret, in characters. A shorter one may be a word. A longer
one is found by its form."""
_MOST_LENGTHS = 8
"""How many lengths known secrets with the same beginning may have. The limit bounds the time."""
_FEW_KNOWN = 64
"""Up to this many beginnings of known secrets are searched for one by one. Such a search is some
hundred times as fast as looking at each word."""
_WORD_START = re.compile(r"(?<![A-Za-z0-9])\S")


class Redacted(NamedTuple):
    """A text without its secrets, and the kinds of the removed secrets in order."""

    text: str
    found: tuple[str, ...]


class Known(dict[str, str]):
    """Known secrets with their kinds, and a finder of further ones. Keep it in memory only."""

    def __init__(
        self, secrets: Iterable[tuple[str, str]] = (), *, redactor: Redactor | None = None
    ) -> None:
        super().__init__()
        self.redactor = redactor
        """Finds an application's own secrets, in addition to the known ones. None: no finder."""
        self._lengths: dict[str, list[int]] = {}
        for secret, kind in secrets:
            self.learn(secret, kind)

    def learn(self, secret: str, kind: str) -> None:
        """Add a secret, unless it is a common word."""
        from compact.secrets.secret_values import is_wordlike

        if not is_wordlike(secret):
            self.add(secret, kind)

    def add(self, secret: str, kind: str) -> None:
        """Add a secret, even a common word. A secret that is too short or too long is ignored."""
        if not _KNOWN_LENGTH <= len(secret) <= _LONGEST_KNOWN:
            return
        self[secret] = kind
        lengths = self._lengths.setdefault(secret[:_KNOWN_LENGTH], [])
        if len(secret) not in lengths and len(lengths) < _MOST_LENGTHS:
            lengths.append(len(secret))
            lengths.sort(reverse=True)

    def starts(self, text: str) -> Iterable[int]:
        """Return the places where a known secret may begin, in ascending order. With many known
        secrets, these are the starts of all words.
        """
        if len(self._lengths) > _FEW_KNOWN:
            return (found.start() for found in _WORD_START.finditer(text))
        starts = (start for begin in self._lengths for start in _occurrences(text, begin))
        return sorted(start for start in starts if _WORD_START.match(text, start))

    def places(self, text: str, starts: Iterable[int]) -> Iterator[Place]:
        """Yield the known secrets that begin at one of these places, which must be ascending."""
        from compact.secrets.credentials import Place

        least = 0
        for start in starts:
            lengths = self._lengths.get(text[start : start + _KNOWN_LENGTH], ())
            for length in lengths if start >= least else ():
                if kind := self.get(text[start : start + length]):
                    least = start + length
                    yield Place(start, least, kind)
                    break


def _occurrences(text: str, part: str) -> Iterator[int]:
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + 1)


def redact(text: str, known: Mapping[str, str] | None = None) -> Redacted:
    """Replace each secret with `<REDACTED:kind>`. Redacting again changes nothing.

    `known` holds secrets from other texts (`secrets_of`) with their kinds. They are redacted even
    without a name near them, but not inside a longer word. A `Known` may also have a finder.
    """
    kinds: list[str] = []
    for _ in range(8):  # each round changes the text around a secret, which may reveal another
        if not (places := find_secrets(text, known)):
            break
        kinds += (place.kind for place in places)
        text = without(text, places)
    return Redacted(text, tuple(kinds))


_BEFORE_HOST = re.compile(r"(?<=[:/]/)(?!/)[^#\s]{1,512}@|(?:(?<=/)|^)[^/@#]{0,256}:[^/@#]{0,256}@")
_IN_QUERY = re.compile(r"(?<=[?&;])[^#\s]+")


def without_credentials(name: str) -> str:
    """Return a model's or server's name for display. It lacks the user and password of an address,
    the query of an address, and secrets.
    """
    return redact(_IN_QUERY.sub("…", _BEFORE_HOST.sub("…@", name))).text


def secrets_of(texts: Iterable[str]) -> Known:
    """Return the secrets in some texts, so that `redact` finds them in other texts."""
    return Known(
        (text[place.start : place.end], place.kind)
        for text in texts
        for place in find_secrets(text)
    )


def tables() -> tuple[tuple[SecretFinder, ...], ...]:
    """Return the finders in two groups, one scan each. A single scan would exceed RE2's memory."""
    from compact.secrets import (
        credentials,
        labelled_lines,
        lone_values,
        named_credentials,
        near_names,
        personal,
        secret_columns,
    )

    return (
        credentials.FINDERS,
        (
            *named_credentials.FINDERS,
            *near_names.FINDERS,
            *labelled_lines.FINDERS,
            *secret_columns.FINDERS,
            *personal.FINDERS,
            *lone_values.FINDERS,
        ),
    )


@cache
def _scans() -> list[tuple[Occurring, tuple[SecretFinder, ...]]]:
    from compact.secrets.credentials import STARTS
    from compact.secrets.occurring import Occurring

    return [
        (Occurring([finder.hint for finder in table], rare=STARTS), table) for table in tables()
    ]


def places_in(text: str) -> Iterator[Place]:
    """Yield the secrets that patterns find, in no order. Public keys are left out."""
    from compact.secrets.credentials import public_blocks
    from compact.secrets.occurring import encoded

    scanned = encoded(text)
    found = [
        place
        for scan, finders in _scans()
        for number in scan.places(scanned)
        for place in finders[number].places(text)
    ]
    public = public_blocks(text) if found else []
    for place in found:
        block = bisect_right(public, (place.start, len(text))) - 1
        if block < 0 or place.end > public[block][1]:
            yield place


_UNSEEN = re.compile(
    "(?:\x1b|\\\\(?:u001b|x1b|033))\\[[0-9;]{0,16}[A-Za-z]|[\u00ad\u200b-\u200f\u2060\ufeff]"
)
"""Characters that readers do not see: terminal colours, and characters without width."""
_UNSEEN_MARKS = ("\x1b[", "\\u001b[", "\\x1b[", "\\033[", *"\u00ad\u200b\u200c\u200d\u2060\ufeff")


def find_secrets(text: str, known: Mapping[str, str] | None = None) -> list[Place]:
    """Return the places of all secrets, in order. Overlapping places are joined. Secrets that
    contain invisible characters are found too.
    """
    if not _has_unseen(text):
        return _find(text, known)
    from compact.secrets.credentials import Place

    starts, lost, seen = [0], [0], _UNSEEN.split(text)
    for piece, hidden in zip(seen, _UNSEEN.finditer(text), strict=False):
        starts.append(starts[-1] + len(piece))
        lost.append(lost[-1] + len(hidden[0]))

    def at(place: int) -> int:
        return place + lost[bisect_right(starts, place) - 1]

    found = _find("".join(seen), known)
    return [Place(at(start), at(end - 1) + 1, kind) for start, end, kind in found]


def _find(text: str, known: Mapping[str, str] | None) -> list[Place]:
    places = list(places_in(text))
    if known is not None:
        known = known if isinstance(known, Known) else Known(known.items())
        places += known.redactor.places(text) if known.redactor is not None else ()
        places += _standing_alone(text, known) if known else ()
    places.sort(key=lambda place: place.start)
    apart: list[Place] = []
    for place in places:
        if apart and place.start < apart[-1].end:
            longest = max(apart[-1].end, place.end)
            apart[-1] = apart[-1]._replace(end=longest)
        else:
            apart.append(place)
    return apart


def may_hold(text: str, known: Known) -> bool:
    """Whether the text contains a known secret, or invisible characters that may hide one."""
    return _has_unseen(text) or next(_standing_alone(text, known), None) is not None


def _has_unseen(text: str) -> bool:
    return any(map(text.__contains__, _UNSEEN_MARKS))


def _standing_alone(text: str, known: Known) -> Iterator[Place]:
    for place in known.places(text, known.starts(text)):
        if not text[place.end : place.end + 1].isalnum():
            yield place


def without(text: str, places: Iterable[Place]) -> str:
    """Replace each place with `<REDACTED:kind>`. The places must be in order and not overlap."""
    pieces: list[str] = []
    end = 0
    for place in places:
        pieces += text[end : place.start], f"<REDACTED:{place.kind}>"
        end = place.end
    return "".join((*pieces, text[end:]))
