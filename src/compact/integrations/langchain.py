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

Request = ModelRequest[Any]
Response = ModelResponse[Any]


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

    def wrap_model_call(self, request: Request, handler: Callable[[Request], Response]) -> Response:
        """Send what fits. After a refusal as too large, send a smaller prompt once."""
        fitted = self.manager.fit(**self._wanted(request))
        try:
            return _reported(fitted, handler(_fitting(request, fitted)))
        except Exception as error:
            if not fitted.report(error):
                raise
        fitted = self.manager.fit(**self._wanted(request))
        return _reported(fitted, handler(_fitting(request, fitted)))

    async def awrap_model_call(
        self, request: Request, handler: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """`wrap_model_call` for async callers."""
        fitted = await self.manager.afit(**self._wanted(request))
        try:
            return _reported(fitted, await handler(_fitting(request, fitted)))
        except Exception as error:
            if not fitted.report(error):
                raise
        fitted = await self.manager.afit(**self._wanted(request))
        return _reported(fitted, await handler(_fitting(request, fitted)))

    def _wanted(self, request: Request) -> dict[str, Any]:
        name = self.session_id or get_config().get("configurable", {}).get("thread_id")
        if not name:
            reason = "nothing names the conversation: run with a thread_id, or give a session_id"
            raise InvalidArgument("session_id", reason)
        given = convert_to_openai_messages(request.messages)
        if len(given) != len(request.messages):
            reason = "results of tools stand beside a person's words: give them as ToolMessages"
            raise InvalidArgument("messages", reason)
        return {
            "session_id": str(name),
            "messages": given,
            "format": "chat_completions",
            "tools": [
                t if isinstance(t, dict) else convert_to_openai_tool(t) for t in request.tools
            ],
            "system_prompt": request.system_message.text if request.system_message else None,
            "answer_tokens": request.model_settings.get("max_tokens"),
        }


def _fitting(request: Request, fitted: Fitted) -> Request:
    return request.override(messages=fitted.into(request.messages, _made))


def _made(sent: dict[str, Any], stands: Sequence[AnyMessage]) -> Any:  # noqa: ANN401 - AnyMessage
    """Return a message of compact's, or a shortened one of the graph with its id."""
    (message,) = convert_to_messages([sent])
    return message.model_copy(update={"id": stands[-1].id if stands else None})


def _reported(fitted: Fitted, response: Response) -> Response:
    for message in response.result:  # a structured output may follow the answer
        if (usage := getattr(message, "usage_metadata", None)) and usage["input_tokens"]:
            fitted.report(usage["input_tokens"])
    return response
