"""The active context: exactly what a model is sent, and the only layer that may be sent."""

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
    """Messages in the order of the log, a checkpoint standing at its span's start."""

    messages: tuple[Message, ...]
    """Each as the history keeps it; `sent` is what goes out."""
    seams: tuple[int, ...] = ()
    """Indexes of the messages that are sent as one with the message before them."""
    strict_turns: bool = False
    """Whether the model's server refuses any two messages of one role side by side."""
    tokens: int = Field(ge=0)
    """Tokens of the whole prompt: messages, framing, and what the caller put beside them."""
    checkpoints: tuple[Checkpoint, ...] = ()
    system: str | tuple[Mapping[str, Any], ...] | None = None
    """A system prompt in a field of its own, beside the messages: text, or a provider's blocks."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tool schemas that are sent along, as the caller's provider writes them."""

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def sent(self) -> list[Message]:
        """The messages as they go out: two of one role that a compression brought together are one
        (`messages.alternation`).
        """
        if self.strict_turns:
            return [message for _, message in in_turns([(None, m) for m in self.messages])]
        return sent(self.messages, self.seams)

    def owned(self) -> Self:
        """The same with dictionaries of its own: for somebody else, who may change theirs."""
        beside = {"system": copied(self.system), "tools": copied(self.tools)}
        messages = tuple(map(copied_message, self.messages))
        return self.model_copy(update={"messages": messages, **beside})

    @property
    def system_text(self) -> str:
        """The system prompt that stands in a field of its own, as one text."""
        if self.system is None or isinstance(self.system, str):
            return carried(self.system or "")
        return carried("\n\n".join(str(block.get("text", "")) for block in self.system))

    def render_text(self) -> str:
        """The model-visible text of the context: what tokens mean here."""
        system = self.system_text
        before = [Message(role="system", content=system)] if system else []
        return render_text([*before, *self.messages])


def sendable(value: object) -> ActiveContext:
    """The value itself, if it may be handed to a model: for callers whose types nobody checks.

    Raises:
        WrongLayer: it is not an active context; the text says what it is and where to get one.
    """
    if isinstance(value, ActiveContext):
        return value
    raise WrongLayer(
        f"only an ActiveContext may be handed to a model, got a {type(value).__name__}: "
        "a history or a snapshot knows no budget; take ContextManager.active_context()"
    )


def render_text(messages: Sequence[Message]) -> str:
    """Messages as plain text, each under its role; no more tokens than they are counted as."""
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
