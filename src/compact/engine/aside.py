"""How a message is shown that somebody put aside: head and tail of its texts, and a line for what
has neither. Its original stays in the history under its id.
"""

from __future__ import annotations

from compact.engine import shorten
from compact.messages.messages import Image, Message, Opaque, Part, Text, ToolResult
from compact.messages.tokens import TokenCounter


def aside(message: Message, max_tokens: int, counter: TokenCounter) -> Message:
    """The message as it is shown when it is put aside: within `max_tokens` as far as clipping its
    texts can bring it there; where that cannot, a line stands in the place of what has no head and
    tail, such as a picture or a document, the largest first.
    """
    short = shorten.clipped(message, max_tokens, counter)
    if isinstance(short.content, str):
        return short
    parts = list(short.content)
    for whole in sorted(message.parts, key=counter.part, reverse=True):
        if counter.message(short) <= max_tokens:
            break
        at = next((i for i, part in enumerate(parts) if part is whole), None)
        if at is not None:
            line = _left_out(parts[at], message, counter)
            if counter.part(line) < counter.part(parts[at]):
                parts[at] = line
                short = message.with_parts(parts)
    return short


def _left_out(part: Part, message: Message, counter: TokenCounter) -> Part:
    """What stands in the place of a part that has no head and tail; every other part itself."""
    kind = part.raw.get("type", part.type) if part.raw else part.type
    what = "pictures" if isinstance(part, ToolResult) else kind
    line = f"[… {what} of about {counter.part(part):,} tokens left out; the whole is message "
    line += f"{message.id} …]"
    match part:
        case Image() | Opaque():
            return Text(line)
        case ToolResult(images=[_, *_]):
            text = f"{part.text}\n{line}" if part.text else line
            return ToolResult(part.call_id, text, part.name, part.is_error, raw=part.raw)
        case _:
            return part
