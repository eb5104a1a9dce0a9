"""The conformance suite for adapters: a whole door passes, a crippled one fails by name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from compact.testing import doors
from compact.testing.doors import PROMISES, Suite
from tests.integrations import plain_door
from tests.integrations.plain_door import Loop, PlainDoor

BROKEN: list[tuple[type[Loop], Callable[[Suite], None], str]] = [
    (plain_door.Idle, doors.no_overflow, "did not fit"),
    (plain_door.Cutting, doors.no_broken_sequence, "without a call"),
    (plain_door.Rewriting, doors.state_is_the_hosts_own, "changed"),
    (plain_door.Stamping, doors.prefix_is_stable, "is in the next one"),
    (plain_door.Cutting, doors.needs_are_kept, "lacks"),
    (plain_door.SyncOnly, doors.ways_agree, "other prompts"),
    (plain_door.Stale, doors.an_edit_is_taken, "old words"),
    (plain_door.Mixing, doors.threads_are_apart, "reads what"),
    (plain_door.Fragile, doors.the_store_may_be_away, "no space left"),
    (plain_door.Unchecked, doors.wrong_settings_fail_at_start, "check()"),
    (plain_door.Marking, doors.what_fits_is_not_touched, "need no change"),
]


@pytest.fixture(scope="module")
def suite() -> Suite:
    return Suite(PlainDoor())


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_a_whole_door_keeps_every_promise(suite: Suite, promise: Callable[[Suite], None]) -> None:
    promise(suite)


@pytest.mark.parametrize(("kind", "promise", "says"), BROKEN)
def test_a_crippled_door_is_caught(
    kind: type[Loop],
    promise: Callable[[Suite], None],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doors, "TURNS", 25)
    door = PlainDoor()
    door.kind = kind
    with pytest.raises(Exception, match=says):
        promise(Suite(door))


def test_every_promise_is_seen_broken() -> None:
    assert {promise for _, promise, _ in BROKEN} == {*PROMISES}


@pytest.mark.slow
def test_the_plugin_runs_the_suite_of_a_door() -> None:
    """From the command line, with nothing but the door's name."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "compact.testing.doors"]
    name = "tests.integrations.plain_door:PlainDoor"
    options = ["-p", "no:cacheprovider", "-k", "start or touched"]
    done = subprocess.run(
        [*command, f"--compact-door={name}", *options], capture_output=True, text=True, check=False
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
