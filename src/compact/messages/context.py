"""The active context: exactly what a model is sent. Nothing else may be sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from pydantic import BaseModel, Field

from compact.errors import WrongLayer
from compact.messages.alternation import in_turns, sent
from compact.messages.characters import carried
from compact.messages.checkpoints import Checkpoint
from compact.messages.copies import copied, copied_message
from compact.messages.messages import Image, Message, ToolCall


class ActiveContext(BaseModel, frozen=True, defer_build=True):
    """The messages of a prompt, in the log's order. A checkpoint is at the start of its span."""

    messages: tuple[Message, ...]
    """The messages as the history keeps them. The property `sent` gives what is sent."""
    seams: tuple[int, ...] = ()
    """Indexes of messages that are sent joined with the message before them."""
    strict_turns: bool = False
    """Whether the server refuses two messages of one role in a row."""
    tokens: int = Field(ge=0)
    """Tokens of the whole prompt: messages, framing, separate system field and tools."""
    checkpoints: tuple[Checkpoint, ...] = ()
    system: str | tuple[Mapping[str, Any], ...] | None = None
    """The content of a separate system field, if there is one: text, or a provider's blocks."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tool schemas that are sent with the messages, in the form of the caller's provider."""

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def sent(self) -> list[Message]:
        """The messages as sent. Two messages of one role are joined if a compression brought them
        together (`messages.alternation`).
        """
        if self.strict_turns:
            return [message for _, message in in_turns([(None, m) for m in self.messages])]
        return sent(self.messages, self.seams)

    def owned(self) -> Self:
        """Return a copy with its own dictionaries, for callers that may change them."""
        beside = {"system": copied(self.system), "tools": copied(self.tools)}
        messages = tuple(map(copied_message, self.messages))
        return self.model_copy(update={"messages": messages, **beside})

    @property
    def system_text(self) -> str:
        """The content of the separate system field as one text."""
        if self.system is None or isinstance(self.system, str):
            return carried(self.system or "")
        return carried("\n\n".join(str(block.get("text", "")) for block in self.system))

    def render_text(self) -> str:
        """Return the context as text: the part of a prompt that is counted as tokens."""
        system = self.system_text
        before = [Message(role="system", content=system)] if system else []
        return render_text([*before, *self.messages])


def sendable(value: object) -> ActiveContext:
    """Return the value if it is an active context. It serves callers without type checks.

    Raises:
        WrongLayer: the value is something else; the error says what, and where to get a context.
    """
    if isinstance(value, ActiveContext):
        return value
    raise WrongLayer(
        f"only an ActiveContext may be handed to a model, got a {type(value).__name__}: "
        "a history or a snapshot knows no budget; take ContextManager.active_context()"
    )


def render_text(messages: Sequence[Message]) -> str:
    """Return messages as text, each under its role. It has at most the counted tokens."""
    return "\n".join(f"{m.role}:\n" + "\n".join(_visible(m)) for m in messages)


def _visible(message: Message) -> Iterator[str]:
    if isinstance(message.content, str):
        yield message.content
        return
    for part in message.content:
        match part:
            case ToolCall():
                yield f"{part.name} {part.arguments}"
            case Image():
                yield "[image]"
            case _:
                yield part.text
