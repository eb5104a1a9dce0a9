"""Snapshots can be deleted, and there are never too many."""

from pathlib import Path
from typing import Any

import pytest

from compact import CompactPolicy, ContextManager
from compact.errors import NotFound


@pytest.fixture(params=["memory", "file"])
def ctx(request: pytest.FixtureRequest, tmp_path: Path) -> ContextManager:
    store = tmp_path / "chat.db" if request.param == "file" else None
    made = ContextManager(window=4_096, store=store, policy=CompactPolicy(snapshots_kept=4))
    made.add_message(role="user", content="The gate is open.")
    return made


def kept(ctx: ContextManager) -> list[tuple[str, str]]:
    return [(each.purpose, each.note) for each in ctx.time.snapshots()]


def test_a_snapshot_is_deleted_and_its_messages_stay(ctx: ContextManager) -> None:
    one, two = ctx.time.snapshot("one"), ctx.time.snapshot("two")
    ctx.time.delete_snapshot(one)
    ctx.time.delete_snapshot(two.id)
    assert ctx.time.snapshots() == []
    assert len(ctx.history) == 1
    for gone in (one, "sn-none"):
        with pytest.raises(NotFound, match="no snapshot"):
            ctx.time.delete_snapshot(gone)


def test_only_a_sessions_own_snapshots_are_deleted(ctx: ContextManager) -> None:
    with ContextManager(window=4_096, store=ctx.store, session_id="other") as other:
        theirs = other.time.snapshot()
        with pytest.raises(NotFound):
            ctx.time.delete_snapshot(theirs)
        ctx.store.delete_snapshots(ctx.id, [theirs.id])
        assert other.time.snapshots() == [theirs]


def test_of_too_many_the_oldest_that_came_by_themselves_go_first(ctx: ContextManager) -> None:
    ctx.time.snapshot("before the migration")
    ctx.time.snapshot()
    ctx.time.snapshot("one", purpose="rollback")
    ctx.time.snapshot("two", purpose="emergency")
    ctx.time.snapshot("three", purpose="rollback")
    assert kept(ctx) == [
        ("recovery", "before the migration"), ("recovery", ""), ("emergency", "two"),
        ("rollback", "three"),
    ]  # fmt: skip
    ctx.time.snapshot("four")
    ctx.time.snapshot("five")
    assert [note for _, note in kept(ctx)] == ["before the migration", "", "four", "five"]
    ctx.time.snapshot("six")
    assert [note for _, note in kept(ctx)] == ["before the migration", "four", "five", "six"]


def test_what_a_person_named_and_the_newest_stay_whatever_the_number(ctx: ContextManager) -> None:
    for number in range(7):
        ctx.time.snapshot(f"named {number}")
    newest = ctx.time.snapshot()
    assert len(ctx.time.snapshots()) == 8
    assert newest in ctx.time.snapshots()
    ctx.time.snapshot("named 7")
    assert [note for _, note in kept(ctx)] == [f"named {number}" for number in range(8)]


@pytest.mark.parametrize("number", [0, -1, True])
def test_the_number_is_at_least_one(number: Any) -> None:
    with pytest.raises(ValueError, match="snapshots_kept"):
        CompactPolicy(snapshots_kept=number if number is not True else 0)


def test_going_back_again_and_again_leaves_a_bounded_number(ctx: ContextManager) -> None:
    there = ctx.time.snapshot("here")
    for number in range(9):
        ctx.add_message(role="user", content=f"More {number}.")
        ctx.time.restore(there)
    assert len(ctx.time.snapshots()) == 4
    assert there.id in [each.id for each in ctx.time.snapshots()]
