"""A worker that does jobs of a server's queue, to be killed (`tests.killing`)."""

from pathlib import Path

from compact.memory.jobs import Job, run_job
from compact.store.postgres.queue import JobQueue, Pace
from compact.store.postgres.store import PostgresStore
from tests.killing import Ledger, serve

QUICK = Pace(look=0.1, beat=0.1, dead=1.0, poll=0.05, tries=99)


def work(file: str, ledger: Ledger) -> None:
    address = Path(file).read_text()
    store = PostgresStore(address)

    def run(job: Job) -> str:
        ledger.note(begun=job.session)
        said = run_job(job, store=store)
        ledger.note(done=job.session)
        return said

    JobQueue(address).work(run, concurrency=2, pace=QUICK)


if __name__ == "__main__":
    serve(work)
