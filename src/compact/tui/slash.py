"""The slash commands: their names, and how to find the command in a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from compact.text.modes import ModeName


class SlashCommand(NamedTuple):
    """A command, as the help page lists it."""

    name: str
    arguments: str
    help: str

    @property
    def usage(self) -> str:
        """The command with its arguments."""
        return f"/{self.name} {self.arguments}".rstrip()


COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand("help", "", "Keys and commands"),
    SlashCommand("compact", "[GUIDANCE]", "Compress now; say what else a summary should keep"),
    SlashCommand("review", "[GUIDANCE]", "Read, edit or refuse summaries before they count"),
    SlashCommand("undo", "", "Undo the last compression, restore or branch"),
    SlashCommand("redo", "", "Reverse the last undo"),
    SlashCommand("checkpoints", "[N]", "Read the checkpoints; with N the messages behind one"),
    SlashCommand("goal", "[TEXT]", "List the goals, or add one; done N, drop N"),
    SlashCommand("mode", "[NAME]", "Show or set what the session is used for"),
    SlashCommand("model", "[KEY]", "List models, or go on with another one"),
    SlashCommand("pin", "[N]", "Keep message N word for word; also off N, list"),
    SlashCommand("remember", "[TEXT]", "Keep a text, or your last message, for good"),
    SlashCommand("history", "[N]", "Read everything that was said, from message N"),
    SlashCommand("search", "WORDS", "Find messages, whatever was compressed"),
    SlashCommand("snapshot", "[NOTE]", "Save the state of the session"),
    SlashCommand("restore", "[N]", "List snapshots, or go back to one"),
    SlashCommand("export", "[FILE]", "Write the session to a .md or .json file"),
    SlashCommand("retry", "", "Ask again for the answer that is missing"),
    SlashCommand("quit", "", "End; everything is kept"),
)
"""All slash commands, in the order of help."""

NAMES = tuple(command.name for command in COMMANDS)


def command_in(text: str) -> tuple[str, str] | None:
    """Return the command in a text and its argument. Return None if the text is for the model. A
    path such as `/usr/bin` is for the model, and so is a text that begins with `//`.
    """
    first, _, rest = text.strip().partition(" ")
    name = first[1:]
    if not first.startswith("/") or not name.isalpha():
        return None
    return name.lower(), rest.strip()


def text_to_model(text: str) -> str:
    """Return the text to send to the model. If it begins with two slashes, one is removed."""
    return text[1:] if text.startswith("//") else text


KEEPS: Mapping[ModeName, str] = {
    "assistant": "What was asked and answered",
    "developer": "Code, files, interfaces",
    "planning": "Goals, requirements, decisions",
    "debugger": "Errors, how to reproduce them, attempts",
    "user": "What a file of your own says",
}
"""Mode → what summaries keep first in it."""


def completions(text: str) -> list[SlashCommand]:
    """Return the commands or modes that begin with the text, or none if it is complete."""
    if text.lower().startswith("/mode "):
        start = text[len("/mode ") :].strip().lower()
        return [
            SlashCommand(f"mode {name}", "", keeps)
            for name, keeps in KEEPS.items()
            if name.startswith(start) and name != start
        ]
    if not text.startswith("/") or " " in text or "\n" in text:
        return []
    commands = [c for c in COMMANDS if c.name.startswith(text[1:].lower())]
    return [] if [c.name for c in commands] == [text[1:].lower()] else commands
