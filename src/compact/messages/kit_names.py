"""Translates settings from the names and sections of the compaction kit (docs/configuration.md).

    policy: {trigger_pct: 0.8, keep_tool_io_pairs: 6}
    telemetry: {exporter: console}
    storage: {adapter: fs, path: .compact/archive}
    redaction: {enabled: true, pii: true}

Each source of settings is translated separately, so that a later source wins. Objects under
`adapters` stay objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, TypeAdapter, ValidationError

from compact.errors import InvalidConfig
from compact.messages.protocols import Exporter, StorageAdapter, Summarizer, TokenEstimator

_ADDRESS = TypeAdapter(AnyHttpUrl, config=ConfigDict(defer_build=True))
ARIADNE = "http://127.0.0.1:5175"
"""Ariadne's default address."""
POLICY: Mapping[str, str] = {
    "trigger_pct": "trigger_ratio",
    "keep_tool_io_pairs": "keep_tool_pairs",
    "roles_never_prune": "roles_never_pruned",
    "hard_cap_buffer": "output_reserve",
}
"""The kit's name → compact's name, for fields of a policy."""
NAMES: Mapping[str, str] = {
    **POLICY,
    "adapters_estimator": "tokenizer",
    "adapters_summarizer": "summarizer",
    "redaction_enabled": "redact",
    "redaction_kinds": "redact_kinds",
    "redaction_patterns": "redact_patterns",
    "storage_kms_key": "archive_kms_key",
    "storage_path": "archive",
    "summarization_timeout": "summary_seconds",
    "summarizer_model": "summarizer",
}
"""The kit's name → compact's name, for all settings. `_` joins a section and its setting."""
ARCHIVES = ".compact/archive"
"""The archive's folder if the storage setting is `fs` and no path is given."""
_EXPORTERS: Mapping[object, Mapping[str, object]] = {
    "console": {"console_events": True},
    "ariadne": {"ariadne_url": ARIADNE},
    "otlp": {"otlp_endpoint": "environment"},
}
_PLACES: Mapping[object, Mapping[str, object]] = {"fs": {"archive": ARCHIVES}, "s3": {}}
WORDS: Mapping[str, Mapping[object, Mapping[str, object]]] = {
    "adapters_exporter": _EXPORTERS,
    "adapters_storage": _PLACES,
    "protected_flag": {"protected": {}},
    "redaction_pii": {True: {"redact_kinds": ("pii",)}, False: {}},
    "storage_adapter": _PLACES,
    "storage_enabled": {True: {"archive": ARCHIVES}, False: {"archive": None}},
    "telemetry_enabled": {
        True: {"console_events": True},
        False: {"console_events": False, "ariadne_url": None, "otlp_endpoint": None},
    },
    "telemetry_exporter": _EXPORTERS,
}
"""The kit's name → the value → the settings it means by default. Those of `false` always apply."""
_BUCKET, _PREFIX = "storage_bucket", "storage_prefix"
TYPED = (*NAMES, *WORDS, _BUCKET, _PREFIX)
"""All names of settings in the kit, those of `adapters` left out."""
SECTIONS = ("policy", "telemetry", "storage", "redaction", "adapters")
PORTS: Mapping[str, type] = {
    "exporter": Exporter,
    "storage": StorageAdapter,
    "summarizer": Summarizer,
    "estimator": TokenEstimator,
}
"""Name of an adapter's port → the protocol by which the adapter is recognized."""


class Typed(NamedTuple):
    """Settings under compact's names."""

    settings: dict[str, Any]
    names: dict[str, str]
    """compact's name → the name that the caller used, where the two differ."""
    adapters: dict[str, object]
    """The port's name → the adapter object."""


def read(given: Mapping[str, Any], known: Collection[str]) -> Typed:
    """Translate the caller's settings to compact's names. `known` holds compact's names. A setting
    with an unknown name stays unchanged.

    Raises:
        InvalidConfig: a setting has two values, or a word is unknown.
    """
    result = Typed({}, {}, {})
    words: list[tuple[str, object]] = []
    for typed, value in _flat(given, known):
        name = typed.replace(".", "_")
        port = name.removeprefix("adapters_")
        if port in PORTS and port != name and isinstance(value, PORTS[port]):
            result.adapters[port] = value
        elif name in WORDS or name in (_BUCKET, _PREFIX):
            words.append((typed, value))
        else:
            _set(result, NAMES.get(name, typed), value, typed)
    _take_words(result, words)
    return result


def _set(found: Typed, own: str, value: object, typed: str) -> None:
    if own in found.settings:
        before = found.names.get(own, own)
        raise InvalidConfig(typed, f"is set twice: {before!r} is the same setting")
    found.settings[own] = value
    if own != typed:
        found.names[own] = typed


def _flat(given: Mapping[str, Any], known: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield names and values. A name in a section becomes `section.name`, unless it is known."""
    for name, value in given.items():
        if name not in SECTIONS or value is None:
            if name not in SECTIONS:
                yield name, value
            continue
        if isinstance(value, BaseModel):
            value = value.model_dump(exclude_unset=True)
        if name == "adapters" and isinstance(value, list | tuple):
            value = {_port_of(each): each for each in value}
        if not isinstance(value, Mapping):
            raise InvalidConfig(name, f"expected settings by name, got a {type(value).__name__}")
        for key, each in value.items():
            is_plain = key in known or (name == "policy" and key in TYPED)
            yield (str(key) if is_plain else f"{name}.{key}"), each


def _port_of(adapter: object) -> str:
    for port, protocol in PORTS.items():
        if isinstance(adapter, protocol):
            return port
    reason = f"a {type(adapter).__name__} is none of {', '.join(PORTS)}"
    raise InvalidConfig("adapters", f"{reason}; give a mapping such as {{'storage': …}}")


def _take_words(found: Typed, words: list[tuple[str, object]]) -> None:
    by_name = {typed.replace(".", "_"): value for typed, value in words}
    if bucket := by_name.pop(_BUCKET, None):
        place = f"s3://{bucket}/{by_name.pop(_PREFIX, None) or ''}".rstrip("/")
        found.settings.setdefault("archive", place)
    for typed, value in words:
        name = typed.replace(".", "_")
        for word in value if isinstance(value, list | tuple) else (value,):
            if name in WORDS and word is not None:
                _take_word(found, typed, WORDS[name], word)


def _take_word(
    found: Typed, typed: str, known: Mapping[object, Mapping[str, object]], word: object
) -> None:
    is_place = known is _PLACES and isinstance(word, str) and ("/" in word or "\\" in word)
    if is_place:
        found.settings.setdefault("archive", word)
    elif not isinstance(word, str | bool) or word not in known:
        named = " or ".join(str(each).lower() for each in known)
        raise InvalidConfig(typed, f"should be {named}, got {word!r}")
    elif word is False:
        found.settings.update(known[word])
    else:
        for name, value in known[word].items():
            found.settings.setdefault(name, value)


def is_address(text: str) -> bool:
    """Whether the text is an HTTP address."""
    try:
        _ADDRESS.validate_python(text)
    except ValidationError:
        return False
    return True
