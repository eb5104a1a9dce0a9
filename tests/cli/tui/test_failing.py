"""Whatever goes wrong is told in plain words, nothing that was said is lost, and the conversation
goes on (US-5, FR-6, FR-9).
"""

import asyncio
import itertools
import re
from functools import partial
from importlib.util import find_spec

import pytest
from textual.widgets import Input, OptionList

from compact import ContextManager
from compact.session.views import breaker
from compact.tui.chat_screen import ChatScreen
from compact.tui.dialogue import PARTIAL
from compact.tui.prompt_input import PromptInput
from compact.tui.screens import FirstScreen, PageScreen
from compact.tui.status_lines import Compressing, HeadLine
from tests.cli.tui.driving import LARGE, alone, running, setup
from tests.doors.talking import STORY, chat_key, turns
from tests.scripted import BreaksOff, Down, Hangs, ScriptedServer, WrongKey

pytestmark = pytest.mark.slow
ASKS = re.compile("hand-over of a conversation|what happened in")
"""What the instructions of a summarizer say, and those of the conversation do not."""
LONG = "The winter berths are opened on the 10th, and the crane is mended before. " * 6


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")  # nothing listens there


@alone
async def test_a_model_that_refuses_is_told_and_asked_again(tmp_path):
    with ScriptedServer(WrongKey(), "It is free.", window=4_096) as server:
        async with running(setup(tmp_path, model=chat_key(server))) as chat:
            seen = await chat.say("Is berth 4 free?")
            assert "/retry asks again" in seen
            assert "Traceback" not in seen
            assert [m.text for m in chat.ctx.history] == ["Is berth 4 free?"]
            assert "It is free." in await chat.say("/retry")
            assert len(chat.ctx.history) == 2


@alone
async def test_an_answer_that_breaks_off_is_kept_as_far_as_it_came(tmp_path):
    with ScriptedServer(BreaksOff("It is free until"), "Noon.", window=4_096) as server:
        async with running(setup(tmp_path, model=chat_key(server))) as chat:
            seen = await chat.say("Is berth 4 free?")
            assert "cut off" in seen
            assert chat.ctx.history[1].text.startswith("It is free")
            assert chat.ctx.history[1].metadata.tags == ("cut off",)
            assert "Noon." in await chat.say("Until when?")


@alone
async def test_an_answer_that_was_cut_off_is_asked_for_again(tmp_path):
    """It stays on its own branch; goals, pins and notes of since then go along."""
    with ScriptedServer(BreaksOff("It is free until"), "Noon.", window=4_096) as server:
        given = setup(tmp_path, model=chat_key(server))
        async with running(given) as chat:
            await chat.say("Is berth 4 free?")
        async with running(setup(tmp_path), (100, 40)) as chat:
            assert "was cut off: /retry asks again" in chat.text
            await chat.say("/goal Mend the roof")
            await chat.say("/mode planning")
            await chat.say("/pin 0")
            await chat.say("/remember My boat is the Petrel.")
            seen = await chat.say("/retry")
            assert "without the answer that was cut off" in seen
            assert "It is free" not in seen
            assert [m.text for m in chat.ctx.history] == [
                "Is berth 4 free?",
                "My boat is the Petrel.",
                "Noon.",
            ]
            assert [goal.text for goal in chat.ctx.goals] == ["Mend the roof"]
            assert chat.ctx.mode == "planning"
            assert list(chat.ctx.history.fixed) == [0, 1]
            assert "Undone: the step to another branch" in await chat.say("/undo")
            await chat.until(lambda: "It is free" in chat.text, "the branch of before")


