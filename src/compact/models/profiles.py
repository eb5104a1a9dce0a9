"""Model profiles: windows, sizes, tokenizers, and the settings of local servers.

The facts are in models.json next to this file. A user's own entries override them
(`ModelBook.with_entries`). Nothing is guessed about an unlisted model: the caller must pass
`window=` or `tokenizer=`. Only an unlisted local model gets the file's template, whose sizes are
small enough to be safe. `models.providers.tokenizers` finds a tokenizer by its name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    Field,
    StrictBool,
    ValidationError,
    field_validator,
    model_validator,
)

from compact.errors import InvalidConfig, UnknownModel
from compact.messages.given import did_you_mean
from compact.messages.reliability import (
    ASSUMED,
    LARGE,
    SMALL,
    Parameters,
    ToolSource,
    ToolSupport,
    billions_in,
)
from compact.models.provider_table import PROVIDERS
from compact.patterns import regex
from compact.secrets.redaction import without_credentials

DEFAULT_SIZE = 8_192
"""A local model's window in tokens, if its entry names no default."""
ANSWER = 4_096
"""How many tokens are kept free for an answer, if the window has room."""
REASONING = 8_192
"""How many more tokens are kept free for the model's reasoning before the answer."""
RESERVE_SHARE = 8
"""One part in this many (an eighth) is the most of the window that is kept free for an answer."""
OF_OTHERS = frozenset(
    {
        *("abilities", "creator", "description", "installed", "last_seen", "manual_context"),
        *("context_window", "ollama_url", "quantization", "thinking_enabled", "warmup_timeout"),
    }
)
"""Fields that other programs write into model files. They are silently ignored."""
TEMPLATE = "user-unknown-model"
"""The id of the entry that describes every local model without an entry of its own."""
SAFE = 0.85
"""If an entry gives only a size, the server gets this share of it: 6,963 of 8,192, as is usual."""

Tokens = Annotated[int, Field(ge=1, strict=True)]
ReasoningSent = Literal["none", "turn", "calls", "all"]
"""Which answers are sent back with their reasoning. A server drops or refuses other reasoning.

`turn` means the answers since the newest user message. `calls` adds all answers that call tools,
because some servers return status 400 if their reasoning is missing."""


