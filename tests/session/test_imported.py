"""A conversation that comes in whole becomes checkpoints as if it had been lived (US-2, FR-4)."""

from itertools import pairwise
from pathlib import Path

import pytest

from compact import ContextManager, wiring
from compact.messages.checkpoints import LEVELS, Caps

SAMPLE = Path(wiring.__file__).parent / "cli" / "sample" / "harbour.jsonl"


def assert_lived(ctx: ContextManager, *, least: int) -> None:
    """Several levels, oldest first, each within its bounds, all of the past in one of them."""
    caps, found = Caps(ctx.window.usable), ctx.checkpoints
    levels = [each.level for each in found]
    assert len(set(levels)) == len(levels) >= least
    assert levels == sorted(levels, key=LEVELS.index, reverse=True)
    assert sum(each.token_count for each in found) <= caps.together
    for older, newer in pairwise(found):
        assert newer.span.first == older.span.last + 1
    for each in found[:-1]:
        assert each.token_count <= caps.of(each.level)
    assert ctx.store.checkpoints(ctx.id) == list(found), "a review shows them"


@pytest.mark.slow
@pytest.mark.parametrize(("window", "least"), [(8_000, 4), (32_000, 2)])
def test_an_imported_session_that_is_opened_has_levels(
    tmp_path: Path, window: int, least: int
) -> None:
    """Stored by one, opened by another one, and compressed by its first prompt."""
    file = tmp_path / "chat.db"
    read = wiring.read_transcript(SAMPLE)
    with ContextManager(window=window, store=file, session_id="s", tokenizer="o200k") as ctx:
        ctx.add_messages(read.messages)
        assert not ctx.checkpoints
    with ContextManager(window=window, store=file, session_id="s", tokenizer="o200k") as ctx:
        ctx.get_context_for_model()
        assert_lived(ctx, least=least)
        before = [each.id for each in ctx.checkpoints]
        for number in range(12):
            ctx.add_message(role="user", content=f"Step {number}: " + "the next berth. " * 200)
            ctx.get_context_for_model()
        assert ctx.compressions > 1
        total = sum(each.token_count for each in ctx.checkpoints)
        assert total <= Caps(ctx.window.usable).together, "and it goes on from them"
        assert {each.id for each in ctx.store.checkpoints("s")} > set(before)
