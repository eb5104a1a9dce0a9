"""The chat program: its screens, its start and its end."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App
from textual.binding import BindingType

from compact.errors import CompactError
from compact.messages.events import Event
from compact.tui.chat_screen import ChatScreen
from compact.tui.choices import Choice, choices, first_ready
from compact.tui.dialogue import Dialogue
from compact.tui.opening import ChatSetup, model_of, opened
from compact.tui.problems import in_words
from compact.tui.screens import FirstScreen

LIGHT, DARK = "textual-light", "textual-dark"


class ChatApp(App[None]):
    """A chat with one model in one session."""

    TITLE = "compact"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    FooterKey .footer-key--key { color: $foreground; }
    TextArea .text-area--placeholder { color: $foreground 70%; }
    Input .input--placeholder { color: $foreground 70%; }
    """
    """Replaces colours of Textual that are hard to read in the light theme."""
    BINDINGS: ClassVar[list[BindingType]] = [
        ("ctrl+t", "look", "Theme"),
        ("ctrl+q", "quit", "Quit"),
    ]

    def __init__(self, setup: ChatSetup, *, light: bool = False) -> None:
        super().__init__()
        self._setup = setup
        self._chat: ChatScreen | None = None
        self.theme = LIGHT if light else DARK

    def on_mount(self) -> None:
        """Open the session, or ask for a model first."""
        self.run_worker(self._start(), exit_on_error=True)

    async def _start(self) -> None:
        model, problem = model_of(self._setup), ""
        offered: list[Choice] = []
        if model is None:
            offered = await choices()
            model = first_ready(offered)
        while True:
            if model is None:
                model = await self.push_screen_wait(FirstScreen(offered, problem))
            try:
                ctx = await opened(self._setup, model, self.hear)
                break
            except (CompactError, ImportError) as error:
                problem = in_words(error, self._setup.settings.redactor())
                model, offered = None, offered or await choices()
        self._chat = ChatScreen(Dialogue(self._setup, ctx, model))
        await self.push_screen(self._chat)

    def hear(self, event: Event) -> None:
        """Show an event of the session or its memory. It may be called from any thread."""
        if self._chat is not None and self._chat.is_running:
            self._chat.hear(event)

    def action_look(self) -> None:
        """Switch between the light and the dark theme."""
        self.theme = DARK if self.theme == LIGHT else LIGHT

    async def action_quit(self) -> None:
        """Store the beginning of a running answer, and quit."""
        if self._chat is not None:
            await self._chat.stop()
        self.exit()
