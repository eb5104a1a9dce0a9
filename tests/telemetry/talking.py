"""A session that is compressed, for those who look at what is told of it."""

from compact import CompactConfig, CompactManager
from compact.messages.events import Event

WORD = "periwinkle"
"""Is in the conversation, and in what its summaries say."""
TURNS = [
    message
    for i in range(40)
    for message in (
        {"role": "user", "content": f"Rule {i}: paint gate {i} {WORD}, never scarlet. " * 6},
        {"role": "assistant", "content": f"I painted gate {i} {WORD}, as you wished. " * 6},
    )
]


def talked(session_id: str = "s-1", **settings: object) -> list[Event]:
    """The events of a session that was compressed, exporters told of them as the settings say."""
    heard: list[Event] = []
    config = CompactConfig(max_context_tokens=4_000, **settings)
    with CompactManager(config, on_event=heard.append) as manager:
        manager.preflight(session_id, TURNS)
    return heard
