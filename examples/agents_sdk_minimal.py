"""An agent of the OpenAI Agents SDK whose runs never overflow.

In the clone: `pip install '.[agents]'`. It needs `OPENAI_API_KEY`.
"""

from agents import Agent, Runner

from compact import CompactConfig, CompactManager
from compact.integrations.openai_agents import CompactSession, run_config

manager = CompactManager(CompactConfig(store="agents.db", console_events=True, archive="kept"))
session = CompactSession("harbour", manager)
agent = Agent(name="keeper", instructions="You keep the harbour's lamps.", model="gpt-4o-mini")
result = Runner.run_sync(
    agent, "Which lamp is next?", session=session, run_config=run_config(manager, "harbour")
)
print(result.final_output)
