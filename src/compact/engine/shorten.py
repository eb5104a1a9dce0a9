"""Shorten single messages in the prompt. The originals stay in the history under their ids.

`masked` replaces tool output by a line (a stub). `clipped` keeps head and tail of the longest text.
`closed` answers open calls and turns results without a call into notes, so that no provider refuses
the prompt. `put_aside` shortens a message that the user put aside. Callers decide which message is
shortened and how far: `engine.ladder`, `session.recall`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compact.messages.arguments import json_or, leaves
from compact.messages.budget import even_share
from compact.messages.characters import with_texts
from compact.messages.formats.known import format_named
from compact.messages.messages import (
    Image,
    Message,
    MessageMetadata,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from compact.messages.tokens import TokenCounter
from compact.patterns import regex
from compact.text.said_within import words_within

STUB_TOKENS = 48
"""Tool output of at most this many tokens is left alone: a stub would be no shorter."""
LONG_ARGUMENT_CHARS = 600
"""Longest string, in characters, in an old call's arguments. Longer ones are clipped."""
HEAD_SHARE = 0.6
"""Share of a clipped text that is its head; the rest is its tail."""
ORPHAN = "[tool result that does not follow its call"
"""Start of the note that replaces a result without a call."""
_ANSWERED = "-unanswered"
_INJECTED = MessageMetadata(source="injected")
NO_RESULT = (
    "[no result was recorded for this call: it crashed, was interrupted, or still waits for "
    "approval]"
)


def masked(
    message: Message,
    calls: Mapping[str, ToolCall],
    counter: TokenCounter,
    *,
    reasoning: bool = False,
) -> Message:
    """Replace long tool output by stubs, clip long call arguments, and drop reasoning unless it is
    wanted. A result that holds the user's words stays.

    `calls` are the calls by their ids. Returns the same message if nothing gets shorter.
    """
    if isinstance(message.content, str):
        return message
    names = {call_id: call.name for call_id, call in calls.items()}
    said = {words.call_id for words in words_within(message, names)}
    parts: list[Part | None] = [
        p
        if (reasoning and isinstance(p, Thinking))
        or (isinstance(p, ToolResult) and p.call_id in said)
        else _masked_part(p, message, calls, counter)
        for p in message.parts
    ]
    if all(a is b for a, b in zip(parts, message.parts, strict=True)):
        return message
    return message.with_parts(p for p in parts if p is not None)


def without_reasoning(message: Message) -> Message:
    """Return the message without its reasoning, unless it has nothing else."""
    if isinstance(message.content, str):
        return message
    kept = [p for p in message.content if not isinstance(p, Thinking)]
    return message if not kept or len(kept) == len(message.content) else message.with_parts(kept)


def _masked_part(
    part: Part, message: Message, calls: Mapping[str, ToolCall], counter: TokenCounter
) -> Part | None:
    match part:
        case Thinking():
            alone = all(isinstance(p, Thinking) for p in message.parts)
            return part if alone else None
        case ToolResult():
            size = counter.part(part) - counter.framing.per_call
            if size <= STUB_TOKENS:
                return part
            text = stub(part, calls.get(part.call_id), size)
            if counter.text(text) >= size:
                return part
            return ToolResult(part.call_id, text, part.name, part.is_error, raw=part.raw)
        case ToolCall() if len(part.arguments) > LONG_ARGUMENT_CHARS:
            return _clipped_call(part)
        case Text() if part.text.startswith(ORPHAN) and counter.text(part.text) > 2 * STUB_TOKENS:
            return Text(clip_text(part.text, STUB_TOKENS, f"message {message.id}", counter))
        case _:
            return part


def _clipped_call(call: ToolCall) -> ToolCall:
    """Cut each long string argument of a call to its head."""
    arguments = _arguments(call)
    short = with_texts(arguments, _cut_head) if arguments else arguments
    return call if short == arguments else _call_with(call, short)


