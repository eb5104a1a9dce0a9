"""Rows straight from a database's pages, where SQLite finds no way to them any more.

Reads table leaves one by one, whatever the pages above them say: see "Database File Format" in
SQLite's documentation. A row whose bytes make no sense is left out; whether the others are what was
written is for hashes to say.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

Value = int | float | bytes | str | None

PAGE_SIZE = 4096
"""Bytes of a page where the file's head does not say."""
_TABLE_LEAF = 0x0D
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
"""Serial type → bytes."""
_LARGEST_ROW = 1 << 30
_WRONG = (IndexError, ValueError, struct.error, OverflowError)


def leaf_rows(file: BinaryIO) -> Iterator[tuple[int, list[Value]]]:
    """All rows of all table leaves: rowid and values; text that is not UTF-8 gets U+FFFD."""
    size, usable = _sizes(file)
    pages = _Pages(file, size, usable)
    for number in range(1, pages.count + 1):
        page = pages.page(number)
        start = 100 if number == 1 else 0
        if page[start] != _TABLE_LEAF:
            continue
        cells = int.from_bytes(page[start + 3 : start + 5], "big")
        for index in range(cells):
            at = start + 8 + 2 * index
            try:
                yield _row(pages, page, int.from_bytes(page[at : at + 2], "big"))
            except _WRONG:
                continue


def _sizes(file: BinaryIO) -> tuple[int, int]:
    """Bytes of a page, and how many of them are used."""
    file.seek(0)
    head = file.read(100)
    size = int.from_bytes(head[16:18], "big")
    size = 65536 if size == 1 else size
    if head[:16] != b"SQLite format 3\x00" or size < 512 or size & (size - 1):
        return PAGE_SIZE, PAGE_SIZE
    return size, size - head[20]


class _Pages:
    """A file's pages by number, counted from 1."""

    def __init__(self, file: BinaryIO, size: int, usable: int) -> None:
        self._file = file
        self._size = size
        self.usable = usable
        self.count = file.seek(0, 2) // size

    def page(self, number: int) -> bytes:
        if not 1 <= number <= self.count:
            raise IndexError(f"no page {number}")
        self._file.seek((number - 1) * self._size)
        return self._file.read(self._size)


def _row(pages: _Pages, page: bytes, at: int) -> tuple[int, list[Value]]:
    length, at = _varint(page, at)
    rowid, at = _varint(page, at)
    if not 0 < length < _LARGEST_ROW:
        raise ValueError("no length of a row")
    local = _local_bytes(length, pages.usable)
    payload = page[at : at + local]
    if local < length:
        after = int.from_bytes(page[at + local : at + local + 4], "big")
        payload += _overflow(pages, after, length - local)
    if len(payload) != length:
        raise ValueError("the row goes beyond its page")
    return rowid, _values(payload)


def _local_bytes(length: int, usable: int) -> int:
    """How many bytes of a row stand in its leaf; the others are on pages of their own."""
    most = usable - 35
    if length <= most:
        return length
    least = (usable - 12) * 32 // 255 - 23
    local = least + (length - least) % (usable - 4)
    return local if local <= most else least


def _overflow(pages: _Pages, number: int, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        page = pages.page(number)
        number = int.from_bytes(page[:4], "big")
        found += page[4 : min(pages.usable, 4 + length - len(found))]
    return bytes(found)


def _values(payload: bytes) -> list[Value]:
    head, at = _varint(payload, 0)
    types: list[int] = []
    while at < head:
        kind, at = _varint(payload, at)
        types.append(kind)
    values: list[Value] = []
    at = head
    for kind in types:
        value, at = _value(payload, at, kind)
        values.append(value)
    if at != len(payload):
        raise ValueError("a row that says another length than it has")
    return values


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, at
    if kind in (8, 9):
        return kind - 8, at
    if kind == 7:
        return float(struct.unpack_from(">d", payload, at)[0]), at + 8
    if kind in _INTEGERS:
        end = at + _INTEGERS[kind]
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind < 12:
        raise ValueError("no type of a value")
    end = at + (kind - 12) // 2
    found = payload[at:end]
    return (found.decode("utf-8", "replace") if kind % 2 else found), end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for offset in range(8):
        byte = data[at + offset]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + offset + 1
    value = value << 8 | data[at + 8]
    return (value - (1 << 64) if value >> 63 else value), at + 9
