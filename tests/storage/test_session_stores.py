"""Every session store keeps the promises of `compact.testing.check_session_store` (S-1, S-2)."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from compact import SQLiteManager
from compact.core.protocols import SessionStore
from compact.storage.inmemory import InMemoryStore
from compact.testing import check_session_store


def stores(folder: Path) -> dict[str, Callable[[], SessionStore]]:
    numbers = count()

    def named() -> Path:
        return folder / f"{next(numbers)}.db"

    return {
        "in memory": InMemoryStore,
        "SQLite, in memory": SQLiteManager,
        "SQLite, a file": lambda: SQLiteManager(named()),
        "SQLite, no index": lambda: SQLiteManager(named(), search_index=False),
        "SQLite, normal": lambda: SQLiteManager(named(), durability="normal"),
    }


@pytest.mark.parametrize("name", stores(Path()))
def test_the_store_keeps_its_promises(name: str, tmp_path: Path) -> None:
    check_session_store(stores(tmp_path)[name])
