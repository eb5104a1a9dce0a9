"""Settings. Later sources win: defaults, file (YAML or JSON), environment `COMPACT_*`, arguments.

`CompactConfig` holds all settings, including the policy's. A setting has the same flat name in a
file, in the environment (`COMPACT_TRIGGER_RATIO`) and as an argument. Ratios and shares are
fractions of 1. Only the settings of one tier have two names: `tiers: {1: {trigger_ratio: 0.6}}` in
a file is `COMPACT_TIER_1_TRIGGER_RATIO` in the environment. Each setting knows its source.

The command line reads `.env`, and `wiring` turns names into objects.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import Field, PrivateAttr, ValidationError, ValidationInfo, field_validator

from compact.errors import InvalidArgument, InvalidConfig, UnknownModel, unreadable
from compact.files import LARGEST_TEXT, read_small
from compact.messages import kit_names
from compact.messages.budget import ContextWindow, share_in, size_in
from compact.messages.calls import LARGEST, got
from compact.messages.kit_names import is_address
from compact.messages.policy import NUMBERS, CompactPolicy, Tier, TierSettings, tier_of
from compact.models.profiles import ModelBook, shipped
from compact.secrets.redaction import without_credentials
from compact.secrets.redactor import Redactor

PREFIX = "COMPACT_"
ENV_FILE = ".env"
OTHER_VARIABLES = ("COMPACT_DATA", "COMPACT_TRACEBACK", "COMPACT_ENCRYPTION_KEY")
"""Variables that have this prefix but are not settings: the tests' data, the command line's
tracebacks, and the passphrase of stores, which must not be in any copy of the settings."""
SHARES = ("_ratio", "_share")
"""Endings of the names of settings that are fractions of 1."""
OTHER_PREFIXES = ("COMPACT_NEW_",)
"""Prefixes of variables that are feature flags of host applications."""
DEFAULT, ARGUMENT = "default", "argument"
OTEL = "environment"
"""The value of `otlp_endpoint` that means the collector in OpenTelemetry's own variables."""
AGES = ("age_full_days", "age_key_points_days", "age_summary_days", "age_archived_days")
"""The settings that hold the last day of each level of memory, in order."""
NOTHING = ("none", "null")
"""Words that mean "no value" in the environment, for settings that may be empty."""
TIER_VARIABLES = {
    f"{PREFIX}TIER_{number}_{name.upper()}": (str(number), name)
    for number in NUMBERS
    for name in TierSettings.model_fields
}
"""Variable of a single tier → the tier's number and the setting's name."""


