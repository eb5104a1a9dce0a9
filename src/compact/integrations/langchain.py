"""Make agents of LangChain and LangGraph fit their model's window (extra `langchain`).

    agent = create_agent(model, tools, middleware=[CompactMiddleware(manager)])

Before each call of the model the manager makes the messages fit. The graph's state stays whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from compact import wiring
from compact.errors import InvalidArgument
from compact.session.compact_manager import CompactManager
from compact.session.fitted import Fitted

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain_core.messages import AnyMessage, convert_to_messages, convert_to_openai_messages
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.config import get_config
except ImportError as missing:
    raise ImportError(
        "compact.integrations.langchain needs LangChain: " + wiring.how_to_install("langchain")
    ) from missing


class CompactMiddleware(AgentMiddleware[Any, Any, Any]):
    """Fits the messages of each call of a model. The conversation is the graph's `thread_id`, or
    the `session_id` given here. Give it as the last one in the list, so that it counts what other
    middleware adds.

    Raises:
        CompactError: the manager's settings cannot work; as in `CompactManager.check`.
    """

    def __init__(self, manager: CompactManager, session_id: str | None = None) -> None:
        super().__init__()
        self.manager, self.session_id = manager, session_id
        manager.check()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Send what fits. After a refusal as too large, send a smaller prompt once."""
        fitted = self.manager.fit(*self._list_of(request), **_beside(request))
        try:
            return handler(_fitting(request, fitted))
        except Exception as error:
            if not fitted.report(error):
                raise
        fitted = self.manager.fit(*self._list_of(request), **_beside(request))
        return handler(_fitting(request, fitted))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """`wrap_model_call` for async callers."""
        fitted = await self.manager.afit(*self._list_of(request), **_beside(request))
        try:
            return await handler(_fitting(request, fitted))
        except Exception as error:
            if not fitted.report(error):
                raise
        fitted = await self.manager.afit(*self._list_of(request), **_beside(request))
        return await handler(_fitting(request, fitted))

    def _list_of(self, request: ModelRequest[Any]) -> tuple[str, list[dict[str, Any]]]:
        name = self.session_id or get_config()["configurable"].get("thread_id")
        if not name:
            raise InvalidArgument(
                "session_id",
                "nothing names the conversation: give a session_id, or run with a thread_id",
            )
        return str(name), convert_to_openai_messages(request.messages)


def _beside(request: ModelRequest[Any]) -> dict[str, Any]:
    """What is sent beside the messages, and the room for the answer."""
    system = request.system_message
    return {
        "tools": [convert_to_openai_tool(tool) for tool in request.tools],
        "system_prompt": system.text if system is not None else None,
        "answer_tokens": request.model_settings.get("max_tokens"),
        "format": "chat_completions",
    }


def _fitting(request: ModelRequest[Any], fitted: Fitted) -> ModelRequest[Any]:
    return request.override(messages=fitted.into(request.messages, _made))


def _made(sent: dict[str, Any], stands: Sequence[AnyMessage]) -> Any:  # noqa: ANN401 - AnyMessage
    """A message of compact's, or a shortened one of the graph, which keeps its id."""
    (message,) = convert_to_messages([sent])
    return message.model_copy(update={"id": stands[-1].id if stands else None})
