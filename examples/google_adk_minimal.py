"""An agent of Google ADK whose requests never overflow.

In the clone: `pip install '.[adk,openai]'`. It needs `OPENAI_API_KEY`; with `model="gemini-…"` a
key of Gemini's instead.
"""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.integrations.openai import OpenAILlm
from google.adk.runners import InMemoryRunner

from compact import CompactConfig, CompactManager
from compact.integrations.google_adk import CompactPlugin

manager = CompactManager(CompactConfig(store="agents.db"))
agent = LlmAgent(
    name="keeper",
    model=OpenAILlm(model="gpt-4o-mini"),
    instruction="You keep the harbour's lamps.",
)
app = App(name="harbour", root_agent=agent, plugins=[CompactPlugin(manager)])
runner = InMemoryRunner(app=app)
events = asyncio.run(runner.run_debug("Which lamp is next?", quiet=True))
print(events[-1].content.parts[0].text)
