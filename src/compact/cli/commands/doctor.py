"""`compactctl doctor`: checks the packages, the token counts, the model, the trigger, the store."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Annotated, Any, NamedTuple, cast

import typer

import compact
from compact import wiring
from compact.cli.errors import BAD_INPUT, without_secrets
from compact.cli.options import CountOptions, Store, command, flag, number_option
from compact.cli.progress import Progress
from compact.cli.render import Report, Styled, Table
from compact.cli.settings import name_of_store, settings_of
from compact.cli.views import runs_of
from compact.cli.words import counted, one_line
from compact.config import CompactConfig, did_you_mean
from compact.errors import InvalidConfig, NotFound, StoreFailed
from compact.files import is_folder, named_path
from compact.integrations import coding_agents
from compact.messages.budget import ContextWindow
from compact.messages.reliability import reliability_of, writing_of
from compact.models.effective_settings import DEFAULT_WINDOW

STYLES = {"ok": "green", "note": "yellow", "broken": "bold red"}
"""State of a finding → its colour."""
INSTEAD = {"apsw": "apsw-sqlite3mc"}
"""Package → another package with the same module, which also encrypts. They exclude each other."""

SAMPLE = 20
"""How many branches of each scope on a server to read without `--check`."""
READ_SOON = 64 << 20
"""Archives of up to this many bytes together are verified without --check."""


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
) -> Report:
    """Check what is installed, and whether it works.

    Checks the packages, the token counts of a known text, whether the trigger can fire with these
    settings, the store with its schema, and the hooks of Claude Code and Codex. --model shows what
    is known of a model: its sizes with the num_ctx for its server, and how reliable it is. --check
    also verifies the contents of the store and its archives. Exit code 2 if something is broken.

    Examples:
      compactctl doctor
      compactctl doctor --model ollama:qwen3:8b
      compactctl doctor --store chat.db --check
      compactctl doctor --store chat.db --repair
    """
    settings = settings_of(options, store=store, window=window)
    report = None
    with Progress("Checking") as progress:
        found = dict[str, list[Finding]]()
        if repair:
            progress.now("Repairing the store")
            report = wiring.repair_store(name_of_store(settings))
            found["repair"] = list(_repaired(report))
        found["installed"] = list(installed())
        found["tokens"] = list(vocabularies())
        found["model"] = list(model(settings))
        found["trigger"] = list(trigger(settings))
        found["store"] = list(stored(settings, check=check or repair))
        found["hooks"] = list(hooks())
    # an error about a damaged file may quote its content
    found = {name: [Finding(*without_secrets(e)) for e in part] for name, part in found.items()}
    value: dict[str, Any] = {
        name: [{"about": e.about, "state": e.state, "text": e.text, **e.facts} for e in part]
        for name, part in found.items()
    }
    if report is not None:
        value["repair"] = {**without_secrets(asdict(report)), "complete": report.is_complete}
    yield value
    for name, part in ((name, part) for name, part in found.items() if part):
        rows = [(e.about, Styled(e.state, STYLES[e.state]), e.text) for e in part]
        yield Table((name, "", ""), rows, whole=(name,))
        yield ""
    wrong = sum(finding.state == "broken" for part in found.values() for finding in part)
    end = f"{wrong} broken" if wrong else "Nothing is broken"
    end = f"{end}." if report is None or report.is_complete else f"{end}: not all was saved."
    yield Styled(end, "bold red" if wrong else "bold")
    if wrong:
        raise typer.Exit(BAD_INPUT)


# --- what is installed ----------------------------------------------------------------------------


class Finding(NamedTuple):
    """One finding, for people and as facts for machines. Its state is `ok`, `note` or `broken`."""

    about: str
    state: str
    text: str
    facts: Mapping[str, Any] = {}


def installed() -> Iterator[Finding]:
    """Yield findings on Python, compact, and compact's required and optional packages."""
    own = _version("compactctl")
    yield Finding("compact", "ok", own or "not installed, run from its source")
    yield from _other_compact()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Finding("python", "ok", f"{python}, {platform.system()} {platform.machine()}")
    by_name: dict[str, str] = {}
    for requirement in (own and requires("compactctl")) or ():  # extras share packages
        by_name.setdefault(re.split(r"[^\w-]", requirement)[0], requirement)
    for name, requirement in by_name.items():
        if installed_version := _version(name) or _version(INSTEAD.get(name, name)):
            yield Finding(name, "ok", installed_version)
        elif extra := requirement.partition("extra == ")[2].strip("\"')"):
            yield Finding(name, "note", f"not installed: {wiring.how_to_install(extra, name)}")
        elif ";" not in requirement:
            yield Finding(name, "broken", f"missing: pip install {name}")
    engine = wiring.store_engine()
    search = "with search by words (FTS5)" if engine["fts5"] else "without FTS5: no search by words"
    search += ", encrypts files" if engine["encrypts"] else ""
    state = "ok" if engine["fts5"] else "broken"
    yield Finding("sqlite", state, f"{engine['sqlite']}, {search}", engine)


