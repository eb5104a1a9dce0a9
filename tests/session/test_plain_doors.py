"""Small doors of a session: a pin taken back, slices, the version, values that mean nothing."""

from importlib.metadata import version
from pathlib import Path

import pytest

import compact
from compact import CannotFit, ContextManager, Message
from compact.errors import NotFound


@pytest.mark.parametrize("by", ["message", "id", "position"])
def test_a_pin_is_taken_back(tmp_path: Path, by: str) -> None:
    """FR-8: wherever the session is open, and when it is opened again."""
    file = tmp_path / "chat.db"
    with ContextManager(window=2_048, store=file, session_id="a") as ctx:
        ctx.add_message(role="system", content="Be brief.")
        long = ctx.add_message(role="user", content="word " * 3_000)
        ctx.add_message(role="user", content="And now?")
        with ContextManager(window=2_048, store=file, session_id="a") as other:
            ctx.pin(long)
            for each in (ctx, other):
                with pytest.raises(CannotFit, match=r"pin fewer messages .in a session, unpin"):
                    each.get_context_for_model()
            ways: dict[str, Message | str | int] = {"message": long, "id": long.id, "position": 1}
            ctx.unpin(ways[by])
            ctx.unpin(0)
            for each in (ctx, other):
                shown = each.get_context_for_model()
                assert shown[0]["content"] == "Be brief."
                assert shown[-1]["content"].splitlines()[-1] == "And now?"
        for wrong in ("nobody", 3, -1):
            with pytest.raises(NotFound):
                ctx.unpin(wrong)
    with ContextManager(window=2_048, store=file, session_id="a") as ctx:
        assert ctx.history.fixed == [0]


def test_a_history_gives_slices() -> None:
    ctx = ContextManager(window=8_192)
    said = ctx.add_messages([{"role": "user", "content": str(i)} for i in range(7)])
    assert ctx.history[:2] == said[:2]
    assert ctx.history[-3:] == said[-3:]
    assert ctx.history[::-2] == said[::-2]
    assert ctx.history[5:99] == said[5:]


def test_the_version_is_that_of_the_package() -> None:
    assert compact.__version__ == version("compactctl")
