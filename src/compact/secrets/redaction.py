"""Redaction: secrets in a text are replaced by `<REDACTED:kind>`. Pure, offline, linear in time.

The table of all that finds one is `tables`: what has a form of its own (`secrets.credentials`), a
name beside it (`secrets.named_credentials`) or near it (`secrets.near_names`), what looks generated
(`secrets.lone_values`), and cards (`secrets.personal`). An application's own are in
`secrets.redactor`. Not found are secrets that nothing names and that look like words; of
passphrases those behind `passphrase`: three words or more in quotes, or four up to the line's end.

What finds them is loaded when a text is looked at for the first time.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from compact.secrets.credentials import Place, SecretFinder
    from compact.secrets.occurring import Occurring

_KNOWN_LENGTH, _LONGEST_KNOWN = 8, 256
"""Characters of secrets looked for by themselves: fewer are a word, more are known by look."""
_MOST_LENGTHS = 8
"""Lengths of known secrets that begin alike."""
_FEW_KNOWN = 64
"""Beginnings of known secrets that are searched for one by one: a search of a text for a word is
some hundred times as fast as a look at each of its words."""
_WORD_START = re.compile(r"(?<![A-Za-z0-9])\S")


class Redacted(NamedTuple):
    """A text without its secrets, and the kinds of those that were taken out, in its order."""

    text: str
    found: tuple[str, ...]


class Finds(Protocol):
    """Finds what an application takes for a secret (`secrets.redactor`)."""

    def places(self, text: str) -> Iterator[Place]:
        """Where they stand, in no order."""


class Known(dict[str, str]):
    """Secrets and their kinds, only those that are no common word, and what else counts as one; to
    be kept nowhere.
    """

    def __init__(
        self, secrets: Iterable[tuple[str, str]] = (), *, redactor: Finds | None = None
    ) -> None:
        super().__init__()
        self.redactor = redactor
        """What an application takes for a secret beside them."""
        self._lengths: dict[str, list[int]] = {}
        for secret, kind in secrets:
            self.learn(secret, kind)

    def learn(self, secret: str, kind: str) -> None:
        """Take one more, unless it is a word that may well be said otherwise."""
        from compact.secrets.secret_values import is_wordlike

        if not is_wordlike(secret):
            self.add(secret, kind)

    def add(self, secret: str, kind: str) -> None:
        """Take one more, whatever its letters."""
        if not _KNOWN_LENGTH <= len(secret) <= _LONGEST_KNOWN:
            return
        self[secret] = kind
        lengths = self._lengths.setdefault(secret[:_KNOWN_LENGTH], [])
        if len(secret) not in lengths and len(lengths) < _MOST_LENGTHS:
            lengths.append(len(secret))
            lengths.sort(reverse=True)

    def starts(self, text: str) -> Iterable[int]:
        """Where a word begins as one of them does, in order; of many, where any word begins."""
        if len(self._lengths) > _FEW_KNOWN:
            return (found.start() for found in _WORD_START.finditer(text))
        starts = (start for begin in self._lengths for start in _occurrences(text, begin))
        return sorted(start for start in starts if _WORD_START.match(text, start))

    def places(self, text: str, starts: Iterable[int]) -> Iterator[Place]:
        """Where one of them stands that begins at one of these places, which ascend."""
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
    """The text with `<REDACTED:kind>` in place of each secret. Redacting again changes nothing.

    `known` are secrets that were found elsewhere and their kinds (`secrets_of`): they are taken out
    wherever they stand by themselves, also without the name that gave them away. As `Known` they
    say what else is one.
    """
    found: list[str] = []
    for _ in range(8):  # once more after a find: its neighbours changed
        if not (places := find_secrets(text, known)):
            break
        found += (place.kind for place in places)
        text = without(text, places)
    return Redacted(text, tuple(found))


_BEFORE_HOST = re.compile(r"(?<=[:/]/)(?!/)[^#\s]{1,512}@|(?:(?<=/)|^)[^/@#]{0,256}:[^/@#]{0,256}@")
_IN_QUERY = re.compile(r"(?<=[?&;])[^#\s]+")


def without_credentials(name: str) -> str:
    """The name of a model or a server, as it may be shown: without what stands before the host of
    an address, however it is written, or in its query, and without secrets.
    """
    return redact(_IN_QUERY.sub("…", _BEFORE_HOST.sub("…@", name))).text


def secrets_of(texts: Iterable[str]) -> Known:
    """The secrets in some texts and their kinds, to be looked for in what is told of the texts."""
    return Known(
        (text[place.start : place.end], place.kind)
        for text in texts
        for place in find_secrets(text)
    )


def tables() -> tuple[tuple[SecretFinder, ...], ...]:
    """Finders of one scan each: one automaton of all of them outgrows the memory of RE2."""
    from compact.secrets import credentials, lone_values, named_credentials, near_names, personal

    return (
        credentials.FINDERS,
        (
            *named_credentials.FINDERS,
            *near_names.FINDERS,
            *personal.FINDERS,
            *lone_values.FINDERS,
        ),
    )


@cache
def _scans() -> list[tuple[Occurring, tuple[SecretFinder, ...]]]:
    """A scan for each table."""
    from compact.secrets.credentials import STARTS
    from compact.secrets.occurring import Occurring

    return [
        (Occurring([finder.hint for finder in table], rare=STARTS), table) for table in tables()
    ]


def places_in(text: str) -> Iterator[Place]:
    """Where patterns find secrets, in no order, and none within what is public."""
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
"""What no reader sees: colours of a terminal, and letters without width."""
_UNSEEN_MARKS = ("\x1b[", "\\u001b[", "\\x1b[", "\\033[", *"\u00ad\u200b\u200c\u200d\u2060\ufeff")


def find_secrets(text: str, known: Mapping[str, str] | None = None) -> list[Place]:
    """The places of all secrets, in order; where two overlap, one place that holds both. What no
    reader sees hides none.
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
    """Whether one of the known secrets stands in a text, or what no reader sees might hide one."""
    return _has_unseen(text) or next(_standing_alone(text, known), None) is not None


