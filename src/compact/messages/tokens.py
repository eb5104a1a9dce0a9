"""Counts the tokens of messages: text by a tokenizer, everything around it by published formulas.

A `TokenEstimator` (`models.providers.tokenizers`) counts text. The tokens that a provider adds are
data here:

- Framing of chat messages: 3 tokens a message and 1 for its role, 3 to prime the reply (OpenAI
  Cookbook, "How to count tokens with tiktoken", `num_tokens_from_messages`). The framing of tool
  calls is not published: the numbers of `Framing` were fitted to recorded usage (docs/evidence.md).
  Results of parallel calls are sent as JSON with escapes, so non-ASCII text in them costs more than
  counted.
- Tool schemas: the same page, `num_tokens_for_tools` (7 a function, 3 a property and its key, 3 an
  enum item, 12 at the end, for o200k models).
- Images: OpenAI "Images and vision", high detail: fit into 2048², shortest side 768, 170 a 512²
  tile plus 85; low detail 85. Anthropic "Vision": width × height / 750, at most 1,600.
- Files and audio: `file_tokens` and `audio_tokens` estimate by bytes, because pages and seconds are
  unknown without decoding.

A reasoning block costs its text, never its signature. If a provider shows only a short version of
the reasoning, the encrypted part is estimated (`Framing.sealed`). Other encrypted and binary fields
cost nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Literal

from compact.messages.arguments import arguments_of
from compact.messages.images import binaries, is_picture
from compact.messages.messages import (
    Image,
    Message,
    Opaque,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from compact.messages.protocols import CutsLines, TokenEstimator

CACHE_ENTRIES = 200_000
"""How many counts are remembered. More would cost memory, fewer would cost time."""

ImageFormula = Literal["tiles", "area"]
"""The formula of image tokens: `tiles` is OpenAI's, `area` Anthropic's (see the module)."""
SchemaForm = Literal["cookbook", "json"]
_INNER = frozenset(
    {
        *("additionalProperties", "allOf", "anyOf", "const", "default", "else", "examples", "if"),
        *("items", "not", "oneOf", "patternProperties", "prefixItems", "properties", "then"),
    }
)
"""Fields of a schema that hold other schemas or long values."""
_ANTHROPIC_LARGEST = 1600
"""Tokens of the largest image for Anthropic. It is also used if the image's size is unknown."""


@dataclass(frozen=True, slots=True)
class Framing:
    """Tokens that a provider adds around text, and the source of these numbers."""

    source: str
    per_message: int = 4
    """For each message: the cookbook's 3, and 1 for the role. This was exact on all 250 recorded
    pairs of messages."""
    per_name: int = 1
    """For a speaker's name: the cookbook's 1, in addition to the tokens of the name."""
    priming: int = 3
    """Tokens that prime the reply, once per prompt."""
    per_call: int = 6
    """For each call or result, in addition to its name and text. On 534 recorded steps it was 1 to
    5 too many."""
    names: int = 2
    """How often a call's name is sent: once alone, and once as `functions.NAME`."""
    per_parallel: int = 33
    """For a message with several calls: the largest number that was measured."""
    thinking: float = 1.0
    """Billed tokens of reasoning for each token of its shown text."""
    sealed: float = 0.0
    """Tokens of reasoning per character of its encrypted text. The larger of this estimate and the
    count of the shown text is used."""
    images: ImageFormula = "tiles"
    schemas: SchemaForm = "cookbook"
    """How tool schemas are counted: by the formula of the OpenAI Cookbook, or, for open models, as
    JSON text."""
    per_schemas: int = 12
    """Tokens added once for all tool schemas of a prompt."""


OPENAI_FRAMING = Framing("OpenAI Cookbook, and recorded usage of gpt-4.1 (docs/evidence.md)")
ANTHROPIC_FRAMING = Framing("as OpenAI; images: Anthropic, Vision", images="area")
"""For Anthropic messages that are counted by an OpenAI tokenizer."""
CLAUDE_FRAMING = Framing(
    "recorded usage of Claude Code sessions (docs/evidence.md); images: Anthropic, Vision",
    per_call=48,
    names=1,
    thinking=1.5,
    images="area",
)


RESPONSES_FRAMING = Framing(
    "as OpenAI, so far unmeasured; sealed reasoning: 4 characters a token, in base64",
    per_parallel=0,
    sealed=3 / 16,
)
"""Each item of the Responses API counts as a message of chat completions. That is too much, because
the server drops encrypted reasoning of earlier turns."""
OLLAMA_FRAMING = Framing("an estimate: templates like ChatML take 4 to 5 a message", per_message=5)
"""The 5 tokens are `<|im_start|>`, the role, a line break, `<|im_end|>` and another line break.
Calls and results have tags and JSON around them, for which OpenAI's numbers are used."""


