"""Assembles the system prompt from named parts, within a budget (FR-16, FR-11).

A part that does not fit is left out whole and reported. No part is cut. Compression never changes
the system prompt. Goals and then checkpoints follow in separate messages, outside the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from operator import itemgetter
from typing import NamedTuple

from pydantic import BaseModel, Field

from compact.messages.messages import Message, MessageMetadata
from compact.messages.own_text import OwnText
from compact.text.modes import Length, Mode
from compact.text.templates import template

SMALL, MEDIUM = 500, 1_000
"""Budgets in tokens. A prompt with a budget below `SMALL` uses the short texts, one with a budget
below `MEDIUM` the medium texts, and others the long texts. Up to `SMALL`, a sanity check is added.
"""


class Note(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """A named text: a skill, a note on a tool, a hook or an MCP prompt."""

    name: str = Field(min_length=1)
    text: str = Field(min_length=1)


class PromptParts(BaseModel, frozen=True, defer_build=True, extra="forbid"):
    """The parts of a system prompt other than the mode's text."""

    mandates: str | None = None
    """Rules for every mode. None means compact's own rules, an empty text means no rules."""
    skills: tuple[Note, ...] = ()
    tools: tuple[Note, ...] = ()
    hooks: tuple[Note, ...] = ()
    mcp_prompts: tuple[Note, ...] = ()
    instructions: str = ""
    """The user's own instructions."""
    markers: bool = True
    """Whether the prompt explains how to report progress on goals."""


class LeftOut(NamedTuple):
    """A part that was left out of the prompt."""

    part: str
    tokens: int
    reason: str


class SystemPrompt(NamedTuple):
    """An assembled system prompt."""

    text: str
    tokens: int
    budget: int
    """The most tokens that the prompt may have."""
    included: tuple[str, ...]
    """Names of the parts that are in the prompt, in order."""
    left_out: tuple[LeftOut, ...] = ()


class _Part(NamedTuple):
    name: str
    texts: tuple[str, ...]
    """The part's text in several lengths, the preferred one first."""
    place: int


def assemble(
    parts: PromptParts, *, mode: Mode, tier_budget: int, count: Callable[[str], int]
) -> SystemPrompt:
    """Assemble the system prompt for a mode, of at most `tier_budget` tokens by `count`.

    Parts are chosen by precedence: mode, mandates, the user's instructions, sanity checks, goal
    markers, skills, tools, hooks, MCP prompts. In the prompt, the instructions come last. A part is
    included whole or left out. If only compact's shorter text of a part fits, that text is used.
    """
    chosen: list[tuple[int, str, str]] = []
    left_out: list[LeftOut] = []
    for part in _parts(parts, mode, tier_budget):
        for text in part.texts:
            tried = sorted([*chosen, (part.place, part.name, text)], key=itemgetter(0))
            if count(_joined(tried)) <= tier_budget:
                chosen = tried
                break
        else:
            needed = count(part.texts[-1])
            free = max(0, tier_budget - count(_joined(chosen)))
            reason = f"only {free:,} of {tier_budget:,} tokens are left"
            if needed > tier_budget:
                reason = f"larger than the whole budget of {tier_budget:,} tokens"
            left_out.append(LeftOut(part.name, needed, reason))
    text = _joined(chosen)
    included = tuple(name for _, name, _ in chosen)
    return SystemPrompt(text, count(text), tier_budget, included, tuple(left_out))


def prompt_message(prompt: SystemPrompt, own: OwnText) -> Message | None:
    """Return the prompt as a message, for formats that have no system field; None if empty."""
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
    """Return the text that explains markers to a model, with examples."""
    return template("system/markers.md")


def _joined(chosen: list[tuple[int, str, str]]) -> str:
    return "\n\n".join(text for _, _, text in chosen)


def _parts(parts: PromptParts, mode: Mode, budget: int) -> Iterator[_Part]:
    """Yield the parts, the most important first. Each knows its place in the prompt."""
    lengths = _lengths(budget)
    own = tuple(dict.fromkeys(mode.text(length) for length in lengths))
    yield _Part(f"mode {mode.name}", own, 0)
    if parts.mandates is None:
        long = ("long",) if lengths[0] != "short" else ()
        ours = tuple(template(f"system/mandates.{length}.md") for length in (*long, "short"))
        yield _Part("mandates", ours, 1)
    elif parts.mandates:
        yield _Part("mandates", (parts.mandates,), 1)
    if parts.instructions:
        yield _Part("instructions", (parts.instructions,), 8)
    if budget <= SMALL:
        yield _Part("sanity checks", (template("system/sanity.md"),), 7)
    if parts.markers:
        yield _Part("goal markers", (how_to_mark(),), 2)
    groups = {
        "Skill": parts.skills,
        "Tool": parts.tools,
        "Hook": parts.hooks,
        "MCP prompt": parts.mcp_prompts,
    }
    for place, (kind, notes) in enumerate(groups.items(), 3):
        for note in notes:
            yield _Part(f"{kind} {note.name}", (f"## {kind} {note.name}\n{note.text}",), place)


def _lengths(budget: int) -> tuple[Length, ...]:
    if budget < SMALL:
        return ("short",)
    return ("medium", "short") if budget < MEDIUM else ("long", "medium", "short")
