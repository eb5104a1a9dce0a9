"""Counting: known totals of published examples, framing, images, tools (K-3, FR-3)."""

import pytest
from hypothesis import given, settings

from compact import wiring
from compact.messages.formats.known import format_named
from compact.messages.messages import Image, Message, Text, Thinking, ToolCall, ToolResult
from compact.messages.tokens import image_tokens
from tests import checker, strategies
from tests.sizes import size

O200K = wiring.token_counter("chat_completions", tokenizer="o200k")
CL100K = wiring.token_counter("chat_completions", tokenizer="cl100k")

KNOWN = [
    ("tiktoken is great!", 6, 6),
    ("antidisestablishmentarianism", 6, 6),
    ("2 + 2 = 4", 7, 7),
    ("お誕生日おめでとう", 9, 8),
    ("hello world", 2, 2),
    ("", 0, 0),
]


@pytest.mark.parametrize(("text", "cl100k", "o200k"), KNOWN)
def test_the_cookbooks_strings(text, cl100k, o200k):
    """K-3: the counts that OpenAI's cookbook prints for its examples."""
    assert (CL100K.text(text), O200K.text(text)) == (cl100k, o200k)


def example(role: str, text: str) -> dict:
    return {"role": role, "content": text}


SYSTEM = """
You are a helpful, pattern-following assistant that translates corporate jargon into plain English.
New synergies will help drive top-line growth.
Things working well together will increase revenue.
Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.
Let's talk later when we're less busy about how to do better.
""".strip().splitlines()
LATE = "This late pivot means we don't have time to boil the ocean for the client deliverable."
COOKBOOK = [*(example("system", text) for text in SYSTEM), example("user", LATE)]
NAMES = ["example_user", "example_assistant"] * 2
"""Names that the cookbook's four middle messages carry; each costs its text and one token."""


def test_names_are_counted():
    """K-3: with the names in place the total is the cookbook's."""
    middle = ({**m, "name": n} for m, n in zip(COOKBOOK[1:5], NAMES, strict=True))
    named = [COOKBOOK[0], *middle, COOKBOOK[5]]
    messages = [format_named("chat_completions").parse(m, i) for i, m in enumerate(named)]
    assert O200K.messages(messages) == 124


@settings(max_examples=size(20, 40), deadline=None)
@given(strategies.ordinary())
def test_never_fewer_than_an_independent_count(made):
    """FR-3: ours is never below text, tool names, arguments and 4 a message."""
    counter = wiring.token_counter(made.wire, tokenizer="o200k")
    for i, raw in enumerate(made.messages):
        ours = counter.message(format_named(made.wire).parse(raw, i))
        assert ours >= checker.prompt_tokens([raw])


OPENAI = [
    (1024, 1024, "high", 765),
    (2048, 4096, "high", 1105),
    (4096, 8192, "low", 85),
    (512, 512, None, 255),
    (None, None, None, 1105),
]
ANTHROPIC = [
    (200, 200, 54),
    (1000, 1000, 1334),
    (1092, 1092, 1590),
    (8000, 8000, 1600),
    (None, None, 1600),
]


@pytest.mark.parametrize(("width", "height", "detail", "tokens"), OPENAI)
def test_openais_images(width, height, detail, tokens):
    """K-3: the examples of "Images and vision"."""
    assert image_tokens(Image(width, height, detail), "tiles") == tokens


@pytest.mark.parametrize(("width", "height", "tokens"), ANTHROPIC)
def test_anthropics_images(width, height, tokens):
    """K-3: the examples of "Vision", and its largest."""
    assert image_tokens(Image(width, height), "area") == tokens


def test_the_size_of_an_image_is_read_from_its_data():
    """K-3: an image in base64 is counted by its own size, never as text."""
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + strategies.PNG}}
    raw = {"role": "user", "content": [part]}
    message = format_named("chat_completions").parse(raw, 0)
    assert O200K.message(message) == 4 + 85 + 2 * 170


def test_parts_and_framing():
    """K-3: what stands around the words is counted, a signature is not."""
    call = Message(role="assistant", content=(ToolCall("a", "read", "{}"),))
    assert O200K.message(call) > O200K.text("read") + O200K.text("{}") + 4
    thought = Message(role="assistant", content=(Thinking("hm hm", "x" * 1_000), Text("so")))
    assert O200K.message(thought) < 20
    one = Message(role="tool", content=(ToolResult("a", "fine"),))
    two = Message(role="tool", content=(ToolResult("a", "fine"), ToolResult("b", "fine")))
    assert O200K.message(two) == 2 * O200K.message(one)


def test_tool_schemas_are_counted_in_both_shapes():
    """K-3: the same tool costs the same in either provider's shape, and more with more in it."""
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "A path."}},
    }
    openai = {
        "type": "function",
        "function": {"name": "read", "description": "Reads.", "parameters": schema},
    }
    anthropic = {"name": "read", "description": "Reads.", "input_schema": schema}
    assert O200K.tools([openai]) == O200K.tools([anthropic]) > 20
    assert O200K.tools([]) == 0
    assert O200K.tools([openai, openai]) > O200K.tools([openai])


def test_counts_are_remembered_by_content():
    """NFR-1: a text is counted once, whoever says it."""
    asked: list[str] = []

    class Counting:
        name, exact = "counting", True

        def count(self, text: str) -> int:
            asked.append(text)
            return len(text)

    counter = wiring.token_counter("chat_completions", tokenizer=Counting())
    assert [counter.text("abc"), counter.text("ab" + "c"), counter.text("")] == [3, 3, 0]
    assert asked == ["abc"]


@pytest.mark.parametrize("where", ["property", "schema"])
@pytest.mark.parametrize(
    "field", ["additionalProperties", "allOf", "default", "examples", "oneOf", "prefixItems"]
)
def test_no_part_of_a_schema_is_sent_uncounted(field: str, where: str) -> None:
    """(FR-2) What stands in the depths of a schema is in the prompt like the rest of it."""
    long = "the height of the northern light above the sea, in feet; " * 40
    inner = {"type": "string", "description": long}
    value = {"allOf": [inner], "oneOf": [inner], "prefixItems": [inner], "examples": [long]}
    told = {field: value.get(field, long if field == "default" else inner)}
    place = {"type": "object", **told}
    schema = place if where == "schema" else {"type": "object", "properties": {"light": place}}
    tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
    counter = O200K
    assert counter.tools([tool]) >= counter.text(long)
    plain = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    assert counter.tools([plain]) < 40
