"""NFR-2: whatever a public name is called with, it works, or one of our errors says what is wrong.

Huge numbers, NUL and half an emoji in names of files, times at the ends of time, wrong types.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import compact
from compact import (
    ActiveContext,
    Checkpoint,
    CompactConfig,
    CompactPolicy,
    CompressionLevel,
    ContextManager,
    Conversation,
    Goal,
    Message,
    SQLiteManager,
)
from compact.adapters.fs import FileStorage
from compact.errors import InvalidArgument
from compact.exporters.ariadne import AriadneExporter
from compact.exporters.console import ConsoleExporter
from compact.exporters.otlp import OtlpExporter
from tests.managers.test_any_call import ODD, UNHURRIED, A, anything, tried


def _raises(*_: object, **__: object) -> None:
    raise RuntimeError("theirs")


VALUES: list[Any] = [
    *(value for value in ODD if not inspect.isgenerator(value)),
    *(datetime.min, datetime.max, datetime.max.replace(tzinfo=UTC)),  # noqa: DTZ901
    *(timedelta.max, 10**6, 2**62),
    *(-(10**6), 1e308, -1e308, 5e-324, "\ud800", "\udcff", "x" * 5_000, Path("a\0b"), b"\xff"),
    *(Path("\ud800"), ".", "/dev/null", _raises, lambda: None, ["\ud800"], {"\ud800": 1}, {1: 2}),
    *([float("nan")] * 384, "s", ["s"], "s3://", "http://[", "file:x?mode=ro", ":memory:"),
    *(CompressionLevel.SUMMARY, "summary", "task_state", "user"),
]  # fmt: skip
"""What is given in each place."""


def _store() -> SQLiteManager:
    store = SQLiteManager()
    with ContextManager(window=8_192, store=store, session_id="s") as ctx:
        ctx.add_message(A)
    return store


def _session() -> ContextManager:
    ctx = ContextManager(window=8_192, session_id="s")
    ctx.add_message(A)
    return ctx


def _talk() -> Conversation:
    return Conversation(messages=(Message(role="user", content="The valve is red."),), id="c")


def _context() -> ActiveContext:
    return _session().active_context()


MADE: dict[str, Callable[[], Any]] = {
    "ActiveContext": _context,
    "ArchivalManager": lambda: compact.ArchivalManager(_store(), folder="archive"),
    "AriadneExporter": lambda: AriadneExporter("http://127.0.0.1:9"),
    "Checkpoint": lambda: Checkpoint(
        id="ck-1",
        span={"first": 0, "last": 1, "messages": 2},
        summary="The valve is red.",
        level="detailed",
    ),
    "CompactConfig": CompactConfig,
    "CompactManager": lambda: compact.CompactManager(CompactConfig(max_context_tokens=8_192)),
    "CompactPolicy": CompactPolicy,
    "CompressionEngine": lambda: compact.CompressionEngine(_store()),
    "ConsoleExporter": ConsoleExporter,
    "ContextBudget": lambda: _session().budget,
    "ContextManager": _session,
    "ContextWindow": lambda: compact.ContextWindow(size=5_000),
    "Conversation": _talk,
    "EventBus": compact.EventBus,
    "ExtractiveSummarizer": lambda: compact.ExtractiveSummarizer(compact.NoopEstimator()),
    "FileStorage": lambda: FileStorage("archive"),
    "Goal": lambda: Goal(text="Mend the roof."),
    "MemoryManager": lambda: compact.MemoryManager(_store()),
    "Message": lambda: Message(role="user", content="The valve is red."),
    "MessageMetadata": compact.MessageMetadata,
    "NoopEstimator": compact.NoopEstimator,
    "OtlpExporter": lambda: OtlpExporter("http://127.0.0.1:9"),
    "Patience": compact.Patience,
    "Plan": lambda: compact.plan([A], max_tokens=100),
    "PromptParts": compact.PromptParts,
    "Redactor": lambda: compact.Redactor(["email"]),
    "RetentionPolicy": compact.RetentionPolicy,
    "SQLiteManager": _store,
    "TiktokenEstimator": compact.TiktokenEstimator,
    "VectorStore": compact.VectorStore,
}
"""One of each public class."""
PUBLIC: dict[str, Any] = {
    **{name: getattr(compact, name) for name in compact.__all__},
    "AriadneExporter": AriadneExporter,
    "ConsoleExporter": ConsoleExporter,
    "FileStorage": FileStorage,
    "OtlpExporter": OtlpExporter,
}
LEFT_OUT = {"close", "stream", "astream"}
"""Methods that end what is called, or wait for a model that talks."""
USUAL: dict[str, Any] = {
    **{"query": "cactus", "id": "ck-1", "name": "recall", "arguments": {}, "usage": 5, "at": 0},
    **{"messages": [A], "message": A, "goals": [], "model": "gpt-4o", "text": "a", "error": "no"},
    **{"snapshot": "s", "session_id": "s", "branch_id": "s", "entries": [], "start": 0, "stop": 1},
    **{"mark": 1, "before": 1, "most": 1, "message_id": "m", "score": 0.5, "length": 0},
    **{"projection_id": "p", "value": {}, "path": "new.db", "backup": "none", "file": "x.db"},
    **{"archive": "copies", "max_tokens": 100, "age_days": 3, "metadata": {}, "key": "gpt-4o"},
    **{"level": CompressionLevel.SUMMARY, "given": {"a": [1.0] * 384}, "vector": [1.0] * 384},
    **{"names": ["a"], "size": 5_000, "role": "user", "content": "x", "conversation": _talk()},
    **{"session": "s", "step": 1, "summary": "x", "tokens": 5, "url": "http://127.0.0.1:9"},
}  # fmt: skip
"""What is given in the other places."""


def _methods(kind: type) -> Iterator[str]:
    """Its public methods, pydantic's own left out."""
    for name in dir(kind):
        is_ours = not name.startswith(("_", "model_")) and name not in LEFT_OUT
        static = inspect.getattr_static(kind, name)
        if is_ours and not isinstance(static, property | functools.cached_property):
            found = getattr(kind, name)
            theirs = str(getattr(getattr(found, "__func__", found), "__module__", ""))
            if callable(found) and not theirs.startswith("pydantic"):
                yield name


