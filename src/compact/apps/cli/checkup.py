"""What `doctor` looks at: packages, vocabularies, whether the trigger can fire, the store.

Each look gives findings. Nothing is taken for granted: texts are counted, and a session is filled
until it is compressed.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from compact import wiring
from compact.apps.cli import words
from compact.apps.cli.ending import what_is_missing
from compact.apps.cli.stores import name_of_store
from compact.config import CompactConfig
from compact.core.budget import ContextWindow
from compact.core.events import Event, TriggerDecision
from compact.core.protocols import SessionStore
from compact.errors import CannotFit, CompactError, NotFound, StoreFailed

if TYPE_CHECKING:
    from compact.managers.context import ContextManager

State = Literal["ok", "note", "broken"]


@dataclass(frozen=True)
class Finding:
    """What was found of one thing."""

    about: str
    state: State
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The same for machines."""


# --- what is installed ----------------------------------------------------------------------------

PACKAGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "pydantic": ("messages and settings", ("pydantic",)),
    "orjson": ("stored messages", ("orjson",)),
    "apsw": ("the store: SQLite of its own", ("apsw",)),
    "vocabularies": ("exact token counts, offline", ("rs-bpe", "bpe-openai")),
    "pyyaml": ("settings in YAML", ("pyyaml",)),
    "typer": ("this command line", ("typer",)),
    "rich": ("tables and colours", ("rich",)),
}
"""What is needed: name → what for, and the packages of which one is enough."""


EXTRAS: Mapping[str, str] = {
    "openai": "models of OpenAI, and of all servers that speak so",
    "anthropic": "models of Anthropic",
    "ollama": "models of an Ollama server",
    "transformers": "models in this process",
    "tokenizers": "exact counts by a model's own tokenizer.json",
}
"""What may be installed: the extra, which is the name of its package, and what for."""


def extras() -> Iterator[Finding]:
    """The extras, and how those are installed that are not."""
    for name, purpose in EXTRAS.items():
        found = _version(name)
        if found:
            yield Finding(name, "ok", f"{found}: {purpose}", {"version": found})
        else:
            advice = f"not installed, for {purpose}: {wiring.how_to_install(name)}"
            yield Finding(name, "note", advice, {"version": None})


def installed() -> Iterator[Finding]:
    """Python, compact, and the packages they need."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    own = _version("compactctl") or "not installed, run from its source"
    yield Finding("compact", "ok", own, {"version": _version("compactctl")})
    yield Finding("python", "ok", f"{python}, {platform.system()} {platform.machine()}")
    for name, (purpose, packages) in PACKAGES.items():
        found = {each: known for each in packages if (known := _version(each))}
        if found:
            text = ", ".join(f"{each} {known}" for each, known in found.items())
            yield Finding(name, "ok", f"{text}: {purpose}", found)
        else:
            advice = f"missing, needed for {purpose}: pip install {packages[0]}"
            yield Finding(name, "broken", advice)
    yield _engine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def found_by(name: str, looks: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """The findings of a look; a package that is missing for it is one of them."""
    found: list[Finding] = []
    try:
        found.extend(looks())
    except ImportError as error:
        found.append(Finding(name, "broken", f"cannot be looked at: {_why(error)}"))
    return found


def _why(error: Exception) -> str:
    return what_is_missing(error) or str(error)


def _engine() -> Finding:
    try:
        engine = wiring.store_engine()
    except ImportError as error:
        return Finding("sqlite", "broken", f"cannot be loaded: {_why(error)}")
    search = "with search by words (FTS5)" if engine["fts5"] else "without FTS5: no search by words"
    state: State = "ok" if engine["fts5"] else "broken"
    return Finding("sqlite", state, f"{engine['sqlite']}, {search}", engine)


# --- whether tokens are counted right -------------------------------------------------------------

KNOWN_TEXT = (
    "Never water the cactus: 25 ml, every 3rd week – 「迅速な」 naïve Übergrößen 🌵\n"
    "\tdef f(x): return x**2  # <|endoftext|>"
)
KNOWN_COUNTS = {"o200k": 45, "cl100k": 48}
"""Its tokens by OpenAI's published vocabularies."""


