"""An agent of pydantic-ai whose requests never overflow.

In the clone: `pip install '.[pydantic-ai,openai]'`. It needs `OPENAI_API_KEY`.
"""

from pydantic_ai import Agent

from compact import CompactConfig, CompactManager
from compact.integrations.pydantic_ai import FittedContext

manager = CompactManager(CompactConfig(store="agents.db"))
agent = Agent(
    "openai-chat:gpt-4o-mini",
    instructions="You keep the harbour's lamps.",
    capabilities=[FittedContext(manager, "harbour")],
)
print(agent.run_sync("Which lamp is next?").output)