def _errors(kind: Any) -> bool:
    return inspect.isclass(kind) and issubclass(kind, BaseException)


CALLS = sorted(
    f"{name}{method}"
    for name, kind in PUBLIC.items()
    if not _errors(kind) and kind is not CompressionLevel
    for method in ("", *(f".{each}" for each in (_methods(kind) if inspect.isclass(kind) else ())))
)
"""Every public function, class and method."""


def found(call: str) -> tuple[Any, list[inspect.Parameter]]:
    """What is called, of an object that was made just now, and what it takes."""
    name, _, method = call.partition(".")
    called = getattr(MADE[name](), method) if method else PUBLIC[name]
    return called, list(inspect.signature(called).parameters.values())


def filled(
    wanted: list[inspect.Parameter], odd: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments: odd values in their places, and what is needed elsewhere."""
    args: list[Any] = []
    named: dict[str, Any] = {}
    for each in wanted:
        if each.kind is each.VAR_KEYWORD:
            named |= {"role": odd[each.name]} if each.name in odd else {}
        elif each.name in odd or each.default is each.empty:
            value = odd.get(each.name, USUAL.get(each.name))
            if each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL):
                args.append(value)
            else:
                named[each.name] = value
    return args, named


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.sampled(25)
@pytest.mark.parametrize("call", CALLS)
def test_every_shape_in_every_place_is_refused_or_works(call: str) -> None:
    called, wanted = found(call)
    for place in wanted:
        called, _ = found(call)
        for value in VALUES:
            args, named = filled(wanted, {place.name: value})
            tried(called, *args, **named)
    tried(called, no_such=5)
    tried(called, *[5] * (len(wanted) + 2))


@UNHURRIED
@given(st.data())
def test_any_call_at_random_is_refused_or_works(data: st.DataObject) -> None:
    """Several odd values at once, of any public name."""
    called, wanted = found(data.draw(st.sampled_from(CALLS)))
    places = data.draw(st.lists(st.sampled_from(wanted), max_size=4) if wanted else st.just([]))
    odd = {each.name: data.draw(st.sampled_from(VALUES) | anything) for each in places}
    args, named = filled(wanted, odd)
    tried(called, *args, **named)


WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("Goal", {"text": 5}, "text", r"Goal\(\): text must be a valid string, got 5"),
    ("Goal", {}, "text", r"Goal\(\): missing a required argument: 'text'"),
    ("CompactPolicy", {"triger_ratio": 1}, "triger_ratio", "did you mean 'trigger_ratio'"),
    ("Message", {"role": "wizard"}, "role", "role must be 'system', .*, got 'wizard'"),
    ("RetentionPolicy", {"keep_days": 10**5_000}, "keep_days", "larger than any"),
    ("Redactor", {"kinds": 5}, "kinds", "kinds must be a list"),
    ("CompressionLevel", {"value": "half"}, "value", "a level is one of 'full', .*, not 'half'"),
    ("NoopEstimator.count", {"text": b"x"}, "text", "text must be a text, got b'x'"),
    ("VectorStore.pending", {"embedder": 5}, "embedder", "embedder must be a Embedder"),
    ("CompactConfig.tier", {"size": "8k"}, "size", "size must be a whole number, got '8k'"),
    ("Conversation.counted", {"counter": 5}, "counter", "counter must be a TokenCounter, got 5"),
    ("MemoryManager.backup", {"path": "a\0b"}, "path", r"'a\\x00b', which is no file's name"),
]


@pytest.mark.parametrize(("call", "given_", "name", "words"), WRONG)
def test_the_error_is_ours_and_names_the_argument(
    call: str, given_: dict[str, Any], name: str, words: str
) -> None:
    called, _ = found(call)
    with pytest.raises(InvalidArgument, match=words) as refused:
        called(**given_)
    assert refused.value.name == name
    assert isinstance(refused.value, TypeError)


def test_a_listener_that_raises_fails_nothing(tmp_path: Path) -> None:
    with compact.MemoryManager(tmp_path / "chat.db") as memory:
        with ContextManager(window=8_192, store=memory.store, session_id="s") as ctx:
            ctx.add_message(A)
        assert memory.backup("kept", progress=_raises).sessions == 1
        assert memory.archive(["s"], progress=_raises).archived
        assert memory.catch_up(_raises)
        assert memory.age(progress=_raises).complete
