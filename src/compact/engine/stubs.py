"""Stubs: the one line that stands in for a tool's output in view.

It says what matters for going on without it: which output it was, of which tool, what the tool was
asked for, what came of it, and how large it was. The output is found again by its id.
"""

from __future__ import annotations

from compact.messages.messages import ToolCall, ToolResult
from compact.patterns import regex

TARGET_CHARS, OUTCOME_CHARS, LINE_CHARS = 48, 80, 800
"""Characters that may say what was done, and what came of it, and of a line that is read for it."""
_PATH = regex(r"[\w.@:+-]*[/\\][\w.@:+/\\-]+")
_FOLDERS = regex(r"(?:[\w.@-]+/)+")


def stub(result: ToolResult, call: ToolCall | None, tokens: int) -> str:
    """What stands in for a tool's output: id, tool, target, outcome or beginning, and size."""
    from compact.text.outcomes import command_of, outcome_of, target_of

    lines = result.text.strip().splitlines()
    name, target = call.name if call else result.name or "tool", target_of(call) if call else ""
    outcome = str(outcome_of(result, call) or "")
    if not outcome and (call is None or not target or command_of(call)):
        outcome = f"begins: {lines[0].strip()[:LINE_CHARS]}" if lines else "(no text)"
    if len(outcome) > OUTCOME_CHARS:
        outcome = _FOLDERS.sub("", outcome)
    is_path = bool(_PATH.fullmatch(target))
    tool = f"{name} `{_short(target, TARGET_CHARS, tail=is_path)}`" if target else name
    about = [tool, _short(outcome, OUTCOME_CHARS), f"{tokens:,} tokens, {len(lines):,} lines"]
    return f"[output {result.call_id} masked · {' · '.join(filter(None, about))}]"


def _short(text: str, most: int, *, tail: bool = False) -> str:
    """The text within so many characters, its tail or its head."""
    if len(text) <= most:
        return text
    return f"…{text[1 - most :]}" if tail else f"{text[: most - 1].rstrip()}…"
