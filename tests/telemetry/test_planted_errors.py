"""No secret leaves by an error: whoever compact calls fails and says all that it knows, and every
byte that is then written is searched (NFR-2, K-7). What is raised to the caller is the caller's own
and stays as it is.
"""

import asyncio
import gc
import json
import linecache
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import apsw
import pytest

from compact import CompactConfig, CompactManager, wiring
from compact.cli import errors
from compact.cli.main import main
from compact.cli.progress import Progress
from compact.errors import StoreFailed
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.events import Event, SummaryReplaced, TriggerDecision
from compact.messages.protocols import SessionStore
from compact.session.running import BackgroundJob, in_thread, on_loop
from compact.session.views.view import View
from compact.store.inmemory import InMemoryStore
from compact.telemetry.plain_words import LONGEST
from compact.testing.fakes import ScriptedSummarizer
from tests.secrets.test_redaction import POSITIVE
from tests.telemetry.ariadne_server import AriadneServer
from tests.telemetry.collector import Collector
from tests.telemetry.planted import (
    ALL,
    PLANTED,
    SETTINGS,
    VARIABLES,
    WORDS,
    Kept,
    found_in,
    harmless_rows,
)

SOURCE = "def fail(kind):\n    known = ["
SOURCE += "".join(f"\n        {words!r}," for words in WORDS.values())
SOURCE += '\n    ]\n    raise kind("\\n".join(known))'
SOURCE += f" # {WORDS['anthropic_key']}\n"
"""A function whose source, whose variables and whose error hold the secrets."""
POSTGRES = (
    'duplicate key value violates unique constraint "keys_pkey"\n'
    f"DETAIL:  Failing row contains (17, {ALL}, null).\n"
)
"""What a store on PostgreSQL would say."""


class Failing(BaseException):
    """What `except Exception` does not catch, as the cancellation of somebody's own loop."""


def cause() -> Exception:
    """An error with secrets in its text, in the source and the variables of its frames, and in the
    error before it.
    """
    made: dict[str, Any] = {}
    linecache.cache["planted.py"] = (len(SOURCE), None, SOURCE.splitlines(True), "planted.py")
    exec(compile(SOURCE, "planted.py", "exec"), made)
    try:
        try:
            made["fail"](LookupError)
        except LookupError:
            made["fail"](ValueError)
    except ValueError as error:
        return error
    raise AssertionError("it fails")


def fail(kind: Callable[[str], BaseException] = RuntimeError) -> NoReturn:
    """Raise an error with secrets in its text, its notes and its cause."""
    error = kind(ALL)
    error.add_note(ALL)
    raise error from cause()


class FailingSummarizer(ScriptedSummarizer):
    async def summarize(self, request: SummaryRequest) -> Summary:
        fail()


class FailingExporter:
    """Fails at each call, in every way."""

    def export(self, events: Sequence[Event]) -> None:
        fail(Failing if isinstance(events[0], TriggerDecision) else RuntimeError)

    def close(self) -> None:
        fail(Failing)


class FailingArchive:
    """Fails at each call, in every way."""

    def save_transcript(self, session_id: str, messages: object) -> str:
        fail(OSError)

    def save_summary(self, session_id: str, step: int, summary: str) -> str:
        fail(Failing)

    def save_event(self, session_id: str, event: Event) -> str:
        fail()


class FailingTokenizer:
    """Counts until it fails."""

    name, exact, fails = "failing", True, False

    def count(self, text: str) -> int:
        if self.fails:
            fail()
        return len(text) // 4


class FailingStore:
    """Keeps sessions in memory until it fails: at the methods of these names, or in a thread."""

    def __init__(self) -> None:
        self._store = InMemoryStore()
        self.fails: frozenset[str] = frozenset()
        self.thread = ""
        self.failed = 0

    def __getattr__(self, name: str) -> Any:
        if name in self.fails or threading.current_thread().name == self.thread:
            self.failed += 1
            return lambda *_, **__: fail(lambda _: RuntimeError(POSTGRES))
        return getattr(self._store, name)


