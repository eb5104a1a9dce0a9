"""Vendors' exceptions become ours, every one of them, each with a sentence for a person."""

import asyncio
import inspect
import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache
from typing import Any

import anthropic
import httpx
import httpx2
import ollama
import openai
import pydantic
import pytest

from compact.errors import (
    CompactError,
    ContextOverflow,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
)
from compact.models.providers.failures import ErrorInAnswer, failure_of, mapped

MODEL = "openai:gpt-4o"
REFUSED, LATER, FAILED = ModelRefused, ModelUnavailable, ModelFailed
COMPLETION = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": []}
ROOTS: tuple[type[Exception], ...] = (
    openai.OpenAIError,
    anthropic.AnthropicError,
    ollama.RequestError,
    ollama.ResponseError,
    *(x for http in (httpx, httpx2)
      for x in (http.HTTPError, http.InvalidURL, http.StreamError, http.CookieConflict)),
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
    json.JSONDecodeError,
    UnicodeError,
    pydantic.ValidationError,
)  # fmt: skip
NAMES: dict[type[CompactError], str] = {
    REFUSED: """
        BadRequestError AuthenticationError OAuthError PaymentRequiredError
        PermissionDeniedError NotFoundError PreconditionFailedError UnprocessableEntityError
        RequestHeaderFieldsTooLargeError HTTPNotImplementedError UnsupportedProtocol
        LocalProtocolError InvalidURL TooManyRedirects CredentialsError
        MutuallyExclusiveAuthError IdentityTokenFileError SubjectTokenProviderError
        ContentFilterFinishReasonError
    """,
    ContextOverflow: "ContentTooLargeError",
    LATER: """
        RequestTimeoutError ConflictError RateLimitError ClientClosedRequestError
        InternalServerError ServiceUnavailableError GatewayTimeoutError OverloadedError
        APIConnectionError APITimeoutError TransportError TimeoutException ConnectTimeout
        ReadTimeout WriteTimeout PoolTimeout NetworkError ReadError WriteError ConnectError
        CloseError ProxyError ProtocolError RemoteProtocolError RetryableError
        WebSocketConnectionClosedError OSError APIStatusError HTTPStatusError
    """,
}
EXPECTED = {name: kind for kind, names in NAMES.items() for name in names.split()}
"""By the name of the class, or of the nearest one above it; everything else is ModelFailed."""


def descendants(root: type[Exception]) -> Iterator[type[Exception]]:
    yield root
    for child in root.__subclasses__():
        yield from descendants(child)


def exported(module: Any) -> Iterator[type[Exception]]:
    for value in list(vars(module).values()):
        if issubclass(type(value), type) and issubclass(value, Exception):
            yield value


def is_theirs(kind: type[Exception]) -> bool:
    """Not one that another package of the test run happens to define."""
    home = kind.__module__.split(".")[0]
    return home in ("openai", "anthropic", "ollama", "httpx", "httpx2", "builtins", "ssl", "json")


ALL = sorted(
    {
        kind
        for kind in [
            *(x for root in ROOTS for x in descendants(root)),
            *(x for module in (openai, anthropic, ollama, httpx, httpx2) for x in exported(module)),
        ]
        if is_theirs(kind) and not issubclass(kind, Warning)
    }
    | {pydantic.ValidationError},
    key=lambda kind: f"{kind.__module__}.{kind.__qualname__}",
)


