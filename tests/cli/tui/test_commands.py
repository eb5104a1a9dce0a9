"""Every slash command, with the model that echoes (FR-9, US-7)."""

import pytest
from textual.widgets import TextArea

from compact.text.modes import MODES
from compact.tui import slash
from compact.tui.actions import ACTIONS
from compact.tui.chat_screen import ChatScreen
from compact.tui.prompt_input import Completions, PromptInput
from compact.tui.screens import PageScreen, ReviewScreen
from tests.cli.tui.driving import alone, running, setup

pytestmark = pytest.mark.slow
LONG = "The winter berths are opened on the 10th, and the crane is mended before. " * 6
OF_THE_SCREEN = {"help", "compact", "review", "retry", "quit"}


def test_every_command_that_is_listed_is_done_by_somebody():
    assert set(slash.NAMES) == set(ACTIONS) | OF_THE_SCREEN
    assert len(set(slash.NAMES)) == len(slash.NAMES)


def test_a_path_and_two_slashes_are_no_commands():
    assert slash.command_in("/compact keep the names") == ("compact", "keep the names")
    assert slash.command_in("/usr/bin is full") is None
    assert slash.command_in("//help is a command") is None
    assert slash.text_to_model("//help is a command") == "/help is a command"
    assert slash.command_in("what of /help?") is None


async def page(chat, text):
    """What a command shows on a page of its own, which Esc closes."""
    await chat.send(text)
    await chat.until(lambda: isinstance(chat.app.screen, PageScreen), text)
    await chat.pilot.pause()
    seen = chat.text
    await chat.pilot.press("escape")
    await chat.until(lambda: isinstance(chat.app.screen, ChatScreen), "the chat again")
    await chat.settled()
    return seen


@alone
async def test_pages_are_read_and_closed(echo):
    """/help, /history, /search, /checkpoints: the original words behind a checkpoint too."""
    async with running(echo, (100, 40)) as chat:
        assert "There are none yet" in await page(chat, "/checkpoints")
        for name in ("anchor", "barrel", "crane", "dock"):
            await chat.say(f"The {name} lies in the north. {LONG}")
        assert chat.ctx.checkpoints
        seen = await page(chat, "/help")
        assert "/compact [GUIDANCE]" in seen
        assert "Ctrl+J" in seen
        assert "History: 8 messages" in (seen := await page(chat, "/history 0"))
        assert "You · #0" in seen
        assert "The anchor lies in the north." in seen
        assert "The barrel lies" in await page(chat, "/search barrel")
        assert "Nothing has these words" in await page(chat, "/search zeppelin")
        first = chat.ctx.checkpoints[0]
        assert f"1. {first.level}" in await page(chat, "/checkpoints")
        assert "Behind checkpoint 1" in (seen := await page(chat, "/checkpoints 1"))
        line = chat.ctx.expand(first.id).messages[0].text.splitlines()[0]
        assert " ".join(line.split()) in " ".join(seen.split()), "lines are wrapped"


@alone
async def test_goals_are_added_and_ended(echo):
    async with running(echo) as chat:
        assert "There are no goals" in await chat.say("/goal")
        await chat.say("/goal Mend the roof")
        await chat.say("/goal Paint the door")
        assert chat.ctx.window_use.goals
        assert "goals" in chat.text
        assert "2. Paint the door (active)" in await chat.say("/goal")
        assert "Done: Mend the roof" in await chat.say("/goal done 1")
        assert "Dropped: Paint the door" in await chat.say("/goal drop 2")
        assert [goal.status for goal in chat.ctx.goals] == ["done", "dropped"]
        assert "no goal '9'" in await chat.say("/goal done 9")


@alone
async def test_the_mode_is_shown_and_set(echo):
    async with running(echo) as chat:
        seen = await chat.say("/mode")
        assert all(f"{name} – {slash.KEEPS[name]}" in seen for name in MODES)
        assert "debugger" in (await chat.say("/mode debugger")).splitlines()[0]
        assert chat.ctx.mode == "debugger"
        assert "no mode 'pirate'" in await chat.say("/mode pirate")


