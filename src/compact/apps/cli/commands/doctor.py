"""`compactctl doctor`: checks the packages, the token counts, a compression and the store.

Each check gives findings. Nothing is taken for granted: texts are counted, and a session is filled
until it is compressed. Missing packages are named, and the rest is checked.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import compact
from compact import wiring
from compact.apps.cli import output
from compact.apps.cli.errors import BAD_INPUT, what_is_missing
from compact.apps.cli.options import CountOptions, Store, command, flag, number_option
from compact.apps.cli.progress import Progress
from compact.apps.cli.settings import name_of_store, settings_of
from compact.apps.cli.words import counted, spans, visible, whole
from compact.config import CompactConfig
from compact.core.budget import ContextWindow
from compact.core.plan import Plan
from compact.core.protocols import SessionStore
from compact.core.resolving import DEFAULT_WINDOW
from compact.errors import CannotFit, CompactError, NotFound, StoreFailed

if TYPE_CHECKING:
    from compact.managers.context import ContextManager
    from compact.wiring import RepairReport

try:
    from compact.apps.cli import render
except ImportError:  # rich is missing: findings are lines then
    render = None  # type: ignore[assignment]

STYLES = {"ok": "green", "note": "yellow", "broken": "bold red"}
"""What a finding may be, and what that looks like."""


class Finding:
    """What was found of one thing: in words, and as facts for machines."""

    def __init__(self, about: str, state: str, text: str, **facts: object) -> None:
        self.about, self.state, self.text, self.facts = about, state, text, facts


@command
def doctor(
    options: CountOptions,
    *,
    store: Store = None,
    check: Annotated[
        bool, flag("--check", "Also check every message and page of the store.")
    ] = False,
    repair: Annotated[
        bool,
        flag("--repair", "Recover what can be read from a damaged store; the old file is kept."),
    ] = False,
    window: Annotated[int | None, number_option("The window to test the trigger with.")] = None,
) -> None:
    """Check what is installed, and prove that it works.

    Checks the packages, the token counts of known texts, and the store with its schema. Fills a
    session until it is compressed, to prove that the trigger can fire with these settings. --check
    also verifies the contents of the store. Exit code 2 if something is broken.

    Examples:
      compactctl doctor
      compactctl doctor --store chat.db --check
      compactctl doctor --store chat.db --repair
    """
    settings = settings_of(options, store=store, window=window)
    checks: Mapping[str, Callable[[], Iterator[Finding]]] = {
        "installed": installed,
        "extras": extras,
        "tokens": vocabularies,
        "trigger": lambda: trigger(settings),
        "store": lambda: stored(settings, check=check or repair),
    }
    repaired = None
    with Progress("Checking") as progress:
        if repair:
            progress.now("Repairing the store")
            repaired = wiring.repair_store(name_of_store(settings))
        found: dict[str, list[Finding]] = {}
        for name, look in checks.items():
            progress.now(f"Checking {name}")
            found[name] = list(_findings(name, look))
    wrong = sum(each.state == "broken" for part in found.values() for each in part)
    if options.json:
        output.print_json(_json(found, repaired))
    else:
        _show(found, repaired, _end(wrong, repaired))
    if wrong or (repaired is not None and not repaired.is_complete):
        raise typer.Exit(BAD_INPUT)


def _findings(name: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What a check finds; a package that is missing for it is one more finding."""
    try:
        yield from check()
    except ImportError as error:
        yield Finding(name, "broken", f"cannot be checked: {_why(error)}")


def _why(error: Exception) -> str:
    return what_is_missing(error) or str(error)


# --- what is installed ----------------------------------------------------------------------------

PACKAGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "pydantic": ("messages and settings", ("pydantic",)),
    "orjson": ("stored messages", ("orjson",)),
    "apsw": ("the store, with its own SQLite", ("apsw",)),
    "vocabularies": ("exact token counts, offline", ("rs-bpe", "bpe-openai")),
    "pyyaml": ("settings in YAML", ("pyyaml",)),
    "typer": ("this command line", ("typer",)),
    "rich": ("tables and colours", ("rich",)),
}
"""What is needed: name → what for, and the packages of which one is enough."""
EXTRAS: Mapping[str, str] = {
    "openai": "models of OpenAI and compatible servers",
    "anthropic": "models of Anthropic",
    "ollama": "models of an Ollama server",
    "transformers": "models in this process",
    "tokenizers": "exact counts by a model's own tokenizer.json",
}
"""What may be installed: the extra, which is the name of its package, and what for."""


