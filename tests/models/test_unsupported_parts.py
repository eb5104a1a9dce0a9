"""What a server was found to take no parts of is written otherwise (FR-6, issue 4)."""

from typing import Any

import pytest

from compact.errors import ModelRefused
from compact.models.providers.dialect import UnsupportedParts

Dict = dict[str, Any]
AUDIO = {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A"}}
REPORT = {"type": "document", "source": {"type": "base64", "data": "JVBE"}}


def said(*content: Dict, role: str = "user", **more: Any) -> Dict:
    return {"role": role, "content": list(content), **more}


def text(words: str, kind: str = "text") -> Dict:
    return {"type": kind, "text": words}


def refused(part: str) -> ModelRefused:
    return ModelRefused("no", status=400, part=part)


def shown(unseen: UnsupportedParts, *messages: Dict, field: str = "messages") -> list[list[Dict]]:
    written = unseen.written({"model": "m", field: list(messages)})
    return [message["content"] for message in written[field]]


NEXT = said(text("And now?"))


def test_only_what_the_server_said_is_read() -> None:
    """A sentence of ours, or of another refusal, teaches nothing (FR-6)."""
    unseen = UnsupportedParts()
    prompt = {"messages": [said(PICTURE), NEXT]}
    refusal = ModelRefused("m takes no images: image input is not supported", status=400)
    assert not unseen.learned(prompt, refusal)
    assert unseen.written(prompt) == prompt


def test_a_word_is_called_as_the_api_calls_texts() -> None:
    """Responses refuses a `text`, whatever the part was called that it stands for (C-3)."""
    unseen = UnsupportedParts()
    messages = [said(AUDIO), said(AUDIO, role="assistant"), said(text("go", "input_text"))]
    assert unseen.learned({"input": messages}, refused("audio"))
    assert shown(unseen, *messages, field="input")[:2] == [
        [text("[audio]", "input_text")],
        [text("[audio]", "output_text")],
    ]
    assert shown(unseen, *messages)[:2] == [[text("[audio]")]] * 2


def test_a_mark_for_the_cache_stays() -> None:
    """Else the prompt before it is paid for again at every turn (FR-14)."""
    unseen = UnsupportedParts()
    mark = {"cache_control": {"type": "ephemeral"}}
    assert unseen.learned({"messages": [said(PICTURE | mark), NEXT]}, refused("image"))
    assert shown(unseen, said(PICTURE | mark), NEXT)[0] == [text("[image]") | mark]


@pytest.mark.parametrize("broken", [PICTURE, AUDIO, REPORT], ids=["image", "audio", "document"])
def test_of_a_broken_file_nothing_follows_for_others(broken: Dict) -> None:
    """The refusal stands once; then this file alone is left out, also of later prompts (FR-6)."""
    unseen = UnsupportedParts()
    good = [said(PICTURE | {"id": 1}), said(AUDIO | {"id": 1}), said(REPORT | {"id": 1})]
    asked = said(text("What is it?"), broken)
    assert not unseen.learned({"messages": [*good, asked]}, refused("file"))
    *kept, last, _ = shown(unseen, *good, asked, NEXT)
    assert kept == [message["content"] for message in good]
    assert last[0] == text("What is it?")
    assert last[1]["type"] == "text"
    assert shown(unseen, *good, asked)[-1] == last, "it was said of this one"


def test_a_broken_file_of_earlier_turns_is_looked_for() -> None:
    """Nobody says which it is: the newest first, until the server is content (FR-6)."""
    unseen = UnsupportedParts()
    files = [said(PICTURE | {"id": i}) for i in range(3)]
    prompt = {"messages": [*files, NEXT]}
    assert unseen.learned(prompt, refused("file"))
    assert unseen.learned(prompt, refused("file"))
    assert shown(unseen, *files, NEXT)[:3] == [files[0]["content"], *[[text("[image]")]] * 2]
    assert unseen.learned(prompt, refused("file"))
    assert not unseen.learned(prompt, refused("file")), "there is none left"


def test_a_model_of_texts_is_shown_neither_images_nor_audio() -> None:
    """As servers say it of a model as a whole (FR-6)."""
    unseen = UnsupportedParts()
    assert unseen.learned({"messages": [said(PICTURE), said(AUDIO), NEXT]}, refused("media"))
    assert shown(unseen, said(PICTURE, AUDIO), NEXT)[0] == [text("[image]"), text("[audio]")]
    assert shown(unseen, said(REPORT), NEXT)[0] == [REPORT]
