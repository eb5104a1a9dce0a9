"""Turns failures of models and their servers into compact's errors, with a sentence for people.

Start reading at `failure_of`. Vendors' exceptions are recognized by their status, body and headers,
and by the names of their classes, so that no vendor's package is imported here. `messages.overflow`
reads the sizes in a refusal. The caller decides when to ask again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from compact.errors import (
    CompactError,
    ContextOverflow,
    InvalidInput,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
    UnknownModel,
)
from compact.messages.overflow import refusal_of
from compact.models.model_keys import ModelKey, parse_key
from compact.models.provider_table import PROVIDERS
from compact.models.providers.clients import address_of, belongs, is_sealed
from compact.patterns import regex
from compact.secrets.redaction import redact, without_credentials

QUOTED = 300
"""How many characters of a server's text are quoted in an error at most."""

_LATER: Mapping[int, str] = {
    408: "was too slow",
    409: "is busy with another request",
    425: "is not ready yet",
    429: "takes no more requests for now (rate limit)",
    499: "closed the request",
    500: "has an error of its own",
    502: "cannot be reached behind its gateway",
    503: "is down or still loading",
    504: "was too slow behind its gateway",
    529: "is overloaded",
}
"""Temporary HTTP statuses → the error's text. Other statuses from 500 on are server errors too."""
_NEVER = (501, 505)
"""Statuses from 500 on that are not temporary."""
_STATUS: Mapping[str, int] = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "insufficient_quota": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Error name → HTTP status, for errors inside an answer that has a status of success."""
_QUOTA = regex(
    r"insufficient_quota|exceeded your current quota|billing|credit balance|out of credits|"
    r"insufficient (?:balance|funds|credits)",
    re.IGNORECASE,
)
_KEY = regex(r"api[ _-]?key|credential|unauthori[sz]ed|authentication|access token", re.IGNORECASE)
_NO_MODEL = regex(
    r"\bmodel\b.{0,200}\b(?:not found|does(?: not|n't) exist)|not a valid model|"
    r"^model: \S+$",
    re.IGNORECASE,
)

_PARTS: Mapping[str, re.Pattern[str]] = {
    "file": regex(
        r"\b(?:image|audio)(?:_url|s)?\b.{0,60}\b(?:formats?|mime|media[ _]type|scheme)\b|"
        r"\b(?:formats?|mime|media[ _]type)\b.{0,60}\b(?:image|audio)\b|"
        r"\bimage urls? .{0,10}only supported with\b|\byour (?:image|audio)\b|"
        r"\b(?:in)?valid (?:image|audio)\b|\bimage(?: dimensions)? exceeds?\b|"
        r"\b(?:failed to|could not|unable to) \w+ (?:\w+ )?(?:image|audio)\b(?! input)",
        re.IGNORECASE,
    ),
    "turns": regex(
        r"\broles? (?:must|should(?: be)?) alternat|raise_exception|jinja exception|"
        r"unexpected role .{1,20} after role|(?:system|tool|user|assistant) roles? (?:is |are )?"
        r"(?:not|only) supported|only user,? .{0,40}roles are supported",
        re.IGNORECASE,
    ),
    "media": regex(r"not a multi-?modal model", re.IGNORECASE),
    **{
        kind: regex(
            rf"\b{kind}(?![ _]generation).{{0,30}}\b(?:not|only|un)[ -]?supported|"
            rf"unsupported.{{0,30}}\b{kind}|does(?: not|n't) support {kind}|at most 0 {kind}|"
            rf"required for {kind} input|no endpoints found that support {kind}|"
            rf"unknown variant .(?:input_)?{kind}",
            re.IGNORECASE,
        )
        for kind in ("image", "audio")
    },
    "part": regex(r"unsupported content\b.{0,20}\btype", re.IGNORECASE),
}
"""Name of a part of the prompt (`ModelRefused.part`) → a pattern for a server's refusal of it. The
first match counts, so that the refusal of one broken file does not switch off all images."""
_REFUSED: Mapping[str, str] = {
    "file": "cannot read a file in it: give it in another form",
    "media": "takes neither images nor audio: ask another model",
    "image": "takes no images: ask another model",
    "audio": "takes no audio: ask another model",
    "part": "takes no parts of some kind in it: ask another model",
    "turns": "takes its messages in no order that compact knows: ask another model",
}
_STAYS = regex(r"Failed to parse (?:messages|tool call arguments)")
"""llama.cpp's text, with status 500, for a request that it cannot read. Asking again is useless."""

