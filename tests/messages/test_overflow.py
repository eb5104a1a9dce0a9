"""What providers say when a prompt is too large: their own words, and what is read from them.

The sentences are those that people quote in public issues of the providers' clients, and that the
servers' sources have.
"""

from __future__ import annotations

import json

import pytest

from compact.errors import ContextOverflow
from compact.messages.overflow import OverflowRefusal, refusal_of

WINDOW = "This model's maximum context length is"
PASSED = "However, you requested 8192 output tokens and your prompt contains"

SAID: dict[str, tuple[str, int | None, int | None]] = {
    "OpenAI, messages": (
        f"{WINDOW} 8192 tokens. However, your messages resulted in 12,000 tokens. Please reduce "
        "the length of the messages.",
        12_000,
        8_192,
    ),
    "OpenAI, with an answer": (
        f"{WINDOW} 8192 tokens. However, you requested 9206 tokens (5206 in the messages, 4000 in "
        "the completion). Please reduce the length of the messages or completion.",
        5_206,
        8_192,
    ),
    "OpenAI, prompt": (
        f"{WINDOW} 4097 tokens, however you requested 4354 tokens (4098 in your prompt; 256 for "
        "the completion). Please reduce your prompt; or completion length.",
        4_098,
        4_097,
    ),
    "OpenAI, with functions": (
        f"{WINDOW} 128000 tokens. However, your messages resulted in 150000 tokens (149000 in the "
        "messages, 1000 in the functions). Please reduce the length of the messages or functions.",
        150_000,
        128_000,
    ),
    "OpenAI, functions and an answer": (
        f"{WINDOW} 16385 tokens. However, you requested 17000 tokens (15000 in the messages, 1000 "
        "in the functions, and 1000 in the completion).",
        16_000,
        16_385,
    ),
    "OpenAI, a sum": (f"{WINDOW} 8192 tokens, however you requested 9000 tokens.", None, 8_192),
    "OpenAI, responses": (
        "Your input exceeds the context window of this model. Please adjust your input and try "
        "again.",
        None,
        None,
    ),
    "Azure": (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
        "301213 tokens. Please reduce the length of the messages.",
        301_213,
        272_000,
    ),
    "Anthropic": ("prompt is too long: 213462 tokens > 200000 maximum", 213_462, 200_000),
    "Anthropic, with an answer": (
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease "
        "input length or `max_tokens` and try again",
        188_240,
        200_000,
    ),
    "Google": (
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        1_196_265,
        1_048_575,
    ),
    "Google Vertex": (
        "The input token count is 32825 but the model only supports up to 32768",
        32_825,
        32_768,
    ),
    "xAI": (
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        537_812,
        131_072,
    ),
    "Mistral": (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
        "context length",
        40_000,
        32_768,
    ),
    "DeepSeek": (
        f"{WINDOW} 131072 tokens. However, you requested 929452 tokens (929452 in the messages, 0 "
        "in the completion). Please reduce the length of the messages or completion.",
        929_452,
        131_072,
    ),
    "Cohere": (
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. "
        "Try using a shorter prompt, or enabling prompt truncating.",
        4_292,
        4_081,
    ),
    "Cohere, with an answer": (
        "too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - "
        "received 6354. Try using a shorter prompt or a smaller max_tokens value.",
        None,
        2_048,
    ),
    "Cohere, excess": (
        "too many tokens: size limit exceeded by 1502 tokens. Try using shorter or fewer inputs.",
        None,
        None,
    ),
    "Groq": ("Please reduce the length of the messages or completion.", None, None),
    "Bedrock": (
        "ValidationException: Input is too long for requested model.",
        None,
        None,
    ),
    "Bedrock Titan": (
        "ValidationException: 400 Bad Request: Too many input tokens. Max input tokens: 8192, "
        "request input token count: 9279",
        9_279,
        8_192,
    ),
    "Bedrock Llama": (
        f"{WINDOW} 8192 tokens. Please reduce the length of the prompt",
        None,
        8_192,
    ),
    "OpenRouter": (
        "This endpoint's maximum context length is 204800 tokens. However, you requested about "
        "250598 tokens (230395 of text input, 4203 of tool input, 16000 in the output). Please "
        "reduce the length of either one, or use the context-compression plugin.",
        234_598,
        204_800,
    ),
    "OpenRouter, without tools": (
        "This endpoint's maximum context length is 131072 tokens. However, you requested about "
        "148000 tokens (130000 of text input, 18000 in the output). Please reduce the length of "
        'either one, or use the "middle-out" transform.',
        130_000,
        131_072,
    ),
    "OpenRouter, another endpoint": (
        "Input length 300000 exceeds the maximum allowed input length of 262144 tokens.",
        300_000,
        262_144,
    ),
    "SGLang": (
        "The input (40000 tokens) is longer than the model's context length (32768 tokens).",
        40_000,
        32_768,
    ),
    "SGLang, with an answer": (
        "Requested token count exceeds the model's maximum context length of 262144 tokens. You "
        "requested a total of 337844 tokens: 206772 tokens from the input messages and 131072 "
        "tokens for the completion.",
        206_772,
        262_144,
    ),
    "SGLang, behind a gateway": (
        "Requested token count exceeds the model's maximum context length of 131072 tokens. You "
        "requested a total of 524300.0 tokens: 12 tokens from the input messages and 524288.0 "
        "tokens for the completion.",
        12,
        131_072,
    ),
    "vLLM, the prompt": (
        f"{WINDOW} 65536 tokens. However, your request has 93196 input tokens. Please reduce the "
        "length of the input messages. (parameter=input_tokens, value=93196)",
        93_196,
        65_536,
    ),
    "vLLM, max_tokens": (
        f"'max_tokens' or 'max_completion_tokens' is too large: 20000. {WINDOW} 40960 tokens and "
        "your request has 30000 input tokens (20000 > 40960 - 30000).",
        30_000,
        40_960,
    ),
    "vLLM, prompt and answer": (
        f"{WINDOW} 32768 tokens. {PASSED} 28000 input tokens, for a total of 36192 tokens (28000 + "
        "8192 = 36192 > 32768). Please reduce the length of the input prompt or the number of "
        "requested output tokens.",
        28_000,
        32_768,
    ),
    "vLLM, by characters": (
        f"{WINDOW} 32768 tokens. {PASSED} 318000 characters (more than 196608 characters, which is "
        "the upper bound for 24576 input tokens).",
        None,
        32_768,
    ),
    "vLLM, inside": (
        "The decoder prompt (length 5951) is longer than the maximum model length of 4096. Make "
        "sure that `max_model_len` is no smaller than the number of text tokens.",
        5_951,
        4_096,
    ),
    "vLLM, inside, older": (
        "The prompt (total length 25938) is too long to fit into the model (context length 4096).",
        25_938,
        4_096,
    ),
    "TGI": ("`inputs` must have less than 4096 tokens. Given: 5000", 5_000, 4_096),
    "TGI, with an answer": (
        "`inputs` tokens + `max_new_tokens` must be <= 8192. Given: 7000 `inputs` tokens and 2000 "
        "`max_new_tokens`",
        7_000,
        8_192,
    ),
    "llama.cpp": (
        "request (4500 tokens) exceeds the available context size (4096 tokens), try increasing it",
        4_500,
        4_096,
    ),
    "llama.cpp, older": (
        "the request exceeds the available context size, try increasing it",
        None,
        None,
    ),
    "llama.cpp, while it answers": ("Context size has been exceeded.", None, None),
    "Ollama": ("the input length exceeds the context length", None, None),
    "Ollama, chat": ("prompt too long; exceeded max context length by 1234 tokens", None, None),
    "Copilot": ("prompt token count of 130000 exceeds the limit of 128000", 130_000, 128_000),
    "Moonshot": (
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)",
        None,
        262_144,
    ),
    "DashScope": ("Range of input length should be [1, 129024]", None, 129_024),
    "MiniMax, whose code is no size": (
        "invalid params, context window exceeds limit (2013)",
        None,
        None,
    ),
    "z.ai": ("model_context_window_exceeded", None, None),
}


