"""The prompt orchestrator: a system prompt of named parts within a tier's budget (FR-16, FR-11).

What does not fit is left out whole, and said: nothing is cut, and compression never touches what
stands here. Goals have a message of their own after it, outside the budget; checkpoints follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from pydantic import BaseModel, Field

from compact.messages.messages import Message, MessageMetadata
from compact.messages.own_text import OwnText
from compact.text.modes import Length, Mode
from compact.text.templates import template

SMALL, MEDIUM = 500, 1_000
"""Budgets of the tiers 2 and 3, in tokens: up to the first a sanity check is added; a budget below
the one takes the short texts, below the other the medium ones, else the long ones."""


class Note(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """A named text: a skill, what is to be known of a tool, a hook, an MCP prompt."""

    name: str = Field(min_length=1)
    text: str = Field(min_length=1)


class PromptParts(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """What a system prompt is assembled of, beside the mode's own text."""

    mandates: str | None = None
    """Rules that hold in every mode; None for compact's own, an empty text for none."""
    skills: tuple[Note, ...] = ()
    tools: tuple[Note, ...] = ()
    hooks: tuple[Note, ...] = ()
    mcp_prompts: tuple[Note, ...] = ()
    instructions: str = ""
    """What the person wants said in addition."""
    markers: bool = True
    """Whether the model is told how to report progress on goals."""


class LeftOut(NamedTuple):
    """A part that is not in the prompt."""

    part: str
    tokens: int
    reason: str


class SystemPrompt(NamedTuple):
    """An assembled system prompt."""

    text: str
    tokens: int
    budget: int
    """Tokens it may have."""
    included: tuple[str, ...]
    """Its parts, in their places."""
    left_out: tuple[LeftOut, ...] = ()


class _Part(NamedTuple):
    name: str
    texts: tuple[str, ...]
    """Its text in all lengths, the one to be preferred first."""
    place: int


def assemble(
    parts: PromptParts, *, mode: Mode, tier_budget: int, count: Callable[[str], int]
) -> SystemPrompt:
    """The system prompt for a mode, of at most `tier_budget` tokens by `count`.

    Parts are taken by precedence (mode, mandates, the person's instructions, sanity checks, goal
    markers, skills, tools, hooks, MCP prompts) and stand in their places: the instructions last.
    Each is there whole, in a shorter form of ours where only that fits, or is left out.
    """
    chosen: list[tuple[int, str, str]] = []
    left_out: list[LeftOut] = []
    for part in _parts(parts, mode, tier_budget):
        for text in part.texts:
            tried = sorted([*chosen, (part.place, part.name, text)], key=lambda each: each[0])
            if count(_joined(tried)) <= tier_budget:
                chosen = tried
                break
        else:
            needed = count(part.texts[-1])
            free = max(0, tier_budget - count(_joined(chosen)))
            left_out.append(LeftOut(part.name, needed, _reason(needed, free, tier_budget)))
    text = _joined(chosen)
    included = tuple(name for _, name, _ in chosen)
    return SystemPrompt(text, count(text), tier_budget, included, tuple(left_out))


def prompt_message(prompt: SystemPrompt, own: OwnText) -> Message | None:
    """The system prompt as the first message, for formats without a field for it; None if empty."""
    if not prompt.text:
        return None
    return Message(
        role="system",
        content=own.under("Prompt", prompt.text),
        id=f"prompt-{own.digest(prompt.text)}",
        timestamp=datetime.fromtimestamp(0, UTC),
        metadata=MessageMetadata(source="prompt"),
    )


def how_to_mark() -> str:
    """What a model is told of how to report progress on goals, by examples."""
    return template("system/markers.md")


def _joined(chosen: list[tuple[int, str, str]]) -> str:
    return "\n\n".join(text for _, _, text in chosen)


def _reason(needed: int, free: int, budget: int) -> str:
    if needed > budget:
        return f"larger than the whole budget of {budget:,} tokens"
    return f"only {free:,} of {budget:,} tokens are left"


def _parts(parts: PromptParts, mode: Mode, budget: int) -> Iterator[_Part]:
    """The parts that there are, by precedence, each with its place."""
    lengths = _lengths(budget)
    own = tuple(dict.fromkeys(mode.text(length) for length in lengths))
    yield _Part(f"mode {mode.name}", own, 0)
    if parts.mandates is None:
        long = ("long",) if lengths[0] != "short" else ()
        ours = tuple(template(f"system/mandates.{each}.md") for each in (*long, "short"))
        yield _Part("mandates", ours, 1)
    elif parts.mandates:
        yield _Part("mandates", (parts.mandates,), 1)
    if parts.instructions:
        yield _Part("instructions", (parts.instructions,), 8)
    if budget <= SMALL:
        yield _Part("sanity checks", (template("system/sanity.md"),), 7)
    if parts.markers:
        yield _Part("goal markers", (how_to_mark(),), 2)
    groups = (parts.skills, parts.tools, parts.hooks, parts.mcp_prompts)
    for place, (kind, notes) in enumerate(zip(_KINDS, groups, strict=True), 3):
        for note in notes:
            yield _Part(f"{kind} {note.name}", (f"## {kind} {note.name}\n{note.text}",), place)


_KINDS = ("Skill", "Tool", "Hook", "MCP prompt")


def _lengths(budget: int) -> tuple[Length, ...]:
    """The lengths of texts for a budget, the one to be preferred first."""
    if budget < SMALL:
        return ("short",)
    return ("medium", "short") if budget < MEDIUM else ("long", "medium", "short")
