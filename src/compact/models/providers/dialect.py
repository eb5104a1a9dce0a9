"""Learns from a server's refusals what the server does not accept.

Servers with the same API differ in the fields, the order of messages and the kinds of content that
they accept. Few say so beforehand, but a refusal shows it. From then on `Dialect` renames a field
or leaves it out, `StrictTurns` joins neighbouring messages of one role, and `UnsupportedParts`
replaces a part by a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from compact.errors import ModelRefused
from compact.messages.alternation import in_turns, in_words
from compact.messages.formats.known import format_named
from compact.messages.formats.wire import NO_IMAGE
from compact.messages.formats.wire_safe import shortly_named, spelled_out
from compact.messages.images import binaries, is_picture, visible_json
from compact.messages.messages import Message
from compact.patterns import regex

Body = Mapping[str, Any]

_UNKNOWN = regex(
    r"un(?:supported|known|recognized|expected)|not (?:supported|permitted|allowed)|extra|"
    r"does(?: not|n't) support",
    re.IGNORECASE,
)
"""Words in a refusal that show that the field itself, and not its value, is refused."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One field of a request that is not part of the prompt, such as the temperature."""

    names: tuple[str, ...]
    """The possible names of the field, in the order in which they are tried."""
    needed: bool = False
    """Whether a request is useless without the field. Then all names are tried again."""
    words: str = ""
    """A pattern that finds the field in refusals, in addition to its names."""


