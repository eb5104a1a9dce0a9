"""The chat program talks, shows the window, and compresses before a person's eyes (FR-9, US-7)."""

import re

import pytest

from compact import ContextManager
from compact.messages.budget import WindowUse
from compact.messages.events import MemoryAged
from compact.tui.prompt_input import PromptInput
from compact.tui.status_lines import Compressing, _legend
from tests.cli.tui.driving import alone, running, setup
from tests.doors.talking import turns

LONG = "The winter berths are opened on the 10th, and the crane is mended before. " * 6


@alone
async def test_what_is_said_is_answered_word_by_word(echo):
    async with running(echo) as chat:
        assert "You talk to echo:1500" in chat.text
        seen = await chat.say("Is berth **four** free?")
        assert "You · #0" in seen
        assert "Is berth **four** free?" in seen, "a person's words are shown as they are"
        assert "Assistant · #1" in seen
        assert "▌ Is berth four free?" in seen, "a model's are Markdown"
        assert [m.role for m in chat.ctx.history] == ["user", "assistant"]


@alone
async def test_that_memory_has_aged_is_told(echo):
    async with running(echo) as chat:
        chat.app.hear(MemoryAged(digests=2, archived=1, failed=0))
        await chat.until(lambda: "Memory has aged: 2 digests written" in chat.text)


@alone
async def test_the_bar_shows_what_the_window_holds(echo):
    async with running(echo) as chat:
        before = chat.ctx.window_use
        seen = await chat.say(LONG)
        use = chat.ctx.window_use
        assert use.recent > before.recent == 0
        assert f"recent {use.recent:,}" in seen
        assert f"free {use.free:,}" in seen
        assert use.used == chat.ctx.budget.used_tokens
        assert "estimated" in seen or "est." in seen


@pytest.mark.parametrize("width", [40, 60, 80, 160])
def test_the_share_that_is_used_is_always_seen(width):
    parts = {"system": 194, "goals": 36, "checkpoints": 812, "recalled": 340, "recent": 1_140}
    line = _legend(WindowUse(**parts, usable=3_500, exact=False), width)
    assert "72 % of 3,500, est" in line.plain
    assert line.cell_length <= width


@alone
async def test_a_compression_is_seen_and_told_in_true_figures(echo):
    """Figures of all checkpoints together."""
    async with running(echo) as chat:
        told = ""
        for _ in range(6):
            told += await chat.say(LONG)
        found = re.findall(r"Compressed (\d+) messages?, freed ([\d,]+) tokens?", told)
        assert found
        assert chat.ctx.checkpoints
        before, covered = chat.ctx.window_use.used, covered_by(chat.ctx)
        seen = await chat.say("/compact")
        freed, made = before - chat.ctx.window_use.used, covered_by(chat.ctx) - covered
        what = f"Compressed {made} message" if made else "Shortened what is in view"
        assert f"{what}" in seen
        assert f"freed {freed:,} tokens" in seen
        assert not chat.screen.query_one(Compressing).display


def covered_by(ctx):
    return sum(len(each.covered()) for each in ctx.checkpoints)


@alone
async def test_undo_takes_a_compression_back(echo):
    async with running(echo) as chat:
        for _ in range(4):
            await chat.say(LONG)
        before = chat.ctx.window_use
        await chat.say("/compact")
        assert chat.ctx.window_use != before
        seen = await chat.say("/undo")
        assert "Undone: " in seen
        assert "compression" in seen
        assert chat.ctx.window_use == before
        await chat.say("/redo")
        assert chat.ctx.window_use != before


@alone
async def test_it_continues_where_it_was_left(echo, tmp_path):
    async with running(echo) as chat:
        await chat.say("The keeper is called Ada.")
    async with running(setup(tmp_path)) as chat:
        assert "The keeper is called Ada." in chat.text
        assert chat.screen.talk.model == "echo:1500", "the model of the last time"
        assert len(chat.ctx.history) == 2


@alone
async def test_a_session_in_which_nothing_was_said_is_not_kept(echo):
    async with running(echo):
        pass
    assert echo.store.sessions() == []


@alone
async def test_a_box_of_several_lines_is_one_message(echo):
    async with running(echo) as chat:
        await chat.pilot.press("a", "ctrl+j", "b", "enter")
        await chat.until(lambda: len(chat.ctx.history) == 2, "an answer")
        assert chat.ctx.history[0].text == "a\nb"


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (160, 50)])
@alone
async def test_every_part_is_on_the_screen(echo, size):
    async with running(echo, size) as chat:
        await chat.say("Hello")
        for widget in chat.screen.query("HeadLine, MessageList, PromptInput, WindowBar, Footer"):
            assert widget.region.height >= 1, widget
            assert chat.screen.region.contains_region(widget.region), widget
        assert await chat.pilot.click(PromptInput)


@alone
async def test_what_was_said_is_read_with_the_page_keys(echo):
    """Whatever is answered meanwhile, a person who reads above stays there."""
    async with running(echo) as chat:
        for name in ("anchor", "barrel", "crane"):
            await chat.say(f"The {name} lies in the north. {LONG}")
        assert "The anchor lies" not in chat.text
        for _ in range(9):
            await chat.pilot.press("pageup")
        await chat.pilot.pause()
        assert "The anchor lies" in chat.text
        for _ in range(9):
            await chat.pilot.press("pagedown")
        await chat.pilot.pause()
        assert "I only echo." in chat.text


@alone
async def test_figures_are_those_of_the_bar_for_a_session_that_was_counted_otherwise(tmp_path):
    """A session from a file, which another tokenizer counted, is compressed as a whole."""
    with ContextManager(
        store=tmp_path / "chat.db", session_id="garden", window=4_000, tokenizer="o200k"
    ) as ctx:
        ctx.add_messages(list(turns(40, words=60)))
    async with running(setup(tmp_path, model="echo:4k")) as chat:
        before = chat.ctx.window_use.used
        seen = await chat.say("/compact")
        freed = before - chat.ctx.window_use.used
        assert f"Compressed {covered_by(chat.ctx)} messages, freed {freed:,} tokens" in seen
