"""The commands that a slash and some letters may become."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

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