def made(kind: type[Exception]) -> Exception:
    """An instance, as the clients make them."""
    special: dict[type[Exception], Exception] = {
        json.JSONDecodeError: json.JSONDecodeError("Expecting value", "<", 0),
        UnicodeDecodeError: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        UnicodeEncodeError: UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"),
        UnicodeTranslateError: UnicodeTranslateError("x", 0, 1, "no"),
    }
    if kind in special:
        return special[kind]
    if kind is pydantic.ValidationError:
        try:
            pydantic.TypeAdapter(int).validate_python("many")
        except pydantic.ValidationError as error:
            return error
    http: Any = (
        httpx if kind.__module__.startswith("httpx.") or kind.__module__ == "httpx" else httpx2
    )
    request = http.Request("POST", "http://server/v1")
    status = getattr(kind, "status_code", 200 if "Validation" in kind.__name__ else 500)
    known: dict[str, Any] = {
        "request": request,
        "response": http.Response(status if isinstance(status, int) else 500, request=request),
        "body": None,
        "message": "what the client says",
        "error": "what the server says",
        "completion": openai.types.chat.ChatCompletion.model_validate(COMPLETION),
        "unsent_messages": [],
    }
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    if any(x.kind is x.VAR_POSITIONAL for x in parameters):
        return kind("what went wrong")
    wanted = [x.name for x in parameters if x.default is x.empty and x.kind is not x.VAR_KEYWORD]
    return kind(**{name: known.get(name, "something") for name in wanted})


def wanted(kind: type[Exception]) -> type[CompactError]:
    """What the nearest class above it is expected to become."""
    for above in kind.__mro__:
        if above.__name__ in EXPECTED:
            return EXPECTED[above.__name__]
    return FAILED


def test_the_walk_sees_the_vendors() -> None:
    """The list of classes is not empty by accident, and every expectation is met by one (FR-6)."""
    names = {kind.__name__ for kind in ALL}
    assert len(ALL) > 90
    assert set(EXPECTED) - {"OSError"} <= names


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_exception_of_the_clients_becomes_one_of_ours(kind: type[Exception]) -> None:
    """No vendor's exception gets through, and each is said in a sentence (FR-6)."""
    error = made(kind)
    with pytest.raises(CompactError) as caught, mapped(MODEL):
        raise error
    ours = caught.value
    assert type(ours) is wanted(kind)
    assert ours.__cause__ is error
    text = str(ours)
    assert MODEL in text
    if "Timeout" in kind.__name__ and "status_code" not in dir(kind):
        assert "in time" in text
    assert "\n" not in text
    assert 20 < len(text) < 600
    assert len(text.split()) >= 4
    assert not text.endswith((": ", ":", "()"))
    assert isinstance(ours, ContextOverflow) or ours.model == MODEL  # type: ignore[attr-defined]


