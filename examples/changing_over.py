"""A program with a context manager of its own changes over to compact, one flag after another.

    python changing_over.py
    COMPACT_NEW_COMPRESSION=1 python changing_over.py
    COMPACT_NEW_CONTEXT=1 COMPACT_NEW_COMPRESSION=1 COMPACT_NEW_CHECKPOINTS=1 \
        python changing_over.py

`OldContext` stands for what the program has. The lines that end in `# +` are what changes in it.
"""

import json

from compact import CompactConfig, CompactManager  # +
from compact.integrations.legacy_context import LegacyContextAdapter  # +

WINDOW = 2_000


class OldContext:
    """Keeps the newest messages that fit, by their letters; forgets the others."""

    def build_prompt(self, messages: list[dict[str, str]]) -> list[dict[str, str]]:
        kept: list[dict[str, str]] = []
        room = WINDOW * 2
        for message in reversed(messages):
            room -= len(message["content"])
            if room < 0:
                break
            kept.insert(0, message)
        return kept

    def take_snapshot(self) -> str:
        return "old-snapshot-1"


def old_session_file() -> str:
    """A session as the old program kept it."""
    texts = ["Never paint the north wall. What does the roof need?", "Three new beams of larch."]
    said = [
        {
            "role": role,
            "parts": [{"type": "text", "text": text}],
            "timestamp": f"2026-03-01T09:0{i}:00Z",
        }
        for i, (role, text) in enumerate(zip(("user", "assistant"), texts, strict=True))
    ]
    about = {"sessionId": "roof", "startTime": said[0]["timestamp"], "model": "llama3.2:3b"}
    return json.dumps({**about, "messages": said, "toolCalls": [], "metadata": {}})


old = OldContext()
config = CompactConfig(max_context_tokens=WINDOW, store="sessions.db")  # +
adapter = LegacyContextAdapter(CompactManager(config))  # +
if adapter.parts.context:  # +
    brought = adapter.migrate_session(old_session_file())  # +
    print(f"brought along: {brought.session_id}, {brought.messages} messages")

data = json.loads(old_session_file())["messages"]
messages = [{"role": each["role"], "content": each["parts"][0]["text"]} for each in data]
for number in range(40):
    messages.append({"role": "user", "content": f"{number}: and the next beam? " * 8})
    sent = adapter.prompt("roof", messages, old=old.build_prompt)  # was: old.build_prompt(messages)
    messages.append({"role": "assistant", "content": f"Beam {number} is sound. " * 12})

point = adapter.snapshot("roof", old=old.take_snapshot)  # was: old.take_snapshot()
rule = any("Never paint the north wall." in message["content"] for message in sent)
print(f"ours: {adapter.parts}")
print(f"sent {len(sent)} of {len(messages)} messages; the rule is {'there' if rule else 'gone'}")
print(f"recovery point: {point[:3]}")
