"""Tells where a conversation may be cut, and which message lists providers accept.

A conversation may be cut before a position that every function in `INVARIANTS` allows. The messages
between two neighbouring legal cuts are a group (`engine.groups`).

What providers demand of a message list is data: `ProviderRules`. `violations` checks a list.
Sources: OpenAI API reference, "Create chat completion" (every tool call of an assistant message is
answered by tool messages directly after it); OpenAI Responses (`function_call` items need their
`function_call_output`; a `reasoning` item is refused "without its required following item");
Ollama, "Tool calling" (results follow the message that called); Anthropic "Messages" and "Tool use"
guides (first message is the user's, consecutive turns of one role are combined, tool results open
the next user message).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from compact.messages.messages import SYSTEM_ROLES, Message, Thinking, ToolResult

# --- provider rules -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProviderRules:
    """What one provider demands of a message list."""

    results_adjacent: bool = True
    """Whether results must come directly after the message with the calls."""
    has_turns: bool = False
    """Whether neighbours of one role form one turn. The user's turn must be first, and tool results
    must come first in their turn."""
    has_items: bool = False
    """Whether calls, results and reasoning are separate items. An item of the same reply must
    follow reasoning."""


OPENAI_CHAT = ProviderRules()
"""The rules of OpenAI chat completions, and of Ollama."""
OPENAI_RESPONSES = ProviderRules(results_adjacent=False, has_items=True)
ANTHROPIC = ProviderRules(has_turns=True)


def violations(messages: Sequence[Message], rules: ProviderRules) -> list[str]:
    """Return each rule that the messages break, as text. The list is empty if they may be sent."""
    problems = _pairing(messages, rules)
    if rules.has_turns:
        first = next(((i, m) for i, m in enumerate(messages) if m.role not in SYSTEM_ROLES), None)
        if first and first[1].role != "user":
            problems.append(f"message {first[0]}: the first message must be the user's")
        problems += [
            f"message {i}: a tool result stands after other content"
            for i, m in enumerate(messages)
            if _late_result(m)
        ]
    if rules.has_items:
        problems += [
            f"message {i}: reasoning stands without what it led to"
            for i, m in enumerate(messages)
            if is_reasoning(m) and not _goes_on(messages, i)
        ]
    return problems


def is_reasoning(message: Message) -> bool:
    """Whether the message is reasoning and nothing else."""
    if message.role != "assistant" or isinstance(message.content, str) or not message.content:
        return False
    return all(isinstance(part, Thinking) for part in message.content)


def _goes_on(messages: Sequence[Message], position: int) -> bool:
    after = messages[position + 1] if position + 1 < len(messages) else None
    if after is None or after.role != "assistant":
        return False
    return after.reply_id == messages[position].reply_id


def _late_result(message: Message) -> bool:
    if not message.tool_results:
        return False
    kinds = [isinstance(p, ToolResult) for p in message.parts]
    return kinds != sorted(kinds, reverse=True)


def _pairing(messages: Sequence[Message], rules: ProviderRules) -> list[str]:
    problems: list[str] = []
    open_calls: list[tuple[str, int]] = []
    for i, m in enumerate(messages):
        results = m.tool_results
        for result in results:
            call_at = next((w for w in open_calls if w[0] == result.call_id), None)
            if call_at is None:
                problems.append(f"message {i}: tool result {result.call_id!r} answers no open call")
            else:
                open_calls.remove(call_at)
        same_turn = rules.has_turns and i and messages[i - 1].role == m.role
        if open_calls and rules.results_adjacent and not results and not same_turn:
            problems += [f"message {c}: call {x!r} is not answered at once" for x, c in open_calls]
            open_calls.clear()
        open_calls += [(call.id, i) for call in m.tool_calls]
    return problems + [f"message {c}: call {x!r} is never answered" for x, c in open_calls]


# --- boundaries -----------------------------------------------------------------------------------

MOST_BETWEEN = 2
"""How many other messages may be between a call and its late result."""
MOST_BESIDE = 8
"""How many results of other calls of the same reply may come before those messages."""


class Log(Protocol):
    """Messages in order: a history, or a list of messages."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> Message: ...


Invariant = Callable[[Log, int], bool]


def results_follow_their_calls(history: Log, position: int) -> bool:
    """Forbid a cut before a tool result: it stays with its call and the reply's other results."""
    return not history[position].tool_results


def words_before_a_late_result_stay_with_its_call(history: Log, position: int) -> bool:
    """Forbid a cut between a call and its late result, if other messages came between them."""
    for late in range(position, min(position + MOST_BETWEEN, len(history) - 1)):
        between = history[late]
        if between.tool_calls or between.tool_results:
            return True
        if results := history[late + 1].tool_results:
            answered = {result.call_id for result in results}
            before = range(max(0, position - MOST_BETWEEN - MOST_BESIDE), position)
            return not any(c.id in answered for i in before for c in history[i].tool_calls)
    return True


def replies_stay_whole(history: Log, position: int) -> bool:
    """Forbid a cut inside a reply, even if results of parallel calls are between its messages."""
    reply = history[position].reply_id
    if reply is None:
        return True
    before = position - 1
    while before > 0 and history[before].tool_results:
        before -= 1
    return before < 0 or history[before].reply_id != reply


def reasoning_stays_with_what_it_led_to(history: Log, position: int) -> bool:
    """Forbid a cut between a message that holds only reasoning and the assistant's next message."""
    return history[position].role != "assistant" or not is_reasoning(history[position - 1])


INVARIANTS: tuple[Invariant, ...] = (
    results_follow_their_calls,
    words_before_a_late_result_stay_with_its_call,
    replies_stay_whole,
    reasoning_stays_with_what_it_led_to,
)


def may_cut_before(history: Log, position: int) -> bool:
    """Whether the conversation may be cut before the position."""
    if position <= 0 or position >= len(history):
        return True
    for allows in INVARIANTS:  # noqa: SIM110 - for every message in view: all() takes twice as long
        if not allows(history, position):
            return False
    return True
