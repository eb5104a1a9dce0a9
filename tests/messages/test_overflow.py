"""What providers say when a prompt is too large: their own words, and what is read from them.

The sentences of `overflows.jsonl` are those that people quote in public issues of the providers'
clients, and that the servers' sources have.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compact.errors import ContextOverflow
from compact.messages.overflow import OverflowRefusal, refusal_of

FIXTURE = Path(__file__).parents[1] / "fixtures" / "overflows.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in FIXTURE.read_text("utf-8").splitlines()]
TOO_LARGE = [row for row in ROWS if row.get("is_overflow", True)]
OTHERS = [row for row in ROWS if not row.get("is_overflow", True)]


def who(row: dict[str, Any]) -> str:
    return str(row["who"])


@pytest.mark.parametrize("row", TOO_LARGE, ids=who)
def test_the_words_of_each_provider_are_read(row: dict[str, Any]) -> None:
    """Tokens are those of the prompt alone, a least number where the server stopped to count. The
    limit is that of the window. A gateway hands both on as a text of JSON (FR-3, FR-14).
    """
    said = row["said"]
    want = OverflowRefusal(row["tokens"], row["limit"], row.get("at_least", False))
    assert refusal_of(said) == want
    assert refusal_of(RuntimeError(f"Error code: 400 - {said}")) == want
    assert refusal_of({"error": {"message": said, "code": 400}}) == want
    raw = json.dumps({"type": "error", "error": {"message": said}})
    wrapped = {"error": {"message": "Provider returned error", "metadata": {"raw": raw}}}
    assert refusal_of(wrapped) == want
    assert refusal_of(f"litellm.BadRequestError: {json.dumps(wrapped)}") == want


@pytest.mark.parametrize("row", OTHERS, ids=who)
def test_other_refusals_are_no_overflow(row: dict[str, Any]) -> None:
    """A rate limit passes by waiting, and the rest by no smaller prompt (FR-14)."""
    assert refusal_of(row["said"]) is None
    assert refusal_of({"error": {"message": row["said"], "code": 429}}) is None


@pytest.mark.parametrize("names", [("n_prompt_tokens", "n_ctx"), ("n_ctx", "n_prompt_tokens")])
def test_llama_cpp_names_its_numbers_in_json(names: tuple[str, str]) -> None:
    """In whatever order they stand (FR-14)."""
    numbers = {"n_prompt_tokens": 5_000, "n_ctx": 4_096}
    error = {
        "code": 400,
        "message": "the request exceeds the available context size, try increasing it",
        "type": "exceed_context_size_error",
        **{name: numbers[name] for name in names},
    }
    for given in ({"error": error}, json.dumps({"error": error})):
        assert refusal_of(given) == OverflowRefusal(5_000, 4_096)


def test_our_own_error_says_what_it_knows() -> None:
    """Its numbers count; without any, its text; without that too, it is an overflow all the same
    (FR-14)."""
    assert refusal_of(ContextOverflow("no", tokens=9, limit=8)) == OverflowRefusal(9, 8)
    text = "prompt is too long: 213462 tokens > 200000 maximum"
    assert refusal_of(ContextOverflow(text)) == OverflowRefusal(213_462, 200_000)
    assert refusal_of(ContextOverflow("no")) == OverflowRefusal(None, None)


def test_a_body_beside_the_text_is_read() -> None:
    """Clients keep what the provider said apart from their own words (FR-14)."""

    class StatusError(Exception):
        def __init__(self) -> None:
            self.body = {"message": "prompt is too long: 213462 tokens > 200000 maximum"}
            super().__init__("Bad Request")

    assert refusal_of(StatusError()) == OverflowRefusal(213_462, 200_000)