def _other_compact() -> Iterator[Finding]:
    """Yield a finding if another package named compact has overwritten files of this one."""
    if (other := _version("compact")) is None and hasattr(compact, "__getattr__"):
        return
    what = f"another package, compact {other}, has" if other else "another package had"
    again = "pip uninstall compact, then pip install --force-reinstall --no-deps compactctl"
    overwritten = not hasattr(compact, "__getattr__")
    text = f"{what} the same folder{', and has overwritten ours' if overwritten else ''}: {again}"
    yield Finding("compact (other)", "broken", text, {"other": other, "overwritten": overwritten})


def _version(package: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(package)
    return None


def hooks() -> Iterator[Finding]:
    """Yield findings on the hooks of the coding agents on this machine (`compactctl install`)."""
    for name, host in coding_agents.HOSTS.items():
        if not is_folder(host.file.parent):
            continue
        try:
            groups = coding_agents.installed(host)
            is_off = coding_agents.is_turned_off(host)
        except InvalidConfig as error:
            yield Finding(name, "note", str(error))
            continue
        if not groups:
            yield Finding(name, "note", f"no hooks: compactctl install {name}")
        elif is_off:
            text = f"no hook is run: {host.file} has disableAllHooks; take it out or set it false"
            yield Finding(name, "broken", text)
        elif groups == list(coding_agents.entries().values()):
            yield Finding(name, "ok", f"hooks installed in {host.file}")
        else:
            text = f"hooks of another installation, or only some: compactctl install {name}"
            yield Finding(name, "broken", text)


# --- whether token counts are right ---------------------------------------------------------------

KNOWN_TEXT = (
    "Never water the cactus: 25 ml, every 3rd week – 「迅速な」 naïve Übergrößen 🌵\n"
    "\tdef f(x): return x**2  # <|endoftext|>"
)
KNOWN_COUNTS = {"o200k": 45, "cl100k": 48}
"""The text's tokens by OpenAI's published vocabularies."""


def vocabularies() -> Iterator[Finding]:
    """Yield findings on the token counts of a known text."""
    for name in wiring.TOKENIZERS:
        estimator = wiring.token_counter("chat_completions", tokenizer=name).estimator
        count, expected = estimator.count(KNOWN_TEXT), KNOWN_COUNTS.get(name)
        text = f"a known text has {count} tokens, and should have {expected}"
        if expected is None:
            margin = getattr(estimator, "margin", 0.0)
            text = f"an estimate, about {margin:.0%} above a typical count"
        facts = {"exact": estimator.exact, "counted": count, "known": expected}
        yield Finding(name, "ok" if expected in (None, count) else "broken", text, facts)


# --- the model ------------------------------------------------------------------------------------


def model(settings: CompactConfig) -> Iterator[Finding]:
    """Yield findings on the model in the settings, and on unknown fields in the file of models."""
    book, key = settings.book(), settings.model
    if book.passed_over:
        fields = ", ".join(
            f"{times} × {one_line(name)}" for name, times in book.passed_over.items()
        )
        text = f"passed over in {settings.models_file}, as not known: {fields}"
        yield Finding("models_file", "note", text, {"passed_over": dict(book.passed_over)})
    if key is None:
        return
    if (profile := book.profile_of(key)) is None:
        listed = [each.id or each.name for each in (*book.models, *book.families)]
        yield Finding("model", "note", f"{key} is not known{did_you_mean(key, listed)}")
        return
    size = book.parameters_of(key)
    trust, writing = reliability_of(size.billions, 0), writing_of(size.billions)
    facts: dict[str, Any] = {"billions": size.billions, "billions_from": size.source}
    tools = {True: "with tools", False: "without tools", None: "tools not known"}
    known = f"{size.billions:g} billion parameters ({size.source}), {tools[profile.tool_support]}"
    facts |= {"tool_support": profile.tool_support, "tokenizer": profile.tokenizer}
    yield Finding("model", "ok", f"{key}: {known}, tokenizer {profile.tokenizer}", facts)
    text = f"{trust.score:.2f} ({trust.grade}), times 0.9 for each compression, with a warning "
    text += f"after {trust.warn_after}; checkpoints {writing.level}, {writing.share:.0%} of the cap"
    yield Finding("reliability", "ok", text, {"score": trust.score, "warn_after": trust.warn_after})
    wanted: Sequence[int | None] = [row.size for row in profile.context_profiles] or [None]
    for each in {one.num_ctx: one for one in map(profile.sizing, wanted) if one}.values():
        text, facts = f"tier {settings.tier(each.size).number}", {"size": each.size}
        if each.row:
            vram = each.row.vram_estimate
            text = f"num_ctx {each.num_ctx:,}, {text}{f', {vram}' if vram else ''}"
            facts |= {"num_ctx": each.num_ctx}
        yield Finding(f"size {each.size:,}", "ok", text, facts)


# --- whether the trigger can fire -----------------------------------------------------------------


def trigger(settings: CompactConfig) -> Iterator[Finding]:
    """Yield findings on whether a session with these settings is compressed before it overflows."""
    window, state = settings.window(), "ok"
    if window is None:
        known = settings.model_dump(include=set(ContextWindow.model_fields))
        window, state = ContextWindow(size=DEFAULT_WINDOW, **known), "note"
        text = f"the settings give none: a session then has {DEFAULT_WINDOW:,} tokens"
    else:
        text = f"{window.size:,} tokens, of which a prompt may use {window.usable:,}"
        profile = settings.book().profile_of(settings.model or "")
        own = (profile and profile.max_context_window) or window.size
        if window.size > own:
            state = "note"
            text += f"; but {settings.model} has only {own:,}: prompts may be refused"
    yield Finding("window", state, text, {"size": window.size, "usable": window.usable})
    share, cap = window.trigger_share, settings.trigger_tokens
    if cap is not None and cap > share:
        text = f"{cap:,} can never fire, it lies above what trigger_ratio gives, {share:,}"
        yield Finding("trigger_tokens", "note", text)
    if window.target >= window.trigger:
        advice = "lower target_ratio" if window.trigger == share else "raise trigger_tokens"
        text = f"both are {window.trigger:,} tokens: it would fire at almost every turn; {advice}"
        yield Finding("trigger, target", "note", text)
    facts = {"usable": window.usable, "trigger": window.trigger, "target": window.target}
    text = f"a session is compressed from {window.trigger:,} tokens on, to about {window.target:,}"
    if window.usable == 0:
        reserve = f"output_reserve {settings.output_reserve:,}"
        text = f"can never fire: {reserve} leaves nothing of a window of {window.size:,}"
    yield Finding("trigger", "ok" if window.usable else "broken", text, facts)


# --- the store ------------------------------------------------------------------------------------


def stored(settings: CompactConfig, *, check: bool) -> Iterator[Finding]:
    """Yield findings on the store. With `check`, all its messages and archives are checked."""
    file = name_of_store(settings)
    try:
        with closing(wiring.store_at(file)) as opened:
            if wiring.is_server(file):
                yield from _on_server(cast("wiring.PostgresStore", opened), file, check=check)
                return
            sessions, size = len(opened.sessions()), named_path(file).stat().st_size
            text = f"{file}: {counted(sessions, 'session')}, {size:,} bytes"
            schema = wiring.MIGRATIONS[-1].name
            facts = {"file": file, "sessions": sessions, "bytes": size, "schema": schema}
            yield Finding("store", "ok", f"{text}, schema {schema}", facts)
            if check:
                yield from _integrity(*wiring.store_damage(opened))
            else:
                yield from _archives(cast("wiring.SQLiteManager", opened))
    except NotFound as error:
        was_named = settings.store is not None
        text = str(error) if was_named else "none yet: sessions import, migrate or chat makes one"
        yield Finding("store", "broken" if was_named else "note", text, {"file": file})
    except StoreFailed as error:
        yield Finding("store", "broken", str(error), {"file": wiring.shown_name(file)})


def _on_server(store: wiring.PostgresStore, file: str, *, check: bool) -> Iterator[Finding]:
    name, facts, scopes = wiring.shown_name(file), store.describe_server(), store.scopes()
    sessions = len(store.sessions())
    text = f"{name}: {counted(sessions, 'session')} in {counted(len(scopes), 'scope')}, "
    text += f"{facts['bytes']:,} bytes, PostgreSQL {facts['server']}, schema {facts['schema']}"
    yield Finding("store", "ok", text, {"file": name, "sessions": sessions, **facts})
    wrong = store.integrity_check(most=None if check else SAMPLE)
    if check or wrong:
        yield from _integrity(wrong, {})
    else:
        text = f"the {SAMPLE} branches that changed last in each scope are intact: doctor --check "
        yield Finding("integrity", "ok", text + "reads them all", {"wrong": []})


def _archives(store: wiring.SQLiteManager) -> Iterator[Finding]:
    archives = store.archived_sessions()
    size = sum(archive.bytes for archive in archives)
    if size > READ_SOON or any(archive.file.startswith("s3://") for archive in archives):
        text = f"{counted(len(archives), 'archive')} not checked: doctor --check does"
        yield Finding("archives", "note", text)
    elif archives:
        faults = store.archive_faults()
        for fault in faults:
            yield Finding("archives", "broken", f"session {fault.session_id!r}: {fault.what}")
        if not faults:
            yield Finding("archives", "ok", f"{counted(len(archives), 'archive')}, all as written")


def _integrity(wrong: list[str], lost: Mapping[str, list[int]]) -> Iterator[Finding]:
    for line in wrong:
        yield Finding("integrity", "broken", line, {"wrong": wrong})
    if lost:
        total = counted(sum(map(len, lost.values())), "message")
        where = "; ".join(f"branch {name!r} {_spans(at)}" for name, at in lost.items())
        text = f"the rest is intact, but earlier damage took {total}: {where}"
        yield Finding("integrity", "note", text, {"wrong": [], "lost": lost})
    elif not wrong:
        yield Finding("integrity", "ok", "every message is intact", {"wrong": []})


def _repaired(report: wiring.RepairReport) -> Iterator[Finding]:
    if report.kept_as is None:
        yield Finding("repair", "ok", "nothing is wrong with the store, and nothing was done")
        return
    state = "ok" if report.is_complete else "broken"
    yield Finding("repair", state, f"the damaged file is kept as {report.kept_as}")
    for branch in report.branches:
        lost = f"{branch.lost:,}" if branch.lost is not None else "unknown how many"
        text = f"{counted(branch.saved, 'message')} saved, {lost} lost"
        if branch.missing or branch.altered:
            text += f", missing or altered {_spans(sorted({*branch.missing, *branch.altered}))}"
        if branch.unproven:
            text += f", {len(branch.unproven):,} not provable"
        state = "ok" if branch.is_complete else "broken"
        yield Finding(f"branch {branch.branch_id}", state, text)
    yield from (Finding("repair", "note", remark) for remark in report.remarks)


def _spans(positions: Sequence[int]) -> str:
    texts = [f"{a:,}" if a == b else f"{a:,}-{b:,}" for a, b in runs_of(positions)]
    return ", ".join(texts[:12]) + (" …" if len(texts) > 12 else "")
