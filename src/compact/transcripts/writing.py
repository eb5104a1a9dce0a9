"""Writes messages as a file of the same kind as the file that they were read from.

Claude Code sessions become Claude Code JSON Lines. Plain chat files keep their form. Every other
format becomes JSON Lines with one message on each line: Codex CLI rollouts as Responses items, all
others as chat completions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compact.messages.messages import Message, Thinking
from compact.transcripts import chat_json, claude_code, claude_code_writing
from compact.transcripts.transcript import Transcript, content_of


def writable(transcript: Transcript) -> Transcript:
    """Return the transcript without unwritable parts. A note tells what was left out."""
    if transcript.format == chat_json.NAME or transcript.wire != "chat_completions":
        return transcript
    messages: list[Message] = []
    removed = 0
    for message in transcript.messages:
        parts = [p for p in message.parts if not isinstance(p, Thinking) or p.raw is not None]
        removed += len(message.parts) - len(parts)
        if len(parts) == len(message.parts):
            messages.append(message)
        elif parts:
            update = {"content": content_of(parts), "token_count": None}
            messages.append(message.model_copy(update=update))
    if not removed:
        return transcript
    pieces = "piece" if removed == 1 else "pieces"
    note = f"{removed} {pieces} of reasoning, which chat completions have no place for"
    return replace(transcript, messages=tuple(messages), notes=(*transcript.notes, note))


def write(
    transcript: Transcript, messages: Sequence[Message], *, pre_tokens: int | None = None
) -> str:
    """Write the messages as the text of a file.

    If no message changed, the text of the original file is returned byte for byte, if the format
    can be written. Only a half-written last line is left out. `pre_tokens` is the number of tokens
    of the context before compression, for Claude Code's boundary row. By default it is estimated.
    """
    original = transcript.container.original
    if original is not None and _unchanged(transcript.messages, messages):
        return original.decode("utf-8")
    if transcript.format == claude_code.NAME:
        tokens = _estimate(transcript.messages) if pre_tokens is None else pre_tokens
        return claude_code_writing.render(transcript, messages, pre_tokens=tokens)
    return chat_json.render(transcript, messages)


def _unchanged(read: Sequence[Message], given: Sequence[Message]) -> bool:
    if len(read) != len(given):
        return False
    return all(
        a is b or (a.id == b.id and a.wire is not None and a.wire is b.wire and not b.edited)
        for a, b in zip(read, given, strict=True)
    )


def _estimate(messages: Sequence[Message]) -> int:
    """Return the sum of the messages' token counts. Unknown ones are characters / 4."""
    total = 0
    for message in messages:
        if message.token_count is not None:
            total += message.token_count
        else:
            texts = (getattr(p, "text", "") or getattr(p, "arguments", "") for p in message.parts)
            total += sum(map(len, texts)) // 4
    return total