def vocabularies() -> Iterator[Finding]:
    """Whether a known text has as many tokens as it should have."""
    for name in wiring.TOKENIZERS:
        try:
            estimator = wiring.token_counter("chat_completions", tokenizer=name).estimator
            counted = estimator.count(KNOWN_TEXT)
        except (ImportError, CompactError, AttributeError) as error:
            yield Finding(name, "broken", f"cannot count: {_why(error)}")
            continue
        known = KNOWN_COUNTS.get(name)
        facts = {"exact": estimator.exact, "counted": counted, "known": known}
        if known is None:
            margin = float(getattr(estimator, "margin", 0.0))
            text = f"an estimate, about {margin:.0%} above a typical count"
            yield Finding(name, "ok", text, facts)
        elif counted == known:
            yield Finding(
                name, "ok", f"exact: a known text has {known} tokens, as it should", facts
            )
        else:
            text = f"wrong: a known text has {counted} tokens, it should have {known}"
            yield Finding(name, "broken", text, facts)


# --- whether the trigger can fire -----------------------------------------------------------------

WIRE = "chat_completions"
PIECES = 40
"""Messages that would fill a prompt."""
LEAST_PIECE = 12
LARGEST_TRIED = 4_000_000
"""The largest window that is filled: some seconds."""
_WORDS = (
    "harbour berth tide guest boat mast winter booking answer phone pier rope water anchor north "
    "signal lamp cargo chart wind"
)


def trigger(settings: CompactConfig) -> Iterator[Finding]:
    """Whether a session with these settings is compressed before it overflows: computed, then
    tried.

    Raises:
        InvalidConfig: a setting is wrong.
    """
    from compact.core.resolving import DEFAULT_WINDOW

    window = settings.window()
    if window is None:
        window = ContextWindow(
            size=DEFAULT_WINDOW, **settings.model_dump(include=set(ContextWindow.model_fields))
        )
        text = f"the settings name none: a session has {DEFAULT_WINDOW:,} tokens then"
        yield Finding("window", "note", text, {"size": window.size})
    else:
        yield from _of_window(settings, window)
    if window.usable == 0:
        reserve = f"output_reserve {settings.output_reserve:,}"
        text = f"can never fire: {reserve} leaves nothing of a window of {window.size:,}"
        yield Finding("trigger", "broken", text, {"usable": 0})
        return
    yield from _of_caps(settings, window)
    yield _tried(settings, window)


def _of_window(settings: CompactConfig, window: ContextWindow) -> Iterator[Finding]:
    profile = None if settings.model is None else settings.book().profile_of(settings.model)
    own = None if profile is None else profile.max_context_window
    facts = {"size": window.size, "usable": window.usable}
    text = f"{window.size:,} tokens, of which a prompt may use {window.usable:,}"
    if own is not None and window.size > own:
        text += f"; but {settings.model} has only {own:,}: prompts may be refused"
        yield Finding("window", "note", text, facts)
    else:
        yield Finding("window", "ok", text, facts)


def _of_caps(settings: CompactConfig, window: ContextWindow) -> Iterator[Finding]:
    """Settings that can have no effect, or one that nobody wants."""
    share = int(window.usable * settings.trigger_pct + 1e-6)
    cap = settings.trigger_tokens
    if cap is not None and cap > share:
        place = f"the {window.usable:,} tokens a prompt may use"
        if cap <= window.usable:
            place = "what trigger_pct gives"
        text = f"{cap:,} can never fire, it lies above {place}; trigger_pct fires at {share:,}"
        yield Finding("trigger_tokens", "note", text, {"cap": cap, "fires_at": share})
    if window.target >= window.trigger:
        advice = "lower target_pct" if window.trigger == share else "raise trigger_tokens"
        text = f"both are {window.trigger:,} tokens: it would fire at almost every turn; {advice}"
        yield Finding("trigger, target", "note", text, {"target": window.target})


