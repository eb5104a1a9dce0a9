"""Finds facts about images and files without decoding them: pixel size, kind, bytes, and visible
text.

It reads the headers of PNG, GIF, JPEG and WebP. `messages.tokens` computes the cost in tokens.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from compact.messages.given import type_of

_SEALED = frozenset(("encrypted_content", "signature", "cache_control"))
_MEDIA = ("media_type", "mime_type", "mimeType", "format")
_BASE64_CHARS = 256
"""A `data` field of at least this length counts as base64, even without a media type next to it."""
_PICTURES = frozenset(("image", "image_url", "input_image"))
_FILES = frozenset(("document", "file", "input_file"))
_AUDIO = frozenset(("wav", "mp3", "flac", "opus", "pcm16", "aac"))

FileKind = Literal["image", "audio", "file"]


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary value in a block. `size` is in bytes, or None if only a URL or id is given."""

    kind: FileKind
    size: int | None = None


def size_of_data_url(url: str) -> tuple[int | None, int | None]:
    """Return an image's width and height in pixels from a `data:` URL, or (None, None)."""
    if not url.startswith("data:") or ";base64," not in url[:100]:
        return None, None
    return size_of_base64(url[url.index(";base64,") + 8 :])


def size_of_base64(data: str) -> tuple[int | None, int | None]:
    """Return a base64 image's width and height in pixels, or (None, None) if unknown."""
    head = data[:65_536]  # a JPEG's frame header may be far behind the start
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
    """Return the URL of any provider's image block. It is empty if the block is no image."""
    named = raw.get("image_url")
    if named is not None:
        return str(named.get("url", "")) if isinstance(named, Mapping) else str(named)
    source = raw.get("source") if is_picture(raw) else None
    if isinstance(source, Mapping):
        if source.get("type") == "url":
            return str(source.get("url", ""))
        return f"data:{source.get('media_type', 'image/png')};base64,{source.get('data', '')}"
    return ""


def is_picture(raw: Mapping[str, Any]) -> bool:
    """Whether the block is an image of any provider."""
    return type_of(raw) in _PICTURES


def visible_json(raw: Mapping[str, Any]) -> str:
    """Return a block as the text that is counted: JSON without encrypted and binary values."""
    return json.dumps(_visible(raw), ensure_ascii=False, default=str)


def binaries(raw: object) -> Iterator[Binary]:
    """Yield images, audio and files in a block, at any depth. `visible_json` hides them, but a
    provider reads them. A file that is given by URL or id has no known size.
    """
    if isinstance(raw, str):
        if _is_data_url(raw):
            yield _binary(raw[5:].partition(";")[0], raw[raw.index(";base64,") + 8 :])
    elif isinstance(raw, Mapping):
        inner = [binary for key in raw for binary in _binaries_of(raw, key)]
        if is_picture(raw):
            inner = [Binary("image", inner[0].size if inner else None)]
        elif not inner and type_of(raw) in _FILES and not _holds_text(raw):
            inner = [Binary("file")]
        yield from inner
    elif isinstance(raw, list | tuple):
        for value in raw:
            yield from binaries(value)


def _binaries_of(raw: Mapping[str, Any], key: str) -> Iterator[Binary]:
    value = raw[key]
    if key in _SEALED or raw.get("type") == "redacted_thinking":
        return
    if _is_binary(raw, key) and not _is_data_url(value):
        yield _binary(next((str(raw[k]) for k in _MEDIA if raw.get(k)), ""), value)
    else:
        yield from binaries(value)


def _binary(media: str, data: str) -> Binary:
    kind: FileKind = "file"
    if media.startswith("image/"):
        kind = "image"
    elif media.startswith("audio/") or media in _AUDIO:
        kind = "audio"
    return Binary(kind, len(data) * 3 // 4)


def _visible(value: object) -> object:
    if isinstance(value, Mapping):
        hidden = {k for k in value if k in _SEALED or _is_binary(value, k)}
        return {k: _visible(v) for k, v in value.items() if k not in hidden}
    if isinstance(value, list | tuple):
        return [_visible(v) for v in value]
    if isinstance(value, str) and _is_data_url(value):
        return value[: value.index(";base64,") + 7]
    return value


def _is_binary(raw: Mapping[str, Any], key: str) -> bool:
    """Whether the field holds base64. In a source of type `text`, `data` is plain text."""
    value = raw[key]
    if key not in ("data", "file_data") or not isinstance(value, str) or raw.get("type") == "text":
        return False
    if key == "file_data" or raw.get("type") in ("base64", "redacted_thinking"):
        return True
    is_marked = len(value) >= _BASE64_CHARS or any(name in raw for name in _MEDIA)
    return is_marked and " " not in value[:_BASE64_CHARS]


def _is_data_url(text: str) -> bool:
    return text.startswith("data:") and ";base64," in text[:200]


def _holds_text(raw: Mapping[str, Any]) -> bool:
    source = raw.get("source")
    return isinstance(source, Mapping) and source.get("type") in ("text", "content")
