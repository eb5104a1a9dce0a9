"""`compactctl tokens`: shows tokens by kind and by tool. Every token is counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
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
"""Kind of tokens → its name. The table has this order."""
TOOLS_SHOWN = 15
"""How many tools have a row: those with the most tokens. A line counts the others."""


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
    total = f"{counted(usage.total, 'token')} in {counted(len(job.messages), 'message')}"
    yield Styled(total, "bold")
    yield from source_parts(job)
    window = job.settings.window()
    if window is not None:
        share = usage.total / max(1, window.usable)
        part = f"{share:.0%} of the {window.usable:,} tokens a prompt may use of the window"
        yield Styled(part, "red" if share > 1 else "")
    yield ""
    numbers = ("pieces", "tokens", "share")
    rows = [
        (KINDS[kind], usage.pieces[kind], size, f"{size / usage.total:.1%}")
        for kind in KINDS
        if (size := usage.kinds[kind])
    ]
    yield Table(("kind", *numbers), rows, right=numbers)
    if tools := usage.by_tool():
        yield ""
        yield _tools(tools[:TOOLS_SHOWN], usage.total)
    if len(tools) > TOOLS_SHOWN:
        yield f"and {counted(len(tools) - TOOLS_SHOWN, 'more tool')}: --json lists all"


def _json(usage: WindowUsage) -> dict[str, Any]:
    def share(tokens: int) -> float:
        return round(tokens / max(1, usage.total), 4)

    kinds = {
        kind: {"pieces": usage.pieces[kind], "tokens": size, "share": share(size)}
        for kind in KINDS
        for size in (usage.kinds[kind],)
    }
    tools = {
        name: {
            "calls": calls,
            "call_tokens": asked,
            "result_tokens": answered,
            "share": share(asked + answered),
        }
        for name, calls, asked, answered in usage.by_tool()
    }
    return {"tokens": usage.total, "kinds": kinds, "tools": tools}


def _tools(tools: list[tuple[str, int, int, int]], total: int) -> Table:
    numbers = ("calls", "in calls", "in results", "share")
    rows = [
        (one_line(name, 40), calls, asked, answered, f"{(asked + answered) / total:.1%}")
        for name, calls, asked, answered in tools
    ]
    return Table(("tool", *numbers), rows, right=numbers)


# --- counting -------------------------------------------------------------------------------------


@dataclass
class WindowUsage:
    """Tokens by kind, and by tool."""

    kinds: Counter[str] = field(default_factory=Counter)
    pieces: Counter[str] = field(default_factory=Counter)
    """Kind → the number of parts of messages."""
    calls: Counter[str] = field(default_factory=Counter)
    in_calls: Counter[str] = field(default_factory=Counter)
    in_results: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """The tokens of a prompt that holds the whole conversation."""
        return self.kinds.total()

    def by_tool(self) -> list[tuple[str, int, int, int]]:
        """Return tools with their calls, tokens in calls and tokens in results, largest first."""
        sizes = self.in_calls + self.in_results
        names = sorted({*self.in_calls, *self.in_results}, key=lambda name: (-sizes[name], name))
        return [(n, self.calls[n], self.in_calls[n], self.in_results[n]) for n in names]


def usage_of(transcript: wiring.Transcript, counter: TokenCounter) -> WindowUsage:
    """Count the tokens of a conversation by kind and by tool."""
    usage = WindowUsage()
    names = {call.id: call.name for m in transcript.messages for call in m.tool_calls}
    for message in transcript.messages:
        around = counter.message(message)
        for kind, size in _kinds_of(message, counter):
            usage.kinds[kind] += size
            usage.pieces[kind] += 1
            around -= size
        usage.kinds["framing"] += around
        usage.pieces["framing"] += 1
        for part in message.parts:
            match part:
                case ToolCall():
                    usage.calls[part.name] += 1
                    usage.in_calls[part.name] += counter.part(part)
                case ToolResult():
                    name = part.name or names.get(part.call_id, "(unknown)")
                    usage.in_results[name] += counter.part(part)
    usage.kinds["framing"] += counter.framing.priming
    usage.kinds["tools"] = counter.tools(transcript.tools)
    usage.pieces["tools"] = len(transcript.tools)
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
                pictures = sum(image_tokens(i, counter.framing.images) for i in part.images)
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
    """Yield the tokens of the user's text, and of text that a tool injected into it."""
    total = counter.part(part)
    alone = message.model_copy(update={"content": part.text})
    spoken = min(total, counter.text(person_text(alone))) if "<" in part.text else total
    yield "person", spoken
    if total - spoken:
        yield "injected", total - spoken
