"""Files that other programs write, counted on both sides: each text of a file stands in what was
read of it, or the file is refused by what it has (issue 24, B).

The files lie beside the real conversations and are not copied here; without them this is skipped.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from compact.errors import InvalidTranscript
from compact.messages.messages import Message, Thinking, visible_texts
from compact.transcripts.reading import each
from tests.store.making import words_in

NAMED = os.environ.get("COMPACT_DATA")
DATA = Path(NAMED) if NAMED else Path(__file__).resolve().parents[3] / "shared/data"
HEADERS = {"aider chat started at 2026-01-01 10:00:00"}
"""What nobody said."""
FILES = sorted((DATA.parent / "cases/files").glob("*"))


def texts_of(path: Path) -> Iterator[str]:
    """All texts of a file that are more than a word, whoever wrote it."""
    data = path.read_bytes()
    if data.startswith(b"SQLite format 3"):
        with closing(sqlite3.connect(path)) as database:
            named = "SELECT name FROM sqlite_schema WHERE type = 'table'"
            for (table,) in database.execute(named).fetchall():
                for row in database.execute(f'SELECT * FROM "{table}"'):
                    yield from words_in(list(row))
    elif path.suffix == ".md":
        yield from (line.lstrip("#> ").rstrip() for line in data.decode().splitlines())
    else:
        try:
            yield from words_in(json.loads(data))
        except ValueError:
            for line in data.decode().splitlines():
                yield from words_in(json.loads(line))


@pytest.mark.skipif(
    not FILES, reason="no files of other programs here: set COMPACT_DATA to a folder beside them"
)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_read_whole_or_refused_by_what_it_has(path):
    messages: list[Message] = []
    try:
        for talk in each(path):
            assert not isinstance(talk, InvalidTranscript), talk
            messages += talk.messages
    except InvalidTranscript as error:
        if "an unknown format: the file has" not in str(error):
            raise
        return
    told = [*visible_texts(messages)]
    told += [part.text for m in messages for part in m.parts if isinstance(part, Thinking)]
    told += [json.dumps(call.arguments) for m in messages for call in m.tool_calls]
    lost = {text for text in texts_of(path) if not any(text in each for each in told)}
    assert lost <= HEADERS
