"""Bringing back what has left the view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compact.messages.copies import copied_message
from compact.messages.formats.known import format_named
from compact.messages.formats.tool_schemas import schemas_for
from compact.session.methods.looking import Looking
from compact.text import recalls
from compact.text.recalls import Expansion, Recalled


class Recalling(Looking):
    """The methods that search and expand."""

    def recall(self, query: str, *, limit: int = recalls.PAGE) -> list[Recalled]:
        """Messages of the whole history that share words with the query, the best match first."""
        from compact.session.recall import recall

        return recall(self._session.state, query, limit=limit)

    def expand(self, id: str, *, max_tokens: int | None = None, start: int = 0) -> Expansion:
        """The original messages behind the id of a checkpoint, a message or a tool call.

        Returns as many as fit into `max_tokens`, starting with number `start`. If a single message
        does not fit, its text starts at that character. The page says where the next one starts.

        Raises:
            NotFound: nothing in the session has that id.
        """
        from compact.session.recall import expand

        found = expand(self._session.state, id, max_tokens=max_tokens, start=start)
        return found.model_copy(update={"messages": tuple(map(copied_message, found.messages))})

    def recall_tools(self, format: str | None = None) -> list[dict[str, Any]]:
        """The schemas of the tools `recall` and `expand`, to declare to a model, in the session's
        wire format or another one.

        Raises:
            UnknownModel: there is no such format.
        """
        written = format_named(format or self._session.state.wire.name)
        return schemas_for(written.tool_shape, recalls.tools())

    def call_tool(
        self,
        name: str,
        arguments: str | Mapping[str, Any],
        *,
        max_tokens: int | None = None,
    ) -> str:
        """Run `recall` or `expand` for a model that called it, and return the answer.

        Raises:
            InvalidInput: there is no such tool, or its argument is missing.
            NotFound: nothing has that id.
        """
        from compact.session.recall import answer_tool

        session = self._session
        seen = session.view.shown_whole()
        return answer_tool(session.state, name, arguments, max_tokens, seen)
