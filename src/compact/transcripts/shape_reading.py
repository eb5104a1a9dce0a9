"""Reads a file as a row of `shapes` describes it.

A path is keys joined by dots. `*` means all items of a list or all values of an object. `-1` is an
index. `versions@selected` means the item of `versions` whose index is in the key `selected`. `a|b`
means the first of two paths that exists. A mark is paths joined by spaces. All of them must exist,
but `!a` must not exist, and `a=x|y` must have one of these values, in upper or lower case.

Decisions:

- Rows that are not messages are left out, and counted by their role or type.
- In a tree, the conversation is the branch that ends in the current row, or else in the last row.
- Texts of a row that appear in no message are counted. Ids, names and single words are not.
- An invalid row is left out with a note. A file needs more messages than invalid rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from compact.errors import InvalidTranscript
from compact.messages.messages import Part, Text, Thinking, ToolCall, ToolResult
from compact.messages.times import time_of
from compact.transcripts.documents import Document, JsonLines, bytes_of, choose, objects_in
from compact.transcripts.roles import ByRole, role_means
from compact.transcripts.transcript import Row, Transcript, branch_of, text_or

_LOOKED_AT = 40
"""How many items of a list are checked to recognize a shape. The limit bounds the time."""


@dataclass(frozen=True, slots=True)
class FileShape:
    """Describes a format: where it keeps its conversations, and which names their messages use."""

    name: str
    title: str
    marks: tuple[str, ...]
    """Marks. The shape fits if a conversation has one of them."""
    chats: tuple[str, ...] = ("",)
    """Paths of the file's conversations. The first path that leads to one is used."""
    group: str = ""
    """The path of the conversation's id in a row, if a file mixes rows of conversations."""
    rows: str = "messages|"
    """The path of a conversation's messages. Empty: the conversation is the list of messages."""
    nested: str = ""
    """The path of a list of further rows inside a row. They are read after the row."""
    body: str = ""
    """The path of the message inside a row. The row's own keys are read too."""
    role: str = "role"
    roles: tuple[tuple[str, ...], ...] = ()
    """Rules. Each has a mark of a row, the meaning of the row's role (`roles.ByRole.take`), and the
    path of its text, if that is not `text`. With an empty meaning the row is left out."""
    others: str | None = None
    """The meaning of a role that has no rule and no known name. With None the role is unknown."""
    first: str | None = None
    """The meaning of the first message's role, if the role itself does not tell."""
    text: str = "content"
    turns: tuple[tuple[str, str], ...] = ()
    """For a row with several messages: the meaning of each one's role, and its text's path."""
    also: tuple[tuple[str, str], ...] = ()
    """Pairs: a known key of calls and results, and the path where this format has its value."""
    results: str = ""
    """The path of the results of a row's calls."""
    attached: str = ""
    """The path of texts in a row that the program added to the user's text."""
    system: str = ""
    """The path of a conversation's system prompt."""
    name_at: str = "title|name"
    model: str = "model|*.model"
    session: str = "sessionId|session_id|id|*.sessionId|*.session_id"
    beside: tuple[str, str] = ("", "")
    """The name of such a file, and of a JSON file next to it that has the title and the model."""
    time: str = "timestamp|createdAt|created_at|created|ts|create_time|time"
    tree: tuple[str, str, str] = ("", "", "")
    """The paths of a row's id, its parent's id, and the id of a conversation's current row."""
    newer: str = ""
    """The path of a row's id. A row replaces an earlier row with the same id."""
    undone: str = ""
    """The path of an id in a row. Such a row removes the row with this id and all after it."""


# --- paths and marks ------------------------------------------------------------------------------


def all_at(value: object, path: str, most: int | None = None) -> Iterator[Any]:
    """Yield the values at the first alternative of a path that has any. None and empty values do
    not count. At most `most` items of each list are visited.
    """
    for each in path.split("|"):
        values = _walk(value, each.split(".") if each else [], most)
        if (first := next(values, None)) is not None:
            yield first
            yield from values
            return


