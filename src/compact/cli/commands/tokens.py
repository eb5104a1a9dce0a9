"""`compactctl tokens`: tokens by kind and by tool. Every token is counted once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compact import wiring
from compact.cli.jobs import FileOptions, job_of
from compact.cli.options import command
from compact.cli.plans import source_json, source_parts
from compact.cli.progress import Progress
from compact.cli.render import Report, Styled, Table
from compact.cli.words import counted, one_line
from compact.messages.messages import Image, Message, Text, Thinking, ToolCall, ToolResult
from compact.messages.tokens import TokenCounter, image_tokens
from compact.text.speakers import person_text, speaker_of

KINDS: Mapping[str, str] = {
    "system": "system prompt",
    "tools": "tool schemas",
    "person": "person",
    "assistant": "assistant",
    "reasoning": "reasoning",
    "tool_calls": "tool calls",
    "tool_results": "tool results",
    "observation": "observations",
    "images": "images",
    "injected": "injected reminders",
    "checkpoint": "checkpoints",
    "framing": "framing",
}
"""Kind → its name, in the order of the table."""
TOOLS_SHOWN = 15
"""Tools with a row, those with the most tokens; a line counts the others."""


@command
def tokens(options: FileOptions) -> Report:
    """Show where the tokens go.

    Lists tokens by kind (a person's words, reasoning, tool results, ...) and by tool, with shares.
    Counts are exact for OpenAI's tokenizers; estimates are labelled, with their margin.

    Examples:
      compactctl tokens session.jsonl
      compactctl tokens session.jsonl --tokenizer o200k --json
    """
    with Progress("Counting"):
        job = job_of(options)
        usage = usage_of(job.transcript, job.counter)
    yield {**source_json(job), "messages": len(job.messages), **_json(usage)}
    total = f"{counted(usage.tokens, 'token')} in {counted(len(job.messages), 'message')}"
    yield Styled(total, "bold")
    yield from source_parts(job)
    window = job.settings.window()
    if window is not None:
        share = usage.tokens / max(1, window.usable)
        part = f"{share:.0%} of the {window.usable:,} tokens a prompt may use of the window"
        yield Styled(part, "red" if share > 1 else "")
    yield ""
    yield _kinds(usage)
    if tools := usage.by_tool():
        yield ""
        yield _tools(usage)
    if len(tools) > TOOLS_SHOWN:
        yield f"and {counted(len(tools) - TOOLS_SHOWN, 'more tool')}: --json lists all"


def _json(usage: WindowUsage) -> dict[str, Any]:
    total = max(1, usage.tokens)
    return {
        "tokens": usage.tokens,
        "kinds": {
            kind: {
                "pieces": amount.pieces,
                "tokens": amount.tokens,
                "share": round(amount.tokens / total, 4),
            }
            for kind, amount in usage.kinds.items()
        },
        "tools": {
            name: {
                "calls": calls.pieces,
                "call_tokens": calls.tokens,
                "result_tokens": results.tokens,
                "share": round((calls.tokens + results.tokens) / total, 4),
            }
            for name, calls, results in usage.by_tool()
        },
    }


def _kinds(usage: WindowUsage) -> Table:
    numbers = ("pieces", "tokens", "share")
    rows = []
    for kind, amount in usage.kinds.items():
        if amount.tokens:
            share = amount.tokens / usage.tokens
            rows.append((KINDS[kind], amount.pieces, amount.tokens, f"{share:.1%}"))
    return Table(("kind", *numbers), rows, right=numbers)


def _tools(usage: WindowUsage) -> Table:
    numbers = ("calls", "in calls", "in results", "share")
    rows = []
    for name, calls, results in usage.by_tool()[:TOOLS_SHOWN]:
        share = (calls.tokens + results.tokens) / usage.tokens
        counts = (calls.pieces, calls.tokens, results.tokens, f"{share:.1%}")
        rows.append((one_line(name, 40), *counts))
    return Table(("tool", *numbers), rows, right=numbers)


# --- counting -------------------------------------------------------------------------------------


@dataclass
class Amount:
    """A number of pieces and their tokens."""

    pieces: int = 0
    tokens: int = 0

    def add(self, tokens: int) -> None:
        """Count one more piece."""
        self.pieces += 1
        self.tokens += tokens


@dataclass
class WindowUsage:
    """Tokens by kind, and by tool."""

    kinds: dict[str, Amount] = field(default_factory=lambda: {kind: Amount() for kind in KINDS})
    tools: dict[str, tuple[Amount, Amount]] = field(default_factory=dict)
    """Tool → its calls, its results."""

    @property
    def tokens(self) -> int:
        """The tokens of a prompt of this conversation."""
        return sum(amount.tokens for amount in self.kinds.values())

    def of_tool(self, name: str) -> tuple[Amount, Amount]:
        """The calls and the results of a tool."""
        return self.tools.setdefault(name, (Amount(), Amount()))

    def by_tool(self) -> list[tuple[str, Amount, Amount]]:
        """Tools with calls and results, the costliest first."""
        rows = [(name, calls, results) for name, (calls, results) in self.tools.items()]
        return sorted(rows, key=lambda row: (-row[1].tokens - row[2].tokens, row[0]))


def usage_of(transcript: wiring.Transcript, counter: TokenCounter) -> WindowUsage:
    """The tokens of a conversation by kind and tool."""
    usage = WindowUsage()
    names = {call.id: call.name for m in transcript.messages for call in m.tool_calls}
    for message in transcript.messages:
        around = counter.message(message)
        for kind, tokens in _kinds_of(message, counter):
            usage.kinds[kind].add(tokens)
            around -= tokens
        usage.kinds["framing"].add(around)
        for part in message.parts:
            match part:
                case ToolCall():
                    usage.of_tool(part.name)[0].add(counter.part(part))
                case ToolResult():
                    name = part.name or names.get(part.call_id, "(unknown)")
                    usage.of_tool(name)[1].add(counter.part(part))
    usage.kinds["framing"].tokens += counter.framing.priming
    schemas = counter.tools(transcript.tools)
    usage.kinds["tools"] = Amount(len(transcript.tools), schemas)
    return usage


def _kinds_of(message: Message, counter: TokenCounter) -> Iterator[tuple[str, int]]:
    speaker = speaker_of(message)
    kind = "tool_results" if speaker == "tool" else speaker
    for part in message.parts:
        match part:
            case Thinking():
                yield "reasoning", counter.part(part)
            case ToolCall():
                yield "tool_calls", counter.part(part)
            case ToolResult():
                pictures = _pictures(part.images, counter)
                yield "tool_results", counter.part(part) - pictures
                if pictures:
                    yield "images", pictures
            case Image():
                yield "images", counter.part(part)
            case Text() if speaker == "person":
                yield from _person(message, part, counter)
            case _:
                yield kind, counter.part(part)


def _person(message: Message, part: Text, counter: TokenCounter) -> Iterator[tuple[str, int]]:
    """The user's words, and text that a tool injected into the same message."""
    total = counter.part(part)
    alone = message.model_copy(update={"content": part.text})
    spoken = min(total, counter.text(person_text(alone))) if "<" in part.text else total
    yield "person", spoken
    if total - spoken:
        yield "injected", total - spoken


def _pictures(images: Sequence[Image], counter: TokenCounter) -> int:
    return sum(image_tokens(image, counter.framing.images) for image in images)
