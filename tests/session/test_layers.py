"""Three layers, three types: only the active context is ever sent (FR-1)."""

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from compact import ContextManager
from compact.errors import WrongLayer
from compact.messages.context import sendable
from compact.messages.formats.known import prompt_of
from compact.testing import ScriptedModel

ROOT = Path(__file__).resolve().parents[2]


def test_only_an_active_context_may_be_sent() -> None:
    """A history, a snapshot or a list is refused, and the text says what to take (FR-1)."""
    ctx = ContextManager()
    ctx.add_message(role="user", content="hello")
    snapshot = ctx.time.snapshot()
    wrong: Sequence[object] = (
        ctx.history,
        snapshot,
        ctx.get_context_for_model(),
        list(ctx.history),
        ctx.active_context().messages,
        "hello",
        None,
    )
    for value in wrong:
        with pytest.raises(WrongLayer, match="active_context"):
            sendable(value)
        with pytest.raises(WrongLayer, match="active_context"):
            prompt_of(value)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            asyncio.run(ScriptedModel().complete(value))  # type: ignore[arg-type]
    assert sendable(ctx.active_context()) == ctx.active_context()
    assert prompt_of(ctx.active_context()) == ctx.get_context_for_model()


@pytest.mark.slow
def test_types_keep_the_layers_apart(tmp_path: Path) -> None:
    """A type checker refuses what the run time refuses (FR-1).

    Its cache is files, not a database: two runs at once do not wait for each other's lock.
    """
    good = "complete(ctx.active_context())"
    bad = ("complete(ctx.history)", "complete(ctx.time.snapshot())", "complete([])")
    head = """
        from compact import ContextManager
        from compact.messages.replies import Reply
        from compact.messages.protocols import ChatModel

        async def ask(model: ChatModel, ctx: ContextManager) -> Reply:
            return await model.CALL
    """
    files = []
    for i, call in enumerate((good, *bad)):
        files.append(tmp_path / f"snippet_{i}.py")
        files[-1].write_text(textwrap.dedent(head).replace("CALL", call))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary",
         "--no-sqlite-cache",
         "--cache-dir", str(ROOT / ".mypy_cache" / "snippets"), *map(str, files)],
        cwd=ROOT, capture_output=True, text=True, env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if "error" in line]
    assert not any("snippet_0" in line for line in lines), done.stdout
    for i, call in enumerate(bad, 1):
        mine = [line for line in lines if f"snippet_{i}" in line]
        assert len(mine) == 1, call
        assert "[arg-type]" in mine[0]