@pytest.mark.parametrize("passing", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
def test_cancellation_and_interrupts_are_nobodys_failure(passing: type[BaseException]) -> None:
    """They pass through as they are (FR-6)."""
    with pytest.raises(passing), mapped(MODEL):
        raise passing
    with pytest.raises(passing):
        failure_of(passing(), MODEL)


def status_error(status: int, body: object, **headers: str) -> openai.APIStatusError:
    """What the openai client raises for such an answer."""
    response = httpx2.Response(
        status,
        json=body,
        headers={k.replace("_", "-"): v for k, v in headers.items()},
        request=httpx2.Request("POST", "http://server/v1/chat/completions"),
    )
    return client()._make_status_error_from_response(response)


@cache
def client() -> openai.OpenAI:
    return openai.OpenAI(api_key="x")


LLAMA = {
    "error": {
        "code": 400,
        "message": "request (5000 tokens) exceeds the available context size (2048 tokens)",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 5000,
        "n_ctx": 2048,
    }
}


def test_an_overflow_gives_its_numbers() -> None:
    """From the body, whichever client carries it, also within an answer (FR-6)."""
    request = httpx2.Request("POST", "http://server")
    said = "prompt is too long: 213462 tokens > 200000 maximum"
    response = httpx2.Response(400, request=request)
    for error, tokens, limit in (
        (status_error(400, LLAMA), 5000, 2048),
        (openai.APIError("in a stream", request, body=LLAMA["error"]), 5000, 2048),
        (ErrorInAnswer(LLAMA), 5000, 2048),
        (ollama.ResponseError(json.dumps({"error": LLAMA["error"]["message"]}), 400), 5000, 2048),
        (anthropic.BadRequestError("400", response=response, body={"error": {"message": said}}),
         213_462, 200_000),
    ):  # fmt: skip
        overflow = failure_of(error, MODEL)
        assert isinstance(overflow, ContextOverflow), overflow
        assert (overflow.tokens, overflow.limit) == (tokens, limit)


def test_what_a_model_says_of_windows_is_no_overflow() -> None:
    """Words within an answer that cannot be read are not the server's refusal (FR-6)."""
    words = "maximum context length is 10 tokens"
    response = httpx2.Response(200, request=httpx2.Request("POST", "http://server"))
    unread = openai.APIResponseValidationError(response=response, body={"said": words})
    for error in (unread, json.JSONDecodeError(words, words, 0), ValueError(words)):
        assert type(failure_of(error, MODEL)) is ModelFailed


def test_the_servers_wish_to_wait_is_read() -> None:
    """Seconds, milliseconds or a date; nonsense is no wish (FR-6)."""
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=60), usegmt=True)
    for headers, low, high in (
        ({"retry_after": "7"}, 7, 7),
        ({"retry_after": "0.25"}, 0.25, 0.25),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5, 1.5),
        ({"retry_after_ms": "soon", "retry_after": "9"}, 9, 9),
        ({"retry_after": date}, 55, 60),
        ({"retry_after": past}, 0, 0),
        ({"retry_after": "-3"}, 0, 0),
    ):  # fmt: skip
        error = failure_of(status_error(429, {"error": "busy"}, **headers), MODEL)
        assert isinstance(error, ModelUnavailable)
        assert error.retry_after is not None
        assert low <= error.retry_after <= high, headers
    for nothing in ({}, {"retry_after": "nan"}, {"retry_after": "inf"}, {"retry_after": "later"}):
        error = failure_of(status_error(503, {"error": "busy"}, **nothing), MODEL)
        assert isinstance(error, ModelUnavailable)
        assert error.retry_after is None, nothing


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (429, {"message": "You exceeded your current quota", "code": "insufficient_quota"},
         REFUSED, "quota"),
        (429, {"message": "Rate limit reached, TPM: Limit 30000", "code": "rate_limit_exceeded"},
         LATER, "rate limit"),
        (401, {"message": "Incorrect API key provided"}, REFUSED, "OPENAI_API_KEY"),
        (400, {"message": "API key not valid. Please pass one."}, REFUSED, "OPENAI_API_KEY"),
        (404, {"message": "The model `gpt-x` does not exist"}, REFUSED, "no model of that name"),
        (404, {"message": "model: claude-x", "type": "not_found_error"}, REFUSED, "no model of"),
        (404, {"detail": "Not Found"}, REFUSED, "nothing answers for "),
        (405, {"detail": "Method Not Allowed"}, REFUSED, "nothing answers for "),
        (403, {"message": "Country not supported"}, REFUSED, "Country not supported"),
        (400, {"message": "Invalid value: 'tol'"}, REFUSED, "Invalid value: 'tol'"),
        (413, {"message": "the entity"}, ContextOverflow, "too large"),
        (520, {"message": "web server returned an unknown error"}, LATER, "520"),
        (200, {"type": "overloaded_error", "message": "Overloaded"}, LATER, "overloaded"),
        (302, {"message": "moved"}, FAILED, "moved"),
    ],
)  # fmt: skip
def test_refusals_are_told_in_plain_words(
    status: int, body: dict[str, str], kind: type[CompactError], words: str
) -> None:
    """What to do is in the sentence: which variable, which name; an empty account is not waited
    for (FR-6).
    """
    error = failure_of(status_error(status, {"error": body}), MODEL)
    assert type(error) is kind
    assert words in str(error)
    if isinstance(error, ModelFailed) and status >= 300:
        assert error.status in (status, None)