@pytest.fixture
def sinks(tmp_path, capfd, caplog, monkeypatch) -> Iterator[Callable[..., dict[str, str]]]:
    """Opens a manager that tells everybody of everything, has a session talk, and returns what was
    written where.
    """
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    caplog.set_level(logging.DEBUG)
    ariadne, collector, kept = AriadneServer(), Collector(), Kept()

    def told(talk: Callable[[CompactManager], None], **options: Any) -> dict[str, str]:
        config = CompactConfig(
            max_context_tokens=4_000,
            telemetry_content=True,
            console_events=True,
            ariadne_url=ariadne.url,
            otlp_endpoint=collector.url,
            **SETTINGS,
        )
        options = {"archive": tmp_path / "archive", **options}
        with CompactManager(config, **options) as manager:
            manager._bus.export_to(kept)
            talk(manager)
        gc.collect()
        time.sleep(0.1)
        files = [path.read_text() for path in (tmp_path / "archive").rglob("*.json*")]
        return {
            "ariadne": b"\n".join(ariadne.bodies).decode(),
            "OTLP": b"\n".join(collector.bytes).decode("latin-1"),
            "exporter": kept.text,
            "files": "\n".join(files),
            "console": "".join(capfd.readouterr()),
            "logs": caplog.text,
        }

    yield told
    for server in (ariadne, collector):
        server.close()


def is_clean(written: dict[str, str], *told: str) -> None:
    """No hit anywhere; these places tell of the error, without its secrets."""
    assert {place: found_in(text) for place, text in written.items() if found_in(text)} == {}
    for place in told:
        assert "REDACTED" in written[place], place
    assert "Traceback" not in written["console"] + written["logs"]


EXPORTED = ("ariadne", "OTLP", "exporter", "console")


def talked(manager: CompactManager) -> None:
    """A session that is compressed."""
    manager.preflight("s", harmless_rows(30))


def grown(manager: CompactManager) -> None:
    """A session that grows turn by turn, so that drafts are made in the background."""
    rows = harmless_rows(20)
    for end in range(2, len(rows), 2):
        manager.preflight("s", rows[:end])
        time.sleep(0.01)


def with_failing_exporter(manager: CompactManager) -> None:
    manager._bus.export_to(FailingExporter())
    talked(manager)


FAILS: dict[str, tuple[Callable[[CompactManager], None], dict[str, Any], tuple[str, ...]]] = {
    "a summarizer": (talked, {"summarizer": FailingSummarizer("")}, (*EXPORTED, "files")),
    "a summarizer, at a draft": (
        *(grown, {"summarizer": FailingSummarizer("")}),
        (*EXPORTED, "files"),
    ),
    "an exporter": (with_failing_exporter, {}, ()),
    "an archive": (talked, {"archive": FailingArchive()}, EXPORTED),
    "a callback": (talked, {"on_event": lambda _: fail()}, ()),
}
"""Who fails -> what is done meanwhile, with what, and who tells of it."""


@pytest.mark.parametrize("who", FAILS)
def test_somebody_fails(sinks, who):
    talk, options, told = FAILS[who]
    is_clean(sinks(talk, **options), *told)


def test_a_tokenizer_that_fails(sinks):
    """It fails whoever asks; what is written of it is not what it says."""
    tokenizer = FailingTokenizer()

    def talk(manager: CompactManager) -> None:
        talked(manager)
        tokenizer.fails = True
        with pytest.raises(RuntimeError) as raised:
            manager.preflight("t", [{"role": "user", "content": "Is a lamp lit?"}])
        assert str(raised.value) == ALL, "what is raised is the caller's own"

    is_clean(sinks(talk, tokenizer=tokenizer))


def test_a_tokenizer_that_fails_at_a_draft(sinks, monkeypatch):
    """Nobody waits for the draft: an event tells of it."""
    monkeypatch.setattr(View, "tokens_now", property(lambda _: fail()))
    said = ScriptedSummarizer("## Goal\nLight lamps.")
    is_clean(sinks(grown, summarizer=said), *EXPORTED, "files")


METHODS = sorted(name for name in dir(SessionStore) if not name.startswith("_") and name != "close")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("method", METHODS)
def test_a_store_that_fails(sinks, method):
    store = FailingStore()

    def talk(manager: CompactManager) -> None:
        rows = harmless_rows(24)
        manager.preflight("s", rows[:12])
        store.fails = frozenset((method,))
        for end in range(14, len(rows), 2):
            with suppress(RuntimeError):  # the caller's own
                manager.preflight("s", rows[:end])
            time.sleep(0.02)
        store.fails = frozenset()

    is_clean(sinks(talk, store=store, summarizer=ScriptedSummarizer("## Goal\nLight lamps.")))