def _has_unseen(text: str) -> bool:
    return any(map(text.__contains__, _UNSEEN_MARKS))


def _standing_alone(text: str, known: Known) -> Iterator[Place]:
    for place in known.places(text, known.starts(text)):
        if not text[place.end : place.end + 1].isalnum():
            yield place


def without(text: str, places: Iterable[Place]) -> str:
    """The text with `<REDACTED:kind>` at each of the places, which are in order and apart."""
    pieces: list[str] = []
    end = 0
    for place in places:
        pieces += text[end : place.start], f"<REDACTED:{place.kind}>"
        end = place.end
    return "".join((*pieces, text[end:]))


_SHORTEST_DISGUISED = 8
"""Letters and digits of a secret from which it is looked for between other marks."""
_CODED = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{12,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")


def disguised(text: str, known: Mapping[str, str]) -> list[Place]:
    """Where secrets stand in disguise, in order and apart: those in `known` with spaces or marks
    between their letters, in other case or backwards, and any as base64 or hexadecimal digits.
    """
    apart: list[Place] = []
    for place in sorted((*_spelled(text, known), *_coded(text, known))):
        if not apart or place.start >= apart[-1].end:
            apart.append(place)
    return apart


def _spelled(text: str, known: Mapping[str, str]) -> Iterator[Place]:
    """Where the letters and digits of a known secret stand, forwards or backwards."""
    bare = {"".join(x.lower()[:1] for x in secret if x.isalnum()): secret for secret in known}
    wanted = Known()
    for letters, secret in bare.items():
        for way in (1, -1) if len(letters) >= _SHORTEST_DISGUISED else ():
            wanted.add(letters[::way], known[secret])
    if not wanted:
        return
    signs = [place for place, sign in enumerate(text) if sign.isalnum()]
    squeezed = "".join(text[place].lower()[:1] for place in signs)
    for place in wanted.places(squeezed, range(len(squeezed))):
        yield Place(signs[place.start], signs[place.end - 1] + 1, place.kind)


def _coded(text: str, known: Mapping[str, str]) -> Iterator[Place]:
    """Where something stands that holds a secret when it is decoded."""
    for run in _CODED.finditer(text):
        found = (find_secrets(plain, known) for plain in _decoded(run[0]))
        if places := next(filter(None, found), None):
            yield Place(run.start(), run.end(), places[0].kind)


def _decoded(run: str) -> Iterator[str]:
    """What a run of letters and digits says as base64, and as hexadecimal digits."""
    bare = run.rstrip("=").replace("-", "+").replace("_", "/")
    with suppress(ValueError):
        yield base64.b64decode(bare + "=" * (-len(bare) % 4)).decode("ascii")
    if _HEX.fullmatch(run):
        with suppress(ValueError):
            yield bytes.fromhex(run).decode("ascii")
