"""The chat program in a terminal of a size, driven as by a person, and its screen as text."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

from textual.pilot import Pilot

from compact import wiring
from compact.config import CompactConfig
from compact.tui.app import ChatApp
from compact.tui.chat_screen import ChatScreen
from compact.tui.opening import ChatSetup
from compact.tui.prompt_input import PromptInput

MODEL = "echo:1500"
SMALL, LARGE = (80, 24), (160, 50)


class Chat:
    """The program while it runs, as a person has it."""

    def __init__(self, app: ChatApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def screen(self) -> ChatScreen:
        assert isinstance(self.app.screen, ChatScreen), self.app.screen
        return self.app.screen

    @property
    def ctx(self) -> Any:
        return self.screen.talk.ctx

    @property
    def text(self) -> str:
        """The cells of the screen."""
        rows = self.app.screen._compositor.render_strips()
        return "\n".join("".join(part.text for part in row).rstrip() for row in rows)

    async def until(self, holds: Callable[[], object], what: str = "") -> None:
        """Wait until it holds; by what happens, not by the clock."""
        for _ in range(3_000):
            if holds():
                return
            await self.pilot.pause(0.01)
        raise AssertionError(f"never: {what}\n{self.text}")

    async def send(self, text: str) -> None:
        """Write, and send, as a person does; returns at once."""
        box = self.screen.query_one(PromptInput)
        box.text = text
        await self.pilot.pause()
        await self.pilot.press("enter")

    async def say(self, text: str) -> str:
        """Write, send, and wait until nothing is under way; the screen then."""
        chat = self.screen
        before = chat._job
        await self.send(text)
        await self.until(lambda: chat._job is not before, "it was sent")
        await self.settled(chat)
        return self.text

    async def settled(self, chat: ChatScreen | None = None) -> None:
        chat = chat or self.screen
        await self.until(lambda: not chat._is_busy, "it has ended")
        await self.pilot.pause()


def setup(
    tmp_path: Any, store: Any = None, *, session: str = "garden", **settings: Any
) -> ChatSetup:
    """What the program is opened with."""
    written: list[tuple[str, str]] = []

    def write(session_id: str, file: str) -> str:
        written.append((session_id, file))
        return f"Wrote {file}"

    return ChatSetup(
        store=wiring.session_store(store or tmp_path / "chat.db"),
        settings=CompactConfig.load(environ={}, **settings),
        session_id=session,
        scope="default",
        write=write,
    )


@asynccontextmanager
async def running(
    given: ChatSetup, size: tuple[int, int] = SMALL, *, light: bool = False
) -> AsyncIterator[Chat]:
    """The program, with its session open where it knows whom it talks to."""
    app = ChatApp(given, light=light)
    async with app.run_test(size=size) as pilot:
        chat = Chat(app, pilot)
        await chat.until(lambda: len(app.screen_stack) > 1, "a screen is there")
        await pilot.pause()
        yield chat
        await app.action_quit()


def alone(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, run on a loop of its own."""

    @wraps(test)
    def run(*args: Any, **options: Any) -> None:
        asyncio.run(test(*args, **options))

    return run
