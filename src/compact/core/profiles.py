"""What is known of models: the size of their window, as data. Profiles of local models follow with
the models issue.

Sources: the providers' model pages. A model that is not listed is not guessed: the caller gives
`window=`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from compact.errors import UnknownModel

WINDOWS: Sequence[tuple[str, int]] = (
    (r"gpt-4o|chatgpt-4o|gpt-4-turbo", 128_000),
    (r"gpt-4\.1", 1_047_576),
    (r"gpt-5", 400_000),
    (r"gpt-4-32k", 32_768),
    (r"gpt-4", 8_192),
    (r"gpt-3\.5-turbo", 16_385),
    (r"o[134](?:-|$)", 200_000),
    (r"claude", 200_000),
)
"""Pattern of a model's bare name → tokens of its window; the first match counts."""


def window_of(model: str) -> int:
    """The window of a model key such as `gpt-4o` or `anthropic:claude-sonnet-4-5`, in tokens.

    Raises:
        UnknownModel: the text names `window=`.
    """
    bare = model.rsplit("/", 1)[-1].rsplit(":", 1)[-1].lower()
    for pattern, size in WINDOWS:
        if re.match(pattern, bare):
            return size
    raise UnknownModel(f"nothing is known of the model {model!r}; give its size with window=")
