"""Messages in few words, for tests of what is made of them."""

import json
from collections.abc import Mapping

from compact import Message
from compact.engine.checkpoint_text import Composer
from compact.engine.chronology.composing import Chronology
from compact.engine.chronology.notes import Notes
from compact.engine.visible import VisibleText
from compact.messages.messages import MessageMetadata, PersonWords
from compact.messages.tokens import TokenCounter
from compact.models.providers.tokenizers import tokenizer

COUNTER = TokenCounter(tokenizer("o200k"))


def said(role: str, text: str, **more: object) -> Message:
    return Message.of({"role": role, "content": text, **more})


def call(call_id: str, name: str, arguments: Mapping[str, object]) -> Message:
    part = {"type": "tool_call", "id": call_id, "name": name, "arguments": json.dumps(arguments)}
    return Message.of({"role": "assistant", "content": [part]})


def result(call_id: str, text: str, *, is_error: bool = False) -> Message:
    part = {"type": "tool_result", "call_id": call_id, "text": text, "is_error": is_error}
    return Message.of({"role": "tool", "content": [part]})


def refused(call_id: str, text: str, words: str) -> Message:
    """A call that a person refused, with their words, as a reader of a file knew it."""
    said = MessageMetadata(said=(PersonWords("refusal", words, call_id=call_id),))
    return result(call_id, text, is_error=True).model_copy(update={"metadata": said})


def run(number: int, command: str, output: str) -> list[Message]:
    """A command and what came of it."""
    return [call(f"run{number}", "run", {"command": command}), result(f"run{number}", output)]


def fail(number: int, command: str, output: str) -> list[Message]:
    """A command that failed, and what it said."""
    asked, _ = run(number, command, output)
    return [asked, result(f"run{number}", output, is_error=True)]


def edit(number: int, path: str = "src/app/mail.py", old: str = "a", new: str = "b") -> list:
    arguments = {"file_path": path, "old_string": old, "new_string": new}
    return [call(f"edit{number}", "edit", arguments), result(f"edit{number}", "done")]


def notes_of(messages: list[Message]) -> Notes:
    return Notes().read(messages)


def story(messages: list[Message], cap: int = 600, seen: str = "", **more: object) -> str:
    """The chronology of these messages in so many tokens; `seen` is what stands beside it."""
    chronology = Chronology(notes_of(messages), COUNTER, seen=VisibleText([seen]), **more)  # type: ignore[arg-type]
    return chronology.told(cap)


def composed(messages: list[Message], room: int = 900, seen: str = "", **more: object) -> str:
    """A whole checkpoint as code writes it, its chronology among it."""
    composer = Composer(notes_of(messages), COUNTER, VisibleText([seen]), **more)  # type: ignore[arg-type]
    return composer.written(None, room)


def section(text: str, title: str) -> str:
    """What stands below a heading of a checkpoint; empty where it has no such section."""
    _, found, rest = text.partition(f"## {title}\n")
    return rest.split("\n## ")[0].rstrip("\n") if found else ""