@alone
async def test_an_answer_is_stopped(echo, monkeypatch):
    monkeypatch.setattr("compact.models.providers.echo_chat.PAUSE", 0.05)
    async with running(echo) as chat:
        await chat.send(LONG)
        await chat.until(lambda: "Assistant · #1" in chat.text, "the answer begins")
        await chat.send("And now?")
        assert len(chat.ctx.history) == 1, "one thing at a time"
        await chat.pilot.press("escape", "escape", "escape")
        await chat.settled()
        assert "Stopped" in chat.text
        said = chat.ctx.history[1]
        assert said.metadata.tags == ("cut off",)
        assert 0 < len(said.text) < len(LONG)
        assert "cut off" in chat.text
        assert chat.screen.query_one(PromptInput).text == "And now?", "what waited can be sent"
        monkeypatch.setattr("compact.models.providers.echo_chat.PAUSE", 0.0)
        await chat.say("/retry")
        assert [m.role for m in chat.ctx.history] == ["user", "assistant"]
        assert chat.ctx.history[1].metadata.tags == ()


@alone
async def test_what_is_sent_meanwhile_is_sent_after_the_answer(echo, monkeypatch):
    monkeypatch.setattr("compact.models.providers.echo_chat.PAUSE", 1.0)
    async with running(echo) as chat:
        await chat.send("Is berth 4 free?")
        await chat.until(lambda: "Assistant · #1" in chat.text, "the answer begins")
        await chat.send("And berth 5?")
        await chat.send("And berth 6?")
        assert "And berth 5? · And berth 6?" in chat.text
        assert "2 messages will be sent after this answer; Esc stops it" in chat.text
        monkeypatch.setattr("compact.models.providers.echo_chat.PAUSE", 0.0)
        await chat.until(lambda: len(chat.ctx.history) == 6, "all are answered")
        await chat.settled()
        assert "will be sent" not in chat.text
        assert chat.ctx.history[4].text == "And berth 6?"
        assert chat.ctx.history[2].text == "And berth 5?"
        assert chat.ctx.history[1].metadata.tags == ()
        assert chat.screen.query_one(PromptInput).text == ""


@alone
async def test_commands_that_waited_stay_commands_after_esc(echo, monkeypatch):
    monkeypatch.setattr("compact.models.providers.echo_chat.PAUSE", 1.0)
    async with running(echo) as chat:
        await chat.send("Is berth 4 free?")
        await chat.until(lambda: "Assistant · #1" in chat.text, "the answer begins")
        for waits in ("And berth 5?", "/goal Mend the roof", "/mode planning", "And berth 6?"):
            await chat.send(waits)
        monkeypatch.setattr("compact.models.providers.echo_chat.PAUSE", 0.0)
        await chat.pilot.press("escape")
        await chat.settled()
        assert chat.screen.query_one(PromptInput).text.count("\n") == 3, "all can be changed"
        await chat.pilot.press("enter")
        await chat.until(lambda: len(chat.ctx.history) == 6, "all are answered")
        await chat.settled()
        assert [goal.text for goal in chat.ctx.goals] == ["Mend the roof"]
        assert chat.ctx.mode == "planning"
        said = [m.text for m in chat.ctx.history if m.role == "user"]
        assert said == ["Is berth 4 free?", "And berth 5?", "And berth 6?"]


@alone
async def test_closing_in_mid_reply_loses_nothing(echo, tmp_path, monkeypatch):
    monkeypatch.setattr("compact.models.providers.echo_chat.PAUSE", 0.05)
    async with running(echo) as chat:
        await chat.send(LONG)
        await chat.until(lambda: "Assistant · #1" in chat.text, "the answer begins")
        await chat.pilot.pause(0.3)
        await chat.app.action_quit()
    async with running(setup(tmp_path)) as chat:
        assert [m.role for m in chat.ctx.history] == ["user", "assistant"]
        assert chat.ctx.history[0].text == LONG.strip()
        assert chat.ctx.history[1].metadata.tags == ("cut off",)


