"""What one server takes no parts of, found out by its own refusals: images, audio, kinds of its
format that it does not know, and single files that it cannot read.

A part that is refused is in every later prompt too. In the last message it is what the answer is
asked about, so that the refusal stands, once; from then on, and in all earlier messages, a word is
sent in its place, and the session goes on. Of files, only those are left out that may be the broken
one: the newest first, as no server says which it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from compact.errors import ModelRefused
from compact.messages.formats.wire import NO_IMAGE
from compact.messages.images import binaries, is_picture, visible_json

_AUDIO = frozenset(("audio", "audio_url", "input_audio"))
_TEXTS = ("text", "input_text", "output_text", "refusal", "thinking", "redacted_thinking")
_KNOWN = frozenset((*_TEXTS, "tool_use", "tool_result"))
_HOLDERS = ("content", "output")
"""The fields that hold parts; a part that is a tool's result holds others."""
_MARKS = ("cache_control",)
"""What stands in a part and is not said by it."""

Body = Mapping[str, Any]


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
