"""Documents, files, audio and images in base64: counted by an estimate, never as text (K-3)."""

import base64
import random
from typing import Any

import pytest

from compact import wiring
from compact.messages.formats.known import format_named
from compact.messages.images import Binary, binaries, visible_json
from compact.messages.messages import Image, ToolResult
from compact.messages.tokens import audio_tokens, file_tokens, image_tokens
from tests import strategies

BYTES = 300_000
DATA = base64.b64encode(random.Random(7).randbytes(BYTES)).decode()
PDF = f"data:application/pdf;base64,{DATA}"
PAGES = file_tokens(BYTES)
SOURCE = {"type": "base64", "media_type": "application/pdf", "data": DATA}
DOCUMENT = {"type": "document", "source": SOURCE, "title": "The plan"}
UNKNOWN = image_tokens(Image(), "tiles")

COSTS: dict[str, tuple[str, dict[str, Any], int]] = {
    "a chat file": (
        "chat_completions",
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
        PAGES,
    ),
    "a file by its id": ("chat_completions", {"type": "file", "file": {"file_id": "f"}}, 3_000),
    "audio": (
        "chat_completions",
        {"type": "input_audio", "input_audio": {"data": DATA, "format": "mp3"}},
        audio_tokens(BYTES),
    ),
    "an image given as text": (
        "chat_completions",
        {"type": "image_url", "image_url": f"data:image/png;base64,{DATA}"},
        UNKNOWN,
    ),
    "an image of another shape": (
        "chat_completions",
        {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"},
        UNKNOWN,
    ),
    "a document": ("anthropic", DOCUMENT, PAGES),
    "a document by its URL": (
        "anthropic",
        {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}},
        3_000,
    ),
    "a document in a result": (
        "anthropic",
        {"type": "tool_result", "tool_use_id": "a", "content": [DOCUMENT]},
        PAGES,
    ),
    "a sealed block": (
        "anthropic",
        {"type": "web_search_tool_result", "content": [{"encrypted_content": DATA}]},
        0,
    ),
}


@pytest.mark.parametrize("name", COSTS)
def test_base64_costs_an_estimate_and_not_its_text(name):
    """K-3: 300 KB of base64 are some 300,000 tokens as text."""
    wire, block, least = COSTS[name]
    counter = wiring.token_counter(wire, tokenizer="o200k")
    message = format_named(wire).parse({"role": "user", "content": [block]}, 0)
    assert least <= counter.message(message) <= least + 100


@pytest.mark.parametrize("name", COSTS)
def test_what_holds_a_file_comes_back_as_it_was(name):
    """C-3: hidden from the count, never from the provider."""
    wire, block, _ = COSTS[name]
    raw = {"role": "user", "content": [block]}
    chosen = format_named(wire)
    assert chosen.render([chosen.parse(raw, 0)]) == [raw]


def test_a_document_of_text_costs_its_text():
    """K-3: the `data` of a text source is words, and those are counted."""
    words = "the roof holds " * 500
    source = {"type": "text", "media_type": "text/plain", "data": words}
    raw = {"role": "user", "content": [{"type": "document", "source": source}]}
    counter = wiring.token_counter("anthropic", tokenizer="o200k")
    exact = counter.text(words)
    assert exact <= counter.message(format_named("anthropic").parse(raw, 0)) <= exact + 100


def test_pictures_inside_a_document_are_counted():
    """K-3: however deep they are."""
    picture = {"type": "image", "source": {"type": "base64", "data": DATA}}
    inner = [{"type": "text", "text": "See:"}, picture, {"type": "image", "source": {"url": "u"}}]
    raw = {"type": "document", "source": {"type": "content", "content": inner}}
    assert list(binaries(raw)) == [Binary("image", BYTES), Binary("image")]
    assert DATA not in visible_json(raw)
    assert "See:" in visible_json(raw)


def test_words_in_a_field_named_data_stay_visible():
    """K-3: only what is base64 is hidden."""
    assert "hello" in visible_json({"type": "x", "input": {"data": "hello"}})
    assert list(binaries({"type": "x", "input": {"data": "hello " * 100}})) == []
    sound = {"data": DATA, "mimeType": "audio/wav"}
    assert list(binaries({"type": "x", "sound": sound})) == [Binary("audio", BYTES)]


def test_a_result_without_its_file_costs_no_file():
    """K-3: the file is counted with the result that carries it, and goes with it."""
    raw = {"type": "tool_result", "tool_use_id": "a", "content": [DOCUMENT]}
    message = format_named("anthropic").parse({"role": "user", "content": [raw]}, 0)
    (result,) = message.tool_results
    counter = wiring.token_counter("anthropic", tokenizer="o200k")
    stub = ToolResult("a", "[masked]", raw=result.raw)
    assert DATA not in result.text
    assert counter.part(result) >= PAGES
    assert counter.part(stub) < 20


def test_an_image_given_as_text_is_read_and_written():
    """K-3, C-3: its size is read, and the other format gets an image."""
    url = "data:image/png;base64," + strategies.PNG
    part = {"type": "image_url", "image_url": url}
    message = format_named("chat_completions").parse({"role": "user", "content": [part]}, 0)
    (image,) = message.parts
    assert isinstance(image, Image)
    assert image.width
    (written,) = format_named("anthropic").render([message])
    assert written["content"][0]["source"]["data"] == strategies.PNG


def test_a_file_is_no_image_in_another_format():
    """C-3: where a format has no words for it, a placeholder stands."""
    raw = {"type": "tool_result", "tool_use_id": "a", "content": [DOCUMENT]}
    message = format_named("anthropic").parse({"role": "user", "content": [raw]}, 0)
    foreign = message.with_parts(message.tool_results[0].images)
    (written,) = format_named("chat_completions").render([foreign])
    assert DATA not in str(written)
