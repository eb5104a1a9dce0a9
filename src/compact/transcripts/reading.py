"""Reads a file of any known format as one conversation.

The format is recognized by the content, never by the file's name. `table` lists the formats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from compact.errors import InvalidTranscript
from compact.transcripts.documents import Document, choose, kind_of, load
from compact.transcripts.table import FORMATS, Format, by_name, recognized
from compact.transcripts.transcript import Transcript


def read(
    data: Path | str | bytes | Document,
    *,
    source: str | None = None,
    format: str | None = None,
    conversation: int | None = None,
    active: bool = False,
    formats: Sequence[Format] = FORMATS,
) -> Transcript:
    """Read one conversation from a path, bytes or a loaded document.

    `source` is the name in errors and in the transcript (default: the path). `format` overrides the
    recognized format. `conversation` picks one of several, counted from 1. `active` reads only what
    a session still has in its context, which is everything after its last compaction. `formats` are
    the formats to try.

    Raises:
        InvalidTranscript: the file cannot be read, has no known format, is broken (a half-written
            last line of JSON Lines is no error), holds no message, or holds several conversations
            and none was chosen.
    """
    document = data if isinstance(data, Document) else load(data, source=source)
    chosen = _format_of(document, format, formats)
    transcript = chosen.read(document, conversation=conversation, active=active)
    if conversation is not None:
        choose(range(transcript.conversations), conversation, source=document.source)
    return _with_messages(transcript, chosen)


def _format_of(document: Document, format: str | None, formats: Sequence[Format]) -> Format:
    if format is None:
        return recognized(document, formats)
    chosen = by_name(format, source=document.source, formats=formats)
    if (kind := kind_of(document)) != chosen.kind:
        raise InvalidTranscript(document.source, f"the file is {kind}, which {chosen.name} is not")
    return chosen


def each(
    data: Path | str | bytes | Document, *, source: str | None = None
) -> Iterator[Transcript | InvalidTranscript]:
    """Yield every conversation of a file, in order. If one of several is broken, yield its error.
    The file is loaded once.

    Raises:
        InvalidTranscript: the file cannot be read or is of no known format, or its only
            conversation is broken.
    """
    document = data if isinstance(data, Document) else load(data, source=source)
    chosen = recognized(document)
    many = 1 if chosen.titles is None else len(chosen.titles(document))
    if many <= 1:
        yield chosen.read(document)
        return
    for number in range(1, many + 1):
        try:
            transcript = chosen.read(document, conversation=number)
        except InvalidTranscript as error:
            yield error
        else:
            yield transcript


def _with_messages(found: Transcript, chosen: Format) -> Transcript:
    """Return the transcript if it has messages.

    Raises:
        InvalidTranscript: it has none. The error says what was left out.
    """
    if found.messages:
        return found
    there = f"; left out: {', '.join(found.notes)}" if found.notes else ""
    reason = f"holds no messages, read as {chosen.title}{there}"
    raise InvalidTranscript(found.source, reason, is_foreign=True)