def test_errors_within_an_answer_are_read_like_others() -> None:
    """A status of success, and an error in the body: routers and streams do so (FR-6)."""
    for body, kind in (
        ({"error": {"message": "Provider returned error", "code": 429}}, LATER),
        ({"error": {"message": "bad key", "code": 401}}, REFUSED),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, LATER),
        ({"code": "server_error", "message": "The model had an error"}, LATER),
        ({"error": "something"}, FAILED),
    ):
        assert type(failure_of(ErrorInAnswer(body), MODEL)) is kind, body


def test_no_secret_and_no_page_gets_into_the_sentence() -> None:
    """Servers repeat keys, and proxies answer with pages (FR-6)."""
    key = "sk-proj-" + "a1B2c3D4e5" * 4
    refused = failure_of(status_error(401, {"error": {"message": f"Wrong API key: {key}"}}), MODEL)
    assert key not in str(refused)
    page = failure_of(status_error(502, "<!DOCTYPE html><html><body>Bad</body></html>"), MODEL)
    assert "<" not in str(page)
    assert "web page" in str(page)
    request = httpx2.Request("POST", "http://server")
    wrapped = openai.APIConnectionError(request=request)
    wrapped.__cause__ = httpx2.LocalProtocolError(f"Illegal header value b'Bearer {key}\\n'")
    header = failure_of(wrapped, MODEL)
    assert type(header) is ModelRefused
    assert key not in str(header)


def test_each_provider_names_its_own_variable() -> None:
    """A person reads which variable to set (FR-6)."""
    for model, variable in (
        ("openai:gpt-4o", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("http://host/v1#m", "OPENAI_API_KEY"),
        ("my own model", "api_key"),
    ):
        assert variable in str(failure_of(status_error(401, {"error": "no"}), model))


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("file", "You uploaded an unsupported image. Please make sure your image is valid."),
        ("file", "Please make sure your image has of one the following formats: ['png', 'gif']."),
        ("file", "Invalid image: only supported formats are png, jpeg"),
        ("file", "Image format image/tiff is not supported"),
        ("file", "image.source.base64.media_type: Input should be 'image/jpeg' or 'image/png'"),
        ("file", "Invalid MIME type. Only image types are supported."),
        ("file", "image exceeds 5 MB maximum: 5500000 bytes > 5242880 bytes"),
        ("file", "At least one of the image dimensions exceed max allowed size: 8000 pixels"),
        ("file", "image URLs are only supported with https"),
        ("file", "unsupported image url scheme: file"),
        ("file", "Unsupported audio format. Supported: wav, mp3"),
        ("file", "Failed to load image: unsupported image type"),
        ("file", "Could not process image"),
        ("file", "Unable to process input image."),
        ("image", "No endpoints found that support image input"),
        ("image", "messages[0]: unknown variant `image_url`, expected `text` at line 1"),
        ("image", "image input is not supported - hint: you may need to provide the mmproj"),
        ("image", "Invalid content type. image_url is only supported by certain models."),
        ("image", "this model is missing data required for image input"),
        ("image", "At most 0 image(s) may be provided in one prompt."),
        ("audio", "unknown variant `input_audio`, expected `text`"),
        ("audio", "This model does not support audio"),
        ("media", "google/gemma-2-2b-it is not a multimodal model"),
        ("part", "unsupported content[].type"),
        ("", "tool_choice and image_generation tool is not supported"),
        ("", "'temperature' is not supported with this model"),
    ],
)
def test_what_of_a_prompt_is_refused_is_read_from_the_servers_words(part: str, said: str) -> None:
    """What is said of one file is not said of the model, which may see others (FR-6)."""
    for status in (400, 404, 422, 500) if part else (400,):
        error = failure_of(status_error(status, {"error": {"message": said}}), MODEL)
        assert isinstance(error, ModelRefused)
        assert error.part == part
        assert said in str(error)
    key = failure_of(status_error(401, {"error": {"message": said}}), MODEL)
    assert isinstance(key, ModelRefused)
    assert not key.part