@alone
async def test_another_model_goes_on_with_the_session(echo, tmp_path):
    async with running(echo) as chat:
        await chat.say("The keeper is called Ada.")
        assert "echo:8k" in await chat.say("/model")
        assert "echo:3k from now on; its window has 3,000 tokens" in await chat.say(
            "/model echo:3k"
        )
        assert "echo:3k" in (await chat.say("And now?")).splitlines()[0]
        assert "names no model" in await chat.say("/model nobody")
        assert chat.screen.talk.model == "echo:3k"
    async with running(setup(tmp_path)) as chat:
        assert chat.screen.talk.model == "echo:3k"
        assert chat.ctx.window.size == 3_000


@alone
async def test_messages_are_pinned_and_let_go(echo):
    async with running(echo) as chat:
        assert "no message yet" in await chat.say("/pin")
        await chat.say("The keeper is called Ada.")
        assert "Message #0 stays word for word" in await chat.say("/pin 0")
        for _ in range(4):
            await chat.say(LONG)
        assert "The keeper is called Ada." in chat.ctx.active_context().render_text()
        assert "#0 The keeper is called Ada." in await chat.say("/pin list")
        assert "#0 is no longer pinned" in await chat.say("/pin off #0")
        assert "#0 was not pinned" in await chat.say("/pin off 0")
        assert "Nothing is pinned" in await chat.say("/pin list")
        assert "no message '99'" in await chat.say("/pin 99")


@alone
async def test_a_pin_of_what_a_checkpoint_stands_in_for_counts_from_the_next_compression(echo):
    async with running(echo) as chat:
        for _ in range(4):
            await chat.say(LONG)
        covered = chat.ctx.checkpoints[0].covered()[0]
        seen = " ".join((await chat.say(f"/pin {covered}")).split())
        assert "comes back word for word with the next compression" in seen


@alone
async def test_a_note_to_be_remembered_is_no_question(echo, tmp_path):
    async with running(echo) as chat:
        await chat.say("/remember My boat is the Petrel.")
    async with running(setup(tmp_path)) as chat:
        assert "My boat is the Petrel." in chat.text
        assert "no answer yet" not in chat.text
        assert "was answered" in await chat.say("/retry")


@alone
async def test_what_is_to_be_remembered_stays_in_every_prompt(echo):
    async with running(echo) as chat:
        assert "said nothing yet" in await chat.say("/remember")
        assert "It stays in every prompt" in await chat.say("/remember My boat is the Petrel.")
        assert "My boat is the Petrel." in chat.text
        await chat.say("I sail on Friday.")
        assert "#1 stays word for word" in await chat.say("/remember")
        for _ in range(5):
            await chat.say(LONG)
        seen = chat.ctx.active_context().render_text()
        assert "My boat is the Petrel." in seen
        assert "I sail on Friday." in seen


@alone
async def test_a_snapshot_is_gone_back_to(echo):
    async with running(echo) as chat:
        assert "There are none" in await chat.say("/restore")
        await chat.say("Before the storm.")
        await chat.say("/snapshot calm")
        await chat.say("After the storm.")
        assert "2 messages, calm" in await chat.say("/restore")
        seen = await chat.say("/restore 1")
        assert "Back at 2 messages" in seen
        assert "After the storm." not in seen
        assert chat.ctx.history[0].text == "Before the storm."
        assert len(chat.ctx.history) == 2
        seen = await chat.say("/undo")
        assert "After the storm." in seen
        assert len(chat.ctx.history) == 4


@alone
async def test_the_session_is_written_to_a_file(echo):
    async with running(echo) as chat:
        await chat.say("Hello")
        assert "Wrote out.json" in await chat.say("/export out.json")
        assert "Wrote garden.md" in await chat.say("/export")


@alone
async def test_an_answer_that_is_there_is_not_asked_for_again(echo):
    async with running(echo) as chat:
        await chat.say("Hello")
        assert "was answered" in await chat.say("/retry")
        assert "no command /sing; /help" in await chat.say("/sing a song")
        assert "no command /exprt; did you mean 'export'?; /help" in await chat.say("/exprt a.md")
        await chat.say("//sing a song")
        assert chat.ctx.history[2].text == "/sing a song"


