"""Part `shapes`: calls of any shape to every public call; whatever is not done is refused by an
error of compact's own tree, and whatever was accepted can be read back.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from compact import (
    CompactConfig,
    CompactPolicy,
    ContextManager,
    SQLiteManager,
    acompress,
    aplan,
    compress,
    plan,
    wiring,
)
from compact.cli.main import main as compactctl
from compact.errors import CannotFit, CompactError
from evals import data
from evals.attack.anything import CONVERSATIONS, broken, mangled, messages, value
from evals.attack.found import Found

CALLS = {"tiny": 40, "small": 600, "full": 3_000}
SECONDS = 30
"""After so many a call hangs."""
EACH_SESSION = 12
"""Calls to one session, before it is opened again and read back."""
FILES = sorted((data.REPO_ROOT / "tests" / "fixtures" / "transcripts").iterdir())
Call = Callable[[], object]


class Hangs(BaseException):
    """A call took too long."""


def run(seed: int, size: str) -> list[Found]:
    """Try so many calls, in an empty folder without settings."""
    calls, rows = CALLS[size], list[Found]()
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("COMPACT_", "OPENAI_"))}
    for name, share, part in PARTS:
        rng, found = random.Random(f"{name} {seed}"), Found(f"shapes: {name}")
        settings = mock.patch.dict(os.environ, environ, clear=True)
        with _empty_folder(), settings, warnings.catch_warnings(action="ignore"):
            while found.tried < calls * share:
                for told, call in part(rng):
                    found.trying(wrong_with(told, call))
        rows.append(found)
    return rows


def wrong_with(told: str, call: Call) -> Iterator[str]:
    """Why the call ended as none may: an error that is not of compact's tree, or never."""

    def give_up(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS)
    try:
        call()
    except CompactError:
        pass
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - this is what is looked for
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "compact/" in f.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "the call"
        kind = told.partition("(")[0]
        yield f"{kind} {type(error).__name__} at {place} | {str(error)[:90]!r} of {told[:90]}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _empty_folder() -> Iterator[Path]:
    """A folder to work in; whatever a call writes by a name of any shape is written there."""
    before = Path.cwd()
    with TemporaryDirectory(ignore_cleanup_errors=True) as place:
        os.chdir(place)
        try:
            yield Path(place)
        finally:
            os.chdir(before)


def _short(given: object) -> str:
    with suppress(Exception, RecursionError):
        return repr(given)[:70]
    return type(given).__name__


def _any_text(rng: random.Random) -> str:
    """A value of any shape, as a text."""
    with suppress(RecursionError):
        return str(value(rng, 3))
    return "[" * 3_000


# --- calls ----------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "pin": [1],
    "system": "Be brief.",
    "tools": [{"type": "function", "function": {"name": "run", "parameters": {}}}],
    "model": "gpt-4o",
    "tokenizer": "cl100k",
    "format": "chat_completions",
    "policy": CompactPolicy(keep_user_messages=3),
    "summarizer": "extractive",
    "models": None,
    "on_event": lambda _: None,
}
OF_SESSIONS: dict[str, Any] = {
    **{k: v for k, v in GOOD.items() if k not in ("pin", "model")},
    **{"prompt": None, "user_mode": None, "tiers": None, "fallbacks": ["gpt-4o"], "patience": None},
    **{"session_id": "s", "scope": "default", "title": "A quay"},
}


def _options(rng: random.Random, good: dict[str, Any]) -> dict[str, Any]:
    names = rng.sample(list(good), rng.choice((0, 1, 1, 2)))
    return {n: value(rng) if rng.random() < 0.7 else good[n] for n in names}


def _once(rng: random.Random) -> Iterator[tuple[str, Call]]:
    wire, given = messages(rng)
    options = {"format": wire} | _options(rng, GOOD)
    size = value(rng) if rng.random() < 0.1 else rng.choice((40, 300, 900, 100_000))
    told = f"({_short(given)}, max_tokens={_short(size)}, {_short(options)})"
    calls: dict[str, Callable[..., Any]] = {"compress": compress, "plan": plan}
    awaited: dict[str, Callable[..., Any]] = {"acompress": acompress, "aplan": aplan}
    name = rng.choice((*calls, *awaited))
    if name in calls:
        yield name + told, partial(calls[name], given, max_tokens=size, **options)
    else:
        work = partial(awaited[name], given, max_tokens=size, **options)
        yield name + told, lambda: asyncio.run(work())