@alone
async def test_what_had_come_when_the_program_was_killed_is_found(echo, tmp_path):
    with ContextManager(store=tmp_path / "chat.db", session_id="garden", window=4_000) as ctx:
        ctx.add_message(role="user", content="Is berth 4 free?")
        ctx.store.note("garden", PARTIAL, {"text": "It is free until"})
    async with running(echo) as chat:
        assert "It is free until" in chat.text
        assert "what had come of it is kept" in chat.text
        assert chat.ctx.history[1].metadata.tags == ("cut off",)
        assert PARTIAL not in chat.ctx.store.notes("garden")


@alone
async def test_a_message_without_an_answer_is_answered_later(echo, tmp_path):
    with ContextManager(store=tmp_path / "chat.db", session_id="garden", window=4_000) as ctx:
        ctx.add_message(role="user", content="Is berth 4 free?")
    async with running(echo) as chat:
        assert "has no answer yet" in chat.text
        assert "▌ Is berth 4 free?" in await chat.say("/retry")
        assert len(chat.ctx.history) == 2


@alone
async def test_what_fits_in_no_window_is_told_with_a_way_out(echo):
    async with running(echo) as chat:
        seen = await chat.say("berth " * 3_000)
        assert "cannot fit" in seen
        assert "send a shorter message" in " ".join(seen.split())
        assert len(chat.ctx.history) == 1


@alone
async def test_words_of_a_model_do_not_steer_the_terminal(tmp_path):
    with ScriptedServer("red \x1b[31malert\x07 [b]bold[/b]", window=4_096) as server:
        async with running(setup(tmp_path, model=chat_key(server))) as chat:
            seen = await chat.say("Say \x1b]0;title\x07 [red]this[/red]")
            assert "\x1b" not in seen
            assert "\x07" not in seen
            assert "[red]this[/red]" in seen


# --- a compression that a person waits for --------------------------------------------------------


def answering(answer, summary):
    """A script: the conversation gets one answer after the other, summaries get theirs."""
    answers = itertools.cycle([answer] if isinstance(answer, str) else answer)
    return lambda request: summary if ASKS.search(request.instructions) else next(answers)


@alone
async def test_input_is_blocked_while_a_compression_is_waited_for_and_esc_cancels_it(tmp_path):
    """FR-2, FR-9: "input blocked and progress shown meanwhile"."""
    script = answering("It is free.", Hangs(60, "never"))
    with ScriptedServer(script, window=8_192) as server:
        key = chat_key(server)
        given = setup(tmp_path, model=key, summarizer=key, max_context_tokens=2_000, draft_ratio=1)
        async with running(given) as chat:
            for _ in range(4):
                await chat.say(LONG)
            before = chat.ctx.window_use
            await chat.send("/compact")
            await chat.until(lambda: "stage 3 of 6, summarizing" in chat.text, "the third stage")
            assert "Compressing context…" in chat.text
            assert chat.screen.query_one(PromptInput).disabled
            await chat.pilot.press("x", "y")
            assert chat.screen.query_one(PromptInput).text == ""
            await chat.pilot.press("escape")
            await chat.settled()
            assert "Stopped" in chat.text
            assert not chat.screen.query_one(PromptInput).disabled
            assert chat.ctx.window_use == before, "nothing changed"
            assert not chat.ctx.checkpoints
            assert not chat.screen.query_one(Compressing).display
            await chat.pilot.press("x")
            assert chat.screen.query_one(PromptInput).text == "x", "and it can be written again"


def is_decided(chat, messages):
    return "stage 3 of 6" in chat.text or len(chat.ctx.history) == messages


@alone
async def test_a_message_that_sets_off_a_compression_is_kept_when_that_is_cancelled(tmp_path):
    script = answering("It is free.", Hangs(60, "never"))
    with ScriptedServer(script, window=8_192) as server:
        key = chat_key(server)
        given = setup(tmp_path, model=key, summarizer=key, max_context_tokens=2_000, draft_ratio=1)
        async with running(given) as chat:
            last = ""
            for n in range(30):
                last = f"Question {n}. {LONG}"
                await chat.send(last)
                await chat.until(partial(is_decided, chat, 2 * n + 2), "an answer, or a summary")
                if "stage 3 of 6" in chat.text:
                    break
                await chat.settled()
            await chat.pilot.press("escape")
            await chat.settled()
            assert chat.ctx.history[-1].text == last.strip()
            assert not chat.ctx.checkpoints


