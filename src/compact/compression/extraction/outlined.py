"""What is said of messages of which there is nothing to tell: which tools were called how often and
on what; else how the longest of them begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compact.compression.extraction.story import shortened
from compact.core import anchors
from compact.core.checkpoints import REFERENCE_LINE, summary_of
from compact.core.messages import Message, ToolCall, short_id
from compact.core.recalls import asks
from compact.core.tokens import TokenCounter

MOST_TOOLS, MOST_BEGINNINGS = 5, 3
"""Tools that a line names, the most used ones, and messages that it quotes, the longest ones."""
LINE_TOKENS, ON_CHARS, BEGINNING_TOKENS, TEXT_CHARS = 80, 60, 16, 2_000
"""Tokens of the line, and characters of what one call was about; tokens of how a message begins,
and characters that are read of it."""


def outlined(messages: Sequence[Message], most: int, counter: TokenCounter) -> str:
    """One line of what was done; without any call, how the longest messages begin, or what an
    earlier checkpoint told; within so many tokens, as far as a few words are.
    """
    calls: dict[str, list[ToolCall]] = {}
    for call in (call for message in messages for call in message.tool_calls if not asks(call)):
        calls.setdefault(call.name, []).append(call)
    often = sorted(calls.items(), key=lambda row: -len(row[1]))
    done = [_called(name, rows) for name, rows in often[:MOST_TOOLS]]
    if len(often) > MOST_TOOLS:
        done.append(f"{len(often) - MOST_TOOLS} other tools")
    if done:
        return shortened(f"- Called {'; '.join(done)}", min(most, LINE_TOKENS), counter)
    told = [summary_of(m.text) for m in messages if m.metadata.source == "checkpoint"]
    if earlier := "\n".join(told).replace(REFERENCE_LINE, "").strip():
        return shortened(earlier, most, counter)
    lines = list[str]()
    for line in _beginnings(messages, counter):
        if counter.text("\n".join([*lines, line])) <= most:
            lines.append(line)
    return "\n".join(lines)


def _called(name: str, calls: Sequence[ToolCall]) -> str:
    """A tool, how often it was called, and what about first and last."""
    on = list(dict.fromkeys(filter(None, map(_about, calls))))
    times = "once" if len(calls) == 1 else f"{len(calls):,} times"
    about = f" ({' … '.join(dict.fromkeys((on[0], on[-1])))})" if on else ""
    return f"{name} {times}{about}"


def _about(call: ToolCall) -> str:
    words = next((value for _, value in anchors.strings_of(call.arguments) if value.strip()), "")
    line = " ".join(words.strip().splitlines()[0].split()) if words else ""
    return f"`{line[:ON_CHARS]}{'…' if len(line) > ON_CHARS else ''}`" if line else ""


def _beginnings(messages: Sequence[Message], counter: TokenCounter) -> Iterator[str]:
    said = [m for m in messages if m.text.strip() and m.role in ("user", "assistant")]
    longest = sorted(said, key=lambda m: -len(m.text))[:MOST_BEGINNINGS]
    for message in (m for m in said if m in longest):
        words = shortened(" ".join(message.text[:TEXT_CHARS].split()), BEGINNING_TOKENS, counter)
        speaker = "User" if message.role == "user" else "Assistant"
        size = f", {len(message.text):,} characters" if words.endswith("…") else ""
        yield f"- {speaker} ({short_id(message.id)}{size}): “{words}”"