def _tried(settings: CompactConfig, window: ContextWindow) -> Finding:
    """A session in memory, filled until it is compressed."""
    from compact.managers.context import ContextManager

    if window.size > LARGEST_TRIED:
        text = f"not tried: filling a window above {LARGEST_TRIED:,} tokens takes too long"
        return Finding("trigger", "note", text, {"trigger": window.trigger})
    decisions: list[TriggerDecision] = []

    def listen(event: Event) -> None:
        if isinstance(event, TriggerDecision) and event.triggered:
            decisions.append(event)

    ctx = ContextManager(
        window=window.size,
        tokenizer=settings.tokenizer or wiring.token_counter_of(settings, WIRE).estimator.name,
        policy=settings.policy(),
        on_event=listen,
    )
    facts = {"usable": window.usable, "trigger": window.trigger, "target": window.target}
    try:
        for number in range(8 * PIECES):
            role = "assistant" if number % 2 else "user"
            ctx.add_message(role=role, content=_piece(number, window.usable // PIECES))
            ctx.get_context_for_model()
            if decisions:
                return _fired(ctx, decisions[0], facts)
    except CannotFit as error:
        floor = {"floor": error.total}
        text = f"fires too late: what may not be shortened needs {error.total:,} tokens"
        return Finding("trigger", "broken", f"{text} of {window.usable:,}", {**facts, **floor})
    text = f"did not fire while {len(ctx.history)} messages came, {ctx.history.total():,} tokens"
    return Finding("trigger", "broken", text, facts)


def _fired(ctx: ContextManager, fired: TriggerDecision, facts: Mapping[str, Any]) -> Finding:
    after = ctx.budget.used_tokens
    plan = ctx.last_plan
    floor = sum(plan.floor.values()) if plan is not None else 0
    told = {**facts, "fired_at": fired.tokens, "after": after, "floor": floor}
    text = (
        f"fires: tried with {len(ctx.history)} messages, at {fired.tokens:,} tokens (trigger "
        f"{ctx.window.trigger:,} of {ctx.window.usable:,} usable), and {after:,} were left (floor "
        f"{floor:,}, target {ctx.window.target:,})"
    )
    if after > ctx.window.usable:
        return Finding("trigger", "broken", f"{text}: still too large", told)
    if after > ctx.window.trigger:
        return Finding("trigger", "note", f"{text}: it would fire at every turn", told)
    return Finding("trigger", "ok", text, told)


def _piece(number: int, tokens: int) -> str:
    """A message of about so many tokens, unlike the others."""
    count = max(LEAST_PIECE, tokens)
    known = _WORDS.split()
    words = (known[(number * 7 + i * (number % 5 + 1)) % len(known)] for i in range(count))
    return f"Message {number}: " + " ".join(words)


# --- the store ------------------------------------------------------------------------------------


def store(settings: CompactConfig, *, check: bool) -> Iterator[Finding]:
    """What the store is like; with `check`, whether all of it is what was written."""
    file = name_of_store(settings)
    try:
        opened = wiring.store_at(file)
    except NotFound as error:
        state: State = "note" if settings.store is None else "broken"
        text = "none yet: sessions import makes one" if settings.store is None else str(error)
        yield Finding("store", state, text, {"file": file})
        return
    except (StoreFailed, ImportError) as error:
        yield Finding("store", "broken", _why(error), {"file": file})
        return
    try:
        sessions = opened.sessions()
        facts = {"file": file, "sessions": len(sessions), **_sizes(file)}
        facts["schema"] = wiring.store_schema()
        log = f", log beside it {facts['log_bytes']:,}" if facts["log_bytes"] else ""
        text = f"{file}: {words.counted(len(sessions), 'session')}, {facts['bytes']:,} bytes{log}"
        yield Finding("store", "ok", f"{text}, schema {facts['schema']}", facts)
        if check:
            yield from _integrity(opened)
    except StoreFailed as error:
        yield Finding("store", "broken", str(error), {"file": file})
    finally:
        opened.close()


def _sizes(file: str) -> dict[str, int]:
    path = Path(file).expanduser()
    log = path.with_name(path.name + "-wal")
    return {
        "bytes": path.stat().st_size,
        "log_bytes": log.stat().st_size if log.exists() else 0,
    }


def _integrity(opened: SessionStore) -> Iterator[Finding]:
    wrong, lost = wiring.store_damage(opened)
    if not wrong:
        yield _losses(lost)
    for line in wrong:
        yield Finding("integrity", "broken", line, {"wrong": wrong})


def _losses(lost: Mapping[str, list[int]]) -> Finding:
    """Of a store whose messages are what was written: those that an earlier damage took."""
    if not lost:
        return Finding("integrity", "ok", "every message is what was written", {"wrong": []})
    total = words.counted(sum(map(len, lost.values())), "message")
    where = "; ".join(f"branch {name!r} {words.spans(at)}" for name, at in lost.items())
    text = f"what is left is what was written, but a damage took {total}: {where}"
    return Finding("integrity", "note", text, {"wrong": [], "lost": lost})