@pytest.mark.parametrize("provider", SAID)
def test_the_words_of_each_provider_are_read(provider: str) -> None:
    """Tokens are those of the prompt alone, the limit that of the window (FR-3, FR-14)."""
    text, tokens, limit = SAID[provider]
    want = OverflowRefusal(tokens, limit)
    assert refusal_of(text) == want
    assert refusal_of(RuntimeError(f"Error code: 400 - {text}")) == want
    assert refusal_of({"error": {"message": text, "code": 400}}) == want


@pytest.mark.parametrize("provider", SAID)
def test_words_inside_other_words_are_read_too(provider: str) -> None:
    """A gateway hands on what it was told as a text of JSON (FR-14)."""
    text, tokens, limit = SAID[provider]
    raw = json.dumps({"type": "error", "error": {"message": text}})
    wrapped = {"error": {"message": "Provider returned error", "metadata": {"raw": raw}}}
    assert refusal_of(wrapped) == OverflowRefusal(tokens, limit)
    assert refusal_of(f"litellm.BadRequestError: {json.dumps(wrapped)}") == OverflowRefusal(
        tokens, limit
    )


AT_LEAST = {
    "vLLM, which cuts what it counts": (
        f"{WINDOW} 16384 tokens. {PASSED} at least 8193 input tokens, for a total of at least "
        "16385 tokens. Please reduce the length of the input prompt or the number of requested "
        "output tokens. (parameter=input_tokens, value=8193)",
        8_193,
        16_384,
    ),
    "vLLM, other words": (
        "You passed 98305 input tokens and requested 32768 output tokens. However, the model's "
        "context length is only 131072 tokens, resulting in a maximum input length of 98304 "
        "tokens. Please reduce the length of the input prompt.",
        98_305,
        131_072,
    ),
    "LM Studio": (
        "The number of tokens to keep from the initial prompt is greater than the context length "
        "(n_keep: 8539>= n_ctx: 8192). Try to load the model with a larger context length.",
        8_539,
        8_192,
    ),
    "LM Studio, older": (
        "Trying to keep the first 5406 tokens when context the overflows. However, the model is "
        "loaded with context length of only 4096 tokens, which is not enough.",
        5_406,
        4_096,
    ),
}