def _walk(value: Any, keys: Sequence[str], most: int | None) -> Iterator[Any]:  # noqa: ANN401 - JSON
    if not keys:
        if value not in (None, "", [], {}):
            yield value
        return
    key, *rest = keys
    if key == "*":
        items = value.values() if isinstance(value, dict) else value
        for item in islice(items, most) if isinstance(items, list | type({}.values())) else ():
            yield from _walk(item, rest, most)
    elif isinstance(value, list):
        if key.lstrip("-").isdigit() and -len(value) <= int(key) < len(value):
            yield from _walk(value[int(key)], rest, most)
    elif isinstance(value, dict) and "@" in key:
        key, _, chosen = key.partition("@")
        items, place = value.get(key), value.get(chosen)
        if isinstance(items, list) and items:
            at = place if isinstance(place, int) and place < len(items) else -1
            yield from _walk(items[at], rest, most)
    elif isinstance(value, dict) and key in value:
        yield from _walk(value[key], rest, most)


def first_at(value: object, path: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the first value of `all_at`, or None."""
    return next(all_at(value, path), None) if path else None


def has(value: object, mark: str) -> bool:
    """Whether all parts of the mark hold for the value."""
    return all(_has_one(value, each) for each in mark.split(" "))


def _has_one(value: object, mark: str) -> bool:
    if mark.startswith("!"):
        return not _has_one(value, mark[1:])
    path, _, wanted = mark.partition("=")
    values = all_at(value, path, _LOOKED_AT)
    if not wanted:
        return next(values, None) is not None
    return any(str(each).lower() in wanted.lower().split("|") for each in values)


# --- files ----------------------------------------------------------------------------------------


def recognizes(shape: FileShape, document: Document) -> bool:
    """Whether a conversation of the file has one of the shape's marks."""
    return bool(_chats(shape, document, _LOOKED_AT))


def titles(shape: FileShape, document: Document) -> list[str | None]:
    """Return the conversations' titles, in order."""
    chats = _chats(shape, document) or [_root(document)]
    return [text_or(first_at(chat, shape.name_at)) for chat in chats]


def read(
    shape: FileShape, document: Document, *, conversation: int | None = None, active: bool = False
) -> Transcript:
    """Read one conversation of the file. `active` changes nothing.

    Raises:
        InvalidTranscript: names the wrong message.
    """
    chats = _chats(shape, document) or [_root(document)]
    chat = choose(
        chats, conversation, source=document.source, titles=lambda: titles(shape, document)
    )
    collected = _ShapedChat(document.source, shape=shape)
    if (system := first_at(chat, shape.system)) is not None:
        collected.take("system", system, {}, place=shape.system, time=None)
    at, rows = _rows_of(shape, chat, collected.left_out)
    for index, row in enumerate(rows):
        collected.attempt(partial(collected.take_row, row, f"{at or 'rows'}[{index}]"))
    collected.finish()
    about = _neighbour_file(shape, Path(document.source))
    return collected.transcript(
        document,
        shape.name,
        whole=chat,
        title=text_or(first_at(chat, shape.name_at) or first_at(about, shape.name_at)),
        model=text_or(first_at(chat, shape.model) or first_at(about, shape.model)),
        session_id=text_or(first_at(chat, shape.session)),
        conversations=len(chats),
    )


def _neighbour_file(shape: FileShape, path: Path) -> object:
    """Return the JSON value in the file next to this one, or None (`FileShape.beside`)."""
    name, other = shape.beside
    if path.name == name and (file := path.with_name(other)).is_file():
        return _json(bytes_of(file, str(file)).decode("utf-8", "ignore"))
    return None


def _chats(shape: FileShape, document: Document, most: int | None = None) -> list[Any]:
    """Return the conversations, at most `most` of a list, or none if the shape does not fit."""
    roots = [_root(document)]
    if len(document.rows) == 1 and b"\n" not in document.data.strip():
        roots.append(roots[:])  # the only line may hold many conversations
    for root in roots:
        for path in shape.chats:
            chats = list(_walk(root, path.split(".") if path else [], most))
            if any(has(chat, mark) for chat in chats[:_LOOKED_AT] for mark in shape.marks):
                return [part for chat in chats for part in _parts_of(shape, chat)]
    return []


def _root(document: Document) -> Any:  # noqa: ANN401 - any JSON value
    values = [value for _, value in document.rows]
    return values if isinstance(document, JsonLines) else values[0]


def _parts_of(shape: FileShape, chat: object) -> list[Any]:
    if not shape.group:
        return [chat]
    parts: dict[str, list[Any]] = {}
    for row in objects_in(chat):
        parts.setdefault(str(first_at(row, shape.group)), []).append(row)
    return list(parts.values())


# --- rows -----------------------------------------------------------------------------------------


def _rows_of(shape: FileShape, chat: object, left_out: Counter[str]) -> tuple[str, list[Any]]:
    """Return the path of the conversation's rows, and the rows in order."""
    paths = shape.rows.split("|")
    at = next((path for path in paths if any(_listed(chat, path))), paths[0])
    rows = list(_listed(chat, at))
    if shape.nested:
        rows = [each for row in rows for each in _unfolded(row, shape.nested)]
    if shape.newer:
        rows = _latest(rows, shape, left_out)
    if shape.tree[0]:
        ids, parents = ([str(first_at(row, path)) for row in rows] for path in shape.tree[:2])
        branch = branch_of(ids, parents, first_at(chat, shape.tree[2]))
        left_out["message of another branch|messages of other branches"] += len(ids) - len(branch)
        rows = [rows[at] for at in branch]
    times = [time for row in rows if (time := time_of(first_at(row, shape.time)))]
    is_backwards = len(times) == len(rows) > 1 and times == sorted(set(times), reverse=True)
    return at, rows[::-1] if is_backwards else rows


def _listed(chat: object, path: str) -> Iterator[Any]:
    """Yield the rows at a path: items of lists, or values of an object whose keys are ids."""
    for value in _walk(chat, path.split(".") if path else [], None):
        if isinstance(value, list):
            yield from value
        elif isinstance(value, dict) and "*" in path:
            yield value
        elif isinstance(value, dict) and path:
            yield from value.values()


def _unfolded(row: object, nested: str) -> Iterator[Any]:
    yield row
    for each in objects_in(first_at(row, nested)):
        yield from _unfolded(each, nested)


def _latest(rows: Sequence[Any], shape: FileShape, left_out: Counter[str]) -> list[Any]:
    """Return the newest version of each row, at the place of its first version."""
    rows_by_id: dict[str, Any] = {}
    for index, row in enumerate(rows):
        row_id = first_at(row, shape.newer)
        rows_by_id[str(row_id) if row_id is not None else f"row {index}"] = row
        back = first_at(row, shape.undone)
        if isinstance(back, str) and back in rows_by_id:
            keys = list(rows_by_id)
            for key in keys[keys.index(back) :]:
                is_said = rows_by_id.pop(key) is not row
                left_out["message that was taken back|messages that were taken back"] += is_said
    return list(rows_by_id.values())


@dataclass(slots=True)
class _ShapedChat(ByRole):
    shape: FileShape = field(kw_only=True)
    _texts: list[str] = field(default_factory=list)
    """The texts of the messages that the current row became."""
    _all_texts: set[str] = field(default_factory=set)
    _system: object = None

    def take_row(self, row: object, place: str) -> None:
        """Add the messages of one row.

        Raises:
            InvalidTranscript: says what is wrong at `place`.
        """
        if not isinstance(row, dict):
            raise InvalidTranscript(self.source, f"{place}: expected a message, got {row!r:.40}")
        self._texts = []
        whole = self._merged(row)
        told = first_at(row, self.shape.time) or first_at(whole, self.shape.time)
        time = time_of(told)
        if self.shape.turns:
            self._turns(whole, place, time)
        elif not self._take_single(whole, place, time):
            return
        for each in all_at(whole, self.shape.results) if self.shape.results else ():
            part = {**each, "type": "tool_result"} if isinstance(each, dict) else each
            self._take("user", [part], {}, place, time)
        for each in all_at(whole, self.shape.attached) if self.shape.attached else ():
            self._take("injected", each, {}, place, time)
        self._count_unread({k: v for k, v in row.items() if not time or v != told})

    def _merged(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row merged with the message inside it. The known names of its keys are added."""
        shape = self.shape
        body = first_at(row, shape.body)
        key = shape.body.partition(".")[0]
        whole = {**{k: v for k, v in row.items() if k != key}, **body} if isinstance(body, dict) \
            else dict(row)  # fmt: skip
        for key, path in shape.also:
            if (value := first_at(whole, path)) is not None:
                whole[key] = value
        return whole

    def _take_single(self, whole: dict[str, Any], place: str, time: datetime | None) -> bool:
        shape = self.shape
        named = [text_or(first_at(whole, path)) for path in shape.role.split("|")]
        role = next((each for each in named if role_means(each)), None) or next(
            filter(None, named), None
        )
        own_rule = next((rule for rule in shape.roles if has(whole, rule[0])), None)
        means = own_rule[1] if own_rule else role_means(role) or shape.others
        if means == "" or (means is None and role is None):
            kind = text_or(role) or text_or(whole.get("type")) or "other"
            self.left_out[f"{kind} row"] += 1
            return False
        means = means if self.messages else shape.first or means
        if means == "checkpoint" and self.messages:
            self.left_out["earlier summary|earlier summaries"] += 1
            return False
        path = own_rule[2] if own_rule and len(own_rule) > 2 else shape.text
        content = _content(whole, path) if path else None
        self._take(means or role, content, whole, place, time, role=role)
        return True

    def _turns(self, whole: dict[str, Any], place: str, time: datetime | None) -> None:
        """Add each message of a row. Calls and reasoning go with the first reply."""
        rest = dict(whole)
        for means, path in self.shape.turns:
            content = _content(whole, path)
            if means == "system":
                content, self._system = (None if content == self._system else content), content
            own = rest if means == "assistant" else {}
            if content is not None or any(own.get(key) for key in ("tool_calls", "toolCalls")):
                self._take(means, content, own, place, time)
                rest = {} if means == "assistant" else rest

    def _take(
        self, means: object, content: object, row: Row, place: str, time: datetime | None,
        role: object = None,
    ) -> None:  # fmt: skip
        meaning = str(means) if isinstance(means, str) and means in _MEANINGS else None
        self.take(role or means, content, row, place=place, time=time, means=meaning)

    def say(
        self, role: str, parts: Sequence[Part], row: Row, *, time: datetime | None, **more: object
    ) -> None:
        """Add a message, and keep its texts for `_count_unread`."""
        for part in parts:
            self._texts += _words_of(part)
        ByRole.say(self, role, parts, row, time=time, **more)

    def answer(
        self, asked: object, result: ToolResult, row: Row, *, time: datetime | None = None
    ) -> None:
        """Add a result, and keep its text for `_count_unread`."""
        self._texts.append(result.text)
        ByRole.answer(self, asked, result, row, time=time)

    def _count_unread(self, row: Row) -> None:
        all_texts = self._all_texts
        all_texts.update(text.strip() for text in self._texts)
        joined = "\n".join(self._texts)
        for key, value in row.items():
            for text in _texts_in(value if key != self.shape.nested else None):
                stripped = text.strip()
                if stripped not in all_texts and stripped not in joined:
                    self.left_out[f"text of {key!r}, which no message says|"
                                  f"texts of {key!r}, which no message says"] += 1  # fmt: skip


_MEANINGS = frozenset(("user", "assistant", "system", "developer", "call", "result", "thought",
                       "injected", "checkpoint"))  # fmt: skip


def _content(row: Row, path: str) -> Any:  # noqa: ANN401 - any JSON value
    values = list(all_at(row, path))
    if len(values) < 2:
        return values[0] if values else None
    return [part for each in values for part in (each if isinstance(each, list) else [each])]


def _words_of(part: Part) -> Iterator[str]:
    if isinstance(part, Text | Thinking):
        yield part.text
    elif isinstance(part, ToolCall):
        yield part.arguments
        yield from _texts_in(part.arguments)


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str) and value.startswith("{") and (inner := _json(value)):
        yield from _texts_in(inner)
    elif isinstance(value, str):
        if " " in value.strip() and any(map(str.isalpha, value)):
            yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(each)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
