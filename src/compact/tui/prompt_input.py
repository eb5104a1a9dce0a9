"""Where a person writes, and the commands offered while a slash is typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from compact.telemetry.plain_words import counted
from compact.tui.looks import one_line
from compact.tui.slash import SlashCommand


class Completions(OptionList, can_focus=False):
    """A list over the input; the input moves through it."""

    DEFAULT_CSS = """
    Completions { height: auto; max-height: 8; border: none; padding: 0 1; display: none; }
    """

    def offer(self, commands: Sequence[SlashCommand]) -> None:
        """Show these, or nothing where there are none."""
        self.display = bool(commands)
        self.clear_options()
        width = max((len(c.usage) for c in commands), default=0)
        for each in commands:
            words = Content.assemble((each.usage.ljust(width), "bold"), f"  {each.help}")
            self.add_option(Option(words, id=each.name))
        self.highlighted = 0 if commands else None

    @property
    def is_open(self) -> bool:
        """Whether there is anything to choose from."""
        return bool(self.display)

    @property
    def chosen(self) -> str | None:
        """The name of the command that is marked."""
        if not self.is_open or self.highlighted is None:
            return None
        return self.get_option_at_index(self.highlighted).id

    def move(self, rows: int) -> None:
        """Mark another one."""
        if self.highlighted is not None:
            self.highlighted = (self.highlighted + rows) % self.option_count


NEW_LINE = frozenset(("ctrl+j", "shift+enter", "alt+enter"))
"""Keys that begin a new line; which of them arrive, the terminal decides."""
STEPS = {"up": -1, "down": 1}
PLACEHOLDER, BLOCKED = "Say something, or / for commands", "Nothing can be written meanwhile"


class PromptInput(TextArea):
    """A box that grows with what is in it."""

    DEFAULT_CSS = """
    PromptInput { height: auto; min-height: 3; max-height: 8; padding: 0 1; }
    PromptInput { border: round $primary; }
    PromptInput:focus { border: round $accent; }
    PromptInput:disabled { border: round $panel; }
    """

    @dataclass
    class Submitted(Message):
        """A person has sent what is in the box."""

        text: str

    @dataclass
    class Moved(Message):
        """A person moves through what is offered."""

        rows: int

    class Completed(Message):
        """A person takes what is offered."""

    def __init__(self) -> None:
        super().__init__(
            soft_wrap=True,
            compact=False,
            highlight_cursor_line=False,
            placeholder=PLACEHOLDER,
        )
        self.is_offered = False
        """Whether commands are offered, which the arrows move through."""

    def block(self, *, is_blocked: bool) -> None:
        """Let nothing be written, or let it be written again."""
        if self.disabled != is_blocked:
            self.disabled = is_blocked
            self.placeholder = BLOCKED if is_blocked else PLACEHOLDER
            if not is_blocked:
                self.focus()

    def wait_with(self, texts: Sequence[str]) -> None:
        """Say on the border what waits for the end of an answer."""
        self.border_title = Content(one_line(" · ".join(texts)))
        said = f"{counted(len(texts), 'message')} will be sent after this answer; Esc stops it"
        self.border_subtitle = said if texts else ""

    async def _on_key(self, event: events.Key) -> None:
        key = event.key
        if key == "enter":
            self.post_message(self.Submitted(self.text))
        elif key in NEW_LINE:
            self.insert("\n")
        elif self.is_offered and key in STEPS:
            self.post_message(self.Moved(STEPS[key]))
        elif self.is_offered and key == "tab":
            self.post_message(self.Completed())
        else:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