_SLOW = {"TimeoutException", "APITimeoutError", "TimeoutError"}
_ADDRESS = {"UnsupportedProtocol", "InvalidURL", "LocalProtocolError", "TooManyRedirects"}
_NO_KEY = {"CredentialsError", "SubjectTokenProviderError"}
_CLIENTS = {"OpenAIError", "AnthropicError", "TypeError"}
"""Errors that clients raise before they send anything, for example without an API key."""
_FILTERED = {"ContentFilterFinishReasonError"}
_UNREADABLE = {
    "APIResponseValidationError",
    "ContentDecodingError",
    "DecodingError",
    "JSONDecodeError",
    "StreamError",
    "UnicodeError",
    "ValidationError",
}
_UNREACHED = {
    "APIConnectionError",
    "EndOfStream",
    "OSError",
    "RetryableError",
    "TransportError",
    "WebSocketConnectionClosedError",
}
_NO_REFUSAL = _SLOW | _ADDRESS | _UNREACHED | _UNREADABLE
"""Classes of errors that are never a server's refusal of a prompt, whatever their text."""


class ErrorInAnswer(Exception):
    """A server sent an error in place of an answer, with a status of success."""

    def __init__(self, body: object) -> None:
        self.body = body
        super().__init__(_message_in(body))


@contextmanager
def mapped(model: str) -> Iterator[None]:
    """Raise any failure inside the block as an error of compact, with the original as its cause.
    Cancellation and interrupts are not caught.
    """
    try:
        yield
    except CompactError:
        raise
    except Exception as error:
        raise failure_of(error, model) from error


@contextmanager
def reading(model: str) -> Iterator[None]:
    """Raise `ModelFailed` if the block cannot read an answer. The next answer may be readable."""
    try:
        yield
    except (InvalidInput, AttributeError, LookupError, TypeError, ValueError) as error:
        text = f"{model} answered something that cannot be read: {_one_line(error)}"
        raise ModelFailed(text, model=model) from error


def failure_of(error: BaseException, model: str) -> CompactError:
    """Return compact's error for a vendor's exception. `model` is the model's key.

    Cancellation and interrupts are raised again.
    """
    if isinstance(error, CompactError):
        return error
    if not isinstance(error, Exception):
        raise error
    kinds = _kinds(error)
    if not kinds & _NO_REFUSAL and (overflow := _overflow(error, model)):
        return overflow
    if kinds & _SLOW:
        return ModelUnavailable(f"{model} did not answer in time", model=model)
    status = _status(error)
    if status is not None and status >= 400:
        return _by_status(error, status, model)
    return _by_kind(error, kinds, model)


def _overflow(error: Exception, model: str) -> ContextOverflow | None:
    if not _comes_from_server(error):
        return None
    refusal = refusal_of(error)
    if refusal is None and _status(error) != 413:
        return None
    tokens, limit, _ = refusal or (None, None, False)
    return ContextOverflow(
        f"{model} refused the prompt as too large: {_one_line(error)}", tokens=tokens, limit=limit
    )


def _by_status(error: Exception, status: int, model: str) -> ModelFailed:
    words = _one_line(error)
    whole = f"{words} {getattr(error, 'body', '')}"
    if status in (402, 403, 429) and _QUOTA.search(whole):
        text = f"{model} refused: the account has no quota or credit left ({words})"
        return ModelRefused(text, model=model, status=status)
    part = "" if status == 401 else _refused_part(words)
    stays = status == 500 and (part or _STAYS.search(words))
    if not stays and (status in _LATER or (status >= 500 and status not in _NEVER)):
        what = _LATER.get(status, f"has an error of its own (status {status})")
        return ModelUnavailable(
            f"the server of {model} {what}: {words}",
            model=model,
            status=status,
            retry_after=_retry_after(error),
        )
    if part:
        text = f"{model} {_REFUSED[part]}, or say it in words ({words})"
        return ModelRefused(text, model=model, status=status, part=part)
    return ModelRefused(_refusal(status, words, whole, model), model=model, status=status)


def _refusal(status: int, words: str, whole: str, model: str) -> str:
    if status == 401 or (status in (400, 403) and _KEY.search(whole)):
        return f"{model} did not accept the key: {key_hint(model)} ({words})"
    if status == 403:
        return f"{model} may not be used with this key, from here or for this: {words}"
    if status in (400, 404) and (_NO_MODEL.search(words) or "model_not_found" in whole):
        return f"the server knows no model of that name ({model}): {words}"
    if status in (404, 405):
        return f"nothing answers for {model} at {_where(model)}; check name and address ({words})"
    return f"{model} refused the request (status {status}): {words}"


