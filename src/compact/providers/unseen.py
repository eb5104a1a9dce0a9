"""What one server takes no parts of, found out by its own refusals: images, audio, kinds of its
format that it does not know.

A part that is refused is in every later prompt too. In the last message it is what the answer is
asked about, so that the refusal stands, once; from then on, and in all earlier messages, a word is
sent in its place, and the session goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from compact.core.formats.wire import NO_IMAGE
from compact.core.images import is_picture, visible_json
from compact.errors import ModelRefused
from compact.providers.failures import refused_part

_AUDIO = frozenset(("audio", "audio_url", "input_audio"))
_TEXTS = ("text", "input_text", "output_text", "refusal", "thinking", "redacted_thinking")
_KNOWN = frozenset((*_TEXTS, "tool_use", "tool_result"))
_HOLDERS = ("content", "output")
"""The fields that hold parts; a part that is a tool's result holds others."""

Body = Mapping[str, Any]


class Unseen:
    """The kinds of parts that a server refused, and of which single ones that was said."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()
        self._said: set[str] = set()

    def written(self, prompt: Body) -> dict[str, Any]:
        """The prompt with words in the place of what is refused."""
        field = _field(prompt)
        if not self._kinds or not prompt[field]:
            return dict(prompt)
        *earlier, last = prompt[field]
        shown = [_without(message, self._is_refused) for message in earlier]
        return {**prompt, field: [*shown, _without(last, self._was_said_of)]}

    def learned(self, prompt: Body, refusal: ModelRefused) -> bool:
        """Whether the prompt is written otherwise from now on, and nobody has to be told."""
        kind = refused_part(str(refusal))
        if kind is None:
            return False
        before = self.written(prompt)
        self._kinds.add(kind)
        last = prompt[_field(prompt)][-1:]
        asked = {_digest(x) for m in last for x in _parts(m) if _kind(x) == kind}
        is_new = not asked <= self._said
        self._said |= asked
        return not is_new and self.written(prompt) != before

    def _is_refused(self, part: Body) -> bool:
        return _kind(part) in self._kinds

    def _was_said_of(self, part: Body) -> bool:
        return self._is_refused(part) and _digest(part) in self._said


def _field(prompt: Body) -> str:
    return "input" if "input" in prompt else "messages"


def _kind(part: Body) -> str:
    if is_picture(part):
        return "image"
    named = part.get("type")
    if named in _AUDIO:
        return "audio"
    return "" if named in _KNOWN else "part"


def _digest(part: Body) -> str:
    shown = {key: value for key, value in part.items() if key != "cache_control"}
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


def _without(message: Body, is_left_out: Callable[[Body], bool]) -> Body:
    changed: dict[str, Any] = {
        field: [_shown(part, message, is_left_out) for part in message[field]]
        for field in _HOLDERS
        if isinstance(message.get(field), list)
    }
    pictures = message.get("images") or ()
    kept = [data for data in pictures if not is_left_out(_picture(data))]
    if len(kept) < len(pictures):
        words = [message.get("content"), *[NO_IMAGE] * (len(pictures) - len(kept))]
        changed |= {"content": "\n".join(filter(None, words)), "images": kept}
    return {**message, **changed} if changed else message


def _shown(part: object, message: Body, is_left_out: Callable[[Body], bool]) -> object:
    if not isinstance(part, Mapping):
        return part
    if not is_left_out(part):
        return _without(part, is_left_out)
    word = {"image": NO_IMAGE, "audio": "[audio]"}.get(_kind(part)) or visible_json(part)
    return {"type": _text_type(part, message), "text": word}


def _text_type(part: Body, message: Body) -> str:
    if part.get("type") not in ("input_image", "input_file"):
        return "text"
    return "output_text" if message.get("role") == "assistant" else "input_text"
