"""An agent of LangChain whose prompts never overflow, however long its thread gets.

In the clone: `pip install '.[langchain]' langchain-openai`. It needs `OPENAI_API_KEY`.
"""

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langgraph.checkpoint.memory import InMemorySaver

from compact import CompactConfig, CompactManager
from compact.integrations.langchain import CompactMiddleware

ours = CompactMiddleware(CompactManager(CompactConfig(model="gpt-4o-mini", store="threads.db")))
model = init_chat_model("openai:gpt-4o-mini")
agent = create_agent(model, middleware=[ours], checkpointer=InMemorySaver())
thread = {"configurable": {"thread_id": "harbour"}}
print(agent.invoke({"messages": "Which lamp is next?"}, thread)["messages"][-1].text)
