"""Texts for models, kept as files next to this module. Each is read when it is first needed."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def template(name: str) -> str:
    """Return the text of a template, such as `summary/brief.md`, without white space at its ends.

    Raises:
        FileNotFoundError: there is no such template.
    """
    place = files(__package__)
    for piece in name.split("/"):
        place = place.joinpath(piece)
    return place.read_text(encoding="utf-8").strip()
