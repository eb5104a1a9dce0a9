"""What counts as the address of a server."""

from __future__ import annotations

from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter, ValidationError

_ADDRESS = TypeAdapter(AnyHttpUrl, config=ConfigDict(defer_build=True))


ARIADNE = "http://127.0.0.1:5175"
"""Where Ariadne listens where nobody says otherwise."""


def is_address(text: str) -> bool:
    """Whether it is the address of a server that is spoken to by HTTP."""
    try:
        _ADDRESS.validate_python(text)
    except ValidationError:
        return False
    return True
