"""Hooks around model calls, under the kit's own import path. All but `mark_protected` are loaded on
first use, and need the OpenAI Agents SDK (extra `agents`).

    from compact.hooks import before_model_call, mark_protected
"""

from typing import TYPE_CHECKING

from compact.messages.given import mark_protected as mark_protected

if TYPE_CHECKING:
    from compact.integrations.openai_agents import CompactSession as CompactSession
    from compact.integrations.openai_agents import before_model_call as before_model_call
    from compact.integrations.openai_agents import run_config as run_config


def __getattr__(name: str) -> object:
    if name not in ("CompactSession", "before_model_call", "run_config"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from compact.integrations import openai_agents

    return getattr(openai_agents, name)
