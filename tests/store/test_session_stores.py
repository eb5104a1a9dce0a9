"""Every session store keeps the promises of `compact.testing.check_session_store` (S-1, S-2)."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from compact import ContextManager, SQLiteManager
from compact.errors import InvalidMessage
from compact.messages.formats.known import prompt_of
from compact.messages.protocols import SessionStore
from compact.store.inmemory import InMemoryStore
from compact.testing import check_session_store


def stores(folder: Path) -> dict[str, Callable[[], SessionStore]]:
    numbers = count()

    def named() -> Path:
        return folder / f"{next(numbers)}.db"

    return {
        "in memory": InMemoryStore,
        "SQLite, in memory": SQLiteManager,
        "SQLite, a file": lambda: SQLiteManager(named()),
        "SQLite, normal": lambda: SQLiteManager(named(), durability="normal"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", stores(Path()))
def test_the_store_keeps_its_promises(name: str, tmp_path: Path) -> None:
    check_session_store(stores(tmp_path)[name])


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"in": value}
    return value


@pytest.mark.parametrize(
    ("extra", "place"),
    [
        ({"n": [0, {1: 2}]}, r"messages\[1\]\.extra\.n\[1\]: .*the key 1 is no text"),
        ({None: 2}, r"messages\[1\]\.extra: .*the key None is no text"),
        ({"n": float("nan")}, r"messages\[1\]\.extra\.n: .*JSON has no nan"),
        ([{"n": object()}], r"messages\[1\]\.extra\[0\]\.n: .*got object"),
        ([10**5_000], r"messages\[1\]\.extra\[0\]: .*digits"),
        (nested(400), r"messages\[1\]\.extra\.in\..*nested deeper"),
    ],
)
@pytest.mark.parametrize("name", ["in memory", "SQLite, a file"])
def test_what_could_not_be_read_again_is_refused_by_its_place(
    extra: Any, place: str, name: str, tmp_path: Path
) -> None:
    """Nothing is stored that comes back as something else, and whoever gave it is told where it
    stands (C-3).
    """
    store = stores(tmp_path)[name]()
    with ContextManager(window=8_000, store=store, session_id="a") as ctx:
        ctx.add_message(role="user", content="fine")
        with pytest.raises(InvalidMessage, match=place):
            ctx.add_message({"role": "user", "content": "x", "extra": extra})
        own = {"own": object()}
        with pytest.raises(InvalidMessage, match=r"messages\[1\]\.metadata"):
            ctx.add_message(role="user", content="x", metadata=own)
        assert len(ctx.history) == 1
    store.close()


class Word(str):
    """A text as some frameworks have them."""


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "x", "b": 1, Word("a"): 2},
        {"role": "user", "content": "half \ud83d", "x": "\ude00"},
        {"role": "user", "content": "both \ud83d\ude00", "x": ["\ud83d\ude00"]},
        {"role": "user", "content": [{"type": "text", "text": "\ud83d\ude00", "x": 2**70}]},
    ],
)
def test_what_was_taken_is_whole_when_it_is_read(message: Any, tmp_path: Path) -> None:
    """A key that is more than a plain text, or an emoji in two halves, made a file look damaged
    (C-3).
    """
    with SQLiteManager(tmp_path / "chat.db") as store:
        with ContextManager(window=8_000, store=store, session_id="a") as ctx:
            ctx.add_message(message)
            sent = prompt_of(ctx.active_context())
        assert store.integrity_check() == []
        with ContextManager(window=8_000, store=store, session_id="a") as ctx:
            assert prompt_of(ctx.active_context()) == sent
            ctx.sync([message, {"role": "assistant", "content": "yes"}])
            assert len(ctx.history) == 2
