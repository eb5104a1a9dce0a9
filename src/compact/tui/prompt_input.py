"""The input, and the list of commands. Enter sends the text. Ctrl+J begins a new line."""

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
    """The list of commands above the input. The arrow keys in the input mark a command in it."""

    DEFAULT_CSS = """
    Completions { height: auto; max-height: 8; border: none; padding: 0 1; display: none; }
    """

    def offer(self, commands: Sequence[SlashCommand]) -> None:
        """Show these commands. Without any, hide the list."""
        self.display = bool(commands)
        self.clear_options()
        width = max((len(c.usage) for c in commands), default=0)
        for each in commands:
            words = Content.assemble((each.usage.ljust(width), "bold"), f"  {each.help}")
            self.add_option(Option(words, id=each.name))
        self.highlighted = 0 if commands else None

    @property
    def chosen(self) -> str | None:
        """The name of the marked command. It is None if the list is hidden."""
        if not self.display or self.highlighted is None:
            return None
        return self.get_option_at_index(self.highlighted).id

    def move(self, rows: int) -> None:
        """Mark the command that is `rows` further down the list."""
        if self.highlighted is not None:
            self.highlighted = (self.highlighted + rows) % self.option_count


NEW_LINE = frozenset(("ctrl+j", "shift+enter", "alt+enter"))
"""Keys that begin a new line. Not every terminal sends all of them."""
STEPS = {"up": -1, "down": 1}
PLACEHOLDER, BLOCKED = "Say something, or / for commands", "Nothing can be written meanwhile"


class PromptInput(TextArea):
    """A text input whose height grows with its text."""

    DEFAULT_CSS = """
    PromptInput { height: auto; min-height: 3; max-height: 8; padding: 0 1; }
    PromptInput { border: round $primary; }
    PromptInput:focus { border: round $accent; }
    PromptInput:disabled { border: round $panel; }
    """

    @dataclass
    class Submitted(Message):
        """Posted when the user sends the text."""

        text: str

    @dataclass
    class Moved(Message):
        """Posted when the user moves through the list of commands."""

        rows: int

    class Completed(Message):
        """Posted when the user takes the marked command."""

    def __init__(self) -> None:
        super().__init__(
            soft_wrap=True,
            compact=False,
            highlight_cursor_line=False,
            placeholder=PLACEHOLDER,
        )
        self.is_offered = False
        """Whether the list of commands is open. Then the arrow keys move through the list."""

    def block(self, *, is_blocked: bool) -> None:
        """Block or unblock the input."""
        if self.disabled != is_blocked:
            self.disabled = is_blocked
            self.placeholder = BLOCKED if is_blocked else PLACEHOLDER
            if not is_blocked:
                self.focus()

    def wait_with(self, texts: Sequence[str]) -> None:
        """Show the queued texts on the border of the input."""
        self.border_title = Content(one_line(" · ".join(texts)))
        line = f"{counted(len(texts), 'message')} will be sent after this answer; Esc stops it"
        self.border_subtitle = line if texts else ""

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