class TokenCounter:
    """Counts messages, texts and tool schemas. Each text is counted only once.

    The counter remembers hashes, not texts. When it has `CACHE_ENTRIES` counts, it forgets all.
    """

    def __init__(self, estimator: TokenEstimator, framing: Framing = OPENAI_FRAMING) -> None:
        self.estimator = estimator
        self.framing = framing
        self._count = estimator.count
        self.lines = estimator.lines if isinstance(estimator, CutsLines) else None
        """Splits a text into pieces whose tokens add up. It is None if the estimator cannot."""
        self._known: dict[tuple[int, int], int] = {}

    @property
    def exact(self) -> bool:
        """Whether the model's own tokenizer counts the texts."""
        return self.estimator.exact

    @property
    def is_pure(self) -> bool:
        """Whether several threads may count at once. A caller's own estimator must declare it."""
        return getattr(self.estimator, "is_pure", False) is True

    def text(self, text: str) -> int:
        """Count the tokens of a text."""
        if not text:
            return 0
        key = (hash(text), len(text))
        tokens = self._known.get(key)
        if tokens is None:
            if len(self._known) >= CACHE_ENTRIES:
                self._known.clear()
            tokens = self._known[key] = self._count(text)
        return tokens

    def composed(self, text: str) -> int:
        """Count the tokens of a text made of lines. If the estimator can split texts between lines,
        each distinct line is counted only once.
        """
        key = (hash(text), len(text))
        if self.lines is not None and key not in self._known:
            self._known[key] = sum(map(self.text, self.lines(text)))
        return self.text(text)

    def message(self, message: Message) -> int:
        """Count the tokens of a message as it is sent, framing included."""
        total = self.framing.per_message
        if message.name:
            total += self.framing.per_name + self.text(message.name)
        if isinstance(message.content, str):
            return total + self.text(message.content)
        calls = 0
        for part in message.content:
            total += self.part(part)
            calls += type(part) is ToolCall
        total += self.framing.per_message * (self._sent_as(message) - 1) + self._seams(message)
        return total if calls < 2 else total + self.framing.per_parallel

    def _seams(self, message: Message) -> int:
        """Count the line breaks that servers of open models put between the texts of a message."""
        if self.framing.schemas != "json" or isinstance(message.content, str):
            return 0
        return max(0, sum(isinstance(p, Text | Refusal | Opaque) for p in message.content) - 1)

    def _sent_as(self, message: Message) -> int:
        """Return how many messages are sent for this one. Each tool result is a message of its own.
        Anthropic's result blocks are not, unless the template of an open model writes them.
        """
        results = len(message.tool_results)
        if message.role == "tool":
            return max(results, 1)
        if not results or self.framing.schemas != "json":
            return 1
        return results + (results < len(message.content))

    def part(self, part: Part) -> int:
        """Count the tokens of one part."""
        match part:
            case ToolCall():
                named = self.framing.names * self.text(part.name)
                return self.framing.per_call + named + self._arguments(part)
            case ToolResult():
                pictures = sum(image_tokens(i, self.framing.images) for i in part.images)
                return self.framing.per_call + self.text(part.text) + pictures
            case Image():
                return image_tokens(part, self.framing.images)
            case Thinking():
                shown = self.framing.thinking * self.text(part.text)
                in_blocks = part.raw is not None and "reasoning_details" in part.raw
                share = RESPONSES_FRAMING.sealed if in_blocks else self.framing.sealed
                return math.ceil(max(shown, share * len(part.signature or "")))
            case Opaque():
                sealed = (part.raw or {}).get("encrypted_content")
                size = len(sealed) if isinstance(sealed, str) else 0
                more = math.ceil(self.framing.sealed * size)
                return self.text(part.text) + more + binary_tokens(part.raw, self.framing.images)
            case _:
                return self.text(part.text)

    def _arguments(self, call: ToolCall) -> int:
        """Count the arguments as they are sent. An open model's template may write them again with
        spaces. If that is more tokens, the larger count is returned.
        """
        tokens = self.text(call.sent)
        if self.framing.schemas != "json":
            return tokens
        again = json.dumps(arguments_of(call.arguments), ensure_ascii=False)
        return max(tokens, self.text(again))

    def messages(self, messages: Iterable[Message]) -> int:
        """Count the tokens of a whole prompt: its messages, and the priming of the reply."""
        return self.framing.priming + sum(self.message(m) for m in messages)

    def tools(self, tools: Iterable[Mapping[str, Any]]) -> int:
        """Count the tokens of tool schemas in a prompt (shape of chat completions or Anthropic)."""
        listed = list(tools)
        count = self._written if self.framing.schemas == "json" else self._tool
        return sum(count(t) for t in listed) + (self.framing.per_schemas if listed else 0)

    def _written(self, tool: Mapping[str, Any]) -> int:
        body = {k: v for k, v in tool.get("function", tool).items() if k not in ("type", "strict")}
        if "input_schema" in body:
            body["parameters"] = body.pop("input_schema")
        written = {"type": "function", "function": body}
        return 1 + self.text(json.dumps(written, ensure_ascii=False))

    def _tool(self, tool: Mapping[str, Any]) -> int:
        body = tool.get("function", tool)
        description = str(body.get("description", "")).rstrip(".")
        total = 7 + self.text(f"{body.get('name', '')}:{description}")
        schema = body.get("parameters") or body.get("input_schema") or {}
        properties = schema.get("properties") or {}
        if properties:
            total += 3
        for key, value in properties.items():
            total += 3 + self._property(key, value)
        return total + self._inner(schema, _INNER - {"properties"} | {"$defs", "definitions"})

    def _property(self, key: str, value: object) -> int:
        if not isinstance(value, Mapping):
            return self.text(f"{key}:{value}")
        total = 0
        if "enum" in value:
            total += sum(3 + self.text(str(item)) for item in value["enum"]) - 3
        kind, description = value.get("type", "any"), str(value.get("description", "")).rstrip(".")
        total += self.text(f"{key}:{kind}:{description}")
        return total + self._inner(value, _INNER)

    def _inner(self, schema: Mapping[str, Any], fields: Set[str]) -> int:
        """Count, as JSON, those parts of a schema that the cookbook leaves out."""
        inner = {k: v for k, v in schema.items() if k in fields and not isinstance(v, bool)}
        return self.text(json.dumps(inner, ensure_ascii=False)) if inner else 0


