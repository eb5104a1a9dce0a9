"""Several processes run the schedule of one file: one does the work (A-2, A-7)."""

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from compact import SQLiteManager
from tests.session.ageing_writer import DAY, SESSIONS, fill

RUN = """
import json, sys
from datetime import datetime
from compact import CompactConfig, MemoryManager

file, now = sys.argv[1], datetime.fromisoformat(sys.argv[2])
settings = CompactConfig(retain_score=1.0, age_automatically=False)
with MemoryManager(file, settings=settings) as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    schedule = memory.run_schedule(3600, clock=lambda: now)
    assert schedule.wait(1, 300)
    report, error = schedule.last, schedule.error
told = {"error": str(error or ""), "written": report.written, "complete": report.complete}
told["archived"] = len(report.archive.archived) if report.archive else 0
print(json.dumps(told), flush=True)
"""


@pytest.mark.slow
def test_of_several_processes_one_does_the_work(tmp_path: Path) -> None:
    """They begin at once; whoever is second finds nothing left to do, or leaves it to the first."""
    file, count = tmp_path / "chat.db", 4
    fill(file)
    command = [sys.executable, "-c", RUN, str(file), (DAY + timedelta(days=100)).isoformat()]
    both = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    for each in both:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in both:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    told = [json.loads(each.communicate(timeout=300)[0]) for each in both]
    assert [each["error"] for each in told] == [""] * count
    assert sum(each["written"] for each in told) == SESSIONS
    assert sum(each["archived"] for each in told) == SESSIONS
    assert max(each["written"] for each in told) == SESSIONS, "one did all of it"
    with SQLiteManager(file) as store:
        assert list(store.db.execute("SELECT * FROM leases")) == []
        assert len(store.archived_sessions()) == SESSIONS
        assert store.integrity_check() == []