def _opening(rng: random.Random) -> Iterator[tuple[str, Call]]:
    options: dict[str, Any] = {"window": 4_000} | _options(rng, OF_SESSIONS)
    place = rng.choice(("window", "model", "store", "")) if rng.random() < 0.6 else ""
    if place:
        options[place] = value(rng)

    def opened() -> None:
        with ContextManager(**options) as ctx:
            ctx.add_messages([{"role": "user", "content": "Is the quay dry?"}])
            with suppress(CannotFit):
                ctx.get_context_for_model()

    yield f"ContextManager({_short(options)})", opened


def _session(rng: random.Random) -> Iterator[tuple[str, Call]]:
    """Calls to a session in a file, and then all of it read back."""
    file, wire = f"{rng.getrandbits(40)}.db", rng.choice(list(CONVERSATIONS))
    with ContextManager(window=2_500, store=file, session_id="s", format=wire) as ctx:
        ctx.add_messages(CONVERSATIONS[wire])
        for _ in range(EACH_SESSION):
            yield _asked(rng, ctx, wire)
    yield f"reading back({wire})", lambda: _read_back(file)


def _asked(rng: random.Random, ctx: ContextManager, wire: str) -> tuple[str, Call]:
    def any_of(*good: object) -> Any:  # noqa: ANN401
        return rng.choice(good) if good and rng.random() < 0.4 else value(rng)

    one = broken(rng, rng.choice(CONVERSATIONS[wire]))
    listed = broken(rng, CONVERSATIONS[wire], rng.randrange(1, 4))
    ids = ("m1", *(c.id for c in ctx.checkpoints), *(s.id for s in ctx.time.snapshots()[:2]))
    arguments = any_of('{"query": "quay"}', '{"id": "m1"}', {"query": "quay"}, "{")
    asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        *([("add_message", (any_of(one, one),), {}), ("add_messages", (listed[:5],), {})] * 3),
        ("add_message", (), one if isinstance(one, dict) and rng.random() < 0.5 else {"role": one}),
        *([("sync", (any_of(listed, listed),), {})] * 3),
        ("pin", (any_of(*ids),), {}),
        ("set_goals", (any_of(["Dry the quay."], [value(rng)], one),), {}),
        ("set_mode", (any_of("planning"),), {}),
        ("get_context_for_model", (any_of(None, "gpt-4o", "claude-sonnet-4-5"),), {}),
        ("compress_conversation", (any_of(0.3, None),), {"guidance": any_of("", "the quay")}),
        ("estimate_tokens", (any_of("quay"),), {}),
        ("snapshot", (any_of("note"),), {"purpose": any_of("recovery")}),
        ("restore", (any_of(*ids),), {}),
        ("branch", (), {"at": any_of(1, 5, len(ctx.history))}),
        ("context_at", (any_of(0, 3, len(ctx.history)),), {}),
        ("recall", (any_of("quay"),), {"limit": any_of(3)}),
        ("expand", (any_of(*ids),), {"max_tokens": any_of(None, 90), "start": any_of(0, 1)}),
        ("recall_tools", (any_of(None, "anthropic"),), {}),
        ("call_tool", (any_of("recall", "expand"), arguments), {"max_tokens": any_of(None, 90)}),
        ("record_usage", (any_of(900),), {}),
        ("report_overflow", (any_of("maximum context length is 900 tokens"), ), {}),
        ("set_model", (any_of("gpt-4o"), any_of(None, 3_000)), {}),
        ("send", (any_of(),), {}),
        *((name, (), {}) for name in ("undo", "redo", "active_context", "snapshots")),
        ("get_conversation_summary", (), {}),
    ]  # fmt: skip
    name, given, more = rng.choice(asked)
    if rng.random() < 0.03:
        return "budget", lambda: (ctx.budget, ctx.window, ctx.goals, ctx.reliability)
    return f"{name}({_short(given)}, {_short(more)})", lambda: getattr(ctx, name)(*given, **more)


