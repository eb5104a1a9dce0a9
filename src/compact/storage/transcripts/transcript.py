"""The value every reader gives and every writer takes: one conversation and the file it came from.

Reading files lives in `reading`, writing them in `writing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from compact.core.messages import Message

Wire = Literal["anthropic", "chat_completions", "responses"]
Shape = Literal["lines", "list", "object"]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Container:
    """How a file holds its messages, as far as a writer must know it.

    `shape`: one JSON value a line, one list, or one object with the key `messages`. `fields`: the
    object's other keys, or what a writer takes over from the file. `indent`: spaces, where the JSON
    was pretty-printed. `original`: the text that comes back when nothing changed, without a
    half-written last line; None where the format is not written.
    """

    shape: Shape = "lines"
    fields: Mapping[str, Any] = field(default_factory=dict)
    indent: int | None = None
    original: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Transcript:
    """One conversation of a file.

    `source` is the file's name as given, `format` a name of its table, `wire` the wire format its
    messages are written in, `model` the last one that was asked, where the file tells. `rows` maps
    the id of each message to the rows of the file it was made of. `notes` say in words what was
    left out or could not be told, each with its count; `conversations` is how many the file holds.
    """

    source: str
    format: str
    wire: Wire
    messages: tuple[Message, ...]
    title: str | None = None
    model: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    conversations: int = 1
    container: Container = field(default_factory=Container)