def _by_kind(error: Exception, kinds: set[str], model: str) -> ModelFailed:
    words = _one_line(error)
    if "LocalProtocolError" in kinds:
        text = "the request cannot be sent; is there a line break in the key or the address?"
        return ModelRefused(f"{model}: {text}", model=model)
    if kinds & _ADDRESS:
        return ModelRefused(f"{model} cannot be asked at {_where(model)}: {words}", model=model)
    if kinds & _NO_KEY or (kinds & _CLIENTS and _KEY.search(str(error))):
        return ModelRefused(f"there is no key for {model}: {key_hint(model)}", model=model)
    if kinds & _FILTERED:
        return ModelRefused(f"a filter of {model} stopped the answer: {words}", model=model)
    if kinds & _UNREADABLE:
        text = f"{model} answered something that cannot be read: {words}"
        return ModelFailed(text, model=model, status=_status(error))
    if kinds & _UNREACHED:
        text = f"the server of {model} cannot be reached at {_where(model)}: {words}"
        return ModelUnavailable(text, model=model)
    return ModelFailed(f"{model} failed: {words}", model=model)


def _refused_part(words: str) -> str:
    return next((part for part, pattern in _PARTS.items() if pattern.search(words)), "")


def key_hint(model: str) -> str:
    """Return a sentence that tells people how to give a model its API key."""
    named = _parsed_key(model)
    provider = PROVIDERS[named.provider] if named else None
    if named is None or provider is None or not provider.key:
        return f"give the right key: {_BY_ARGUMENT}"
    address = named.base_url
    if not is_sealed(address):
        return f"{provider.key} is not sent over plain http; ask by https, or {_BY_ARGUMENT}"
    if not belongs(named.provider, address):
        beside = f"set {provider.address} to {address}, too"
        return f"{provider.key} is sent to its own address alone; {beside}, or {_BY_ARGUMENT}"
    return f"set {provider.key}, or {_BY_ARGUMENT}"


_BY_ARGUMENT = "in Python make the model with chat_model(…, api_key=…)"


def _parsed_key(model: str) -> ModelKey | None:
    with suppress(UnknownModel):
        return parse_key(model)
    return None


def _where(model: str) -> str:
    """Return the address at which a model is asked, and the variable that sets the address."""
    named = _parsed_key(model)
    if named is None or named.base_url or not PROVIDERS[named.provider].address:
        return (named and named.base_url) or without_credentials(model)
    variable = PROVIDERS[named.provider].address
    address = without_credentials(address_of(named.provider))
    return f"{address} ({variable}, in the environment of the process, says where)"


# --- reading exceptions ------------------------------------------------------------------------


def _kinds(error: Exception) -> set[str]:
    chain = (error, error.__cause__) if isinstance(error.__cause__, Exception) else (error,)
    return {kind.__name__ for link in chain for kind in type(link).__mro__}


def _comes_from_server(error: Exception) -> bool:
    return any(hasattr(error, x) for x in ("body", "response", "status_code"))


def _status(error: Exception) -> int | None:
    """Return an error's HTTP status, or the status that its body implies, or None."""
    status = getattr(error, "status_code", None)
    if status is None:
        status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int) and status >= 300:
        return status
    for field in ("code", "status", "type"):
        value = _inner(getattr(error, "body", None)).get(field)
        if isinstance(value, int) and 400 <= value < 600:
            return value
        if isinstance(value, str) and value in _STATUS:
            return _STATUS[value]
    return None


def _inner(body: object) -> Mapping[str, Any]:
    """Return the error object in a body. Some clients give the body, others only this object."""
    while isinstance(body, Mapping):
        inner = body.get("error")
        if not isinstance(inner, Mapping):
            return body
        body = inner
    return {}


def _message_in(body: object) -> str:
    for field in ("message", "error", "detail"):
        if isinstance(text := _inner(body).get(field), str) and text.strip():
            return text
    return body if isinstance(body, str) else ""


def _one_line(error: Exception) -> str:
    """Return the error's text in one line, without secrets and web pages. It is never empty."""
    text = _message_in(getattr(error, "body", None)) or str(error)
    if "<html" in text.lower() or "<!doctype" in text.lower():
        return "a web page came back instead of an answer"
    cause = error.__cause__
    if isinstance(cause, Exception) and str(cause) and text.rstrip(".") == "Connection error":
        text = str(cause)
    text = " ".join(redact(text[: 10 * QUOTED]).text.split())
    if len(text) > QUOTED:
        text = f"{text[:QUOTED]}…"
    return text or f"no more is known than its kind, {type(error).__name__}"


def _retry_after(error: Exception) -> float | None:
    """Return the seconds to wait, or None, from a refusal's headers: a number or a date."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    for header, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(header)
        if value is None:
            continue
        with suppress(ValueError):
            seconds = float(value) / unit
            if math.isfinite(seconds):
                return max(0.0, seconds)
            continue
        with suppress(ValueError):
            date = parsedate_to_datetime(value)
            date = date if date.tzinfo else date.replace(tzinfo=UTC)
            return max(0.0, (date - datetime.now(UTC)).total_seconds())
    return None
