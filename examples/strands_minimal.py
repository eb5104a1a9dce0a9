"""An agent of Strands whose requests never overflow.

In an environment of its own, since Strands wants an older MCP than compact's extra `mcp`:
`pip install . 'strands-agents[openai]'`. It needs `OPENAI_API_KEY`.
"""

from strands import Agent
from strands.agent.conversation_manager import NullConversationManager
from strands.models.openai import OpenAIModel

from compact import CompactConfig, CompactManager
from compact.integrations.strands import StrandsPlugin

manager = CompactManager(CompactConfig(store="agents.db"))
agent = Agent(
    model=OpenAIModel(model_id="gpt-4o-mini"),
    system_prompt="You keep the harbour's lamps.",
    plugins=[StrandsPlugin(manager, "harbour")],
    conversation_manager=NullConversationManager(),
    callback_handler=None,
)
print(agent("Which lamp is next?"))
