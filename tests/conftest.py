"""How examples are drawn: the same in every run, so that what fails once fails again (K-13).

At night (`make nightly`, see tests/sizes.py) they are others, and more of them.
"""

import gc
import os
from collections import Counter
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from compact.memory import memory_manager
from tests import sizes

if TYPE_CHECKING:
    from tests.store.postgres_server import Server

# The user's own state is left alone.
STATE = TemporaryDirectory(prefix="compact-state-", ignore_cleanup_errors=True)
os.environ["XDG_STATE_HOME"] = STATE.name

# No test depends on when memory ages by itself.
memory_manager.FIRST_RUN = 1e9

settings.register_profile(
    "night",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "day", settings.get_profile("night"), max_examples=25, derandomize=True, database=None
)
settings.load_profile("day" if sizes.NIGHT is None else "night")


def pytest_report_header() -> str | None:
    """Say from which seed a night's tests are drawn."""
    return None if sizes.NIGHT is None else f"nightly: seed {sizes.NIGHT}"


@pytest.fixture(scope="session")
def postgres() -> Iterator["Server"]:
    """A PostgreSQL server; `database()` is empty each time. Whatever test uses it: a statement that
    does not name its tenant is refused.
    """
    from compact.store.postgres import connection
    from tests.store.postgres_server import NEWEST, running
    from tests.store.statements import untenanted

    send = connection._sent

    def read(db: Any, sql: str, given: Any) -> Any:
        assert untenanted(sql) == [], sql
        return send(db, sql, given)

    connection._sent = read
    with running(NEWEST) as started:
        yield started
    connection._sent = send


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.slow)])
def indexed_store(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A new store of each kind that memory can be kept in."""
    if request.param == "SQLite":
        from compact.store.sqlite.store import SQLiteManager

        with SQLiteManager() as file:
            yield file
        return
    from compact.store.postgres.store import PostgresStore

    store = PostgresStore(request.getfixturevalue("postgres").database())
    yield store
    store.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Count as covered what examples cover: drawn ones run without it, in half of the time. Of the
    cases of a sampled test mark all but a few as slow.
    """
    cases = Counter[str]()
    for item in items:
        if item.get_closest_marker("hypothesis"):
            item.add_marker("no_cover")
        if sampled := item.get_closest_marker("sampled"):
            name = item.nodeid.partition("[")[0]
            if cases[name] % sampled.args[0]:
                item.add_marker("slow")
            cases[name] += 1


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Freeze what collecting made: a million objects, and each full garbage collection of a worker
    looked at them for more than a second.
    """
    gc.collect()
    gc.freeze()
