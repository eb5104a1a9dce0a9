"""What one server does not take, learned from its refusals.

Servers that speak the same API differ in the fields, the order of messages and the kinds of content
that they accept, and few say so beforehand. A refusal teaches: from then on, `Dialect` names a
field differently or leaves it out, `StrictTurns` joins neighbours of one role, and
`UnsupportedParts` sends a word in place of a part.
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
"""How refusals say that it is the field, and not its value, that is wrong."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A field of a request beside the prompt."""

    names: tuple[str, ...]
    """What it may be called, in the order they are tried."""
    needed: bool = False
    """Whether an answer that was asked for without it would be no answer."""
    words: str = ""
    """A pattern by which refusals name it beside its names."""


class Dialect:
    """The wishes of an API, as far as one server knows them."""

    def __init__(self, wishes: Mapping[str, Wish]) -> None:
        self._wishes = wishes
        self._tried = dict.fromkeys(wishes, 0)

    def knows(self, wish: str) -> bool:
        """Whether a wish is still sent."""
        return self._tried[wish] < len(self._wishes[wish].names)

    def written(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """What is wanted, as fields of a request."""
        return {self._name(wish): wanted[wish] for wish in wanted if self.knows(wish)}

    def learned(self, wanted: Mapping[str, Any], refusal: ModelRefused) -> bool:
        """Whether the refusal is of a field that is written otherwise from now on."""
        said = str(refusal)
        if refusal.status not in (400, 422) or not _UNKNOWN.search(said):
            return False
        for wish in wanted:
            if self.knows(wish) and re.search(self._words(wish), said):
                return self._moved_on(wish)
        return False

    def _name(self, wish: str) -> str:
        return self._wishes[wish].names[self._tried[wish]]

    def _words(self, wish: str) -> str:
        return "|".join(filter(None, (rf"\b{self._name(wish)}\b", self._wishes[wish].words)))

    def _moved_on(self, wish: str) -> bool:
        self._tried[wish] += 1
        if self.knows(wish) or not self._wishes[wish].needed:
            return True
        self._tried[wish] = 0
        return False


# --- the order of messages ---

TURNS = "turns"
"""What a refusal is of, as `ModelRefused.part` names it."""
_MOST = 2


class StrictTurns:
    """How strictly a server wants turns: 0 not at all, 1 user and assistant by turns, 2 and nothing
    but words.
    """

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._strictness = 0

    def written(self, prompt: Body) -> dict[str, Any]:
        """The prompt in the order that the server takes."""
        field = "input" if "input" in prompt else "messages"
        if not self._strictness or not prompt.get(field):
            return dict(prompt)
        wire = format_named("responses" if field == "input" else self._wire)
        messages: list[Message] = []
        for i, record in enumerate(prompt[field]):
            messages.append(wire.parse(record, i, reversed(messages)))
        if self._strictness > 1:
            messages = in_words(messages)
        said = [message for _, message in in_turns([(None, message) for message in messages])]
        rendered = map(shortly_named, wire.render(said))
        return {**prompt, field: list(map(spelled_out, rendered) if field == "input" else rendered)}

    def learned(self, prompt: Body, refusal: ModelRefused) -> bool:
        """Whether the prompt is written otherwise from now on."""
        before = self.written(prompt)
        while refusal.part == TURNS and self._strictness < _MOST:
            self._strictness += 1
            if self.written(prompt) != before:
                return True
        return False


# --- parts of messages ---

_AUDIO = frozenset(("audio", "audio_url", "input_audio"))
_TEXTS = ("text", "input_text", "output_text", "refusal", "thinking", "redacted_thinking")
_KNOWN = frozenset((*_TEXTS, "tool_use", "tool_result"))
_HOLDERS = ("content", "output")
"""The fields that hold parts; a part that is a tool's result holds others."""
_MARKS = ("cache_control",)
"""What stands in a part and is not said by it."""


class UnsupportedParts:
    """The kinds of parts that a server refused, and the single ones that are shown no more."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()
        self._said: set[str] = set()

    def written(self, prompt: Body) -> dict[str, Any]:
        """The prompt with words in the place of what is refused."""
        field = _field(prompt)
        if not (self._kinds or self._said) or not prompt[field]:
            return dict(prompt)
        *earlier, last = prompt[field]
        shown = [_without(m, self._is_refused, _text_type(field, m)) for m in earlier]
        last = _without(last, self._was_said_of, _text_type(field, last))
        return {**prompt, field: [*shown, last]}

    def learned(self, prompt: Body, refusal: ModelRefused) -> bool:
        """Whether the prompt is written otherwise from now on, and nobody has to be told."""
        if not refusal.part:
            return False
        before = self.written(prompt)
        suspects = [self._unsaid(x, refusal.part) for x in reversed(prompt[_field(prompt)])]
        is_asked_about = any(suspects[:1])
        if refusal.part == "file":
            self._said |= next(filter(None, suspects), set())
        else:
            self._kinds.add(refusal.part)
            self._said |= set().union(*suspects[:1])
        return not is_asked_about and self.written(prompt) != before

    def _unsaid(self, message: Body, refused: str) -> set[str]:
        return {_digest(x) for x in _parts(message) if _is(x, refused)} - self._said

    def _is_refused(self, part: Body) -> bool:
        return any(_is(part, kind) for kind in self._kinds) or self._was_said_of(part)

    def _was_said_of(self, part: Body) -> bool:
        return bool(_kind(part)) and _digest(part) in self._said


def _field(prompt: Body) -> str:
    return "input" if "input" in prompt else "messages"


def _kind(part: Body) -> str:
    if is_picture(part):
        return "image"
    named = part.get("type")
    if named in _AUDIO:
        return "audio"
    return "" if named in _KNOWN else "part"


def _is(part: Body, refused: str) -> bool:
    """Whether the part is of what a refusal names, as `ModelRefused.part`."""
    kind = _kind(part)
    match refused:
        case "media":
            return kind in ("image", "audio")
        case "file":
            return kind in ("image", "audio") or (kind == "part" and any(binaries(part)))
        case _:
            return kind == refused


def _digest(part: Body) -> str:
    shown = {key: value for key, value in part.items() if key not in _MARKS}
    return sha256(json.dumps(shown, sort_keys=True, default=str).encode()).hexdigest()


def _parts(message: Body) -> Iterator[Body]:
    """The parts of a message, those of results too; images as Ollama has them among them."""
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
    mark = {key: part[key] for key in _MARKS if key in part}
    return {"type": text_type, "text": word, **mark}


def _text_type(field: str, message: Body) -> str:
    """What a text among the message's parts is called: Responses has names of its own."""
    if field != "input":
        return "text"
    return "output_text" if message.get("role") == "assistant" else "input_text"
