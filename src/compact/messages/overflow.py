"""Reads a provider's refusal of a prompt as too large, and corrects token counts by what providers
report.

Start at `_SENTENCES`: patterns of what providers and servers write. Only a number of the *prompt*
counts as its tokens. A sum that includes the answer says nothing about the prompt. Some
servers stop counting at their limit, so their number is a lower bound. An error that matches no
pattern is not an overflow; neither is a rate limit. `models.providers` maps vendors' exceptions.

`Calibration` learns from reported usage and refusals how far compact's token counts are off. Its
ratio is reported / counted, and belongs to the tokenizer. A prompt that cost more than counted
raises the ratio at once. One that cost less lowers it slowly, and never below 1 if the tokenizer is
exact: a prompt that is too small costs little, but one that is too large is refused. Limits are
stored by the requested size of the window.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import BaseModel, Field

from compact.errors import ContextOverflow
from compact.patterns import regex

_CONTEXT = r"maximum context length (?:is|of) (?P<limit>#)"
_SENTENCES: Mapping[str, str] = {
    "llama.cpp": r"n_prompt_tokens\W+(?P<tokens>#).{0,200}?n_ctx\W+(?P<limit>#)",
    "llama.cpp, turned round": r"n_ctx\W+(?P<limit>#).{0,200}?n_prompt_tokens\W+(?P<tokens>#)",
    "llama.cpp, as a sentence": r"request \((?P<tokens>#) tokens\) exceeds the available context "
    r"size \((?P<limit>#)",
    "LM Studio": r"\(n_keep: (?P<least>#) ?>=? ?n_ctx: (?P<limit>#)\)",
    "LM Studio, older": r"keep the first (?P<least>#) tokens.{0,80}? context length of only "
    r"(?P<limit>#)",
    "Anthropic": r"prompt is too long: (?P<tokens>#) tokens > (?P<limit>#)",
    "Anthropic, with max_tokens": r"exceed context limit: (?P<tokens>#) \+ # > (?P<limit>#)",
    "vLLM, which stops counting": _CONTEXT
    + r" tokens.{0,60}? output tokens and your prompt contains at least (?P<least>#) input tokens",
    "vLLM, of prompt and answer": _CONTEXT
    + r" tokens.{0,60}? output tokens and your prompt contains (?P<tokens>#) input tokens",
    "vLLM, of the prompt": _CONTEXT
    + r" tokens.{0,30}? your request has (?P<tokens>#) (?:input )?tokens",
    "vLLM, other words": r"you passed (?P<least>#) input tokens.{0,90}? context length is only "
    r"(?P<limit>#)",
    "vLLM, inside": r"prompt \((?:total )?length (?P<tokens>#)\) is (?:longer than the maximum "
    r"model length of|too long to fit into the model \(context length) (?P<limit>#)",
    "OpenAI and others, in parts": _CONTEXT
    + r" tokens.{0,120}?(?P<tokens>#) (?:tokens )?(?:in|of|from) (?:the |your |text )(?:input )?"
    r"(?:messages|prompt|input)(?:, (?P<more>#) (?:in the functions|of tool input))?",
    "OpenAI": _CONTEXT + r" tokens.{0,40}? resulted in (?P<tokens>#) tokens",
    "Azure": r"exceed the configured limit of (?P<limit>#) tokens.{0,40}? resulted in "
    r"(?P<tokens>#) tokens",
    "SGLang, Together": r"input \((?P<tokens>#) tokens\) is longer than the model.{0,2}s context "
    r"length \((?P<limit>#) tokens\)",
    "LiteLLM": r"input length \(?(?P<tokens>#)\)? exceeds (?:the )?(?:model.{0,2}s )?maximum "
    r"(?:context|allowed input) length (?:of )?\(?(?P<limit>#)",
    "Google": r"input token count \((?P<tokens>#)\) exceeds the maximum number of tokens allowed "
    r"\((?P<limit>#)\)",
    "Google Vertex": r"input token count is (?P<tokens>#) but the model only supports up to "
    r"(?P<limit>#)",
    "xAI": r"maximum prompt length is (?P<limit>#) but the request contains (?P<tokens>#) tokens",
    "Mistral": r"prompt contains (?P<tokens>#) tokens.{0,40}? too large for model with "
    r"(?P<limit>#) maximum context length",
    "Cohere": r"tokens in the prompt cannot exceed (?P<limit>#) - received (?P<tokens>#)",
    "Bedrock Titan": r"max input tokens: (?P<limit>#), request input token count: (?P<tokens>#)",
    "TGI": r"`inputs` must have less than (?P<limit>#) tokens\. given: (?P<tokens>#)",
    "TGI, of prompt and answer": r"must be <= (?P<limit>#)\. given: (?P<tokens>#) `inputs` tokens",
    "GitHub Copilot": r"prompt token count of (?P<tokens>#) exceeds the limit of (?P<limit>#)",
    "DS4": r"prompt has (?P<tokens>#) tokens, but the configured context size is (?P<limit>#)",
}
_LIMITS: Mapping[str, str] = {
    "many": _CONTEXT,
    "Cohere, of prompt and answer": r"total number of tokens .{0,30}?(?:cannot exceed|exceeds the "
    r"limit of) (?P<limit>#)",
    "Moonshot": r"exceeded model token limit: (?P<limit>#)",
    "DashScope": r"range of input length should be \[1, (?P<limit>#)\]",
    "Ollama and others": r"context (?:window|length|size) (?:of|is)(?: only)? (?P<limit>#)",
}
"""Patterns of sentences that give a limit but not the prompt's tokens."""
_OVERFLOW = regex(
    r"context_length_exceeded|exceed_context_size|model_context_window_exceeded|"
    r"(?:exceed\w*|(?:longer|greater) than|overflow\w*).{0,30}? context (?:window|length|size)|"
    r"context (?:window|length|size|limit) (?:has been |was )?exceed|"
    r"(?:prompt|input|request)(?: is|_)? ?too[ _](?:long|large)|"
    r"too many (?:input )?tokens(?!: max)|"
    r"reduce the length of (?:the|your) (?:messages|prompt|input)",
    re.IGNORECASE,
)
_RATE = regex(
    r"rate.?limit|tokens per|per.(?:minute|day)|\bTP[MD]\b|throttl|too many requests|quota",
    re.IGNORECASE,
)
"""Signs of a rate limit. It ends after a while, and does not depend on the size of the prompt."""