def _read_back(file: str) -> None:
    """Open it again, show it, export it, bring the export in, and look for damage.

    Raises:
        AssertionError: something of it cannot be read back.
    """
    copy = f"{file}-{time.monotonic_ns()}"
    for window in (2_500, 100_000):
        with ContextManager(window=window, store=file, session_id="s") as ctx:
            with suppress(CannotFit):
                assert ctx.active_context().tokens <= ctx.window.usable
            assert len(list(ctx.history)) == len(ctx.history)
    for arguments in (
        ("sessions", "export", "s", "--store", file, "-o", "s.json", "--force"),
        ("sessions", "export", "s", "--store", file, "-o", "s.md", "--force"),
        ("sessions", "import", "s.json", "--store", "copy.db", "--as", copy),
        ("history", "s", "--store", file),
    ):
        code, _, said = told_by(arguments)
        assert code == 0, f"{arguments[:2]} ended with {code}: {said[:200]}"
    with SQLiteManager(file) as store:
        assert not any(damage := wiring.store_damage(store)), f"damage: {damage}"


def _settings(rng: random.Random) -> Iterator[tuple[str, Call]]:
    names = rng.sample(CompactConfig.names(), 2)
    given = {name: value(rng) for name in names}
    yield f"CompactConfig({_short(given)})", lambda: CompactConfig(**given)
    yield f"load({_short(given)})", lambda: CompactConfig.load(environ={}, **given)
    environ = {f"COMPACT_{names[0].upper()}": _any_text(rng)}
    yield f"load(environ={environ})", lambda: CompactConfig.load(environ=environ)
    file = Path(rng.choice(("settings.yaml", "settings.json")))
    example = (data.REPO_ROOT / "examples" / "compact.yaml").read_bytes()
    if file.suffix == ".json":
        example = json.dumps(dict.fromkeys(names, 1)).encode()
    file.write_bytes(mangled(rng, example))
    yield f"load(file {_short(file.read_bytes())})", lambda: CompactConfig.load(file, environ={})


STORE_CALLS = (
    "session", "sessions", "fork", "delete_session", "get_conversation", "append", "read", "marked",
    "position_of", "update_importance_score", "branch", "branches", "chain", "first_marked",
    "commit", "moves", "projection", "checkpoints", "save_snapshot", "snapshots", "note", "notes",
    "search", "integrity_check",
)  # fmt: skip


def _stores(rng: random.Random) -> Iterator[tuple[str, Call]]:
    path = value(rng)
    yield f"SQLiteManager({_short(path)})", lambda: _used(SQLiteManager(path))
    with ContextManager(window=2_500, store="base.db", session_id="s") as ctx:
        if not len(ctx.history):
            ctx.add_messages(CONVERSATIONS["chat_completions"])
            ctx.compress_conversation(0.3)
    with SQLiteManager("base.db") as store:
        for name in rng.sample(STORE_CALLS, 6):
            call = getattr(store, name)
            given = _arguments(rng, call)
            yield f"store.{name}({_short(given)})", partial(call, **given)
        yield "reading back(base.db)", lambda: _read_back("base.db")
    damaged = Path(f"{rng.getrandbits(40)}.db")
    damaged.write_bytes(mangled(rng, Path("base.db").read_bytes()))
    yield "a damaged store(opened)", lambda: _used(SQLiteManager(damaged))


def _used(store: SQLiteManager) -> None:
    with store:
        for session in store.sessions():
            store.get_conversation(session.id)
        store.integrity_check()


def _arguments(rng: random.Random, call: Callable[..., object]) -> dict[str, Any]:
    """Any values for all that a call takes; a text where it asks for one, as often as not."""
    code = call.__func__.__code__  # type: ignore[attr-defined]  # a method of ours
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    return {name: "s" if rng.random() < 0.3 else value(rng) for name in names}