@alone
async def test_a_summary_drafted_ahead_blocks_nobody(tmp_path, monkeypatch):
    """FR-9: drafts in the background, so that waiting is rare."""
    told: list[tuple[str, bool]] = []
    said_aside = HeadLine.show_work

    def aside(head: HeadLine, words: str) -> None:
        told.append((words, head.screen.query_one(PromptInput).disabled))
        said_aside(head, words)

    monkeypatch.setattr(HeadLine, "show_work", aside)
    said = [each["content"] for each in turns(40)]
    with ScriptedServer(answering(said[1::2], STORY), window=8_192) as server:
        key = chat_key(server)
        given = setup(tmp_path, model=key, summarizer=key, max_context_tokens=2_000)
        async with running(given) as chat:
            for question in said[::2]:
                await chat.say(question)
            assert chat.ctx.checkpoints
            assert any(ASKS.search(each.instructions) for each in server.prompts), (
                "a model was asked"
            )
            assert ("drafting a summary ahead", False) in told, "and nobody was kept from writing"


@alone
async def test_who_wrote_a_checkpoint_is_seen_and_what_it_left_out_is_opened(tmp_path):
    """Without being named a second time, the model of the chat writes (issue 24, C)."""
    said = [each["content"] for each in turns(40)]
    with ScriptedServer(answering(said[1::2], STORY), window=8_192) as server:
        given = setup(tmp_path, model=chat_key(server), max_context_tokens=4_000)
        async with running(given, LARGE) as chat:
            await chat.pilot.press("f2")
            await chat.until(lambda: "Nothing was left out" in chat.text)
            for question in said[::2]:
                if not chat.ctx.checkpoints:
                    seen = await chat.say(question)
            by = r"checkpoint by scripted, [\d.]+ s, [\d,]+ → [\d,]+ tokens"
            assert re.search(rf"Compressed \d+ messages[^\n]+{by}", seen)
            await chat.until(lambda: re.search(by, chat.text.splitlines()[0]), "who wrote it")
            made = chat.ctx.checkpoints[-1]
            assert made.made_by == "scripted"
            first = chat.ctx.history[made.covered()[0]]
            await chat.pilot.press("f2")
            await chat.until(lambda: isinstance(chat.app.screen, PageScreen))
            assert first.text[:40] in chat.text


@alone
async def test_a_summarizer_that_is_down_is_asked_once_and_keeps_nobody(tmp_path, monkeypatch):
    """The next compression leaves it alone (issue 24, C)."""
    monkeypatch.setattr(breaker, "FIRST_PAUSE", breaker.LONGEST_PAUSE)  # the test takes no hour
    said = [each["content"] for each in turns(44)]
    answers, refused = answering(said[1::2], STORY), list[int]()

    def down(request):
        if ASKS.search(request.instructions):
            refused.append(1)
            return Down()
        return answers(request)

    with ScriptedServer(down, window=8_192) as server:
        given = setup(tmp_path, model=chat_key(server), max_context_tokens=4_000)
        async with running(given, LARGE) as chat:
            for question in said[::2]:
                await chat.say(question)
            assert len(chat.ctx.checkpoints) > 0
            assert {each.made_by for each in chat.ctx.checkpoints} == {"extractive"}
            assert "checkpoint by code" in chat.text
            assert [m.text for m in chat.ctx.history] == said
    assert len(refused) == 1


# --- where nobody has named a model ---------------------------------------------------------------


