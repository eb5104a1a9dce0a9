"""Finds secrets that are disguised: with spaces or marks between their letters, in another case,
backwards, or as base64 or hexadecimal digits. A model can write them so, and a reader can undo it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from compact.secrets.credentials import Place
from compact.secrets.redaction import Known, find_secrets

SHORTEST = 8
"""The fewest letters and digits of a secret that is also searched for with marks in between.
Shorter ones would match ordinary text."""
_CODED = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{12,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")


def disguised(text: str, known: Mapping[str, str]) -> list[Place]:
    """Return the places of disguised secrets, in order and without overlaps. They are secrets in
    `known` (`redaction.secrets_of`), and encoded secrets that are found by their form.
    """
    apart: list[Place] = []
    for place in sorted((*_spelled(text, known), *_coded(text, known))):
        if not apart or place.start >= apart[-1].end:
            apart.append(place)
    return apart


def _spelled(text: str, known: Mapping[str, str]) -> Iterator[Place]:
    """Yield known secrets, found by their letters and digits alone, forwards or backwards."""
    bare = {"".join(x.lower()[:1] for x in secret if x.isalnum()): secret for secret in known}
    wanted = Known()
    for letters, secret in bare.items():
        for way in (1, -1) if len(letters) >= SHORTEST else ():
            wanted.add(letters[::way], known[secret])
    if not wanted:
        return
    signs = [place for place, sign in enumerate(text) if sign.isalnum()]
    squeezed = "".join(text[place].lower()[:1] for place in signs)
    for place in wanted.places(squeezed, range(len(squeezed))):
        yield Place(signs[place.start], signs[place.end - 1] + 1, place.kind)


def _coded(text: str, known: Mapping[str, str]) -> Iterator[Place]:
    """Yield the places of encoded text that holds a secret."""
    for run in _CODED.finditer(text):
        found = (find_secrets(plain, known) for plain in _decoded(run[0]))
        if places := next(filter(None, found), None):
            yield Place(run.start(), run.end(), places[0].kind)


def _decoded(run: str) -> Iterator[str]:
    """Yield the run of characters decoded from base64, and from hexadecimal digits."""
    bare = run.rstrip("=").replace("-", "+").replace("_", "/")
    with suppress(ValueError):
        yield base64.b64decode(bare + "=" * (-len(bare) % 4)).decode("ascii")
    if _HEX.fullmatch(run):
        with suppress(ValueError):
            yield bytes.fromhex(run).decode("ascii")
