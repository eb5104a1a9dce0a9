"""A worker that appends turns to a session in PostgreSQL, to be killed (`tests.killing`)."""

from contextlib import suppress
from pathlib import Path

from compact.errors import StoreFailed
from compact.store.postgres.store import PostgresStore
from tests.killing import Ledger, serve
from tests.store.making import entry, session


def work(file: str, ledger: Ledger, name: str, turns: str) -> None:
    store = PostgresStore(Path(file).read_text(), scope="default")
    while True:  # the server may not be back yet
        with suppress(StoreFailed):
            store.session("a", create=session("a"))
            break
    for turn in range(int(turns)):
        said = [f"{name} {turn} question", f"{name} {turn} answer"]
        try:
            store.append("a", [entry(each) for each in said])
        except StoreFailed as error:
            ledger.note(failed=said, reason=str(error))
        else:
            ledger.note(promised=said)
    ledger.note(complete=True)


if __name__ == "__main__":
    serve(work)
