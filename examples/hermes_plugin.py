"""A plugin for Hermes whose agents are compressed by compact, in Hermes' own environment.

Copy this file to `~/.hermes/plugins/compact/__init__.py`, with a `plugin.yaml` beside it. Choose
the engine in `~/.hermes/config.yaml`. docs/integrations/frameworks.md has both.
"""

from typing import Any

from compact import CompactConfig
from compact.integrations.hermes import CompactEngine


def register(host: Any) -> None:
    """Called by Hermes when it starts."""
    host.register_context_engine(CompactEngine(CompactConfig(store="hermes.db")))
