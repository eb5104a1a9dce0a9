"""Any crash of ageing is harmless: whoever ages memory is killed at random instants, again and
again. Each session has its old digest or the new one, whole; no message changes; the next run goes
on.
"""

from pathlib import Path
from typing import Any

import pytest

from compact import CompressionEngine, SQLiteManager
from compact.text.digests import CompressedConversation, CompressionLevel
from tests.killing import Nursery, forking
from tests.session.ageing_writer import SESSIONS, SETTINGS, fill
from tests.sizes import seed, size

KILLS = size(30, 200)
DUE = {10: CompressionLevel.KEY_POINTS, 40: CompressionLevel.SUMMARY}
NAMES = [f"s{number}" for number in range(SESSIONS)]
pytestmark = forking


class Deaths(Nursery):
    """Writers that age memory, and the digests that there may be."""

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__("tests.session.ageing_writer", folder, number)
        fill(self.database)
        self.levels: dict[str, CompressionLevel | None] = dict.fromkeys(NAMES)
        self.old = self.new = 0
        with SQLiteManager(self.database) as store:
            self.originals = {name: store.get_conversation(name) for name in NAMES}
            engine = CompressionEngine(store, settings=SETTINGS)
            self.expected = {
                (name, level): engine.compress(self.originals[name], level).text
                for name in NAMES
                for level in DUE.values()
            }

    def aged(self, number: int, days: int, *, kills: bool) -> list[dict[str, Any]]:
        """Let a writer age memory, and kill it after some of its promises; what it promised."""
        lines = self.rng.randrange(SESSIONS) if kills else None
        self.run(number, days, lines=lines, pause=0.08)
        return self.promised()

    def check(self, promised: list[dict[str, Any]], due: CompressionLevel) -> None:
        """Hold the store to what was promised, and to all or nothing."""
        told = {row["session"] for row in promised if "session" in row}
        with SQLiteManager(self.database) as store:
            assert store.integrity_check() == []
            for name in NAMES:
                assert store.get_conversation(name) == self.originals[name]
                made = store.digest(name)
                now = self.look_at(name, made)
                assert now in {self.levels[name], due}, (
                    f"{name} is at a level that nobody asked for"
                )
                assert now == due or name not in told, f"{name} lost the digest it was promised"
                self.new += now == due != self.levels[name]
                self.old += now != due
                self.levels[name] = now

    def look_at(self, name: str, made: CompressedConversation | None) -> CompressionLevel | None:
        if made is None:
            return None
        assert made.text == self.expected[name, made.level], f"{name} has half a digest"
        return made.level


@pytest.mark.slow
def test_whoever_is_killed_leaves_the_old_digest_or_the_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Deaths(tmp_path, seed(3)) as deaths:
        for number in range(KILLS):
            days = 10 if number % 2 else 40
            deaths.check(deaths.aged(number, days, kills=True), DUE[days])
        promised = deaths.aged(KILLS | 1, 40, kills=False)
        deaths.check(promised, DUE[40])
    assert promised[-1] == {"complete": True}, (
        "the next one goes on, in spite of a dead one's lease"
    )
    assert set(deaths.levels.values()) == {DUE[40]}
    with capsys.disabled():
        print(f"\n{KILLS} kills: {deaths.new} digests were new, {deaths.old} still the old one")
    assert min(deaths.old, deaths.new) > KILLS // 2, "it was killed in the middle"
