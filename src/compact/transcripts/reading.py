"""Reading transcripts: a file of any known format as one conversation.

The format is found by content, never by the file's name. Which formats there are is said in
`table`.
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
    """Read one conversation of a path, of bytes, or of a document that was loaded already.

    `source` is the name that errors and the transcript carry (default: the path). `format`
    overrides what the content says. `conversation` picks one of a file that holds many, counted
    from 1. `active` takes only what a session still has in its context: what follows its last
    compaction. `formats` are those it may be in.

    Raises:
        InvalidTranscript: the file cannot be read, is of no known format, is broken (a half-written
        last line of JSON
            Lines is not), holds no message, or holds several conversations and none was chosen.
    """
    document = data if isinstance(data, Document) else load(data, source=source)
    chosen = _format_of(document, format, formats)
    found = chosen.read(document, conversation=conversation, active=active)
    if conversation is not None:
        choose(range(found.conversations), conversation, source=document.source)
    return _with_messages(found, chosen)


def titles(
    document: Document, *, format: str | None = None, formats: Sequence[Format] = FORMATS
) -> Sequence[str | None]:
    """The titles of all conversations of a document, None for one without a title: as many as it
    holds, found without reading one. The first is conversation 1.

    Raises:
        InvalidTranscript: it is of no known format.
    """
    chosen = _format_of(document, format, formats)
    if chosen.titles is not None:
        return chosen.titles(document)
    found = chosen.read(document)
    return [found.title] if found.conversations == 1 else [None] * found.conversations


def _format_of(document: Document, format: str | None, formats: Sequence[Format]) -> Format:
    if format is None:
        return recognized(document, formats)
    chosen = by_name(format, source=document.source, formats=formats)
    _check_override(document, chosen)
    return chosen


def each(
    data: Path | str | bytes | Document,
    *,
    source: str | None = None,
    formats: Sequence[Format] = FORMATS,
) -> Iterator[Transcript | InvalidTranscript]:
    """Read every conversation of a path, or of bytes, in order; in the place of one of several that
    is broken, what is wrong with it. The file is loaded once.

    Raises:
        InvalidTranscript: the file cannot be read or is of no known format, or its only
            conversation is broken.
    """
    document = data if isinstance(data, Document) else load(data, source=source)
    chosen = recognized(document, formats)
    many = 1 if chosen.titles is None else len(chosen.titles(document))
    if many <= 1:
        yield chosen.read(document)
        return
    for number in range(1, many + 1):
        yield _one(chosen, document, number)


def _one(chosen: Format, document: Document, number: int) -> Transcript | InvalidTranscript:
    try:
        return chosen.read(document, conversation=number)
    except InvalidTranscript as error:
        return error


def _with_messages(found: Transcript, chosen: Format) -> Transcript:
    """What was read, if it says something.

    Raises:
        InvalidTranscript: it has no message; says what there was instead.
    """
    if found.messages:
        return found
    there = f"; left out: {', '.join(found.notes)}" if found.notes else ""
    reason = f"holds no messages, read as {chosen.title}{there}"
    raise InvalidTranscript(found.source, reason, is_foreign=True)


def _check_override(document: Document, chosen: Format) -> None:
    """A format that was asked for must at least be of the right kind."""
    if (kind := kind_of(document)) != chosen.kind:
        raise InvalidTranscript(document.source, f"the file is {kind}, which {chosen.name} is not")
