"""An independent judge of what compression returns: counts, provider rules, order, loss.

Works on provider dictionaries alone and shares no code with the product: the vocabulary is asked
for tokens directly,
the rules are written down again from the providers' references. Used by the tests of compression
and of real sessions.
"""

import importlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

Dicts = Sequence[Mapping[str, Any]]

PER_MESSAGE = 4
KNOWN_TEXTS = 5_000
"""Texts whose counts are remembered: a session's are counted again before each call."""
PICTURES = ("image", "image_url")
ANSWERED = ("tool_call_id", "tool_name", "name")
"""Where a result says which call it answers: by its id, or by the function."""
HEADING = re.compile(r"\[Checkpoint ck-[0-9a-f]{12} · [^\]\n]* · digest [0-9]{15}\]\n")
SURROGATE = re.compile("[\ud800-\udfff]")
NOTES = (
    "no result was recorded for this call",
    "[tool result that does not follow its call",
)


@cache
def vocabulary(name: str) -> Callable[[str], int]:
    """The counting function of `o200k` or `cl100k`, of whichever vocabulary package is
    installed."""
    try:
        encoding: Any = getattr(importlib.import_module("rs_bpe.bpe").openai, f"{name}_base")()
        return encoding.count  # type: ignore[no-any-return]  # the extension module carries none
    except ModuleNotFoundError:
        other: Any = importlib.import_module("bpe_openai").get_encoding(f"{name}_base")
        return lambda text: len(other.encode_ordinary(text))


@lru_cache(KNOWN_TEXTS)
def tokens(text: str, vocabulary_name: str = "o200k") -> int:
    """Exact tokens of a text; a lone surrogate is sent as the replacement character."""
    return vocabulary(vocabulary_name)(SURROGATE.sub("\ufffd", text))


def visible(message: Mapping[str, Any]) -> list[str]:
    """Every text of a message that a model reads: words, results, refusals, thinking, tool names
    and arguments."""
    texts = _visible_content(message.get("content"))
    if isinstance(message.get("refusal"), str):
        texts.append(message["refusal"])
    for field in ("reasoning_content", "reasoning", "reasoning_details", "thinking"):
        if thought := message.get(field):
            texts.append(thought if isinstance(thought, str) else json.dumps({field: thought}))
    if "call_id" in message or message.get("type") == "reasoning":
        said = (message.get(name) for name in ("name", "arguments", "input", "output", "summary"))
        texts += [text for each in said for text in _visible_content(each)]
    for call in message.get("tool_calls") or ():
        body = call.get("function") or call.get("custom") or {}
        given = body.get("arguments", body.get("input", ""))
        texts += [body.get("name", ""), given if isinstance(given, str) else json.dumps(given)]
    if isinstance(message.get("function_call"), Mapping):
        texts += [message["function_call"]["name"], message["function_call"]["arguments"]]
    return texts


def _visible_content(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    texts: list[str] = []
    for block in content if isinstance(content, list | tuple) else ():
        match block:
            case str():
                texts.append(block)
            case {"type": "text", "text": str(text)} | {"type": "thinking", "thinking": str(text)}:
                texts.append(text)
            case {"type": "input_text" | "output_text" | "summary_text", "text": str(text)}:
                texts.append(text)
            case {"type": "refusal", "refusal": str(text)}:
                texts.append(text)
            case {"type": "tool_use", "name": name, "input": arguments}:
                texts += [name, json.dumps(arguments, ensure_ascii=False)]
            case {"type": "tool_result"}:
                texts += _visible_content(block.get("content"))
    return texts


def pictures(content: object) -> int:
    """How many images a content shows, those inside tool results included."""
    blocks = content if isinstance(content, list | tuple) else ()
    found = [b for b in blocks if isinstance(b, Mapping)]
    return sum(
        pictures(b.get("content")) if b.get("type") == "tool_result" else b.get("type") in PICTURES
        for b in found
    )


def prompt_tokens(messages: Dicts, *, picture: int = 85) -> int:
    """Tokens of a prompt: each visible text, 4 a message, and `picture` (the least any provider
    takes) an image."""
    return sum(
        PER_MESSAGE
        + picture * pictures(m.get("content"))
        + sum(tokens(text) for text in visible(m))
        for m in messages
    )


def joined_tokens(messages: Dicts) -> int:
    """Tokens of the prompt written as one text, roles left out."""
    return tokens("\n".join("\n".join(visible(m)) for m in messages))


# --- the providers' rules ---


def broken_rules(messages: Dicts, wire: str) -> list[str]:
    """Every demand of the provider that the list breaks, in words."""
    if wire == "responses":
        return _broken_items(messages)
    return _broken_anthropic(messages) if wire == "anthropic" else _broken_chat(messages)


def _broken_items(items: Dicts) -> list[str]:
    """OpenAI's Responses API: each call has one output behind it, each output its call before it,
    and reasoning stands before an item of the assistant.
    """
    found: list[str] = []
    due: Counter[str] = Counter()
    for i, item in enumerate(items):
        kind, key = item.get("type", "message"), str(item.get("call_id"))
        if kind.endswith("_output"):
            if due[key] != 1:
                found.append(f"{i}: output {key!r} answers no call before it")
            due[key] -= 1
        elif kind.endswith("_call") and "call_id" in item:
            due[key] += 1
        elif kind == "reasoning":
            then = items[i + 1] if i + 1 < len(items) else {"role": "nobody"}
            if then.get("role", "assistant") != "assistant" or str(then.get("call_id")) in due:
                found.append(f"{i}: reasoning without the item behind it")
    return found + [f"the end: call {key!r} is not answered" for key, n in due.items() if n > 0]


def _broken_chat(messages: Dicts) -> list[str]:
    """OpenAI API reference: tool messages answer all calls of the assistant message right before
    them, once each. Ollama's name the function where there is no id.
    """
    found: list[str] = []
    due: Counter[str] = Counter()
    for i, message in enumerate(messages):
        if message["role"] in ("tool", "function", "tool_result"):
            key = next((message[name] for name in ANSWERED if message.get(name)), "")
            if due[key] < 1:
                found.append(f"{i}: result {key!r} answers no call right before it")
            due[key] -= 1
            continue
        found += [
            f"{i}: call {key!r} was not answered before it" for key, n in due.items() if n > 0
        ]
        calls = message.get("tool_calls") or ()
        due = Counter(call.get("id") or call["function"]["name"] for call in calls)
        if isinstance(message.get("function_call"), Mapping):
            due[message["function_call"]["name"]] += 1
    return found + [f"the end: call {key!r} is not answered" for key, n in due.items() if n > 0]


def _broken_anthropic(messages: Dicts) -> list[str]:
    """Anthropic's Messages and tool use guides, neighbours of one role combined as the provider
    does it.

    Tool results open the user turn right after the assistant turn that called; each call gets
    exactly one.
    """
    turns: list[tuple[str, list[Any]]] = []
    for message in messages:
        if message["role"] == "system":
            continue
        content = message.get("content") or []
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks)
        else:
            turns.append((message["role"], blocks))
    found: list[str] = []
    due: Counter[str] = Counter()
    for i, (role, blocks) in enumerate(turns):
        kinds = [b.get("type") if isinstance(b, Mapping) else "text" for b in blocks]
        if role == "assistant":
            found += [f"turn {i}: a tool_result of the assistant"] * ("tool_result" in kinds)
            due = Counter(
                b["id"] for b in blocks if isinstance(b, Mapping) and b.get("type") == "tool_use"
            )
            continue
        lead = 0
        while lead < len(kinds) and kinds[lead] == "tool_result":
            lead += 1
        if "tool_result" in kinds[lead:]:
            found.append(f"turn {i}: a tool_result after other content")
        for block in blocks:
            if isinstance(block, Mapping) and block.get("type") == "tool_result":
                due[block["tool_use_id"]] -= 1
        found += [f"turn {i}: call {key!r} not answered at once" for key, n in due.items() if n > 0]
        found += [f"turn {i}: result {key!r} answers no call" for key, n in due.items() if n < 0]
        due = Counter()
    return found + [f"the end: call {key!r} is not answered" for key, n in due.items() if n > 0]