def installed() -> Iterator[Finding]:
    """Python, compact, and the packages they need."""
    own = _version("compactctl")
    yield Finding("compact", "ok", own or "not installed, run from its source", version=own)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Finding("python", "ok", f"{python}, {platform.system()} {platform.machine()}")
    for name, (purpose, packages) in PACKAGES.items():
        found = {each: known for each in packages if (known := _version(each))}
        if found:
            text = ", ".join(f"{each} {known}" for each, known in found.items())
            yield Finding(name, "ok", f"{text}: {purpose}", **found)
        else:
            yield Finding(
                name, "broken", f"missing, needed for {purpose}: pip install {packages[0]}"
            )
    engine = wiring.store_engine()
    search = "with search by words (FTS5)" if engine["fts5"] else "without FTS5: no search by words"
    state = "ok" if engine["fts5"] else "broken"
    yield Finding("sqlite", state, f"{engine['sqlite']}, {search}", **engine)


def extras() -> Iterator[Finding]:
    """The extras, and how those are installed that are not."""
    for name, purpose in EXTRAS.items():
        if found := _version(name):
            yield Finding(name, "ok", f"{found}: {purpose}", version=found)
        else:
            how = wiring.how_to_install(name)
            yield Finding(name, "note", f"not installed, for {purpose}: {how}", version=None)


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
        try:
            estimator = wiring.token_counter("chat_completions", tokenizer=name).estimator
            count = estimator.count(KNOWN_TEXT)
        except (ImportError, CompactError, AttributeError) as error:
            yield Finding(name, "broken", f"cannot count: {_why(error)}")
            continue
        known, margin = KNOWN_COUNTS.get(name), getattr(estimator, "margin", 0.0)
        state = "ok" if known in (None, count) else "broken"
        if known is None:
            text = f"an estimate, about {margin:.0%} above a typical count"
        elif known == count:
            text = f"exact: a known text has {known} tokens, as it should"
        else:
            text = f"wrong: a known text has {count} tokens, it should have {known}"
        yield Finding(name, state, text, exact=estimator.exact, counted=count, known=known)


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
    window = settings.window()
    if window is None:
        known = settings.model_dump(include=set(ContextWindow.model_fields))
        window = ContextWindow(size=DEFAULT_WINDOW, **known)
        text = f"the settings give none: a session then has {DEFAULT_WINDOW:,} tokens"
        yield Finding("window", "note", text, size=window.size)
    else:
        profile = settings.book().profile_of(settings.model) if settings.model else None
        own = (profile and profile.max_context_window) or window.size
        but = f"; but {settings.model} has only {own:,}: prompts may be refused"
        text = f"{window.size:,} tokens, of which a prompt may use {window.usable:,}"
        state, text = ("note", text + but) if window.size > own else ("ok", text)
        yield Finding("window", state, text, size=window.size, usable=window.usable)
    if window.usable == 0:
        reserve = f"output_reserve {settings.output_reserve:,}"
        text = f"can never fire: {reserve} leaves nothing of a window of {window.size:,}"
        yield Finding("trigger", "broken", text, usable=0)
    else:
        yield from _without_effect(settings, window)
        yield _tried(settings, window)


def _without_effect(settings: CompactConfig, window: ContextWindow) -> Iterator[Finding]:
    """Settings that can have no effect, or one that nobody wants."""
    share = int(window.usable * settings.trigger_ratio + 1e-6)
    cap = settings.trigger_tokens
    if cap is not None and cap > share:
        all_of_it = f"the {window.usable:,} tokens a prompt may use"
        place = "what trigger_ratio gives" if cap <= window.usable else all_of_it
        text = f"{cap:,} can never fire, it lies above {place}; trigger_ratio fires at {share:,}"
        yield Finding("trigger_tokens", "note", text, cap=cap, fires_at=share)
    if window.target >= window.trigger:
        advice = "lower target_ratio" if window.trigger == share else "raise trigger_tokens"
        text = f"both are {window.trigger:,} tokens: it would fire at almost every turn; {advice}"
        yield Finding("trigger, target", "note", text, target=window.target)


