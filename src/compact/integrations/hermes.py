"""Hermes: a context engine. Hermes puts what the engine returns in the place of its own list, so
the originals are in the store of compact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compact import CompactConfig, CompactManager

try:
    from agent.context_engine import ContextEngine
except ImportError as missing:
    raise ImportError(
        "compact.integrations.hermes needs Hermes 0.19 or newer: pip install hermes-agent"
    ) from missing


class CompactEngine(ContextEngine):  # type: ignore[misc, unused-ignore]
    """Compresses the conversation of one agent when its window fills up.

    Hermes copies an engine for each of its agents: a copy has the settings, and opens the store
    when it is told its model.

    Raises:
        CompactError: the settings cannot work; as in `CompactManager.check`.
    """

    name = "compact"
    threshold_percent = 0.7

    def __init__(self, config: CompactConfig) -> None:
        with CompactManager(config) as manager:
            manager.check()
        self._config, self._session_id = config, ""
        self._manager: CompactManager | None = None

    def __deepcopy__(self, _: object) -> CompactEngine:
        return CompactEngine(self._config)

    def update_model(self, model: str, context_length: int, *_: object, **__: object) -> None:
        """Take on a model's window. It limits prompts unless the settings name a smaller one."""
        most = min(context_length, self._config.max_context_tokens or context_length)
        super().update_model(model, most)
        self._close()
        changed = {"max_context_tokens": most, "model": self._config.model or model}
        self._manager = CompactManager(self._config.model_copy(update=changed))

    def on_session_start(self, session_id: str, boundary_reason: str = "", **_: object) -> None:
        """Begin a conversation. After a compression Hermes gives the same one another id."""
        if boundary_reason != "compression":
            self._session_id = session_id

    def on_session_end(self, session_id: str, messages: object) -> None:
        """Close the store."""
        self._close()

    def update_from_response(self, usage: Mapping[str, Any]) -> None:
        """Take on what the provider counted."""
        self.last_prompt_tokens = usage.get("prompt_tokens", 0)
        self.last_completion_tokens = usage.get("completion_tokens", 0)
        self.last_total_tokens = usage.get("total_tokens", 0)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Return whether the prompt has reached 70 % of the window."""
        return bool((prompt_tokens or self.last_prompt_tokens) >= self.threshold_tokens)

    def compress(
        self,
        messages: list[dict[str, Any]],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        **_: object,
    ) -> list[dict[str, Any]]:
        """Return the messages that stand in the place of these. `focus_topic` tells a model that
        writes summaries what to keep.
        """
        if self._manager is None:  # no model is known yet, so no window is full
            return messages
        kept = self._manager.manual_compact(self._session_id, messages, focus_topic or "")
        self.compression_count += kept != messages
        return kept

    def _close(self) -> None:
        if self._manager is not None:
            self._manager.close()
