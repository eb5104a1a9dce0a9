"""A coding session with `CompactManager` and the openai client: a tool, events, protected memory.

    pip install '.[openai]'    # in the clone; it needs OPENAI_API_KEY
    python examples/coding_session.py

Say `/protect TEXT` for what must never be left out, `/compact NOTE` to make room now and say what
to keep, `/find WORDS` to search all that was ever said, `/quit` to end. What happens is told on
stderr, and in Ariadne where one listens at `COMPACT_ARIADNE_URL` or port 5175 of this machine.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

try:
    from openai import OpenAI
except ModuleNotFoundError:
    raise SystemExit("coding_session needs the package openai: pip install '.[openai]'") from None

from compact import CompactConfig, CompactManager, mark_protected

MODEL = os.environ.get("CHAT_MODEL", "gpt-4o-mini")
SESSION = "coding"
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Read a file of this folder.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]
messages: list[Any] = [
    {"role": "system", "content": "You are a careful programmer."},
    mark_protected("Change nothing outside of this folder.", label="policy"),
]


def read_file(path: str) -> str:
    found = Path(path).resolve()
    if not found.is_relative_to(Path.cwd()):
        return f"{path} lies outside of this folder"
    return found.read_text(encoding="utf-8") if found.is_file() else f"there is no {path}"


def told(event: Any) -> None:
    """What the manager does, as a line on stderr."""
    match event.name:
        case "compact.pruned_messages":
            print(f"[{event.covered} messages summarized, {event.masked} outputs shortened: "
                  f"{event.tokens_after:,} tokens]", file=sys.stderr)  # fmt: skip
        case "compact.error":
            print(f"[{event.error}: {event.message}]", file=sys.stderr)


def answered(client: OpenAI, manager: CompactManager) -> str:
    """Ask until the model calls no more tools."""
    while True:
        sent = manager.preflight(SESSION, messages, tools=TOOLS)
        reply = client.chat.completions.create(model=MODEL, messages=sent, tools=TOOLS)
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return message.content or ""
        for call in message.tool_calls:
            output = read_file(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": output})


def main() -> None:
    client = OpenAI()
    ariadne = os.environ.get("COMPACT_ARIADNE_URL", "http://127.0.0.1:5175")
    config = CompactConfig.load(model=MODEL, ariadne_url=ariadne)
    with CompactManager(config, on_event=told) as manager:
        while True:
            try:
                said = input("> ").strip()
            except EOFError:
                break
            command, _, rest = said.partition(" ")
            match command:
                case "/quit":
                    break
                case "/protect":
                    messages.append(mark_protected({"role": "user", "content": rest}))
                case "/compact":
                    manager.manual_compact(SESSION, messages, rest)
                    budget = manager.session(SESSION).budget
                    print(f"{budget.used_tokens:,} of {budget.max_tokens:,} tokens")
                case "/find":
                    for found in manager.session(SESSION).recall(rest, limit=3):
                        print(f"- {found.role}: {found.text[:100]}")
                case _:
                    messages.append({"role": "user", "content": said})
                    print(answered(client, manager))


if __name__ == "__main__":
    main()
