"""Any crash is harmless: a writer is killed at random instants, again and again (NFR-2, S-2, FR-5).

Every message that was promised is there, byte for byte and in order; what is in force is what was
in force before the last call or after it; the file is sound.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from compact import ContextManager, SQLiteManager
from compact.messages.boundaries import violations
from compact.messages.formats.known import format_named
from tests.killing import Nursery, forking
from tests.session.crash_writer import WINDOW, digest
from tests.sizes import seed, size

KILLS = size(50, 300)
MOST_LINES = 90
"""So many promises a writer gives at most before it is killed: about two to a turn."""
MOST_MOVES = 1_000
"""Moves among which the compression is looked for that an undo took back."""
pytestmark = forking


class Crashes(Nursery):
    """Writers of sessions, and what they were promised."""

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__("tests.session.crash_writer", folder, number)
        self.kept: dict[str, dict[int, str]] = defaultdict(dict)
        """Branch → position → digest of the message that was promised to be there."""
        self.snapshots: set[str] = set()
        self.compressions = self.undone = 0

    def let_die(self, session: str, kind: str) -> None:
        """Let a writer work until it has committed a step of that kind: it dies of it."""
        self.run(session, self.rng.getrandbits(30), kind)

    def kill_one(self, session: str) -> None:
        """Kill a writer at a random instant."""
        number, lines = self.rng.getrandbits(30), self.rng.randint(1, MOST_LINES)
        self.run(session, number, lines=lines, pause=0.01)

    def promised(self) -> list[dict[str, Any]]:
        rows = super().promised()
        for row in rows:
            for offset, one in enumerate(row.get("new", ())):
                self.kept[row["branch"]][row["at"] + offset] = one
            if "snapshot" in row:
                self.snapshots.add(row["snapshot"])
        return rows

    def check(self, session: str, *, whole: bool) -> None:
        """Hold the store to everything that was promised."""
        rows = self.promised()
        with SQLiteManager(self.database) as store:
            for branch in store.branches(session) if whole else ():
                self.check_branch(store, branch.id)
            if not whole:
                self.check_branch(store, store.session(session).branch.id)
            if whole:
                assert store.integrity_check() == []
            assert {s.id for s in store.snapshots(session)} >= {
                row["snapshot"] for row in rows if "snapshot" in row
            }
        self.check_view(session, rows)

    def check_branch(self, store: SQLiteManager, branch_id: str) -> None:
        entries = store.read(branch_id, 0, 1_000_000)
        wire = format_named("chat_completions")
        found = [digest(wire.render((entry.message,))[0]) for entry in entries]
        own = store.branch(branch_id)
        if own.messages > own.fork:
            last = entries[-1].message
            assert not last.tool_calls, f"{branch_id} has half of what was appended at once"
        for position, one in self.kept[branch_id].items():
            assert position < len(found), f"{branch_id} lost what was at {position}"
            assert found[position] == one, f"{branch_id} changed what was at {position}"

    def check_view(self, session: str, rows: list[dict[str, Any]]) -> None:
        """What is in force fits, keeps to the provider's rules, and is what was shown last or what
        the next step put in force.
        """
        with ContextManager(window=WINDOW, store=self.database, session_id=session) as ctx:
            shown = next((r for r in reversed(rows) if "prompt" in r), None)
            later = rows[rows.index(shown) + 1 :] if shown else []
            moved = any(set(r) & {"undone", "restored", "branched", "goals"} for r in later)
            here = {"branch": ctx.branch_id, "under": [goal.text for goal in ctx.goals]}
            if shown and not moved and here.items() <= shown.items():
                self.check_shown(ctx, session, shown)
            context = ctx.active_context()
            assert context.tokens <= ctx.window.usable
            assert not violations(context.sent, format_named("chat_completions").rules)
            assert "Never order tiles without asking me first." in context.render_text()
            self.compressions = max(self.compressions, ctx.compressions)

    def check_shown(self, ctx: ContextManager, session: str, shown: dict[str, Any]) -> None:
        """What was shown last is what is told of its position, whatever came later.

        An undo may have been committed whose writer did not live to promise it. It holds from the
        position where it was asked for, so the view is the one before the last compression: the
        new one. Taken back, what was shown is there again.
        """
        moves = ctx.store.moves(session, WINDOW, most=MOST_MOVES)
        undo = next((m for m in moves[:1] if m.kind == "undo" and m.at == shown["seen"]), None)
        if undo is not None:
            made = next(m for m in moves if m.kind == "compress" and m.projection_id == undo.before)
            assert undo.projection_id == made.before, "the undo went back to another view"
            ctx.time.redo()
            self.undone += 1
        before = ctx.time.context_at(shown["seen"])
        same = digest(format_named("chat_completions").render(before.sent))
        assert same == shown["prompt"], "the view is neither the old nor the new one"
        if undo is not None:
            ctx.time.undo()


def torture(folder: Path, kills: int, number: int) -> Crashes:
    with Crashes(folder, number) as crashes:
        for kill in range(kills):
            session = f"roof-{kill // 100}"
            crashes.kill_one(session)
            crashes.check(session, whole=kill % 10 == 9 or kill == kills - 1)
    return crashes


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["compress", "undo", "restore"])
def test_a_step_that_nobody_lived_to_promise_is_whole(tmp_path: Path, kind: str) -> None:
    """A writer dies between a commit and its promise: the step counts, and what was shown before it
    is told as it was shown.
    """
    with Crashes(tmp_path, 14) as crashes:
        for _ in range(3):
            crashes.let_die("roof", kind)
            with SQLiteManager(crashes.database) as store:
                assert store.moves("roof", WINDOW, most=1)[0].kind == kind
            crashes.check("roof", whole=True)
    assert crashes.undone == (3 if kind == "undo" else 0)


@pytest.mark.slow
def test_many_killed_writers_break_no_promise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crashes = torture(tmp_path, KILLS, seed(11))
    messages = sum(map(len, crashes.kept.values()))
    with capsys.disabled():
        print(
            f"\n{KILLS} kills: {messages:,} promised messages on {len(crashes.kept)} branches, "
            f"{len(crashes.snapshots)} snapshots, up to {crashes.compressions} compressions"
        )
    assert crashes.compressions > KILLS // 2
    assert crashes.snapshots