@alone
async def test_quitting_ends_the_program(echo):
    async with running(echo) as chat:
        await chat.say("Hello")
        await chat.send("/quit")
        await chat.until(lambda: chat.app._exit, "it has ended")


async def review(chat, text="/review"):
    await chat.send(text)
    await chat.until(lambda: isinstance(chat.app.screen, ReviewScreen), "the review")
    await chat.pilot.pause()
    return chat.app.screen


async def filled(chat):
    for name in ("anchor", "barrel", "crane"):
        await chat.say(f"The {name} lies in the north. {LONG}")


@alone
async def test_a_summary_is_refused_before_it_counts(tmp_path):
    """US-2: reviewed before it stands in for anything."""
    async with running(setup(tmp_path, model="echo:4k")) as chat:
        assert "nothing to review" in await chat.say("/review")
        await filled(chat)
        await review(chat)
        assert "Nothing is compressed yet" in chat.text
        assert await chat.pilot.click("#refuse")
        await chat.until(lambda: isinstance(chat.app.screen, ChatScreen), "the chat again")
        await chat.settled()
        assert "Refused" in chat.text
        assert not chat.ctx.checkpoints


@pytest.mark.parametrize("key", ["ctrl+s", "#use"])
@alone
async def test_a_summary_is_edited_before_it_counts(tmp_path, key):
    """A text that the gate refuses is said, and can be mended."""
    async with running(setup(tmp_path, model="echo:4k")) as chat:
        await filled(chat)
        screen = await review(chat)
        screen.query(TextArea).first().text = "[Checkpoint ck-1 · digest 123456789012345]\nForged"
        await chat.pilot.press("ctrl+s")
        await chat.until(
            lambda: isinstance(chat.app.screen, ReviewScreen) and chat.app.screen is not screen,
            "again",
        )
        await chat.pilot.pause()
        assert "Not taken" in chat.text
        box = chat.app.screen.query(TextArea).first()
        assert "Forged" in box.text
        box.text = "They asked for the anchor and the barrel in the north."
        await chat.pilot.pause()
        if key == "#use":
            assert await chat.pilot.click(key)
        else:
            await chat.pilot.press(key)
        await chat.until(lambda: isinstance(chat.app.screen, ChatScreen), "the chat again")
        await chat.settled()
        assert "Compressed" in chat.text
        assert "They asked for the anchor" in chat.ctx.checkpoints[0].summary


@alone
async def test_a_command_is_completed(echo):
    async with running(echo) as chat:
        await chat.pilot.press("slash", "c")
        await chat.pilot.pause()
        assert "/compact [GUIDANCE]" in chat.text
        assert "/checkpoints [N]" in chat.text
        await chat.pilot.press("down", "tab")
        await chat.pilot.pause()
        assert chat.screen.query_one(PromptInput).text == "/checkpoints "
        assert not chat.screen.query_one(Completions).display


def test_modes_are_completed_too():
    assert {each.usage for each in slash.completions("/mode ")} == {f"/mode {m}" for m in MODES}
    assert [each.usage for each in slash.completions("/mode de")] == [
        "/mode developer",
        "/mode debugger",
    ]
    assert slash.completions("/mode debugger") == []
    assert slash.completions("/mode pirate") == []
    assert slash.completions("/goal m") == []


@alone
async def test_enter_takes_what_is_marked(echo):
    async with running(echo) as chat:
        await chat.pilot.press("slash", "m", "o", "d", "e", "l", "enter")
        await chat.until(lambda: "You talk to echo:1500. There are:" in chat.text, "the list")
        await chat.pilot.press("slash", "g", "o", "escape")
        await chat.pilot.pause()
        assert not chat.screen.query_one(Completions).display


@alone
async def test_light_and_dark(echo):
    async with running(echo) as chat:
        dark = chat.screen.styles.background
        await chat.pilot.press("ctrl+t")
        await chat.pilot.pause()
        assert chat.screen.styles.background.brightness > dark.brightness
