"""What `doctor` checks: packages, token counts, whether a session is compressed, the store. Nothing
is taken for granted: texts are counted, and a session is filled until it is compressed.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from compact import wiring
from compact.apps.cli.settings import name_of_store
from compact.apps.cli.words import counted, spans
from compact.config import CompactConfig
from compact.core.budget import ContextWindow
from compact.core.plan import Plan
from compact.core.resolving import DEFAULT_WINDOW
from compact.errors import CannotFit, NotFound, StoreFailed
from compact.managers.context import ContextManager


class Finding(NamedTuple):
    """What was found of one thing: in words, and as facts for machines. The state is `ok`, `note`
    or `broken`.
    """

    about: str
    state: str
    text: str
    facts: Mapping[str, Any] = {}


PACKAGES = {
    "pydantic": "messages and settings",
    "orjson": "stored messages",
    "apsw": "the store, with its own SQLite",
    "rs-bpe or bpe-openai": "exact token counts, offline",
    "pyyaml": "settings in YAML",
    "typer": "this command line",
    "rich": "tables and colours",
}
"""What is needed, and what for; of several packages one is enough."""
EXTRAS = {
    "openai": "models of OpenAI and compatible servers",
    "anthropic": "models of Anthropic",
    "ollama": "models of an Ollama server",
    "transformers": "models in this process",
    "tokenizers": "exact counts by a model's own tokenizer.json",
}
"""What may be installed: the extra, which is the name of its package, and what for."""


def installed() -> Iterator[Finding]:
    """Python, compact, the packages they need, and the extras."""
    yield Finding("compact", "ok", _versions("compactctl") or "not installed, run from its source")
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Finding("python", "ok", f"{python}, {platform.system()} {platform.machine()}")
    for name, purpose in (PACKAGES | EXTRAS).items():
        found = _versions(name)
        state, text = "ok", f"{found}: {purpose}"
        if not found and name in EXTRAS:
            state = "note"
            text = f"not installed, for {purpose}: {wiring.how_to_install(name)}"
        elif not found:
            state = "broken"
            text = f"missing, needed for {purpose}: pip install {name.partition(' ')[0]}"
        yield Finding(name, state, text, {"version": found or None})
    engine = wiring.store_engine()
    search = "with search by words (FTS5)" if engine["fts5"] else "without FTS5: no search by words"
    state = "ok" if engine["fts5"] else "broken"
    yield Finding("sqlite", state, f"{engine['sqlite']}, {search}", engine)


def _versions(packages: str) -> str:
    found = ((name, _version(name)) for name in packages.split(" or "))
    return ", ".join(f"{name} {known}" for name, known in found if known)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


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
        estimator = wiring.token_counter("chat_completions", tokenizer=name).estimator
        count, known = estimator.count(KNOWN_TEXT), KNOWN_COUNTS.get(name)
        text = f"a known text has {count} tokens, and should have {known}"
        if known is None:
            margin = getattr(estimator, "margin", 0.0)
            text = f"an estimate, about {margin:.0%} above a typical count"
        facts = {"exact": estimator.exact, "counted": count, "known": known}
        yield Finding(name, "ok" if known in (None, count) else "broken", text, facts)


# --- whether the trigger can fire -----------------------------------------------------------------

PIECES = 40
"""Messages that would fill a prompt."""
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
    window, state = settings.window(), "ok"
    if window is None:
        known = settings.model_dump(include=set(ContextWindow.model_fields))
        window, state = ContextWindow(size=DEFAULT_WINDOW, **known), "note"
        text = f"the settings give none: a session then has {DEFAULT_WINDOW:,} tokens"
    else:
        text = f"{window.size:,} tokens, of which a prompt may use {window.usable:,}"
        profile = settings.book().profile_of(settings.model) if settings.model else None
        own = (profile and profile.max_context_window) or window.size
        if window.size > own:
            state = "note"
            text += f"; but {settings.model} has only {own:,}: prompts may be refused"
    yield Finding("window", state, text, {"size": window.size, "usable": window.usable})
    if window.usable == 0:
        reserve = f"output_reserve {settings.output_reserve:,}"
        text = f"can never fire: {reserve} leaves nothing of a window of {window.size:,}"
        yield Finding("trigger", "broken", text, {"usable": 0})
        return
    share = int(window.usable * settings.trigger_ratio + 1e-6)
    cap = settings.trigger_tokens
    if cap is not None and cap > share:
        text = f"{cap:,} can never fire, it lies above what trigger_ratio gives, {share:,}"
        yield Finding("trigger_tokens", "note", text, {"cap": cap, "fires_at": share})
    if window.target >= window.trigger:
        advice = "lower target_ratio" if window.trigger == share else "raise trigger_tokens"
        text = f"both are {window.trigger:,} tokens: it would fire at almost every turn; {advice}"
        yield Finding("trigger, target", "note", text, {"target": window.target})
    yield _tried(settings, window)


def _tried(settings: CompactConfig, window: ContextWindow) -> Finding:
    """A session in memory, filled until it is compressed."""
    facts = {"usable": window.usable, "trigger": window.trigger, "target": window.target}
    if window.size > LARGEST_TRIED:
        text = f"not tried: filling a window above {LARGEST_TRIED:,} tokens takes too long"
        return Finding("trigger", "note", text, facts)
    counter = wiring.token_counter_of(settings, "chat_completions")
    tokenizer = settings.tokenizer or counter.estimator.name
    ctx = ContextManager(window=window.size, tokenizer=tokenizer, policy=settings.policy())
    try:
        for number in range(8 * PIECES):
            role = "assistant" if number % 2 else "user"
            ctx.add_message(role=role, content=_piece(number, window.usable // PIECES))
            ctx.get_context_for_model()
            if ctx.last_plan is not None:
                return _fired(ctx, ctx.last_plan, facts)
    except CannotFit as error:
        text = f"fires too late: what may not be shortened needs {error.total:,} tokens"
        facts["floor"] = error.total
        return Finding("trigger", "broken", f"{text} of {window.usable:,}", facts)
    text = f"did not fire while {len(ctx.history)} messages came, {ctx.history.total():,} tokens"
    return Finding("trigger", "broken", text, facts)


def _fired(ctx: ContextManager, plan: Plan, facts: Mapping[str, int]) -> Finding:
    """What a compression left, which must be less than what it is done at."""
    window, at, after = ctx.window, plan.tokens_before or 0, ctx.budget.used_tokens
    floor = sum(plan.floor.values())
    text = (
        f"fires: tried with {len(ctx.history)} messages, at {at:,} tokens (trigger "
        f"{window.trigger:,} of {window.usable:,} usable), and {after:,} were left (floor "
        f"{floor:,}, target {window.target:,})"
    )
    state = "ok"
    if after > window.usable:
        state, text = "broken", f"{text}: still too large"
    elif after > window.trigger:
        state, text = "note", f"{text}: it would fire at every turn"
    return Finding(
        "trigger", state, text, {**facts, "fired_at": at, "after": after, "floor": floor}
    )


def _piece(number: int, tokens: int) -> str:
    """A message of about so many tokens, twelve words at least, unlike the others."""
    words, count = _WORDS.split(), max(12, tokens)
    told = (words[(number * 7 + i * (number % 5 + 1)) % len(words)] for i in range(count))
    return f"Message {number}: " + " ".join(told)


# --- the store ------------------------------------------------------------------------------------


def stored(settings: CompactConfig, *, check: bool) -> Iterator[Finding]:
    """What the store is like; with `check`, whether all of it is what was written."""
    file = name_of_store(settings)
    try:
        with closing(wiring.store_at(file)) as opened:
            sessions, size = len(opened.sessions()), Path(file).expanduser().stat().st_size
            text = f"{file}: {counted(sessions, 'session')}, {size:,} bytes"
            schema = wiring.store_schema()
            facts = {"file": file, "sessions": sessions, "bytes": size, "schema": schema}
            yield Finding("store", "ok", f"{text}, schema {schema}", facts)
            if check:
                yield from _integrity(*wiring.store_damage(opened))
    except NotFound as error:
        was_named = settings.store is not None
        text = str(error) if was_named else "none yet: sessions import creates one"
        yield Finding("store", "broken" if was_named else "note", text, {"file": file})
    except StoreFailed as error:
        yield Finding("store", "broken", str(error), {"file": file})


def repaired(settings: CompactConfig) -> wiring.RepairReport:
    """Repair the store; what of it was saved.

    Raises:
        StoreFailed: there is no such file, or it cannot be repaired now.
    """
    return wiring.repair_store(name_of_store(settings))


def _integrity(wrong: list[str], lost: Mapping[str, list[int]]) -> Iterator[Finding]:
    """What of a store is not what was written, and what an earlier damage took."""
    for line in wrong:
        yield Finding("integrity", "broken", line, {"wrong": wrong})
    if lost:
        total = counted(sum(map(len, lost.values())), "message")
        where = "; ".join(f"branch {name!r} {spans(at)}" for name, at in lost.items())
        text = f"the rest is intact, but earlier damage took {total}: {where}"
        yield Finding("integrity", "note", text, {"wrong": [], "lost": lost})
    elif not wrong:
        yield Finding("integrity", "ok", "every message is intact", {"wrong": []})