def image_tokens(image: Image, formula: ImageFormula) -> int:
    """Count an image by the provider's published formula. An image of unknown size counts as large.
    A file among a tool's images costs `binary_tokens`.
    """
    if image.raw is not None and not is_picture(image.raw):
        return binary_tokens(image.raw, formula)
    if formula == "area":
        if not image.width or not image.height:
            return _ANTHROPIC_LARGEST
        return min(_ANTHROPIC_LARGEST, math.ceil(image.width * image.height / 750))
    if image.detail == "low":
        return 85
    if not image.width or not image.height:
        return 1105  # 1024 × 2048 pixels at high detail: the cookbook's own large example
    scale = min(1.0, 2048 / max(image.width, image.height))
    width, height = image.width * scale, image.height * scale
    shrink = min(1.0, 768 / min(width, height))
    tiles = math.ceil(width * shrink / 512) * math.ceil(height * shrink / 512)
    return 85 + 170 * tiles


def binary_tokens(raw: Mapping[str, Any] | None, formula: ImageFormula) -> int:
    """Estimate the tokens of the images, files and audio in a block."""
    total = 0
    for binary in binaries(raw):
        match binary.kind:
            case "image":
                total += image_tokens(Image(), formula)
            case "audio":
                total += audio_tokens(binary.size or 0)
            case "file":
                total += file_tokens(binary.size)
    return total


def file_tokens(size: int | None) -> int:
    """Estimate the tokens of a file of that many bytes. The real number may be much higher or
    lower.

    Anthropic, "PDF support": a page costs 1,500 to 3,000 tokens. The estimate is 3,000 tokens for
    each started 50,000 bytes (a page with a picture or a scan). If the size is unknown, it is one
    page. Pages are not counted. Dense text without pictures costs more.
    """
    return 3_000 * max(1, math.ceil((size or 0) / 50_000))


def audio_tokens(size: int) -> int:
    """Estimate the tokens of audio of that many bytes.

    OpenAI, "Managing costs" of the Realtime API: one token for each 100 ms of the user's audio. The
    length is computed at 64 kbit/s, the usual rate of speech as MP3. WAV has more bytes per second,
    so its estimate is too high.
    """
    return math.ceil(size * 10 / 8_000)