class ContextRow(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """A window size that a local model can be set up with."""

    size: Tokens
    """The window in tokens, as users name it, such as 8192."""
    ollama_context_size: Tokens
    """The server's `num_ctx` in tokens. All limits follow from it."""
    size_label: str = ""
    vram_estimate: str | None = None
    vram_estimate_gb: float | None = None


class Profile(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The facts about a model, or about a family of models."""

    id: str = ""
    """The model's name. It is empty for a family."""
    pattern: str = ""
    """A regular expression for the start of a family's names. It is empty for a single model."""
    name: str = ""
    """The model's display name."""
    vendor: str = ""
    """The provider of a family's models."""
    aliases: tuple[str, ...] = ()
    parameters: str = ""
    """The model's size as text, such as `3B`, `E2B` or `8x7B`."""
    tool_support: StrictBool | None = None
    tool_support_source: ToolSource = "profile"
    writes_summaries: StrictBool | None = None
    """Whether the model writes the summaries of its own sessions. None means that its size decides.
    A model that the user named as the summarizer always writes."""
    reasoning: StrictBool = False
    """Whether the model reasons before it answers. The reasoning takes room in the window."""
    reasoning_buffer: Tokens | None = None
    """How many tokens the model needs for reasoning."""
    reasoning_sent: ReasoningSent = "turn"
    max_context_window: Tokens | None = None
    """The largest window in tokens. It is None if it is unknown or the server decides."""
    input_limit: Tokens | None = None
    """The largest prompt in tokens, if it is smaller than the window."""
    output_limit: Tokens | None = None
    """The largest answer in tokens."""
    default_context: Tokens | None = None
    """The default window of a local model, in tokens."""
    context_profiles: tuple[ContextRow, ...] = ()
    """The window sizes with which a local model can be set up, smallest first."""
    tokenizer: str = "chars"
    strict_turns: StrictBool | None = None
    """Whether the model's server refuses two messages of one role in a row. None means that the
    model's name decides."""

    @field_validator("parameters", mode="before")
    @classmethod
    def _number_is_billions(cls, value: object) -> object:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return f"{value}B" if is_number else value

    @field_validator("context_profiles")
    @classmethod
    def _ascending(cls, rows: tuple[ContextRow, ...]) -> tuple[ContextRow, ...]:
        sizes = [row.size for row in rows]
        if len(set(sizes)) < len(sizes):
            raise ValueError("two rows have one size")
        return tuple(sorted(rows, key=lambda row: row.size))

    @model_validator(mode="after")
    def _is_named(self) -> Self:
        if not self.id.strip() and not self.pattern:
            raise ValueError("an entry needs an id")
        return self

    @property
    def window(self) -> int | None:
        """The model's window in tokens, or None if unknown. A local model has a default window."""
        sizing = self.sizing()
        return sizing.num_ctx if sizing else None

    @property
    def tools(self) -> ToolSupport:
        """Whether the model calls tools, according to its entry."""
        return ToolSupport(self.tool_support, self.tool_support_source)

    def sizing(self, wanted: int | None = None) -> Sizing | None:
        """Return the window for a requested size. Return None if the model's window is unknown.

        A local model gets the window size that equals the request, else the next larger one, else
        the largest.

        `wanted` is the requested size in tokens. None means the default.
        """
        rows = [row for row in self.context_profiles if self._holds(row)]
        rows = rows or list(self.context_profiles[:1])
        most = self.max_context_window or (rows[-1].size if rows else None)
        if most is None:
            return None
        usual = self.default_context or (DEFAULT_SIZE if rows else most)
        allowed = min(usual if wanted is None else wanted, most)
        if not rows:
            return Sizing(allowed, allowed, None)
        row = next((row for row in rows if row.size >= allowed), rows[-1])
        return Sizing(row.size, row.ollama_context_size, row)

    def _holds(self, row: ContextRow) -> bool:
        most = self.max_context_window
        return most is None or row.ollama_context_size <= most

    @property
    def answer(self) -> int:
        """Tokens to keep for an answer and the reasoning before it, if the window has room."""
        reasoning = (self.reasoning_buffer or REASONING) if self.reasoning else 0
        return min(ANSWER, self.output_limit or ANSWER) + reasoning

    def output_reserve(self, window: int) -> int:
        """Return how many tokens of a window are kept free for the answer and its reasoning.

        This is at most an eighth of the window, unless the provider's limit for prompts leaves more
        free.
        """
        refused = window - self.input_limit if self.input_limit else 0
        return max(min(self.answer, window // RESERVE_SHARE), refused)


@dataclass(frozen=True, slots=True)
class Sizing:
    """The window for a requested size, in tokens."""

    size: int
    """The size as users name it. It decides the tier."""
    num_ctx: int
    """The window from which all limits follow. A local server is set up with it."""
    row: ContextRow | None
    """The profile's entry of this window size. None for models without such entries."""


class ModelBook:
    """All profiles: single models, families, and the template for other local models."""

    def __init__(
        self,
        models: Iterable[Profile],
        families: Iterable[Profile],
        template: Profile,
        passed_over: Mapping[str, int] | None = None,
        *,
        strict_turns: str = r"\Z.",
    ) -> None:
        self._strict_turns = re.compile(strict_turns)
        self.passed_over = dict(passed_over or {})
        """How often each unknown field appears in the user's own entries."""
        self.models = tuple(models)
        self.families = tuple(families)
        self.template = template
        self._named = {_pieces(profile.id): profile for profile in self.models}
        self._aliases = {_pieces(name): model for model in self.models for name in model.aliases}
        self._patterns = [(re.compile(family.pattern), family) for family in self.families]

    def profile_of(self, model: str) -> Profile | None:
        """Return the profile for a model key. Return None if the model is unknown.

        Keys are for example `gpt-4o`, `ollama:qwen3:8b` or `http://host/v1#llama3.2:3b`. The key of
        a fine-tuned model, `ft:gpt-4o-mini:org::id`, gets the profile of its base model. The window
        sizes of a local model apply only to local servers and bare names, because other servers may
        be set up differently.

        Raises:
            UnknownModel: the key may contain a secret, and keys are shown and stored.
        """
        key = model.strip().lower()
        if (clean := without_credentials(model)) != model:
            raise UnknownModel(f"{clean!r} is no name of a model: it may hold a secret")
        local = _LOCAL.match(key)
        if local is not None:
            name = key[local.end() :].rsplit("/", 1)[-1]
            return (self._listed(name) or self.template) if name else None
        bare = None if "/" in key or key.startswith("ft:") else self._listed(key)
        return bare or self._served(key)

    def window_of(self, model: str) -> int:
        """Return a model's window in tokens. For a local model it is the server's `num_ctx`.

        Raises:
            UnknownModel: the window is unknown. The text suggests passing `window=`.
        """
        return self.sizing(model).num_ctx

    def sizing(self, model: str, wanted: int | None = None) -> Sizing:
        """Return a model's window for the requested size. Without a size, return the default
        window.

        Raises:
            UnknownModel: the window is unknown. The text suggests passing `window=`.
            ValueError: the requested size is less than 1.
        """
        if wanted is not None and wanted < 1:
            raise ValueError(f"a window has 1 token at least, not {wanted:,}")
        profile = self.profile_of(model)
        if profile is None or (sizing := profile.sizing(wanted)) is None:
            way = "give its size with window="
            raise UnknownModel(f"nothing is known of the model {model!r}", way=way)
        return sizing

    def parameters_of(self, model: str) -> Parameters:
        """Return a model's number of parameters, from its entry or its name. If it is unknown, 70
        billion is assumed for a provider's model, and 7 billion for others.
        """
        profile = self.profile_of(model)
        if profile and (known := billions_in(profile.parameters)) is not None:
            return Parameters(known, "profile")
        if (named := billions_in(_after_address(model))) is not None:
            return Parameters(named, "name")
        if (profile is not None and profile.vendor) or _vendor_of(model) in _SERVE_LARGE:
            return Parameters(LARGE, "provider")
        return Parameters(ASSUMED, "assumed")

    def strict_turns(self, model: str) -> bool:
        """Return whether a model's chat template refuses two messages of one role in a row. The
        model's entry decides. If it does not say, the model's name does.
        """
        profile = self.profile_of(model)
        if profile is not None and profile.strict_turns is not None:
            return profile.strict_turns
        name = _after_address(model).lower().rsplit("/", 1)[-1]
        return bool(self._strict_turns.search(name))

    def unfit(self, model: str) -> str:
        """Return, as text, why a model does not write its sessions' summaries. Empty if it does."""
        profile, size = self.profile_of(model), self.parameters_of(model).billions
        writes = profile.writes_summaries if profile else None
        if writes is False:
            return f"the entry of {model} says that it writes none"
        if writes is None and size < SMALL:
            return f"{model} has {size:g} billion parameters; code writes better below {SMALL:g}"
        return ""

    def output_reserve_of(self, model: str, window: int | None = None) -> int:
        """Return how many tokens are kept free for an answer. `window` defaults to the model's own.

        Raises:
            UnknownModel: the window is unknown, and none is given.
        """
        size = self.window_of(model) if window is None else window
        return (self.profile_of(model) or self.template).output_reserve(size)

    def reasoning_sent_of(self, model: str | None) -> ReasoningSent:
        """Return which answers are sent back to a model with their reasoning."""
        profile = self.profile_of(model) if model else None
        return (profile or self.template).reasoning_sent

    def with_entries(self, rows: Sequence[Any], source: str) -> ModelBook:
        """Return a book in which the user's own entries override this book's fields.

        An entry with the `id` of a listed model changes that model. An entry whose name matches a
        family starts from the family's facts. Any other entry is a new model, with the template's
        sizes unless it gives its own. Unknown fields are skipped and counted. Errors name `source`.

        Raises:
            InvalidConfig: an entry is wrong. The text names the entry, the field and the source.
        """
        models, template = dict(self._named), self.template
        names: set[tuple[str, ...]] = set()
        unknown: Counter[str] = Counter()
        for number, row in enumerate(rows, 1):
            name = _name_of(row, number, source)
            if _pieces(name) in names:
                raise InvalidConfig(f"models[{name}]", f"stands twice (from {source})")
            names.add(_pieces(name))
            profile = self._laid_over(name, _known_fields(name, row, unknown, source), source)
            if name == TEMPLATE:
                template = profile
            else:
                models[_pieces(name)] = profile
        strict = self._strict_turns.pattern
        return ModelBook(models.values(), self.families, template, unknown, strict_turns=strict)

    def _laid_over(self, name: str, own: dict[str, Any], source: str) -> Profile:
        before = self._listed(name) or self._family(name)
        if before is None and not own.keys() & {"max_context_window", "context_profiles"}:
            before = self.template
        known = before.model_dump(exclude_unset=True) if before else {}
        if _pieces(name) not in self._named:  # a new model does not take another one's names
            known = {k: v for k, v in known.items() if k not in ("name", "pattern", "aliases")}
        if "tool_support" in own:
            own.setdefault("tool_support_source", "user_confirmed")
        try:
            return Profile.model_validate(known | own | {"id": name})
        except ValidationError as error:
            raise _wrong_entry(name, error, source) from None

    def _listed(self, name: str) -> Profile | None:
        """Return the single model with this name or alias. Of a longer name, such as
        `llama3.2:3b-instruct-q4_K_M`, only the part up to the size must match.
        """
        pieces = _pieces(name.removesuffix(":latest"))
        found = self._named.get(pieces) or self._aliases.get(pieces)
        for end in range(len(pieces) - 1, 1, -1):
            if found is None and _IS_SIZE.fullmatch(pieces[end - 1]):
                found = self._named.get(pieces[:end])
        return found

    def _family(self, key: str) -> Profile | None:
        names = _bare_names(key)
        for pattern, family in self._patterns:
            if any(pattern.match(name) for name in names):
                return family
        return None

    def _served(self, key: str) -> Profile | None:
        """Return the profile of a model on a server whose setup is unknown: no window sizes."""
        name = _after_address(key)
        listed = self._listed(name.rsplit("/", 1)[-1]) or self._listed(name.partition(":")[2])
        if listed is not None and not listed.context_profiles:
            return listed
        family = self._family(key)
        if family is not None or listed is None:
            return family
        return listed.model_copy(update={"context_profiles": (), "max_context_window": None})


@cache
def shipped() -> ModelBook:
    """Return the book that comes with compact. The file is read on the first call."""
    import json
    from importlib import resources

    text = (resources.files("compact.models") / "models.json").read_text(encoding="utf-8")
    data = json.loads(text)
    return ModelBook(
        [Profile.model_validate(row) for row in data["models"]],
        [Profile.model_validate(row) for row in data["families"]],
        Profile.model_validate(data["template"]),
        strict_turns=data["strict_turns"],
    )


def profile_of(model: str) -> Profile | None:
    """Return a model's profile from the book that comes with compact, or None if it is unknown."""
    return shipped().profile_of(model)


# --- names ----------------------------------------------------------------------------------------

_LOCAL = regex(r"(?:ollama(?:_chat)?|local|transformers)[:/]|ollama\+https?://[^#]*#")
"""Matches the start of a local model's key. The user sets the window of such a model."""
_OTHER_VENDORS = ("google", "gemini", "mistral", "deepseek", "xai", "cohere", "azure", "bedrock")
_SERVE_LARGE = frozenset((*(p.name for p in PROVIDERS.values() if p.serves_large), *_OTHER_VENDORS))
"""Key prefixes of providers whose models of unknown size count as large."""
_PIECE = regex(r"[a-z]+(?=\d)|\d[\d.]*[a-z]*|[^\W\d_]+")
_IS_SIZE = regex(r"[\d.]+[bmt]")


def _pieces(name: str) -> tuple[str, ...]:
    """Split a name into pieces. `llama3.2:3b` and `Llama-3.2-3B` have the same pieces."""
    return tuple(_PIECE.findall(name.lower()))


def _vendor_of(key: str) -> str:
    """Return the part before the first `:` or `/`. It is empty if the key has neither."""
    vendor, separator, _ = key.strip().lower().replace("/", ":").partition(":")
    return vendor if separator else ""


def _after_address(key: str) -> str:
    return key.partition("#")[2] if "://" in key else key


def _bare_names(key: str) -> list[str]:
    """Return the model names that a key may mean, without vendors. Fine-tuned: the base."""
    pieces = _after_address(key).lower().rsplit("/", 1)[-1].split(":")
    if "ft" in pieces[:-1]:
        base = pieces.index("ft") + 1
        pieces = pieces[base : base + 1]
    return [piece.rsplit("anthropic.", 1)[-1] for piece in pieces]


# --- entries of one's own -------------------------------------------------------------------------


def _name_of(row: object, number: int, source: str) -> str:
    if not isinstance(row, Mapping):
        reason = f"expected an entry such as {{id: qwen3:8b, …}} (from {source})"
        raise InvalidConfig(f"models[{number}]", reason)
    name = row.get("id")
    if not isinstance(name, str) or not _pieces(_LOCAL.sub("", name.strip().lower())):
        reason = f"should be a model's name, such as qwen3:8b, got {name!r} (from {source})"
        raise InvalidConfig(f"models[{number}].id", reason)
    return _LOCAL.sub("", name.strip().lower())


def _known_fields(
    name: str, row: Mapping[Any, Any], unknown: Counter[str], source: str
) -> dict[str, Any]:
    """Return an entry's known fields under the profile's names, and count the unknown fields.

    If `reasoning_buffer` is a word, such as `Variable`, the model reasons.
    """
    own = _fields_of(Profile, row, unknown, f"models[{name}]", source)
    if "context_window" in row:
        own.setdefault("max_context_window", row["context_window"])
    if isinstance(own.get("reasoning_buffer"), str):
        del own["reasoning_buffer"]
        own.setdefault("reasoning", True)
    if isinstance(rows := own.get("context_profiles"), list | tuple):
        own["context_profiles"] = [_row_of(name, i, x, unknown, source) for i, x in enumerate(rows)]
    return own


def _row_of(name: str, number: int, row: object, unknown: Counter[str], source: str) -> object:
    if not isinstance(row, Mapping):
        return row
    place = f"models[{name}].context_profiles[{number}]"
    own = _fields_of(ContextRow, row, unknown, place, source)
    if isinstance(size := own.get("size"), int):
        own.setdefault("ollama_context_size", int(size * SAFE))
    return own


def _fields_of(
    kind: type[BaseModel], row: Mapping[Any, Any], unknown: Counter[str], place: str, source: str
) -> dict[str, Any]:
    own: dict[str, Any] = {}
    for key, value in row.items():
        if key in kind.model_fields:
            own[key] = value
        elif key not in OF_OTHERS:
            if meant := did_you_mean(str(key), kind.model_fields):
                raise InvalidConfig(f"{place}.{key}", f"no such field{meant} (from {source})")
            unknown[str(key)] += 1
    return own


def _wrong_entry(name: str, error: ValidationError, source: str) -> InvalidConfig:
    first = error.errors(include_url=False)[0]
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    if first["type"] == "missing":
        reason = "is missing"
    else:
        rule = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        reason = f"should be {rule}, got {first['input']!r}"
    return InvalidConfig(f"models[{name}]{field}", f"{reason} (from {source})")
