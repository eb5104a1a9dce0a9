"""The first screen, if no model was chosen. It lists models and tells how to set one up."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from compact import wiring
from compact.errors import UnknownModel
from compact.tui.choices import Choice
from compact.tui.looks import one_line
from compact.tui.problems import LONGEST

NO_OLLAMA = "No model was named, and no Ollama with a model answers on this machine."
NO_CLIENT = "No model was named. An Ollama answers on this machine; its Python package is missing:"
WELCOME = """\
Choose one below, or set one up and come back:

  Ollama      ollama serve; ollama pull qwen3:8b; and the extra `ollama`
  OpenAI      export OPENAI_API_KEY=…
  Anthropic   export ANTHROPIC_API_KEY=…
  a server    compactctl chat --model http://127.0.0.1:8080/v1#model

COMPACT_MODEL, or `model` in a settings file, names one for good."""


class FirstScreen(Screen[str]):
    """Lets the user choose a model. Returns the model's key."""

    DEFAULT_CSS = """
    FirstScreen VerticalScroll { padding: 0 2; }
    FirstScreen OptionList { height: auto; max-height: 10; margin: 1 0; }
    FirstScreen #problem { color: $text-error; width: 1fr; margin: 0 2 1 2; }
    FirstScreen #title { text-style: bold; color: $text-primary; margin: 1 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+q", "app.quit", "Quit")]

    def __init__(self, choices: list[Choice], problem: str = "") -> None:
        super().__init__()
        self._choices, self._problem = choices, problem

    def compose(self) -> ComposeResult:
        """Yield the help, the models, and an input for a key."""
        yield Label("compact · who are you going to talk to?", id="title", markup=False)
        yield Label(self._problem, id="problem", markup=False)
        with VerticalScroll():
            yield Static("\n".join([*self._why(), WELCOME]), markup=False)
            yield OptionList(*map(_option, self._choices))
            yield Input(
                placeholder="or a model's key, such as ollama:qwen3:8b", select_on_focus=False
            )
        yield Footer()

    def on_mount(self) -> None:
        """Give the list the focus."""
        self.query_one("#problem").display = bool(self._problem)
        self.query_one(OptionList).focus()

    def _why(self) -> list[str]:
        if self._problem:
            return []
        if any(each.key.startswith("ollama:") for each in self._choices):
            return [NO_CLIENT, wiring.how_to_install("ollama")]
        return [NO_OLLAMA]

    def on_key(self, event: events.Key) -> None:
        """Pass typed text to the input while the list has the focus."""
        box = self.query_one(Input)
        letter = (event.character or "").strip()
        if letter and event.is_printable and not box.has_focus:
            box.focus()
            box.insert_text_at_cursor(letter)
            event.stop()

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """Close the screen with the model that was chosen from the list."""
        self.dismiss(self._choices[event.option_index].key)

    @on(Input.Submitted)
    def name_one(self, event: Input.Submitted) -> None:
        """Close the screen with the model key that the user typed, if it is valid."""
        try:
            wiring.chat_model(event.value.strip())
        except UnknownModel as error:
            label = self.query_one("#problem", Label)
            label.update(one_line(str(error), LONGEST))
            label.display = True
            return
        self.dismiss(event.value.strip())


def _option(choice: Choice) -> Option:
    words = Content.assemble((choice.key, "bold"), f"  {choice.about}")
    return Option(words, disabled=not choice.is_ready)
