"""The other screens: a page to read, a compression to review, and the choice of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Button, Footer, Input, Label, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from compact import wiring
from compact.errors import UnknownModel
from compact.session.views.review import CompressionProposal, ProposedCheckpoint
from compact.telemetry.plain_words import counted
from compact.tui.choices import Choice
from compact.tui.looks import ReadingPage, one_line, visible
from compact.tui.problems import LONGEST
from compact.tui.slash import COMMANDS


class PageScreen(ModalScreen[None]):
    """Shows a title and texts under headings. Esc closes the page."""

    DEFAULT_CSS = """
    PageScreen { align: center middle; }
    PageScreen #page { width: 100%; height: 1fr; background: $surface; padding: 0 1; }
    PageScreen .block { text-style: bold; color: $text-primary; }
    PageScreen .text { margin: 0 0 1 0; }
    PageScreen #title { width: 100%; background: $panel; text-style: bold; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "dismiss_page", "Back"),
        ("q", "dismiss_page", "Back"),
    ]

    def __init__(self, page: ReadingPage) -> None:
        super().__init__()
        self._page = page

    def compose(self) -> ComposeResult:
        """Yield the title, the texts and the keys."""
        yield Label(self._page.title, id="title", markup=False)
        with VerticalScroll(id="page"):
            for heading, text in self._page.blocks:
                yield Static(heading, markup=False, classes="block")
                yield Static(text, markup=False, classes="text")
        yield Footer()

    def on_mount(self) -> None:
        """Give the texts the focus, so that the arrow keys scroll."""
        self.query_one("#page").focus()

    def action_dismiss_page(self) -> None:
        """Close the page."""
        self.dismiss(None)


KEYS = (
    ("Enter", "send"),
    ("Ctrl+J", "new line"),
    ("Esc", "stop an answer or a compression"),
    ("Tab", "complete a command"),
    ("Page up, Page down", "read what was said"),
    ("Ctrl+T", "light or dark"),
    ("F1", "this page"),
    ("Ctrl+Q", "quit; everything is kept"),
)


def _lines(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"{left.ljust(width)}  {right}" for left, right in rows)


HELP = ReadingPage(
    "Help",
    (
        ("Keys", _lines(KEYS)),
        ("Commands", _lines([(c.usage, c.help) for c in COMMANDS])),
        ("Numbers", "N is the number after a #, or that of a row in a list."),
        ("Slashes", "A message that begins with a slash is written with two: //usr is a folder."),
    ),
)


class ReviewScreen(ModalScreen[Mapping[str, str] | None]):
    """Returns the edited texts by checkpoint id. Returns None if the user refuses."""

    DEFAULT_CSS = """
    ReviewScreen { align: center middle; }
    ReviewScreen #title { width: 100%; background: $panel; text-style: bold; padding: 0 1; }
    ReviewScreen #problem { width: 100%; color: $text-error; background: $surface; padding: 0 1; }
    ReviewScreen #review { width: 100%; height: 1fr; background: $surface; padding: 0 1; }
    ReviewScreen .block { text-style: bold; color: $text-primary; }
    ReviewScreen .text { margin: 0 0 1 0; }
    ReviewScreen TextArea { height: auto; min-height: 4; max-height: 14; }
    ReviewScreen Horizontal { width: 100%; height: auto; background: $surface; padding: 0 1; }
    ReviewScreen Button { margin: 0 2 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("ctrl+s", "use", "Use it"),
        ("escape", "refuse", "Refuse"),
    ]

    def __init__(
        self, proposal: CompressionProposal, texts: Mapping[str, str], problem: str = ""
    ) -> None:
        super().__init__()
        self._proposal, self._texts, self._problem = proposal, texts, problem
        self._places = {each.id: n for n, each in enumerate(proposal.checkpoints)}

    def compose(self) -> ComposeResult:
        """Yield the sizes, the summaries and the two buttons."""
        proposal = self._proposal
        size = counted(len(proposal.messages), "message")
        what = f"{size}, {counted(proposal.freed, 'token')} freed"
        yield Label(f"Nothing is compressed yet: {what}", id="title", markup=False)
        if self._problem:
            yield Label(self._problem, id="problem", markup=False)
        with VerticalScroll(id="review", can_focus=False):
            for checkpoint in proposal.checkpoints:
                yield from self._block(checkpoint)
        with Horizontal():
            yield Button("Use it", id="use", variant="primary", compact=True)
            yield Button("Refuse", id="refuse", compact=True)
        yield Footer()

    def _block(self, checkpoint: ProposedCheckpoint) -> Iterator[Label | Static | TextArea]:
        of = checkpoint.messages
        span = f", #{of[0]} to #{of[-1]}" if of else ""
        about = f"{counted(len(of), 'message')}{span}, {counted(checkpoint.tokens, 'token')}"
        yield Label(f"{checkpoint.level}: {about}", classes="block", markup=False)
        text = self._texts.get(checkpoint.id, checkpoint.text)
        if checkpoint.room:
            yield TextArea(text, id=self._box(checkpoint.id), soft_wrap=True)
            return
        words = visible(text) or "What must hold is written by code, and stays as it is."
        yield Static(words, classes="text", markup=False)

    def _box(self, checkpoint_id: str) -> str:
        return f"text-{self._places[checkpoint_id]}"

    @on(Button.Pressed, "#use")
    def action_use(self) -> None:
        """Apply the compression with the edits."""
        changed = {}
        for each in self._proposal.checkpoints:
            if each.room:
                text = self.query_one(f"#{self._box(each.id)}", TextArea).text
                if text.strip() != each.text.strip():
                    changed[each.id] = text
        self.dismiss(changed)

    @on(Button.Pressed, "#refuse")
    def action_refuse(self) -> None:
        """Refuse the compression: nothing changes."""
        self.dismiss(None)


def refused_because(error: Exception) -> str:
    """Return the line above the summaries after a summary was rejected."""
    return f"Not taken: {one_line(str(error), 300)}"


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
