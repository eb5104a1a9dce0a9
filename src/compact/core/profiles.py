"""What is known of models, as data: the size of their window and the name of their tokenizer.
Profiles of local models follow with the models issue.

Sources: the providers' model pages; OpenAI's vocabularies as tiktoken maps them. A model that is
not listed is not guessed: the caller gives `window=` or `tokenizer=`. What a tokenizer's name
stands for lives in `providers.tokenizers`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from compact.errors import UnknownModel


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of a family of models."""

    pattern: str
    """What the model's bare name begins with, a regular expression."""
    window: int | None
    """Tokens of its window; None where whoever serves it decides, or it has none."""
    tokenizer: str


PROFILES: Sequence[Profile] = (
    Profile(r"gpt-4o|chatgpt-4o|gpt-4\.5", 128_000, "o200k"),
    Profile(r"gpt-4\.1", 1_047_576, "o200k"),
    Profile(r"gpt-5(?:\.\d+)?-chat", 128_000, "o200k"),
    Profile(r"gpt-5", 400_000, "o200k"),
    Profile(r"gpt-oss", None, "o200k"),
    Profile(r"o1-(?:mini|preview)", 128_000, "o200k"),
    Profile(r"o[134](?:-|$)", 200_000, "o200k"),
    Profile(r"o[1-9]", None, "o200k"),
    Profile(r"gpt-4-(?:turbo|1106|0125|vision)", 128_000, "cl100k"),
    Profile(r"gpt-4-32k", 32_768, "cl100k"),
    Profile(r"gpt-4", 8_192, "cl100k"),
    Profile(r"gpt-3\.5-turbo-(?:instruct|0301|0613)", 4_096, "cl100k"),
    Profile(r"gpt-3\.5-turbo", 16_385, "cl100k"),
    Profile(r"gpt-3\.5|text-embedding", None, "cl100k"),
    Profile(r"claude-(?:1|2\.0|2$|v[12]|instant)", 100_000, "claude"),
    Profile(r"claude", 200_000, "claude"),
    Profile(r"anthropic", None, "claude"),
)
"""The first row that matches counts."""


def profile_of(model: str) -> Profile | None:
    """What is known of a model key such as `gpt-4o`, `anthropic:claude-sonnet-4-5`,
    `openrouter/openai/gpt-4o:free` or `ft:gpt-4o-mini:org::id` (as its base); None for nothing.
    """
    names = _names(model)
    for profile in PROFILES:
        if any(re.match(profile.pattern, name) for name in names):
            return profile
    return None


def window_of(model: str) -> int:
    """The window of a model key, in tokens.

    Raises:
        UnknownModel: the text names `window=`.
    """
    profile = profile_of(model)
    if profile is None or profile.window is None:
        raise UnknownModel(f"nothing is known of the model {model!r}; give its size with window=")
    return profile.window


def _names(model: str) -> list[str]:
    """The bare names a key may mean: what stands between its colons, its vendors left out; of a
    fine-tuned model, its base.
    """
    pieces = model.lower().rsplit("/", 1)[-1].split(":")
    if "ft" in pieces[:-1]:
        base = pieces.index("ft") + 1
        pieces = pieces[base : base + 1]
    return [piece.rsplit("anthropic.", 1)[-1] for piece in pieces]
