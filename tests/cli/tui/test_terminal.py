"""The chat program in a real terminal, with a real llama.cpp server of a small window (FR-2, FR-9,
US-1, US-7, NFR-2).
"""

import re

import pytest

from compact import ContextManager, wiring
from compact.messages.protocols import SessionStore
from tests import sizes
from tests.cli.tui.terminal import Terminal, chatting, needs_tmux
from tests.doors.talking import chat_key
from tests.models.conftest import llama, tiny_model
from tests.scripted import BreaksOff, Hangs, ScriptedServer

__all__ = ["llama", "tiny_model"]

pytestmark = pytest.mark.slow
WINDOW = 2_048
TURNS = 60
STRICT = [(name, size) for name in ("mistral", "gemma") for size in (WINDOW, 2 * WINDOW)]
"""Templates that refuse two messages of one role side by side, each in two windows."""
STRICT_TURNS = sizes.size(20, 60)
"""With a server that wants turns; each costs about a second."""
MOST_TURNS = 30
"""Turns after which a compression must have begun."""


@pytest.fixture
def talk(tmp_path, tiny_model, llama):
    """`talk()` opens the same session in a terminal again, with a small model that also writes the
    summaries; answers are short, so that turns are many.
    """
    needs_tmux()

    def opened(summarizer="", template="chatml", size=WINDOW):
        key = f"{llama(size, template)}/v1#tiny"
        return chatting(
            tmp_path,
            *("garden", "--model", key, "--tokenizer", str(tiny_model.tokenizer)),
            env={
                "COMPACT_STORE": str(tmp_path / "chat.db"),
                "COMPACT_SUMMARIZER": summarizer or key,
                "COMPACT_OUTPUT_RESERVE": "160",
                "COMPACT_DRAFT_RATIO": "1",
            },
        )

    return opened


@pytest.fixture
def said(tmp_path):
    """The messages of the session, as the store has them now."""

    def read():
        with ContextManager(store=tmp_path / "chat.db", session_id="garden", window=WINDOW) as ctx:
            return list(ctx.history)

    return read


@pytest.fixture
def count(tmp_path):
    """How many messages the session has in the store now."""
    opened: list[SessionStore] = []

    def counted():
        if not opened:
            opened.append(wiring.store_at(tmp_path / "chat.db"))
        return opened[0].session("garden").branch.messages

    yield counted
    for store in opened:
        store.close()


def question(n):
    return f"Turn {n}: what of berth {n}, which is {n + 3} metres deep, and of its old crane?"


class Watcher:
    """Takes turns, and notes what was seen meanwhile."""

    def __init__(self, terminal: Terminal, count) -> None:
        self.terminal, self.count = terminal, count
        self.stages: set[str] = set()
        self.compressed: list[int] = []

    def turn(self, n: int) -> None:
        self._wanted = self.count() + 2
        self.terminal.write(question(n))
        self.terminal.until(self._is_answered, f"the answer of turn {n}")

    def _is_answered(self, seen: str) -> bool:
        self._look(seen)
        assert "cannot fit" not in seen, seen
        assert "context size" not in seen, seen
        assert "bug in compact" not in seen, seen
        assert "refused the request" not in seen, seen
        return is_idle(seen) and bool(self.count() == self._wanted)

    def _look(self, seen: str) -> None:
        if found := re.search(r"Compressing context… (stage \d of 6)", seen):
            self.stages.add(found[1])
        freed = re.findall(r"Compressed \d+ messages?, freed ([\d,]+) tokens", seen)
        self.compressed += [int(each.replace(",", "")) for each in freed]


def is_idle(seen):
    """Whether nothing is under way: the box is empty, and the first line says nothing."""
    first = seen.splitlines()[0]
    return "Say something" in seen and "waiting" not in first and "answering" not in first


@pytest.mark.parametrize(("template", "size"), STRICT if sizes.NIGHT else STRICT[1:3])
def test_a_server_that_wants_turns_refuses_none(talk, said, count, template, size):
    """Before and after compressions, and after the program was closed (issue 24, A1)."""
    compressed = []
    for turns in (range(STRICT_TURNS - 3), range(STRICT_TURNS - 3, STRICT_TURNS)):
        with talk(template=template, size=size) as terminal:
            watcher = Watcher(terminal, count)
            for n in turns:
                watcher.turn(n)
            compressed += watcher.compressed
            quit_from(terminal)
    assert compressed
    assert [m.text for m in said() if m.role == "user"] == list(map(question, range(STRICT_TURNS)))