def _compiled(sentences: Mapping[str, str]) -> tuple[re.Pattern[str], ...]:
    number = r"\d[\d,_]*"
    return tuple(regex(s.replace("#", number), re.IGNORECASE) for s in sentences.values())


_WITH_TOKENS, _WITH_LIMIT = _compiled(_SENTENCES), _compiled(_LIMITS)


class OverflowRefusal(NamedTuple):
    """The numbers in a refusal. Each is None if the refusal does not give it."""

    tokens: int | None
    """Tokens of the prompt alone."""
    limit: int | None
    """Tokens of the window, for prompt and answer together."""
    at_least: bool = False
    """Whether the prompt may have more tokens than `tokens`."""


def refusal_of(error: object) -> OverflowRefusal | None:
    """Find the refusal in an error, a text or JSON. Return None if it is not an overflow."""
    if not isinstance(error, ContextOverflow):
        return _read(_text_of(error))
    if error.tokens is None and error.limit is None:
        return _read(_text_of(error)) or OverflowRefusal(None, None)
    return OverflowRefusal(error.tokens, error.limit)


def _read(text: str) -> OverflowRefusal | None:
    for pattern in _WITH_TOKENS:
        if match := pattern.search(text):
            numbers = match.groupdict()
            least = _number(numbers.get("least"))
            tokens = _number(numbers.get("tokens"))
            if tokens is not None:
                tokens += _number(numbers.get("more")) or 0
            return OverflowRefusal(
                tokens if least is None else least, _number(numbers["limit"]), bool(least)
            )
    if _RATE.search(text):
        return None
    for pattern in _WITH_LIMIT:
        if match := pattern.search(text):
            return OverflowRefusal(None, _number(match["limit"]))
    return OverflowRefusal(None, None) if _OVERFLOW.search(text) else None


def _text_of(error: object) -> str:
    body = getattr(error, "body", None) or getattr(error, "response", None)
    try:
        text = f"{error} {body}" if body is not None else str(error)
    except (RecursionError, ValueError):  # the error's text cannot be built, so no provider sent it
        return ""
    return " ".join(text.split())


def _number(text: str | None) -> int | None:
    digits = re.sub(r"\D", "", text or "")
    return int(digits) if digits else None


# --- calibration ----------------------------------------------------------------------------------

LEAST_PROMPT = 200
"""Reports for shorter prompts (counted tokens) are ignored: framing outweighs the text there."""
DECAY = 0.1
"""How far a lower report moves the ratio towards it: a tenth of the way. One report is weak."""
LOWEST, HIGHEST = 0.6, 4.0
"""Bounds of the ratio. They keep a wrong report from making every window useless."""
ASSUMED = 1.25
"""Assumed ratio of real to expected tokens, if an overflow error gives no number."""
LEAST_LIMIT = 512
"""Smaller reported limits are ignored, because no window is so small. Some servers report the part
of the window that the answer leaves."""


class Calibration(BaseModel, frozen=True, defer_build=True):
    """The learned ratio, and the limits that providers reported."""

    ratio: float = Field(default=1.0, ge=LOWEST, le=HIGHEST)
    reports: int = 0
    limits: Mapping[int, int] = Field(default_factory=dict)
    """Requested window size → the smaller limit that an error reported."""

    def after(self, counted: int, reported: int, *, exact: bool) -> Calibration:
        """Return the calibration after a prompt, given compact's count and the provider's."""
        if counted < LEAST_PROMPT or reported <= 0:
            return self
        measured = reported / counted
        ratio = measured if measured > self.ratio else self.ratio + DECAY * (measured - self.ratio)
        ratio = min(max(ratio, 1.0 if exact else LOWEST), HIGHEST)
        return self.model_copy(update={"ratio": ratio, "reports": self.reports + 1})

    def window(self, size: int) -> int:
        """Return the window's size, or a smaller limit that the provider reported for this size."""
        return min(size, self.limits.get(size, size))

    def after_overflow(
        self, counted: int, refusal: OverflowRefusal, *, size: int, exact: bool
    ) -> Calibration:
        """Return the calibration after a prompt was refused as too large for a window."""
        learned = self.after(counted, self._tokens_by(counted, refusal), exact=exact)
        return learned if refusal.limit is None else learned.after_word(refusal.limit, size=size)

    def after_word(self, limit: int, *, size: int) -> Calibration:
        """Return the calibration after a provider reported its limit for a window."""
        if limit < LEAST_LIMIT:
            return self
        limits = {asked: least for asked, least in self.limits.items() if asked != size}
        if limit < size:
            limits[size] = limit
        return self.model_copy(update={"limits": limits})

    def _tokens_by(self, counted: int, refusal: OverflowRefusal) -> int:
        """Return the tokens that the refusal gives for the prompt, or 0 if it gives none."""
        expected = int(counted * self.ratio)
        if refusal.tokens is not None:
            return max(refusal.tokens, expected) if refusal.at_least else refusal.tokens
        if refusal.limit is not None and expected > refusal.limit:
            return 0  # the limit alone explains the refusal
        return int(expected * ASSUMED)
