"""The layout: which groups are in view and in which form. Values only; `ladder` makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from compact.engine.forms import ClosedMessages, GroupForms
from compact.engine.plan import Reason
from compact.messages.alternation import GAP_TOKENS
from compact.messages.messages import Message

Form = Literal["verbatim", "masked", "clipped"]


@dataclass(slots=True)
class Piece:
    """Messages of one group in view, in their form, closed as providers accept them."""

    positions: tuple[int, ...]
    """Where they stand in the history; the group's other messages are in a piece of their own."""
    start: int
    """Where the group starts."""
    shape: ClosedMessages
    """How they are shown."""
    whole: ClosedMessages
    """The messages word for word."""
    pairs: int = 0
    """Tool results among them."""
    form: Form = "verbatim"
    spared: Message | None = None
    """The message whose words stay as they are, whatever becomes of the others."""
    why: Reason = "recent"
    """Why it is in view."""
    held: int | None = None
    """The position that it is held for; the others cannot be parted from it."""
    forms: GroupForms | None = None
    """What is known of it where it is the whole group."""

    @property
    def messages(self) -> Sequence[Message]:
        """The messages as they are shown."""
        return self.shape.messages

    @property
    def tokens(self) -> int:
        """Their tokens."""
        return self.shape.tokens

    def show(self, shape: ClosedMessages, form: Form) -> None:
        """Take another form."""
        self.shape, self.form = shape, form


@dataclass(slots=True)
class Layout:
    """What is in view."""

    limit: int
    """Tokens that what is in view and the checkpoint may take together."""
    since: int = 0
    """What stands before it is covered already and stays so, except ..."""
    spared: frozenset[int] = frozenset()
    """... these positions, which have been in view all along."""
    cut: int = 0
    """Everything before it that is not held is covered."""
    held: dict[int, Piece] = field(default_factory=dict)
    """What stays beside the tail, by position: system prompt, pins, messages of a person."""
    tail: list[Piece] = field(default_factory=list)
    """The newest groups, newest first, without what is held."""
    floor: dict[str, int] = field(default_factory=dict)
    """Tokens of what may not be shortened, by part."""
    recent: int = 0
    """Where the recent turns start, as many as the policy wants; the cut may come after it."""
    users_kept: int = 0
    users_wanted: int = 0
    marked: list[int] = field(default_factory=list)
    """Positions that are marked important, and for which there was no room beside the tail."""
    tokens: int = 0
    """Tokens in view, the checkpoint left out."""

    def is_gone(self, position: int) -> bool:
        """Whether a message was covered by an earlier compression."""
        return position < self.since and position not in self.spared

    def hold(self, piece: Piece) -> None:
        """Keep a piece in view beside the tail."""
        self.held.update(dict.fromkeys(piece.positions, piece))
        self.tokens += piece.tokens + (
            GAP_TOKENS if piece.pairs else 0
        )  # may need a word behind it

    def reach(self, piece: Piece) -> None:
        """Let the tail begin with this piece."""
        self.tail.append(piece)
        self.tokens += piece.tokens
        self.cut = piece.start

    def reshape(self, piece: Piece, shape: ClosedMessages, form: Form) -> None:
        """Give a piece in view another form."""
        self.tokens += shape.tokens - piece.tokens
        piece.show(shape, form)

    def pieces(self) -> list[Piece]:
        """Everything in view, in the order of the log."""
        rows = [p for p in (*self.beside(), *self.tail) if p.positions]
        return sorted(rows, key=lambda piece: piece.positions[0])

    def beside(self) -> list[Piece]:
        """What is held beside the tail, each piece once."""
        return list({id(piece): piece for piece in self.held.values()}.values())

    def covered(self) -> list[int]:
        """Positions from `since` on that the checkpoint stands in for, in order."""
        found, start = list[int](), self.since
        for held in sorted(i for i in self.held if start <= i < self.cut):
            found.extend(range(start, held))
            start = held + 1
        found.extend(range(start, self.cut))
        return found