@pytest.mark.parametrize("provider", AT_LEAST)
def test_a_count_that_stopped_at_the_limit_is_a_least_number(provider: str) -> None:
    """Nobody may take it for the size of the prompt (FR-14)."""
    text, tokens, limit = AT_LEAST[provider]
    assert refusal_of(text) == OverflowRefusal(tokens, limit, at_least=True)


def test_llama_cpp_names_its_numbers_in_json() -> None:
    """In whatever order they stand (FR-14)."""
    error = {
        "code": 400,
        "message": "the request exceeds the available context size, try increasing it",
        "type": "exceed_context_size_error",
    }
    for numbers in (
        {"n_prompt_tokens": 5000, "n_ctx": 4096},
        {"n_ctx": 4096, "n_prompt_tokens": 5000},
    ):
        assert refusal_of({"error": {**error, **numbers}}) == OverflowRefusal(5_000, 4_096)
        assert refusal_of(json.dumps({"error": {**error, **numbers}})) == OverflowRefusal(
            5_000, 4_096
        )


OTHERS = {
    "tokens a minute": "Request too large for gpt-4o in organization org-x on tokens per min "
    "(TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced in order to "
    "run successfully.",
    "Groq": "Request too large for model `llama-3.3-70b-versatile` in organization `org_x` service "
    "tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 14810, please reduce your "
    "message size and try again.",
    "Anthropic": "This request would exceed your organization's rate limit of 30,000 input tokens "
    "per minute. Reduce the prompt length or the maximum tokens requested.",
    "Bedrock": "ThrottlingException: Too many tokens, please wait before trying again.",
    "Google": "You exceeded your current quota. * Quota exceeded for metric: "
    "generate_content_free_tier_input_token_count, limit: 250000",
    "a smaller answer asked for": "max_tokens is too large: 5000. This model supports at most 4096 "
    "completion tokens, whereas you provided 5000.",
    "Anthropic, answer": "max_tokens: 64000 > 32000, which is the maximum allowed number of output "
    "tokens for claude-3-5-sonnet-20241022",
    "Cohere, answer": "too many tokens: max tokens must be less than or equal to 4096, the maximum "
    "output for this model - received 8192.",
    "one string": "Invalid 'messages[0].content': string too long. Expected a string with maximum "
    "length 1048576, but got a string with length 2000000 instead.",
    "an image": "messages.1.content.0.image.source.base64: image exceeds 5 MB maximum: 6291456 "
    "bytes > 5242880 bytes",
    "memory": "model requires more system memory (12.0 GiB) than is available (8.0 GiB)",
    "a parameter": "Unsupported parameter: context. Remove it and try again.",
    "a key": "Incorrect API key provided",
    "nothing": "",
}


@pytest.mark.parametrize("what", OTHERS)
def test_other_refusals_are_no_overflow(what: str) -> None:
    """A rate limit passes by waiting, and the rest by no smaller prompt (FR-14)."""
    assert refusal_of(OTHERS[what]) is None
    assert refusal_of({"error": {"message": OTHERS[what], "code": 429}}) is None


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
