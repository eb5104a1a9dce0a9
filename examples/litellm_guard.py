"""A guard for LiteLLM: each request fits, whoever sends it and wherever it is routed.

Copy it beside the `config.yaml` of LiteLLM's proxy, and name it there under `litellm_settings`:
`callbacks: litellm_guard.guard`. A program that uses LiteLLM without the proxy sets
`litellm.callbacks = [guard]`. The window is `COMPACT_MAX_CONTEXT_TOKENS`, or the model's.
"""

from typing import Any

from litellm.integrations.custom_logger import CustomLogger

from compact import CompactConfig, CompactManager
from compact.messages.clock_and_ids import new_id


class Guard(CustomLogger):
    """Fits requests behind the choice of a model, and learns from what providers count."""

    def __init__(self, manager: CompactManager) -> None:
        super().__init__()
        manager.check()
        self.manager = manager

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any] | None:
        messages = kwargs.get("messages")
        if not messages:
            return None
        config = self.manager.config
        fitted = await self.manager.afit(
            kwargs.get("litellm_session_id") or self.manager.recognize(messages) or new_id(),
            messages,
            tools=kwargs.get("tools"),
            system_prompt=kwargs.get("system"),
            model=None if config.max_context_tokens or config.model else kwargs["model"],
            answer_tokens=kwargs.get("max_tokens") or kwargs.get("max_completion_tokens"),
        )
        return {**kwargs, "messages": fitted.copies()} if fitted.changed else None


guard = Guard(CompactManager(CompactConfig.load()))