def _transcripts(rng: random.Random) -> Iterator[tuple[str, Call]]:
    file = rng.choice(FILES)
    text = mangled(rng, file.read_bytes())
    options: dict[str, Any] = {"active": rng.random() < 0.2}
    if rng.random() < 0.3:
        options["format"] = rng.choice((*wiring.file_formats(), value(rng)))
    if rng.random() < 0.2:
        options["conversation"] = value(rng)

    def read() -> None:
        found = wiring.read_transcript(file.name, data=text, **options)
        wiring.write_transcript(found, found.messages)
        with suppress(CannotFit):
            compress(found.messages, max_tokens=500)

    yield f"read_transcript({file.name}, {_short(options)}, {_short(text)})", read


# --- the command line -----------------------------------------------------------------------------

COMMANDS = (
    "compact F --max-tokens 400 -o out", "compact F --max-tokens N", "dry-run F --max-tokens 300",
    "diff F --max-tokens 300 --full", "tokens F --json", "compact F --max-tokens 900 --pin A",
    "compact - --max-tokens 500 --keep A", "tokens F --format A", "dry-run F --conversation N",
    "validate-config F", "doctor --model A", "sessions import F --as A",
    "sessions import F --title A",
    "sessions list --store F", "show s", "show s history --store F", "show A",
    "show s context --at N", "show s context --window N", "recall s A", "expand s A", "show s A",
    "mark s --goal A", "show s goals", "mark s --done A", "mark s --title A", "undo s --to A",
    "undo s", "mark s --pin A", "mark s --mode A", "A", "A A", "sessions export s -o A",
    "sessions export s --format A", "sessions compress s --window N", "memory forget A",
    "doctor --store F --check", "tokens F --config F", "sessions list --scope A",
    "tokens F --model A", "sessions export s --branch A", "demo --save A",
)  # fmt: skip


def _commands(rng: random.Random) -> Iterator[tuple[str, Call]]:
    if not Path(".compact").exists():
        assert told_by(("sessions", "import", str(FILES[0]), "--as", "s"))[0] == 0
    file = rng.choice(FILES)
    given = Path(f"given{rng.randrange(5)}{''.join(file.suffixes)}")
    given.write_bytes(mangled(rng, file.read_bytes()))
    numbers = ("0", "-1", "1", "99999999999999999999", "1.5", "x", "", "300")
    filled = {"F": lambda: rng.choice((str(given), str(file), ".", ".compact/sessions.db", "no")),
              "A": lambda: _any_text(rng)[:3_000].replace("\x00", "\\0"),
              "N": lambda: rng.choice(numbers)}  # fmt: skip
    arguments = [filled.get(a, lambda a=a: a)() for a in rng.choice(COMMANDS).split()]

    def ran() -> None:
        code, out, said = told_by(arguments, given.read_bytes())
        assert code in (0, 1, 2), f"ended with {code}: {said}"
        assert "Traceback" not in said, said
        assert "Traceback" not in out.partition("\n")[0], out

    yield f"compactctl {arguments[0][:20]}({_short(arguments)})", ran
    if rng.random() < 0.1:
        yield "reading back(the store)", _whole


def _whole() -> None:
    with SQLiteManager(".compact/sessions.db") as store:
        assert not any(damage := wiring.store_damage(store)), f"damage: {damage}"


def told_by(arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
    """What a command ends with, and what it prints."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "replace") for _ in range(2))
    streams: list[AbstractContextManager[Any]] = [
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ]
    with streams[0], streams[1], streams[2]:
        code = compactctl(arguments)  # type: ignore[arg-type]  # a sequence of texts
    texts = [s.buffer.getvalue().decode("utf-8", "replace") for s in (out, err)]
    return code, texts[0], texts[1]


PARTS: tuple[tuple[str, float, Callable[[random.Random], Iterator[tuple[str, Call]]]], ...] = (
    ("compress, plan", 0.22, _once),
    ("ContextManager", 0.1, _opening),
    ("a session's calls", 0.26, _session),
    ("settings", 0.1, _settings),
    ("stores", 0.1, _stores),
    ("transcripts", 0.1, _transcripts),
    ("command line", 0.12, _commands),
)