def _tried(settings: CompactConfig, window: ContextWindow) -> Finding:
    """A session in memory, filled until it is compressed."""
    facts = {"usable": window.usable, "trigger": window.trigger, "target": window.target}
    if window.size > LARGEST_TRIED:
        text = f"not tried: filling a window above {LARGEST_TRIED:,} tokens takes too long"
        return Finding("trigger", "note", text, trigger=window.trigger)
    counter = wiring.token_counter_of(settings, "chat_completions")
    tokenizer = settings.tokenizer or counter.estimator.name
    ctx = compact.ContextManager(window=window.size, tokenizer=tokenizer, policy=settings.policy())
    try:
        for number in range(8 * PIECES):
            role = "assistant" if number % 2 else "user"
            ctx.add_message(role=role, content=_piece(number, window.usable // PIECES))
            ctx.get_context_for_model()
            if ctx.last_plan is not None:
                return _fired(ctx, ctx.last_plan, facts)
    except CannotFit as error:
        text = f"fires too late: what may not be shortened needs {error.total:,} tokens"
        return Finding(
            "trigger", "broken", f"{text} of {window.usable:,}", **facts, floor=error.total
        )
    text = f"did not fire while {len(ctx.history)} messages came, {ctx.history.total():,} tokens"
    return Finding("trigger", "broken", text, **facts)


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
    return Finding("trigger", state, text, **facts, fired_at=at, after=after, floor=floor)


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
            yield _summary(opened, file)
            if check:
                yield from _integrity(*wiring.store_damage(opened))
    except NotFound as error:
        was_named = settings.store is not None
        text = str(error) if was_named else "none yet: sessions import creates one"
        yield Finding("store", "broken" if was_named else "note", text, file=file)
    except StoreFailed as error:
        yield Finding("store", "broken", str(error), file=file)


def _summary(opened: SessionStore, file: str) -> Finding:
    path = Path(file).expanduser()
    log = path.with_name(path.name + "-wal")
    sessions, schema = len(opened.sessions()), wiring.store_schema()
    size, beside = path.stat().st_size, log.stat().st_size if log.exists() else 0
    text = f"{file}: {counted(sessions, 'session')}, {size:,} bytes"
    text += f", log beside it {beside:,}" if beside else ""
    facts = {"file": file, "sessions": sessions, "bytes": size, "log_bytes": beside}
    return Finding("store", "ok", f"{text}, schema {schema}", **facts, schema=schema)


def _integrity(wrong: list[str], lost: Mapping[str, list[int]]) -> Iterator[Finding]:
    """What of a store is not what was written, and what an earlier damage took."""
    for line in wrong:
        yield Finding("integrity", "broken", line, wrong=wrong)
    if lost:
        total = counted(sum(map(len, lost.values())), "message")
        where = "; ".join(f"branch {name!r} {spans(at)}" for name, at in lost.items())
        text = f"the rest is intact, but earlier damage took {total}: {where}"
        yield Finding("integrity", "note", text, wrong=[], lost=lost)
    elif not wrong:
        yield Finding("integrity", "ok", "every message is intact", wrong=[])


# --- what is told ---------------------------------------------------------------------------------


def _json(found: Mapping[str, list[Finding]], repaired: RepairReport | None) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if repaired is not None:
        told["repair"] = {**asdict(repaired), "complete": repaired.is_complete}
    for name, part in found.items():
        told[name] = [{"about": e.about, "state": e.state, "text": e.text, **e.facts} for e in part]
    return told


def _end(wrong: int, repaired: RepairReport | None) -> str:
    """The last line: what is broken, and what a repair could not save."""
    if repaired is None or repaired.is_complete:
        return f"{wrong} broken" if wrong else "Nothing is broken."
    each = repaired.branches
    lost = sum(b.lost or len(b.missing) for b in each)
    may_be_more = not repaired.is_whole or any(b.lost is None for b in each)
    told = [f"{'at least ' * may_be_more}{counted(lost, 'message')} lost"] if lost else []
    told += ["more messages may be lost without a trace"] if may_be_more and not lost else []
    altered = sum(len(b.altered) for b in each)
    told += [f"{counted(altered, 'message')} altered"] if altered else []
    rest = f"{wrong} broken" if wrong else "Nothing is broken any more"
    return f"{rest}, but not all was saved: {', '.join(told)}."


def _show(found: Mapping[str, list[Finding]], repaired: RepairReport | None, end: str) -> None:
    """Everything for a person: in tables, or in lines where what draws them is missing."""
    if render is None:
        lines = [] if repaired is None else [f"repair: {remark}" for remark in repaired.remarks]
        for name, part in found.items():
            lines += [name, *(f"  {e.about:<14} {e.state:<7} {e.text}" for e in part), ""]
        output.print_data(visible("\n".join([*lines, end])) + "\n")
        return
    out = render.console()
    if repaired is not None:
        _show_repair(repaired)
    for name, part in found.items():
        rows = [(e.about, render.Text(e.state, style=STYLES[e.state]), e.text) for e in part]
        render.show_table(out, (name, "", ""), rows, no_wrap=(name,))
        out.print()
    out.print(end)


def _show_repair(repaired: RepairReport) -> None:
    """What was saved of each branch, and what was not."""
    out = render.console()
    if repaired.kept_as is None:
        out.print("repair: nothing is wrong with the store, and nothing was done\n")
        return
    render.show_line(out, f"repaired; the damaged file is kept as {repaired.kept_as}")
    rows = []
    for branch in repaired.branches:
        least = f"at least {len(branch.missing):,}" if branch.missing else "unknown"
        lost = least if branch.lost is None else branch.lost
        wrong = (len(branch.altered), len(branch.unproven))
        which = spans(sorted({*branch.missing, *branch.altered}))
        rows.append((whole(branch.branch_id), branch.saved, lost, *wrong, which))
    names = ("saved", "lost", "altered", "not provable")
    render.show_table(out, ("branch", *names, "which"), rows, right=names)
    for remark in repaired.remarks:
        render.show(out, f"- {remark}")
    out.print()