class CompactConfig(CompactPolicy):
    """All settings; immutable. `load` merges all sources. The constructor takes arguments."""

    model: str | None = None
    """A model key such as `gpt-4o`. It sets the window and the tokenizer if the next two do not."""
    max_context_tokens: int | None = Field(default=None, ge=1_000)
    """The window in tokens. It overrides the model's own window."""
    tokenizer: str | None = None
    """`o200k`, `cl100k`, `claude` or `chars`. Default: the model's, else that of the wire
    format."""
    summarizer: str = Field(default="model", min_length=1)
    """Who writes summaries.

    `model` is the session's own model, or code if that model cannot be asked or writes no
    summaries. `extractive` is code. Other values are model keys, such as `ollama:qwen3:8b`.
    """
    summarizer_fallbacks: tuple[str, ...] = ()
    """Keys of the models that are asked, in this order, if the first model does not answer. If none
    of them answers, code writes the summary."""
    models_file: str | None = Field(default=None, min_length=1)
    """A file (YAML or JSON) with the user's own entries about models. They override the entries
    that come with compact."""
    tiers: Mapping[Annotated[int, Field(ge=1, le=len(NUMBERS))], TierSettings] = Field(
        default_factory=dict
    )
    """Thresholds and prompt budgets for single tiers (`messages.policy`)."""
    console_events: bool = False
    """Whether every event is written to stderr as a JSON line."""
    ariadne_url: str | None = None
    """The address of an Ariadne server to which every event is sent."""
    otlp_endpoint: str | None = None
    """The address of an OpenTelemetry collector that gets spans over HTTP, or
    `environment` for the collector that the variables `OTEL_*` name."""
    telemetry_content: bool = False
    """Whether reports contain text from the conversation: summaries, reasons, error messages."""
    redact: bool = True
    """Whether secrets in reports are replaced."""
    redact_kinds: tuple[Literal["email", "phone", "iban", "ssn", "cvv", "pii"], ...] = ()
    """Further kinds of secrets to replace, in reports and other copies. `pii` means all kinds."""
    redact_patterns: Mapping[str, str] = Field(default_factory=dict)
    """The user's own kinds of secrets, each with a regular expression in RE2's syntax. The group
    `value` is redacted, or without that group the whole match."""
    store: str | None = Field(default=None, min_length=1)
    """The command line's file of sessions; the default is `.compact/sessions.db`."""
    memory: bool = False
    """Whether old turns on the same subject are quoted before the newest user message."""
    recall_tokens: int | None = Field(default=None, ge=1)
    """The most tokens of these quotes for one message. Default: a tenth of the window, up to
    1,000."""
    archive: str | None = Field(default=None, min_length=1)
    """Where `CompactManager` keeps copies, without secrets, of what compressions replace: a folder
    such as `.compact/archive`, or `s3://BUCKET/PREFIX`."""
    archive_kms_key: str | None = Field(default=None, min_length=1)
    """The KMS key with which objects are encrypted before they are sent to S3."""

    memory_archive: str | None = Field(default=None, min_length=1)
    """Where the memory keeps its archives: a folder, or `s3://BUCKET/PREFIX`. The default is
    `NAME-archive` next to the store's file."""
    embedder: str | None = Field(default=None, min_length=1)
    """The embedder for searches by meaning: `minilm`, which works offline,
    `ollama:nomic-embed-text`, `openai:text-embedding-3-small` or `sentence-transformers:NAME`."""
    vector_backend: Literal["rows", "sqlite-vec"] = "rows"
    """The index of vectors: `rows`, which is faster, or a table of sqlite-vec."""
    age_full_days: int = Field(default=7, ge=0)
    """How many days after its last activity a session's full text stays in memory."""
    age_key_points_days: int = Field(default=30, ge=0)
    """Up to this age in days, a session's digest holds 60 to 70 % of the tokens."""
    age_summary_days: int = Field(default=90, ge=0)
    """Up to this age in days, the originals are kept, with a digest of 30 to 40 %."""
    age_archived_days: int = Field(default=364, ge=0)
    """Up to this age in days, a session has a digest. Older sessions keep only metadata."""
    retain_score: float = Field(default=0.5, ge=0, le=1)
    """A session whose importance (0 to 1) is at least this is kept whole for longer."""
    retain_days: int | None = Field(default=15, ge=0)
    """For how many days an important session is kept whole. Its other levels come that much later.
    None means for ever. A session that a person marked is always kept."""
    age_automatically: bool = True
    """Whether memory ages once a day in the background, while the chat program or a `MemoryManager`
    is open. It never does where a model writes digests."""

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)
    _book: ModelBook | None = PrivateAttr(default=None)
    _adapters: dict[str, object] = PrivateAttr(default_factory=dict)

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - the fields say what each may be
        typed = kit_names.read(settings, self.names())
        try:
            super(CompactPolicy, self).__init__(**typed.settings)
        except ValidationError as error:
            raise _as_typed(_first_wrong(error, self.names()), typed.names) from None
        self._adapters.update(typed.adapters)
        shares = {"trigger_ratio", "target_ratio"}
        target = self.target_ratio or 0.0
        if shares <= self.model_fields_set and target > self.trigger_ratio:
            reason = f"{target:g} lies above trigger_ratio, which is {self.trigger_ratio:g}"
            raise InvalidConfig(
                "target_ratio", f"{reason}: a session is compressed to less than that"
            )
        for earlier, later in pairwise(AGES):
            if (last := getattr(self, later)) < (first := getattr(self, earlier)):
                raise InvalidConfig(later, f"{last} lies below {earlier}, which is {first}")

    @field_validator("ariadne_url", "otlp_endpoint")
    @classmethod
    def _is_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None or (info.field_name == "otlp_endpoint" and value == OTEL):
            return value
        if not is_address(value):
            raise ValueError("should be an address such as http://127.0.0.1:4318")
        return value

    @field_validator("redact_patterns", mode="before")
    @classmethod
    def _numbered(cls, value: object) -> object:
        if not isinstance(value, list | tuple):
            return value
        return {f"pattern_{number}": each for number, each in enumerate(value, 1)}

    @field_validator("redact_patterns")
    @classmethod
    def _are_patterns(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        try:
            Redactor(patterns=value)
        except InvalidArgument as error:
            raise ValueError(str(error)) from None
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _no_booleans_as_numbers(cls, value: object, info: ValidationInfo) -> object:
        if (
            isinstance(value, bool)
            and cls.model_fields[info.field_name or ""].annotation is not bool
        ):
            raise ValueError("expected a number or a text, not true or false")
        if isinstance(value, int) and abs(value) > LARGEST:
            raise ValueError("should be a number that means something here")
        return read_number(value, cls.model_fields[info.field_name or ""].annotation)

    @classmethod
    def load(
        cls,
        file: str | Path | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        env_file: Mapping[str, str] | None = None,
        **arguments: object,
    ) -> Self:
        """Return the effective settings: defaults, then file, then environment, then arguments.

        `environ` is `os.environ` by default. `env_file` holds the variables of a `.env` file, which
        `environ` overrides. Empty variables and arguments of None are ignored.

        Raises:
            InvalidConfig: an unknown name or a wrong value. The text names its source.
        """
        sources: dict[str, tuple[Any, str]] = {}
        names: dict[str, str] = {}
        if file is not None:
            read = _from_file(Path(file), cls.names())
            sources |= {k: (v, str(file)) for k, v in read.settings.items()}
            names |= read.names
        variables = os.environ if environ is None else environ
        beside = {k: v for k, v in (env_file or {}).items() if k not in variables}
        for given, place in ((beside, ENV_FILE), (variables, "")):
            sources |= _from_environment(given, cls, place)
            sources |= _tiers_of(given, sources.get("tiers"), place)
        names = {own: typed for own, typed in names.items() if sources[own][1] == str(file)}
        read = kit_names.read({k: v for k, v in arguments.items() if v is not None}, cls.names())
        for name, value in read.settings.items():
            _check_name(name, cls.names(), "an argument")
            sources[name] = (value, ARGUMENT)
        return cls._from_sources(sources, names | read.names, read.adapters)

    @classmethod
    def _from_sources(
        cls,
        sources: Mapping[str, tuple[Any, str]],
        names: Mapping[str, str],
        adapters: Mapping[str, object],
    ) -> Self:
        origins = {name: origin for name, (_, origin) in sources.items()}
        try:
            config = cls(**{name: value for name, (value, _) in sources.items()})
        except InvalidConfig as error:
            origin = origins.get(error.field.partition("[")[0], ARGUMENT)
            placed = InvalidConfig(error.field, _placed(error.reason, origin))
            raise _as_typed(placed, names) from None
        config._origins.update(origins)
        config._adapters.update(adapters)
        return config

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all settings, in the order of `examples/compact.yaml`."""
        policy = tuple(CompactPolicy.model_fields)
        return tuple(n for n in cls.model_fields if n not in policy) + policy

    def origin(self, name: str) -> str:
        """Return a setting's source: `default`, a file's name, a variable's name, or `argument`."""
        return self._origins.get(name, ARGUMENT if name in self.model_fields_set else DEFAULT)

    def adapter(self, port: str) -> Any:  # noqa: ANN401 - each port has a type of its own
        """Return the object that was given as the adapter for a port, or None. The ports are
        `estimator`, `exporter`, `storage` and `summarizer`.
        """
        return self._adapters.get(port)

    def policy(self) -> CompactPolicy:
        """Return the settings that belong to the policy."""
        return CompactPolicy(**{name: getattr(self, name) for name in CompactPolicy.model_fields})

    def redactor(self) -> Redactor:
        """Return the redactor for the further kinds and patterns of secrets in the settings."""
        return Redactor(self.redact_kinds, self.redact_patterns)

    def summarizers(self) -> list[str]:
        """Return the names of the summarizers, in the order in which they are asked."""
        return [self.summarizer, *self.summarizer_fallbacks]

    def book(self) -> ModelBook:
        """Return the facts about models, including the user's own entries. Their file is read once.

        Raises:
            InvalidConfig: the file cannot be read, or an entry is wrong.
        """
        if self._book is None:
            file = self.models_file
            self._book = _with_file(shipped(), Path(file)) if file else shipped()
        return self._book

    def known_tokenizer(self) -> str | None:
        """Return the tokenizer in the settings, or else the model's. Return None if neither is
        known.

        Raises:
            InvalidConfig: the file of models is wrong.
        """
        if self.tokenizer is not None or self.model is None:
            return self.tokenizer
        profile = self.book().profile_of(self.model)
        return profile.tokenizer if profile else None

    def tier(self, size: int) -> Tier:
        """Return the tier of a window of this size, with its settings."""
        return tier_of(size, self.tiers)

    def window(self) -> ContextWindow | None:
        """Return the window that the settings give by size or by model, with its tier's thresholds.
        Return None if they give neither.

        Raises:
            InvalidConfig: the model is unknown, and no size is given.
        """
        if self.max_context_tokens is None and self.model is None:
            return None
        named = size = self.max_context_tokens
        if size is None or named is None:
            try:
                sizing = self.book().sizing(self.model or "")
            except UnknownModel as error:
                raise self.wrong("model", f"{error.reason}; give max_context_tokens") from None
            named, size = sizing.size, sizing.num_ctx
        policy, reserve = self.tier(named).applied(self.policy()), 0
        if self.model is not None and not policy.output_reserve:
            reserve = self.book().output_reserve_of(self.model, size)
        return ContextWindow(
            size=size,
            output_reserve=policy.output_reserve or reserve,
            trigger_ratio=policy.trigger_ratio,
            target_ratio=policy.target_ratio,
            trigger_tokens=policy.trigger_tokens,
        )

    def wrong(self, name: str, reason: str) -> InvalidConfig:
        """Return the error for a wrong setting. It names the setting's source."""
        return InvalidConfig(name, _placed(reason, self.origin(name)))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` with the most similar known name, or an empty text."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def _placed(reason: str, origin: str) -> str:
    return reason if origin in (DEFAULT, ARGUMENT) else f"{reason} (from {origin})"


def _check_name(name: str, known: Iterable[str], place: str) -> None:
    if name not in known:
        raise InvalidConfig(name or "''", f"no such setting, in {place}{did_you_mean(name, known)}")


# --- the file -------------------------------------------------------------------------------------


def _from_file(path: Path, known: tuple[str, ...]) -> kit_names.Typed:
    value = _value_in(path)
    if value is None:
        value = {}
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise InvalidConfig(str(path), f"expected settings, one `name: value` a line, got a {kind}")
    try:
        read = kit_names.read({str(name): each for name, each in value.items()}, known)
    except InvalidConfig as error:
        raise InvalidConfig(error.field, _placed(error.reason, str(path))) from None
    for name in read.settings:
        _check_name(name, known, str(path))
    return read


def _with_file(book: ModelBook, path: Path) -> ModelBook:
    """Return the book with the entries of a file. The file holds a list, or one under `models:`."""
    value = _value_in(path)
    rows = value.get("models") if isinstance(value, dict) else value
    if not isinstance(rows, list):
        raise InvalidConfig(str(path), "expected a list of models, such as `- id: qwen3:8b`")
    return book.with_entries(rows, str(path))


def _value_in(path: Path) -> object:
    text = _text_of(path)
    return _json_of(text, path) if path.suffix.lower() == ".json" else _yaml_of(text, path)


def _text_of(path: Path) -> str:
    try:
        data = read_small(path, LARGEST_TEXT)
    except (OSError, ValueError) as error:
        raise InvalidConfig(without_credentials(str(path)), unreadable(error)) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidConfig(str(path), "not UTF-8 text") from None


def _json_of(text: str, path: Path) -> object:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _once(pairs, path))
    except json.JSONDecodeError as error:
        raise InvalidConfig(f"{path}, line {error.lineno}", f"broken JSON: {error.msg}") from None
    except ValueError as error:  # a number of thousands of digits
        raise InvalidConfig(str(path), f"broken JSON: {error}") from None
    except RecursionError:
        raise InvalidConfig(str(path), "nested too deeply") from None


def _yaml_of(text: str, path: Path) -> object:
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = str(path) if mark is None else f"{path}, line {mark.line + 1}"
        raise InvalidConfig(where, f"broken YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidConfig(str(path), f"broken YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise InvalidConfig(str(path), "nested too deeply") from None
    if isinstance(node, yaml.MappingNode):
        _once([(key.value, None) for key, _ in node.value], path)
    return value


def _once(pairs: list[tuple[Any, Any]], path: Path) -> dict[Any, Any]:
    """Return the pairs as a dictionary. Refuse a name that occurs twice."""
    names = [str(name) for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise InvalidConfig(name, f"stands twice in {path}")
    return {str(name): value for name, value in pairs}


# --- the environment ------------------------------------------------------------------------------


def _from_environment(
    environ: Mapping[str, str], cls: type[CompactConfig], place: str
) -> dict[str, tuple[Any, str]]:
    """Return the settings in variables, with their sources. `place` is their file, if any."""
    names = (*(name for name in cls.names() if name != "tiers"), *kit_names.TYPED)
    known = {PREFIX + name.upper(): name for name in names}
    texts: dict[str, str] = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or _belongs_to_others(variable):
            continue
        if variable in TIER_VARIABLES:
            continue
        if variable not in known:
            ours = (PREFIX + name.upper() for name in cls.names())
            hint = did_you_mean(variable, (*ours, *TIER_VARIABLES))
            raise InvalidConfig(variable, f"no such setting, in {place or 'the environment'}{hint}")
        if text:
            texts[known[variable]] = text
    return _by_our_names(texts, cls, place)


def _by_our_names(
    texts: Mapping[str, str], cls: type[CompactConfig], place: str
) -> dict[str, tuple[Any, str]]:
    read = kit_names.read(
        {k: _bool_or_text(v) if k in kit_names.WORDS else v for k, v in texts.items()}, ()
    )
    found: dict[str, tuple[Any, str]] = {}
    for name, value in read.settings.items():
        if isinstance(value, str):
            value = _value_of(value, cls.model_fields[name].annotation)
        variable = PREFIX + read.names.get(name, name).upper()
        found[name] = (value, _origin(variable, place))
    return found


def _bool_or_text(text: str) -> object:
    return {"true": True, "false": False}.get(text.strip().lower(), text.strip())


def _origin(variable: str, place: str) -> str:
    return f"{variable} in {place}" if place else variable


def _tiers_of(
    environ: Mapping[str, str], before: tuple[Any, str] | None, place: str
) -> dict[str, tuple[Any, str]]:
    """Return the environment's tier settings merged over the file's. It is empty if it has none."""
    given = {name: environ[name] for name in TIER_VARIABLES if environ.get(name)}
    value, origin = before or ({}, "")
    if not given or not isinstance(value, dict):
        return {}
    tiers = {str(key): dict(own) if isinstance(own, dict) else own for key, own in value.items()}
    for variable, text in given.items():
        number, name = TIER_VARIABLES[variable]
        own = tiers.setdefault(number, {})
        if isinstance(own, dict):
            own[name] = None if text.strip().lower() in NOTHING else text.strip()
    origins = [_origin(variable, place) for variable in given]
    return {"tiers": (tiers, ", ".join([*filter(None, [origin]), *origins]))}


def read_number(value: object, annotation: object) -> object:
    """Return a text as a number if the setting is numeric. Otherwise return the value unchanged."""
    kinds = {annotation, *get_args(annotation)}
    if not isinstance(value, str) or str in kinds:
        return value
    number = size_in(value) if int in kinds else share_in(value) if float in kinds else None
    return value if number is None else number


def _belongs_to_others(variable: str) -> bool:
    return variable in OTHER_VARIABLES or variable.startswith(OTHER_PREFIXES)


def _value_of(text: str, annotation: object) -> object:
    """Return a variable's text as a value that pydantic can validate."""
    text = text.strip()
    if text.lower() in NOTHING and type(None) in get_args(annotation):
        return None
    if get_origin(annotation) is Mapping:
        with suppress(ValueError):
            return json.loads(text)
    if get_origin(annotation) is tuple:
        return tuple(word for word in (w.strip() for w in text.split(",")) if word)
    return text


# --- errors ---------------------------------------------------------------------------------------


def _first_wrong(error: ValidationError, known: Iterable[str]) -> InvalidConfig:
    first = error.errors(include_url=False)[0]
    name, *inner = (str(step) for step in first["loc"] if step != "[key]")
    field = name + "".join(f"[{step}]" for step in inner)
    last = inner[-1] if inner else name
    if first["type"] == "extra_forbidden":
        known = TierSettings.model_fields if inner else known
        return InvalidConfig(field, f"no such setting{did_you_mean(last, known)}")
    reason = _reason(last, first["type"], first["msg"])
    return InvalidConfig(field, f"{reason}, got {got(first['input'])}")


def _as_typed(error: InvalidConfig, names: Mapping[str, str]) -> InvalidConfig:
    field, bracket, rest = error.field.partition("[")
    return InvalidConfig(names.get(field, field) + bracket + rest, error.reason)


def _reason(name: str, kind: str, message: str) -> str:
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    if name.endswith(SHARES) and kind in ("less_than_equal", "greater_than", "float_parsing"):
        bound = message.removeprefix("Input should be ") if kind != "float_parsing" else ""
        bound = f", {bound}" if bound and "equal to 1" not in bound else ""
        return f"should be a fraction of 1, such as 0.7 for 70 %{bound}"
    return "should be " + message.removeprefix("Input should be ").partition(" or instance of ")[0]
