"""What can be known of an image without decoding it: its size in pixels, and how to name it
elsewhere.

Reads the headers of PNG, GIF, JPEG and WebP in base64 data. What an image costs in tokens lives in
`core.tokens`.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Mapping
from typing import Any

_HEADER_CHARS = 65_536  # base64 characters read to find a JPEG's frame header
_HIDDEN = frozenset(("data", "file_data", "encrypted_content", "signature", "cache_control"))


def size_of_data_url(url: str) -> tuple[int | None, int | None]:
    """Width and height in pixels of an image in a `data:` URL; (None, None) where it cannot be
    told.
    """
    if not url.startswith("data:") or ";base64," not in url[:100]:
        return None, None
    return size_of_base64(url[url.index(";base64,") + 8 :])


def size_of_base64(data: str) -> tuple[int | None, int | None]:
    """Width and height in pixels of a base64 image; (None, None) where it cannot be told."""
    head = data[:_HEADER_CHARS]
    try:
        blob = base64.b64decode(head[: len(head) // 4 * 4])
    except (binascii.Error, ValueError):
        return None, None
    if blob[:8] == b"\x89PNG\r\n\x1a\n" and len(blob) >= 24:
        width, height = struct.unpack(">II", blob[16:24])
        return width, height
    if blob[:6] in (b"GIF87a", b"GIF89a") and len(blob) >= 10:
        width, height = struct.unpack("<HH", blob[6:10])
        return width, height
    if blob[:4] == b"RIFF" and blob[8:16] == b"WEBPVP8X" and len(blob) >= 30:
        return 1 + int.from_bytes(blob[24:27], "little"), 1 + int.from_bytes(blob[27:30], "little")
    return _size_of_jpeg(blob)


def _size_of_jpeg(blob: bytes) -> tuple[int | None, int | None]:
    at = 2
    while blob[:2] == b"\xff\xd8" and at + 9 < len(blob) and blob[at] == 0xFF:
        marker = blob[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", blob[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(blob[at + 2 : at + 4], "big")
    return None, None


def data_url(raw: Mapping[str, Any]) -> str:
    """The URL that names an image block of any provider."""
    if "image_url" in raw:
        return str(raw["image_url"].get("url", ""))
    source = raw.get("source")
    if isinstance(source, Mapping):
        if source.get("type") == "url":
            return str(source.get("url", ""))
        return f"data:{source.get('media_type', 'image/png')};base64,{source.get('data', '')}"
    return ""


def visible_json(raw: Mapping[str, Any]) -> str:
    """An unknown block as the text it is counted as: its JSON without sealed or binary fields."""
    shown = {k: v for k, v in raw.items() if k not in _HIDDEN}
    return json.dumps(shown, ensure_ascii=False, default=str)