# --- turns ---


def takes_turns(messages: Dicts, wire: str) -> list[str]:
    """Where user and assistant do not take turns, as chat templates see it. Templates like
    Mistral's leave calls and their results out; those like Gemma's are shown results as a user's
    words; Anthropic's messages have two roles anyway.
    """
    rows: Dicts = [m for m in messages if m.get("role") not in ("system", "developer")]
    if wire == "anthropic":
        return _out_of_turn("role", [m["role"] for m in rows])
    if wire == "responses":
        rows = _as_chat(rows)
    words = [m["role"] for m in rows if m["role"] != "tool" and not m.get("tool_calls")]
    kinds = [m["role"] for m in rows]
    whole = [k for i, k in enumerate(kinds) if k != "tool" or kinds[i - 1 : i] != ["tool"]]
    shown = ["user" if kind == "tool" else kind for kind in whole]
    return _out_of_turn("words", words) + _out_of_turn("roles", shown)


def _out_of_turn(what: str, roles: Sequence[str]) -> list[str]:
    wanted = ("user", "assistant")
    return [f"{what} {i}: {role}" for i, role in enumerate(roles) if role != wanted[i % 2]][:1]


def _as_chat(items: Dicts) -> list[dict[str, Any]]:
    """Items of the Responses API as messages: those of the assistant side by side are one."""
    out: list[dict[str, Any]] = []
    for item in items:
        kind = item.get("type", "message")
        if kind.endswith("_output"):
            out.append({"role": "tool"})
            continue
        role = item.get("role", "assistant")
        is_call = kind.endswith("_call")
        last = out[-1] if out else {}
        is_message = kind == "message"
        if role == "assistant" == last.get("role") and not (is_message and last.get("said")):
            last["tool_calls"] = last.get("tool_calls") or is_call
            last["said"] = last.get("said") or is_message
        else:
            out.append({"role": role, "tool_calls": is_call, "said": is_message})
    return out


# --- order and loss ---


def freeze(value: object) -> str:
    """A message as one comparable text, lone surrogates included."""
    return json.dumps(value, sort_keys=True, default=str)


def is_subsequence(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether `part` can be had from `whole` by leaving out."""
    rest = iter(whole)
    return all(any(x == y for y in rest) for x in part)


def is_ours(message: Mapping[str, Any]) -> bool:
    """Whether the message was put there by compression: a checkpoint, a note in the place of a
    result, or a word in the place of a turn."""
    texts = visible(message)
    return texts == ["[left out]"] or any(
        HEADING.match(t) or any(note in t for note in NOTES) for t in texts
    )


def key_of(message: Mapping[str, Any]) -> str:
    """What stays of a message when its texts are shortened: its role and the ids of its calls and
    results."""
    content = message.get("content")
    blocks = [b for b in content if isinstance(b, Mapping)] if isinstance(content, list) else []
    ids = [call.get("id") for call in message.get("tool_calls") or ()]
    ids += [
        b.get("id") or b.get("tool_use_id")
        for b in blocks
        if b.get("type") in ("tool_use", "tool_result")
    ]
    ids += [message.get("call_id"), message.get("type")] if "call_id" in message else []
    return freeze([message.get("role"), ids, message.get("tool_call_id"), message.get("name")])