@alone
async def test_without_a_model_a_screen_says_how_to_set_one_up(tmp_path):
    async with running(setup(tmp_path)) as chat:
        assert isinstance(chat.app.screen, FirstScreen)
        assert "ollama pull" in chat.text
        assert "COMPACT_MODEL" in chat.text
        assert "echo:8k" in chat.text
        await chat.pilot.press("enter")
        await chat.until(lambda: isinstance(chat.app.screen, ChatScreen), "the chat")
        await chat.pilot.pause()
        assert "You talk to echo:8k" in chat.text


@alone
async def test_a_key_can_be_written_there(tmp_path):
    async with running(setup(tmp_path)) as chat:
        box = chat.app.screen.query_one(Input)
        box.focus()
        box.value = "nobody"
        await chat.pilot.press("enter")
        await chat.pilot.pause()
        assert "names no model" in chat.text
        box.value = "echo:2k"
        await chat.pilot.press("enter")
        await chat.until(lambda: isinstance(chat.app.screen, ChatScreen), "the chat")
        assert chat.ctx.window.size == 2_000


@alone
async def test_a_key_is_typed_while_the_list_has_the_focus(tmp_path):
    async with running(setup(tmp_path)) as chat:
        await chat.pilot.press("e", "c", "h", "o", "colon", "2", "k", "enter")
        await chat.until(lambda: isinstance(chat.app.screen, ChatScreen), "the chat")
        assert chat.ctx.window.size == 2_000


@alone
async def test_what_is_wrong_with_a_key_is_read_to_its_end(tmp_path):
    async with running(setup(tmp_path, model="nosuch")) as chat:
        seen = " ".join(chat.text.split())
        assert "names no model" in seen
        assert "bare name of a well-known model (gpt-4o)" in seen
        assert "No model was named" not in seen


@alone
async def test_a_model_without_its_client_is_refused_when_it_is_chosen(tmp_path, monkeypatch):
    for module in ("tui.choices", "models.providers.clients"):
        monkeypatch.setattr(
            f"compact.{module}.find_spec",
            lambda name: None if name == "ollama" else find_spec(name),
        )
    with ScriptedServer("Hello", model="qwen3:8b", window=8_192) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        async with running(setup(tmp_path)) as chat:
            assert "An Ollama answers on this machine" in " ".join(chat.text.split())
            assert "no Ollama" not in chat.text
            first = chat.app.screen
            await chat.pilot.press(*"ollama", "colon", *"qwen", "enter")
            await chat.until(lambda: chat.app.screen is not first, "refused")
            await chat.pilot.pause()
            assert isinstance(chat.app.screen, FirstScreen)
            assert "A package is missing: ollama:qwen needs the package ollama: pip" in " ".join(
                chat.text.split()
            )
        async with running(setup(tmp_path, model="echo:4k")) as chat:
            assert "needs the package ollama" in await chat.say("/model ollama:qwen")
            assert chat.screen.talk.model == "echo:4k"


@alone
async def test_keys_of_the_environment_are_offered_and_nobody_is_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    async with running(setup(tmp_path)) as chat:
        assert "openai:gpt-4o-mini  OPENAI_API_KEY is set" in chat.text
        assert chat.app.screen.query_one(OptionList).option_count == 2


@alone
async def test_a_model_that_cannot_be_opened_leads_back_there(tmp_path):
    with ScriptedServer("never", window=4_096) as server:
        key = chat_key(server)
    async with asyncio.timeout(60):
        async with running(setup(tmp_path, model=key)) as chat:
            await chat.until(lambda: isinstance(chat.app.screen, FirstScreen), "the first screen")
            await chat.pilot.pause()
            assert "127.0.0.1" in chat.text


@alone
async def test_ollama_on_this_machine_is_talked_to_at_once(tmp_path, monkeypatch):
    with ScriptedServer("Hello from here.", model="qwen3:8b", window=8_192) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        async with running(setup(tmp_path)) as chat:
            assert "You talk to ollama:qwen3:8b" in chat.text
            assert "Hello from here." in await chat.say("Hello")
            assert "ollama:qwen3:8b – on this machine" in await chat.say("/model")