@pytest.mark.parametrize("thread", ["compact-reading", "compact-work", "compact-archive"])
def test_a_store_that_fails_in_a_thread(sinks, thread):
    """Nobody waits for these threads, so nobody would catch what they raise."""
    store = FailingStore()
    said = ScriptedSummarizer("## Goal\nLight lamps.")

    def talk(manager: CompactManager) -> None:
        grown(manager)
        store.thread = thread
        for end in range(2, 40, 2):
            with suppress(RuntimeError):  # the caller's own, where the caller waits
                manager.preflight(f"t{end % 3}", harmless_rows(20)[:end])
            time.sleep(0.01)
        store.thread = ""

    is_clean(sinks(talk, store=store, summarizer=said))
    assert store.failed


# --- event loops ----------------------------------------------------------------------------------


async def failing(begun: asyncio.Event | None = None) -> None:
    """Fail, also because it was cancelled."""
    try:
        if begun is not None:
            begun.set()
            await asyncio.sleep(60)
    finally:
        fail()


def is_quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Python logs what nobody looked at when it is collected."""
    gc.collect()
    time.sleep(0.1)
    gc.collect()
    assert found_in(caplog.text) == set()


def test_work_in_the_background_that_fails(caplog):
    BackgroundJob(failing()).wait(5.0)
    is_quiet(caplog)


def test_work_in_a_thread_whose_caller_is_gone(caplog):
    go = threading.Event()

    async def waiting() -> None:
        go.wait(5.0)
        fail()

    async def left() -> None:
        work = in_thread(waiting())
        work.send(None)
        work.close()
        go.set()
        await asyncio.sleep(0.2)

    asyncio.run(left())
    is_quiet(caplog)


def test_a_model_that_fails_when_its_caller_leaves(caplog):
    async def left() -> None:
        begun = asyncio.Event()
        asked = asyncio.create_task(in_thread(on_loop(lambda: failing(begun))))
        await begun.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    asyncio.run(left())
    is_quiet(caplog)


# --- stores and the command line ------------------------------------------------------------------


def refusing(file: Path, table: str, words: str) -> None:
    """Have the store refuse to write a table, and quote these words."""
    quoted = words.replace("'", "''")
    with apsw.Connection(str(file)) as db:
        db.execute(
            f"CREATE TRIGGER planted BEFORE INSERT ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{quoted}'); END"
        )


@pytest.mark.parametrize("table", ["messages", "moves", "notes"])
def test_a_database_that_fails(sinks, tmp_path, table):
    file = tmp_path / "kept.db"

    def talk(manager: CompactManager) -> None:
        rows = harmless_rows(24)
        manager.preflight("s", rows[:6])
        manager.preflight("t", rows[:12])
        refusing(file, table, ALL)
        for end in (12, 30, 48):
            manager.preflight("s", rows[:end])
        if table == "moves":
            plan = manager.session("t").compress_conversation()
            assert plan.why.startswith("compressing failed: ")
            assert found_in(repr(plan)) == set()

    is_clean(sinks(talk, store=file), *(EXPORTED if table != "notes" else ()))
    written = b"".join(each.read_bytes() for each in tmp_path.glob("kept.db*"))
    assert found_in(written.decode("latin-1")), "in the trigger itself"


def test_a_checkpoint_says_why_it_is_extracted_without_secrets(sinks, tmp_path):
    """The reason is kept with it and shown, and goes out with the session."""
    file = tmp_path / "kept.db"

    def talk(manager: CompactManager) -> None:
        talked(manager)
        ctx = manager.session("s")
        written = f"{ctx.checkpoints!r} {ctx.last_plan!r}"
        assert found_in(written) == set()
        assert "REDACTED" in written

    is_clean(sinks(talk, store=file, summarizer=FailingSummarizer("")))
    assert found_in(file.read_bytes().decode("latin-1")) == set()


@pytest.fixture
def command(capsys, monkeypatch, tmp_path) -> Callable[..., str]:
    """Runs a command, and returns all that it wrote."""
    monkeypatch.chdir(tmp_path)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: object, code: int = 0) -> str:
        assert main(list(map(str, arguments))) == code
        return "".join(capsys.readouterr())

    return run


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "quoted": repr,
    "json": lambda words: json.dumps({"detail": words}),
    "row": lambda words: f"DETAIL:  Failing row contains (17, {words}, null).",
    "behind a long text": lambda words: f"{'the lamp is lit ' * 40}{words}",
}


@pytest.mark.parametrize("form", FORMS)
def test_the_line_that_says_why_a_command_failed(capsys, form):
    """Some secrets are several words, or several lines."""
    every = form not in ("quoted", "json")  # what stands before a secret may be escaped there
    planted = POSITIVE if every else [(kind, *parts) for kind, parts in PLANTED.items()]
    errors.REDACTOR.set(CompactConfig(**SETTINGS).redactor())
    for kind, before, secret, after in planted:
        errors.say(FORMS[form](before + secret + after))
        told = capsys.readouterr().err
        assert secret not in told, kind
        assert " ".join(secret.split()) not in told, kind
        assert f"<REDACTED:{kind}>" in told or "…" in told, kind


@pytest.mark.parametrize("kind", [StoreFailed, OSError, RuntimeError, errors.Stop, ImportError])
@pytest.mark.parametrize("shown", ["", "1"])
def test_a_command_that_fails(command, monkeypatch, kind, shown):
    """Also where it is asked to say where, which tells causes, notes and lines of source."""
    monkeypatch.setenv("COMPACT_TRACEBACK", shown)
    monkeypatch.setattr(wiring, "store_at", lambda *_, **__: fail(kind))
    told = command("sessions", "list", "--json", code=70 if kind in OURS else 2)
    assert found_in(told) == set()
    assert "REDACTED" in told
    assert ("raise kind(" in told) == bool(shown)


OURS = (RuntimeError, ImportError)


def test_a_summarizer_that_fails_a_command(command, monkeypatch, tmp_path):
    """The report, the reasons beside it, and what is said of the checkpoint later."""
    monkeypatch.setattr(wiring, "summarizer", lambda *_, **__: FailingSummarizer(""))
    rows = "\n".join(map(json.dumps, harmless_rows(30)))
    (tmp_path / "lamps.jsonl").write_text(rows)
    store = ("--store", tmp_path / "kept.db")
    told = [
        command("dry-run", "lamps.jsonl", "--max-tokens", 3_000),
        command("dry-run", "lamps.jsonl", "--max-tokens", 3_000, "--json"),
        command("sessions", "import", "lamps.jsonl", *store),
        command("sessions", "compress", "lamps", *store, "--window", 4_000),
    ]
    ids = json.loads(command("show", "lamps", "checkpoints", *store, "--json"))
    name = ids["checkpoints"][0]["id"]
    told += [command("show", "lamps", name, *store, *how) for how in ((), ("--json",))]
    told += [command("sessions", "export", "lamps", *store, "--verbatim")]
    assert [found_in(each) for each in told] == [set()] * len(told)
    assert all("REDACTED" in told[i] for i in (0, 1, -3, -2))


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_store_that_a_command_finds_damaged(command, tmp_path, options):
    """What is damaged is quoted where it makes no sense."""
    file = tmp_path / "kept.db"
    with CompactManager(CompactConfig(max_context_tokens=4_000), store=file) as manager:
        for name in WORDS:
            manager.preflight(name, harmless_rows(3))
    for kind, words in WORDS.items():
        with apsw.Connection(str(file)) as db:
            db.execute("UPDATE sessions SET created_at = ? WHERE id = ?", (words, kind))
            db.execute("UPDATE branches SET id = ? WHERE id = ?", (words, kind))
    told = command("doctor", "--store", file, "--check", *options, code=2)
    told += command("sessions", "list", "--store", file, code=2)
    refusing(file, "messages", ALL)
    (tmp_path / "lamps.jsonl").write_text("\n".join(map(json.dumps, harmless_rows(3))))
    told += command("sessions", "import", "lamps.jsonl", "--store", file, code=2)
    assert found_in(told) == set()
    assert "REDACTED" in told


def test_a_reason_that_is_cut(capsys):
    """What is left of a secret that was cut in two looks like none."""
    errors.REDACTOR.set(CompactConfig(**SETTINGS).redactor())
    secret = PLANTED["anthropic_key"][1]
    for before in range(LONGEST - len(secret), LONGEST, 5):
        with Progress("Compressing") as progress:
            reason = f"{'x' * before} {secret}"
            progress.on_event(SummaryReplaced(made_by="extractive", reason=reason))
        assert secret[:16] not in capsys.readouterr().err