def test_sixty_turns_in_a_small_window(talk, said, count):
    """Progress is seen and input blocked, nothing overflows; killed in mid-compression nothing is
    lost; undo and restore work.
    """
    with talk() as terminal:
        watcher = Watcher(terminal, count)
        for n in range(TURNS // 2):
            watcher.turn(n)
            if n == 5:
                terminal.write("/snapshot early")
                terminal.sees("Saved: early")
        quit_from(terminal)
    assert watcher.stages, "progress was seen"
    assert watcher.compressed
    assert min(watcher.compressed) > 0
    asked = TURNS // 2
    with (
        ScriptedServer(Hangs(600, "never"), window=8_192) as server,
        talk(summarizer=chat_key(server)) as terminal,
    ):
        while not killed_while_compressing(terminal, count, asked):
            asked += 1
            assert asked < TURNS // 2 + MOST_TURNS
    before = said()
    assert [m.text for m in before if m.role == "user"] == list(map(question, range(asked + 1)))
    assert before[-1].role == "user", "what set the compression off is kept"
    with talk() as terminal:
        terminal.sees("has no answer yet")
        assert [m.id for m in said()] == [m.id for m in before]
        terminal.write("/retry")
        terminal.until(lambda seen: is_idle(seen) and count() == len(before) + 1, "an answer")
        watcher = Watcher(terminal, count)
        for n in range(asked + 1, TURNS):
            watcher.turn(n)
        assert [m.text for m in said() if m.role == "user"] == list(map(question, range(TURNS)))
        terminal.write("/goal Find the key")  # what is told below it is of the compression
        terminal.sees("Find the key")
        terminal.write("/compact")
        done = re.compile("Find the key.*(?:freed|Nothing was)", re.DOTALL)
        terminal.until(lambda seen: is_idle(seen) and done.search(seen), "done")
        terminal.write("/undo")
        terminal.sees("Undone")
        terminal.write("/restore 1")
        terminal.sees("Back at 12 messages")
        assert len(said()) == 12
        terminal.write("/undo")
        terminal.until(lambda _: len(said()) == 2 * TURNS, "all messages again")
        quit_from(terminal)


def killed_while_compressing(terminal, count, n):
    """Ask; whether that set off a compression, in the middle of which the program was killed."""
    wanted = count() + 2
    terminal.write(question(n))
    seen = terminal.until(
        lambda seen: "stage 3 of 6" in seen or (is_idle(seen) and count() == wanted),
        "an answer or a compression",
    )
    if "stage 3 of 6" not in seen:
        return False
    terminal.write("these words come nowhere, as input is blocked")
    assert "these words" not in terminal.sees("stage 3 of 6")
    terminal.kill()
    return True


def quit_from(terminal):
    terminal.press("C-q")
    terminal.until(lambda _: terminal.has_ended, "it has ended")


def test_an_answer_is_found_again_after_a_kill(tmp_path):
    """Of an answer that was being written when the program was killed, what had come is kept."""
    needs_tmux()
    words = "The winter berths are opened on the 10th of the month."
    answer = BreaksOff(f"{words} " * 60, pause=0.25)
    with ScriptedServer(answer, window=8_192) as server:
        with chatting(tmp_path, "garden", "--model", chat_key(server)) as terminal:
            terminal.write("When are the berths opened?")
            terminal.sees("Assistant · #1")
            store = tmp_path / ".compact/sessions.db"
            with ContextManager(store=store, session_id="garden") as ctx:
                notes = ctx.store.notes
                terminal.until(lambda _: "chat:partial" in notes("garden"), "a part is noted")
            terminal.kill()
        with chatting(tmp_path, "garden") as terminal:
            seen = terminal.sees("what had come of it is kept")
            assert "cut off" in seen
            quit_from(terminal)
    with ContextManager(store=store, session_id="garden") as ctx:
        assert [m.role for m in ctx.history] == ["user", "assistant"]
        assert ctx.history[0].text == "When are the berths opened?"
        assert ctx.history[1].text.startswith("The winter berths")