class Dialect:
    """The fields of requests other than the prompt, under the names that one server accepts."""

    def __init__(self, wishes: Mapping[str, Wish]) -> None:
        self._wishes = wishes
        self._tried = dict.fromkeys(wishes, 0)

    def knows(self, wish: str) -> bool:
        """Return whether this field is still sent. It is not once the server has refused all its
        names.
        """
        return self._tried[wish] < len(self._wishes[wish].names)

    def written(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Return the wishes as fields of a request. Fields that the server refused are left out."""
        return {self._name(wish): wanted[wish] for wish in wanted if self.knows(wish)}

    def learned(self, wanted: Mapping[str, Any], refusal: ModelRefused) -> bool:
        """Learn from a refusal. Return whether later requests are written differently."""
        if refusal.status not in (400, 422) or not _UNKNOWN.search(str(refusal)):
            return False
        for wish in wanted:
            if self.knows(wish):
                words = (rf"\b{self._name(wish)}\b", self._wishes[wish].words)
                if re.search("|".join(filter(None, words)), str(refusal)):
                    return self._moved_on(wish)
        return False

    def _name(self, wish: str) -> str:
        return self._wishes[wish].names[self._tried[wish]]

    def _moved_on(self, wish: str) -> bool:
        self._tried[wish] += 1
        if self.knows(wish) or not self._wishes[wish].needed:
            return True
        self._tried[wish] = 0
        return False


# --- the order of messages ---


class StrictTurns:
    """The order of messages that a server accepts.

    A chat template that refuses a prompt refuses every later one too. After the first refusal,
    neighbouring messages of one role are sent as one (`messages.alternation`). After the second,
    tool calls and their results are also sent as text.
    """

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._strictness = 0
        """0: any order. 1: user and assistant take turns. 2: as 1, and calls are sent as text."""

    def written(self, prompt: Body) -> dict[str, Any]:
        """Return the prompt in an order that the server accepts."""
        field = "input" if "input" in prompt else "messages"
        if not self._strictness or not prompt.get(field):
            return dict(prompt)
        wire = format_named("responses" if field == "input" else self._wire)
        messages: list[Message] = []
        for i, record in enumerate(prompt[field]):
            messages.append(wire.parse(record, i, reversed(messages)))
        if self._strictness > 1:
            messages = in_words(messages)
        turns = [message for _, message in in_turns([(None, message) for message in messages])]
        rendered = map(shortly_named, wire.render(turns))
        return {**prompt, field: list(map(spelled_out, rendered) if field == "input" else rendered)}

    def learned(self, prompt: Body, refusal: ModelRefused) -> bool:
        """Learn from a refusal. Return whether this prompt is now written differently."""
        before = self.written(prompt)
        while refusal.part == "turns" and self._strictness < 2:
            self._strictness += 1
            if self.written(prompt) != before:
                return True
        return False


# --- parts of messages ---

_AUDIO = frozenset(("audio", "audio_url", "input_audio"))
_TEXTS = ("text", "input_text", "output_text", "refusal", "thinking", "redacted_thinking")
_SUPPORTED_KINDS = frozenset((*_TEXTS, "tool_use", "tool_result"))
_HOLDERS = ("content", "output")
"""The fields that hold parts. A tool result is a part that itself holds parts."""
_NOT_CONTENT = ("cache_control",)
"""Fields of a part that are not content."""


class UnsupportedParts:
    """Images, audio and other parts of messages that a server refuses.

    Every later prompt would contain the refused part again. If the part is in the last message, the
    refusal is raised to the caller once, because the answer would be about this part. After that a
    text such as `[image]` replaces the part, and the session continues. In earlier messages the
    text replaces the part at once. If a file is refused, files in the newest message are replaced
    first, because no server says which file is broken.
    """

    def __init__(self) -> None:
        self._kinds: set[str] = set()
        """Refused kinds of parts, as `ModelRefused.part` names them."""
        self._reported: set[str] = set()
        """Digests of single parts whose refusal was already raised to the caller."""

    def written(self, prompt: Body) -> dict[str, Any]:
        """Return the prompt with a text in place of each refused part."""
        field = _field(prompt)
        if not (self._kinds or self._reported) or not prompt[field]:
            return dict(prompt)
        *earlier, last = prompt[field]
        shown = [_without(m, self._is_refused, _text_type(field, m)) for m in earlier]
        last = _without(last, self._is_reported, _text_type(field, last))
        return {**prompt, field: [*shown, last]}

    def learned(self, prompt: Body, refusal: ModelRefused) -> bool:
        """Learn from a refusal. Return whether to send again. False: raise the refusal."""
        if not refusal.part:
            return False
        before = self.written(prompt)
        suspects = [self._unreported(x, refusal.part) for x in reversed(prompt[_field(prompt)])]
        is_asked_about = any(suspects[:1])
        if refusal.part == "file":
            self._reported |= next(filter(None, suspects), set())
        else:
            self._kinds.add(refusal.part)
            self._reported |= set().union(*suspects[:1])
        return not is_asked_about and self.written(prompt) != before

    def _unreported(self, message: Body, refused: str) -> set[str]:
        return {_digest(x) for x in _parts(message) if _is(x, refused)} - self._reported

    def _is_refused(self, part: Body) -> bool:
        return any(_is(part, kind) for kind in self._kinds) or self._is_reported(part)

    def _is_reported(self, part: Body) -> bool:
        return bool(_kind(part)) and _digest(part) in self._reported


def _field(prompt: Body) -> str:
    return "input" if "input" in prompt else "messages"


def _kind(part: Body) -> str:
    if is_picture(part):
        return "image"
    named = part.get("type")
    if named in _AUDIO:
        return "audio"
    return "" if named in _SUPPORTED_KINDS else "part"


def _is(part: Body, refused: str) -> bool:
    """Return whether a part is of the kind that `ModelRefused.part` names."""
    kind = _kind(part)
    match refused:
        case "media":
            return kind in ("image", "audio")
        case "file":
            return kind in ("image", "audio") or (kind == "part" and any(binaries(part)))
        case _:
            return kind == refused


def _digest(part: Body) -> str:
    shown = {key: value for key, value in part.items() if key not in _NOT_CONTENT}
    return sha256(json.dumps(shown, sort_keys=True, default=str).encode()).hexdigest()


def _parts(message: Body) -> Iterator[Body]:
    """Yield a message's parts. This includes parts in tool results, and Ollama's images."""
    for field in _HOLDERS:
        for part in message[field] if isinstance(message.get(field), list) else ():
            if isinstance(part, Mapping):
                yield part
                yield from _parts(part)
    yield from map(_picture, message.get("images") or ())


def _picture(data: str) -> Body:
    return {"type": "image", "data": data}


def _without(message: Body, is_left_out: Callable[[Body], bool], text_type: str) -> Body:
    changed: dict[str, Any] = {
        field: [_shown(part, is_left_out, text_type) for part in message[field]]
        for field in _HOLDERS
        if isinstance(message.get(field), list)
    }
    pictures = message.get("images") or ()
    kept = [data for data in pictures if not is_left_out(_picture(data))]
    if len(kept) < len(pictures):
        words = [message.get("content"), *[NO_IMAGE] * (len(pictures) - len(kept))]
        changed |= {"content": "\n".join(filter(None, words)), "images": kept}
    return {**message, **changed} if changed else message


def _shown(part: object, is_left_out: Callable[[Body], bool], text_type: str) -> object:
    if not isinstance(part, Mapping):
        return part
    if not is_left_out(part):
        return _without(part, is_left_out, text_type)
    word = {"image": NO_IMAGE, "audio": "[audio]"}.get(_kind(part)) or visible_json(part)
    mark = {key: part[key] for key in _NOT_CONTENT if key in part}
    return {"type": text_type, "text": word, **mark}


def _text_type(field: str, message: Body) -> str:
    """Return the type of a text part in this message. The Responses API has other names."""
    if field != "input":
        return "text"
    return "output_text" if message.get("role") == "assistant" else "input_text"
