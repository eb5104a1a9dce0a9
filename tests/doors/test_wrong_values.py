"""C-3, K-10, NFR-2: a wrong value that would be taken for something else is refused by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import compact
from compact import CompactConfig, CompactManager, ContextManager, MemoryManager, SQLiteManager
from compact.errors import CompactError, InvalidArgument, InvalidConfig

A = {"role": "user", "content": "Never water the cactus."}


def _session() -> ContextManager:
    ctx = ContextManager(window=8_192, session_id="s")
    ctx.add_message(A)
    return ctx


def _memory() -> MemoryManager:
    memory = MemoryManager()
    with ContextManager(window=8_192, store=memory.store, session_id="s") as ctx:
        ctx.add_message(A)
    return memory


WRONG: list[tuple[Callable[[], object], str, str]] = [
    # a name that nothing has would be passed over
    (lambda: compact.compress([A], max_tokens=100, pinn=[1]), "pinn", "did you mean 'pin'"),  # type: ignore[call-arg]
    (lambda: compact.plan([A], max_tokens=100, no_such=1), "no_such", "unexpected"),  # type: ignore[call-arg]
    (lambda: ContextManager(window=8_192, storre="x"), "storre", "unexpected"),  # type: ignore[call-arg]
    (lambda: CompactManager(tokeniser="o200k"), "tokeniser", "did you mean 'tokenizer'"),  # type: ignore[call-arg]
    (lambda: _memory().search("cactus", role=["user"]), "role", "did you mean 'roles'"),  # type: ignore[call-arg]
    (lambda: compact.EventBus().export_to(print, size=5), "size", "unexpected"),  # type: ignore[arg-type,call-arg]
    # a size or a share that cannot be
    (lambda: compact.compress([A], max_tokens=0), "max_tokens", "at least 1"),
    (lambda: compact.compress([A], max_tokens="100"), "max_tokens", "whole number"),  # type: ignore[arg-type]
    (lambda: compact.compress([A], max_tokens=100, pin=["0"]), "pin", r"pin\[0\]"),  # type: ignore[list-item]
    (lambda: ContextManager(window=-8_192), "window", "at least 64"),
    (lambda: _session().recall("cactus", limit=-1), "limit", "at least 0"),
    (lambda: _session().record_usage(-1), "usage", "at least 0"),
    (lambda: _memory().search("cactus", limit=-1), "limit", "at least 0"),
    (lambda: _memory().run_schedule(float("nan")), "every", "above 0"),
    # no scope would be all of them, and no session a new one
    (lambda: ContextManager(window=8_192, scope=None), "scope", "not empty"),  # type: ignore[arg-type]
    (lambda: ContextManager(window=8_192, session_id=""), "session_id", "not empty"),
    (lambda: ContextManager(window=8_192, session_id=None), "session_id", "not empty"),  # type: ignore[arg-type]
    (lambda: MemoryManager(scope=None), "scope", "not empty"),  # type: ignore[arg-type]
    (lambda: compact.ArchivalManager(SQLiteManager(), scope=None), "scope", "not empty"),  # type: ignore[arg-type]
    (lambda: CompactManager(scope=""), "scope", "not empty"),
    (lambda: compact.migrate("x", store=":memory:", scope=None), "scope", "not empty"),  # type: ignore[arg-type]
    # a text where a list is meant would be taken letter by letter
    (lambda: _session().goals.set("Mend the roof."), "goals", "must be a list"),
    (lambda: _memory().describe("s", tags="roof"), "tags", "must be a list"),
    (lambda: compact.VectorStore(dimensions=2).delete("roof"), "names", "must be a list"),
    # a choice that nobody offers would be taken for the usual one
    (lambda: _memory().search("cactus", method="sematic"), "method", "'semantic'"),  # type: ignore[arg-type]
    (lambda: compact.VectorStore(backend="sqlite_vec"), "backend", "'sqlite-vec'"),  # type: ignore[arg-type]
    (lambda: compact.CompressionLevel("half"), "value", "a level is one of 'full'"),
    # what is called with each event would fail each time, and nobody be told
    (lambda: compact.compress([A], max_tokens=100, on_event="f"), "subscriber", "function"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "name", "words"), WRONG)
def test_a_wrong_value_is_refused_by_the_name_of_its_argument(
    call: Callable[[], object], name: str, words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words) as refused:
        call()
    assert refused.value.name == name
    assert isinstance(refused.value, TypeError)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: _session().set_mode("wizard"), "wizard"),
        (lambda: SQLiteManager(durability="some"), "durability"),  # type: ignore[arg-type]
        (lambda: SQLiteManager(busy_timeout=float("nan")), "busy_timeout"),
        (lambda: SQLiteManager("a\0b"), r"a\\x00b"),
        (lambda: SQLiteManager("\ud800"), "ud800"),
        (lambda: SQLiteManager().update_importance_score("m", float("nan")), "nan"),
        (lambda: compact.VectorStore(dimensions=2).add("a", [float("nan"), 1.0]), "number"),
    ],
)
def test_what_would_be_stored_or_waited_for_is_refused(
    call: Callable[[], object], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CompactError, match=words):
        call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "fields", "place"),
    [
        (compact.Goal, {"text": 5}, "text"),
        (compact.Goal, {}, "text"),
        (compact.Message, {"role": "wizard"}, "role"),
        (compact.RetentionPolicy, {"keep_days": -1}, "keep_days"),
        (compact.CompactPolicy, {"triger_ratio": 0.5}, "triger_ratio"),
    ],
)
def test_pydantic_names_the_field_of_a_value(kind: Any, fields: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as refused:
        kind(**fields)
    assert refused.value.errors()[0]["loc"] == (place,)


def test_a_limit_of_none_is_none() -> None:
    assert _session().recall("cactus", limit=0) == []


def test_settings_name_the_field() -> None:
    with pytest.raises(InvalidConfig, match="did you mean 'trigger_ratio'") as refused:
        CompactConfig(triger_ratio=0.5)
    assert refused.value.field == "triger_ratio"
