"""The effective settings of a command: defaults, file, `.env`, environment, options.

Only the command line reads `.env`. Its lines are `NAME=value`, with or without `export` and quotes.
Only names that begin with `COMPACT_` are read, because the file belongs to the whole project.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compact import wiring
from compact.cli.errors import REDACTOR, Stop, say
from compact.cli.options import LARGEST, SettingsOptions
from compact.config import ENV_FILE, OTEL, PREFIX, CompactConfig, did_you_mean
from compact.errors import InvalidConfig, UnknownModel
from compact.messages.events import RedactionOff
from compact.models.model_keys import parse_key
from compact.patterns import regex
from compact.secrets.redaction import without_credentials
from compact.telemetry.plain_words import sentence

DEFAULT_STORE = os.path.join(".compact", "sessions.db")
_LINE = regex(rf"\s*(?:export\s+)?(?P<name>{PREFIX}\w+)\s*=\s*(?P<value>.*?)\s*$")
_QUOTED = regex(r"""(?P<quote>['"])(?P<text>.*?)(?P=quote)\s*(?:#.*)?$""")
_COMMENT = regex(r"\s+#.*$")

_OTLP_KEYS = tuple(
    f"OTEL_EXPORTER_OTLP_{what}HEADERS" for what in ("", "TRACES_", "METRICS_", "LOGS_")
)
"""Variables that hold the key for a telemetry collector."""
_PROTECTS = (
    *("redact", "redact_kinds", "redact_patterns", "telemetry_content"),
    *("archive_kms_key", "models_file"),
)
"""Settings that protect the user, so that the `.env` of a folder must not set them."""

SETTING_OF = {
    "tokenizer": "tokenizer",
    "store": "store",
    "window": "max_context_tokens",
    "model": "model",
    "keep": "guidance",
}
"""Option → the setting that it sets."""


def settings_of(options: SettingsOptions, **own: object) -> CompactConfig:
    """Return the effective settings. `own` holds options that only one command has."""
    asked: dict[str, Any] = {**vars(options), **own}
    tokenizer, summarizer = asked.get("tokenizer"), asked.get("summarizer")
    if tokenizer is not None and not wiring.names_tokenizer(tokenizer):
        check_choice("--tokenizer", tokenizer, wiring.TOKENIZERS)
    if asked.get("store") == "":
        raise Stop("--store: an empty name")
    try:
        settings = CompactConfig.load(
            options.config,
            env_file=variables_of(Path(ENV_FILE)),
            **{setting: asked.get(option) for option, setting in SETTING_OF.items()},
            console_events=asked.get("events") or None,
            strategy={"off": "off", "extractive": "task_state"}.get(summarizer or ""),
            summarizer=None if summarizer == "off" else summarizer,
        )
    except InvalidConfig as error:
        if error.field == "max_context_tokens" and asked.get("window") is not None:
            raise Stop(f"--window: {error.reason}") from None
        raise
    _check_reports(settings)
    REDACTOR.set(settings.redactor())
    if not settings.redact:
        say(sentence(RedactionOff()))
    hosts = _check_models(settings, summarizer)
    if "summarizer" in asked and settings.strategy != "off":
        for where in hosts:
            say(f"summaries are requested from {where}")
    if asked.get("keep") and {*settings.summarizers()} <= {wiring.EXTRACTIVE, wiring.OWN}:
        say("--keep has no effect without a summarizing model (see --summarizer)")
    if (settings.max_context_tokens or 0) > LARGEST:
        raise settings.wrong("max_context_tokens", f"should be at most {LARGEST:,}")
    return settings


def name_of_store(settings: CompactConfig) -> str:
    """Return the name of the file with the sessions."""
    return settings.store or DEFAULT_STORE


def check_choice(option: str, name: str, known: Sequence[str] | Mapping[str, str]) -> None:
    """Refuse an unknown name for an option."""
    if name not in known:
        hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
        raise Stop(f"{option}: unknown name {name!r}{hint}")


def _check_models(settings: CompactConfig, option: str | None) -> list[str]:
    """Check the models before any work. Return the other machines that get text to summarize. The
    `.env` of a folder must not choose a model on another machine, because then the author of that
    `.env` could read the conversation.
    """
    keys = [("summarizer", settings.summarizer)]
    keys += [("summarizer_fallbacks", key) for key in settings.summarizers()[1:]]
    if settings.model and "://" in settings.model:
        keys.append(("model", settings.model))
    if ":" in (settings.embedder or ""):
        keys.append(("embedder", str(settings.embedder).removeprefix("sentence-")))
    hosts: list[str] = []
    for setting, key in keys:
        try:
            named = key not in (wiring.EXTRACTIVE, wiring.OWN)
            where = wiring.leads_to(parse_key(key)) if named else None
        except UnknownModel as error:
            if key == option:
                raise Stop(f"--summarizer: {error}; or extractive, or off") from None
            raise settings.wrong(setting, str(error)) from None
        if where is None:
            _check_key(settings, setting, key)
            continue
        _check_origin(settings, setting, f"{where} is another machine, which")
        if setting.startswith("summarizer") and parse_key(key).provider != "transformers":
            hosts.append(where)
    return list(dict.fromkeys(hosts))


def _check_reports(settings: CompactConfig) -> None:
    """Refuse a `.env` that could expose the user's data. It must not send reports or archives to
    another machine, send a key to a local port, or weaken the user's protection.
    """
    for setting in ("ariadne_url", "otlp_endpoint"):
        address = getattr(settings, setting)
        if address not in (None, OTEL) and not wiring.is_here(address):
            _check_origin(
                settings, setting, f"{without_credentials(address)} is another machine, which"
            )
    if settings.otlp_endpoint != OTEL and any(map(os.environ.get, _OTLP_KEYS)):
        _check_origin(settings, "otlp_endpoint", f"it would get {_OTLP_KEYS[0]}; where that goes")
    for setting in ("archive", "memory_archive"):
        place = getattr(settings, setting) or ""
        if place.startswith("s3://"):
            _check_origin(settings, setting, f"{place} is another machine, which")
    for setting in _PROTECTS:
        _check_origin(settings, setting, "it says how a person is protected, which")


def _check_key(settings: CompactConfig, setting: str, key: str) -> None:
    """Refuse a `.env` that sends an API key to a server on this machine, because any program may
    listen there.
    """
    if key in (wiring.EXTRACTIVE, wiring.OWN) or (named := parse_key(key)).base_url is None:
        return
    if wiring.key_for(named.provider, named.base_url):
        where = f"{without_credentials(named.base_url)} would get the environment's key, which"
        _check_origin(settings, setting, where)


def _check_origin(settings: CompactConfig, setting: str, where: str) -> None:
    if settings.origin(setting).endswith(f" in {ENV_FILE}"):
        reason = f"{where} the .env of a folder cannot choose: use an option or the environment"
        raise settings.wrong(setting, f"{reason} itself")


# --- the file `.env` ------------------------------------------------------------------------------


def variables_of(path: Path) -> dict[str, str]:
    """Return the settings in a `.env` file. They are empty if there is no such file."""
    if not path.is_file():
        return {}
    try:
        return settings_in(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidConfig(ENV_FILE, "not UTF-8 text") from None
    except OSError as error:
        raise InvalidConfig(ENV_FILE, f"cannot be read: {error.strerror or error}") from None


def settings_in(text: str) -> dict[str, str]:
    """Return the settings in the lines of a `.env` file. For each name the last line counts."""
    settings = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            quoted = _QUOTED.match(match["value"])
            plain = _COMMENT.sub("", f" {match['value']}").strip()
            settings[match["name"]] = quoted["text"] if quoted else plain
    return settings