def _cut_head(value: str) -> str:
    if len(value) <= LONG_ARGUMENT_CHARS:
        return value
    head = value[: LONG_ARGUMENT_CHARS // 2]
    return f"{head} […{len(value) - len(head):,} more characters]"


def _fitted_call(call: ToolCall, max_tokens: int, counter: TokenCounter) -> ToolCall:
    """Clip the longest arguments of a call towards `max_tokens`."""
    for _ in range(8):  # the longest strings first
        excess = counter.part(call) - max_tokens
        arguments = _arguments(call)
        texts = (value for _, value in leaves(arguments) if isinstance(value, str))
        longest = max(texts, key=len, default="")
        if excess <= 0 or len(longest) < LONG_ARGUMENT_CHARS // 2:
            break
        room = max(0, counter.text(longest) - excess - excess // 8)
        clipped_text = clip_text(longest, room, f"in call {call.id}", counter)
        if len(clipped_text) >= len(longest):
            break
        call = _call_with(call, _replaced(arguments, longest, clipped_text))
    return call


def _replaced(arguments: object, old: str, new: str) -> object:
    return with_texts(arguments, lambda value: new if value == old else value)


def _arguments(call: ToolCall) -> dict[str, object] | None:
    value = json_or(call.arguments)
    return value if isinstance(value, dict) else None


def _call_with(call: ToolCall, arguments: object) -> ToolCall:
    text = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(call.id, call.name, text, raw=_raw_with(call, arguments, text))


def _raw_with(call: ToolCall, arguments: object, text: str) -> Mapping[str, Any] | None:
    """Put other arguments into the provider's block, as text or as an object as before."""
    if call.raw is None:
        return None
    for key in ("input", "arguments"):
        if key in call.raw:
            return {**call.raw, key: text if isinstance(call.raw[key], str) else arguments}
    for key in ("function", "custom"):
        if isinstance(call.raw.get(key), Mapping):
            inner = replace(call, raw=call.raw[key])
            return {**call.raw, key: _raw_with(inner, arguments, text)}
    return call.raw


def clip_text(text: str, max_tokens: int, reference: str, counter: TokenCounter) -> str:
    """Return head and tail of a text within `max_tokens`. A line between them says how much is
    missing, and `reference` names the original. A text that fits, or is no longer than that line,
    is returned whole. If there is no room for head and tail, only the line is returned.
    """
    total = counter.text(text)
    if total <= max_tokens:
        return text
    missing = max(1, total - max_tokens)
    gap = f"\n[… about {missing:,} tokens left out; the whole text is {reference} …]\n"
    room = max_tokens - counter.text(gap)
    if room < 8:
        return gap.strip() if counter.text(gap) < total else text
    count = counter.estimator.count
    low, high, best = 0, len(text), gap.strip()
    chars = int(len(text) * room / total)
    for _ in range(16):  # bisection: each guess is nearer to the largest text that fits
        head = int(chars * HEAD_SHARE)
        candidate = text[:head] + gap + text[len(text) - (chars - head) :]
        size = count(candidate)
        if size <= max_tokens:
            low, best = chars, candidate
            if size >= max_tokens - max(4, max_tokens // 100):
                break
        else:
            high = chars
        guess = int(chars * room / max(1, size - (max_tokens - room)))
        chars = guess if low < guess < high else (low + high) // 2
        if high - low <= 1:
            break
    return best


def clipped(
    message: Message,
    max_tokens: int,
    counter: TokenCounter,
    *,
    words: bool = True,
    reasoning: bool = False,
) -> Message:
    """Clip a message towards `max_tokens`: results before other text, or without `words` only
    results. Images and framing stay, so the message may still be larger.
    """
    if isinstance(message.content, str):
        room = max_tokens - counter.framing.per_message
        return message.model_copy(
            update={
                "content": clip_text(message.content, room, f"message {message.id}", counter),
                "token_count": None,
                "edited": True,
            }
        )
    parts = list(message.parts if reasoning else without_reasoning(message).parts)
    kinds = Part if words else ToolResult
    excess = counter.framing.per_message + sum(map(counter.part, parts)) - max_tokens
    results = [i for i, part in enumerate(parts) if isinstance(part, ToolResult)]
    sizes = [counter.part(parts[i]) for i in results]
    share = even_share(sizes, excess)
    for i, size in zip(results, sizes, strict=True):
        if size > share and len(results) > 1:
            parts[i] = _clipped_part(parts[i], share, message, counter)
            excess -= size - counter.part(parts[i])
    order = sorted(range(len(parts)), key=lambda i: -_clippable(parts[i], counter))
    for i in order:
        if excess <= 0 or not _clippable(parts[i], counter):
            break
        if not isinstance(parts[i], kinds):
            continue
        before = counter.part(parts[i])
        parts[i] = _clipped_part(parts[i], before - excess, message, counter)
        excess -= before - counter.part(parts[i])
    return message.with_parts(parts)


def _clippable(part: Part, counter: TokenCounter) -> int:
    """Return how many tokens clipping could free. Results count double, to be clipped first."""
    match part:
        case ToolResult():
            return 2 * counter.text(part.text)
        case Text():
            return counter.text(part.text)
        case ToolCall() if len(part.arguments) >= LONG_ARGUMENT_CHARS:
            return counter.text(part.arguments)
        case _:
            return 0


def _clipped_part(part: Part, max_tokens: int, message: Message, counter: TokenCounter) -> Part:
    match part:
        case ToolResult():
            room = max(0, max_tokens - counter.framing.per_call)
            text = clip_text(part.text, room, f"output {part.call_id}", counter)
            return ToolResult(part.call_id, text, part.name, part.is_error, raw=part.raw)
        case Text():
            return Text(clip_text(part.text, max(0, max_tokens), f"message {message.id}", counter))
        case ToolCall():
            return _fitted_call(part, max_tokens, counter)
        case _:
            return part


def closed(messages: Sequence[Message], *, called: Collection[str] = ()) -> list[Message]:
    """Return a group as providers accept it: each call has a result, each result has a call.
    `called` are earlier calls that still wait for results.
    """
    messages = _in_whole_replies([_results_first(m) for m in messages])
    if not called and _is_closed(messages):
        return messages
    before = Counter(list(called))
    out, due = _with_orphans_adopted(messages, before)
    unanswered = due - before
    for position in range(len(out) - 1, -1, -1) if unanswered else ():
        mine = [call for call in out[position].tool_calls if unanswered[call.id]]
        if mine:
            unanswered.subtract(call.id for call in mine)
            note = answer(mine, out[position])
            place = _place_of(note, out, position)
            after = out[place : place + 1]
            if after and after[0].tool_results:
                out[place : place + 1] = joined(note, after[0])
            else:
                out.insert(place, note)
    return out


def _place_of(note: Message, messages: Sequence[Message], position: int) -> int:
    """Return where to put the note that answers calls of the message at `position`: after the rest
    of its reply and the results that came. Some providers match results to calls by order.
    """
    place, reply = position + 1, messages[position].reply_id
    if note.role != "tool":
        return place
    while place < len(messages):
        after = messages[place]
        if after.role != "tool" and (reply is None or after.reply_id != reply):
            break
        place += 1
    return place


def _in_whole_replies(messages: Sequence[Message]) -> list[Message]:
    """Put the pieces of each reply together, and results after all of them."""
    out: list[Message] = []
    for message in messages:
        out.insert(_place_at_call(message, out) or place_in_reply(message, out), message)
    return out


def _place_at_call(message: Message, before: Sequence[Message]) -> int:
    """Return where a late result goes: after the other results of its call. 0 if it is not late."""
    answered = {result.call_id for result in message.tool_results}
    place = len(before)
    if not answered or message.text or not before:
        return 0
    if before[-1].tool_results or before[-1].tool_calls:
        return 0
    while place > 0 and not any(c.id in answered for c in before[place - 1].tool_calls):
        place -= 1
    while 0 < place < len(before) and before[place].tool_results:
        place += 1
    return place


def place_in_reply(message: Message, before: Sequence[Message]) -> int:
    """Return where a later message goes: at the end, or before the newest results if calls of its
    own reply are still unanswered.
    """
    start = len(before)
    if message.reply_id is None or message.tool_results:
        return start
    while start > 0 and before[start - 1].tool_results:
        start -= 1
    answered = {result.call_id for each in before[start:] for result in each.tool_results}
    first = start
    while first > 0 and before[first - 1].reply_id == message.reply_id:
        first -= 1
    calls = (call.id for each in before[first:start] for call in each.tool_calls)
    return start if any(call not in answered for call in calls) else len(before)


def _results_first(message: Message) -> Message:
    if message.role != "user" or not message.tool_results:
        return message
    parts = sorted(message.parts, key=lambda p: not isinstance(p, ToolResult))
    same = all(a is b for a, b in zip(parts, message.parts, strict=True))
    return message if same else message.with_parts(parts)


def _is_closed(messages: Sequence[Message]) -> bool:
    """Whether the first message makes calls and the next ones answer each once: the usual case."""
    calls = [call.id for call in messages[0].tool_calls] if messages else []
    results = [result.call_id for m in messages[1:] for result in m.tool_results]
    if any(m.tool_calls for m in messages[1:]) or (messages and messages[0].tool_results):
        return False
    return sorted(calls) == sorted(results) and len(set(calls)) == len(calls)


def answer(calls: Sequence[ToolCall], asked: Message) -> Message:
    """Build the note that replaces missing results of these calls, which message `asked` made."""
    role = format_named(asked.wire_format).results_role if asked.wire_format else "tool"
    return Message.trusted(
        role=role,
        content=tuple(
            ToolResult(c.id, NO_RESULT, c.name, raw=None if role == "user" else _kind_of(c))
            for c in calls
        ),
        id=asked.id + _ANSWERED,
        timestamp=asked.timestamp,
        metadata=_INJECTED,
    )


def _kind_of(call: ToolCall) -> Mapping[str, Any] | None:
    return {"type": call.raw["type"]} if call.raw and "type" in call.raw else None


def is_answer(message: Message) -> bool:
    """Whether the message is only a note that replaces missing results."""
    return message.metadata.source == _INJECTED.source and message.id.endswith(_ANSWERED)


def joined(answer: Message, results: Message) -> list[Message]:
    """Join the results of one reply if the provider keeps them in one user message."""
    if results.role != "user":
        return [answer, results]
    return [results.with_parts([*answer.parts, *results.parts])]


def _with_orphans_adopted(
    messages: Sequence[Message], called: Counter[str]
) -> tuple[list[Message], Counter[str]]:
    """Turn results without a call into notes. Return the messages, and the calls that still wait. A
    note goes after neighbouring results: providers allow nothing between them.
    """
    due = Counter(called)
    out: list[Message] = []
    notes: list[Message] = []
    for message in messages:
        if not message.tool_results:
            out += [*notes, message]
            notes = []
            due.update(call.id for call in message.tool_calls)
            continue
        shown = _adopted(message, due)
        (out if shown.tool_results else notes).append(shown)
    return out + notes, due


def _adopted(message: Message, due: Counter[str]) -> Message:
    """Turn results that answer no waiting call into a note."""
    parts: list[Part] = []
    orphans = False
    for part in message.parts:
        if not isinstance(part, ToolResult):
            parts.append(part)
        elif due[part.call_id] > 0:
            due[part.call_id] -= 1
            parts.append(part)
        else:
            orphans = True
            parts += [Text(f"{ORPHAN}, id {part.call_id}]\n{part.text}"), *part.images]
    if not orphans:
        return message
    note = _results_first(message.with_parts(parts))
    if note.role != "tool":
        return note
    return note.model_copy(update={"role": "user", "wire": None, "wire_format": None})


TARGET_CHARS, OUTCOME_CHARS, LINE_CHARS = 48, 80, 800
"""Most characters of a stub's target, of its outcome, and of a line of output in it."""
_PATH = regex(r"[\w.@:+-]*[/\\][\w.@:+/\\-]+")
_FOLDERS = regex(r"(?:[\w.@-]+/)+")


def stub(result: ToolResult, call: ToolCall | None, tokens: int) -> str:
    """Return the line that replaces tool output: id, tool, target, outcome or first line, and size.
    The id finds the output again.
    """
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
    if len(text) <= most:
        return text
    return f"…{text[1 - most :]}" if tail else f"{text[: most - 1].rstrip()}…"


def put_aside(message: Message, max_tokens: int, counter: TokenCounter) -> Message:
    """Clip a message that was put aside towards `max_tokens`. Pictures and documents cannot be
    clipped. If needed, a line replaces them, the largest first.
    """
    short = clipped(message, max_tokens, counter)
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
    """Replace a picture or document by a line; return other parts unchanged."""
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
