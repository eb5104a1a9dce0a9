"""Sessions as tools for programs that speak MCP. `commands.mcp` starts the server.

A tool answers with a text that fits the tokens that the caller gave. If a tool fails, the error
says what to do. Secrets are masked if the setting `redact` is on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from compact import wiring
from compact.cli.errors import without_secrets
from compact.cli.stores import SessionCatalog, context_of, goals_with, meant, memory_of
from compact.cli.views import time_of
from compact.cli.words import counted, one_line
from compact.errors import CompactError, NotFound
from compact.messages import clock_and_ids
from compact.messages.messages import Role
from compact.messages.sessions import Session
from compact.session.context_manager import ContextManager
from compact.session.recall import answer_tool
from compact.text.dates import limits
from compact.text.recalls import TOLD_TOKENS

INSTRUCTIONS = """The full record of past and present conversations, with everything that was cut
from their context. Look here before you ask the user to repeat something, and when a summary names
a detail (a decision, a number, a finding, a file) that you no longer see."""
LISTED = 20
"""How many sessions an error lists at most."""
LINE = 160
"""How many characters of a message a list shows at most."""

SessionName = Annotated[
    str,
    Field(description="A session's id or a unique prefix. Leave it out if there is only one."),
]
AnySession = Annotated[
    str, Field(description="Only this session: its id or a unique prefix. Leave it out for all.")
]
Room = Annotated[
    int, Field(ge=200, le=50_000, description="At most how many tokens the answer has.")
]
Day = Annotated[str | None, Field(description="A day or time, such as 2026-05-17 or 'last week'.")]


@dataclass(frozen=True)
class SessionTools:
    """The tools. Each is a method, whose docstring is the description that a model reads."""

    catalog: Callable[[], SessionCatalog]
    """Returns the sessions as they are now."""
    is_transcript: bool = False
    """Whether the sessions come from a transcript file. Then the tools only read."""

    def recall(
        self,
        query: str,
        session: SessionName = "",
        max_tokens: Room = TOLD_TOKENS,
    ) -> str:
        """Find messages of one session by words that stand in them, the best first, also those that
        were compacted away. Call it when you need the exact wording, value or result of something
        said or done earlier. Long messages are shown in part: `expand` reads all of one.
        """
        return self._answer(session, "recall", {"query": query}, max_tokens)

    def expand(
        self,
        id: str,
        session: SessionName = "",
        start: Annotated[int, Field(ge=0)] = 0,
        max_tokens: Room = TOLD_TOKENS,
    ) -> str:
        """Read the original of a message, a tool call, or all messages behind a checkpoint, word
        for word. Call it with an id or a message's number that another tool shows. A page that is
        not the last says with which `start` to go on.
        """
        with self._opened(session) as ctx:
            name = meant(ctx, id)
        return self._answer(session, "expand", {"id": name, "start": start}, max_tokens)

    def search(
        self,
        query: str,
        session: AnySession = "",
        role: Role | None = None,
        since: Day = None,
        until: Day = None,
        max_tokens: Room = TOLD_TOKENS,
    ) -> str:
        """Search all sessions for an answer to a question, which may name a time or a person. Call
        it when you do not know in which session, or when, something was said.
        """
        catalog = self.catalog()
        result = memory_of(catalog).search(
            query,
            sessions=[self._find(session).id] if session else [],
            roles=[role] if role else [],
            since=since,
            until=until,
        )
        lines = [
            f"({hit.session_id} · message {hit.position}, {hit.role}, {time_of(hit.timestamp)}) "
            f"{hit.text}"
            for hit in result.hits
        ]
        return self._fitted(f"messages for: {query[:80]}", lines, max_tokens)

    def timeline(
        self,
        session: AnySession = "",
        since: Day = None,
        until: Day = None,
        max_tokens: Room = TOLD_TOKENS,
    ) -> str:
        """List what a session was about: each message of the user with its number and time, in
        order. Without a session, list the sessions day by day. Call it first, to find your way in
        a long conversation.
        """
        if not session and len(self.catalog().sessions()) != 1:
            days = memory_of(self.catalog()).timeline(since=since, until=until)
            lines = [
                f"{each.day} · {each.session_id} · {one_line(each.title or '', LINE)} · "
                f"{counted(each.messages, 'message')}, {each.first:%H:%M} to {each.last:%H:%M} UTC"
                for each in days
            ]
            return self._fitted("sessions by day", lines, max_tokens)
        first, last = limits(since, until, clock_and_ids.now())
        with self._opened(session) as ctx:
            said = [(place, ctx.history.redacted(place)) for place in ctx.history.persons()]
            lines = [
                f"message {place} · {time_of(each.timestamp)} · {one_line(each.text, LINE)}"
                for place, each in reversed(said)
                if (first or each.timestamp) <= each.timestamp <= (last or each.timestamp)
            ]
            title = f"user messages of {counted(len(ctx.history), 'message')} in {ctx.id}"
        return self._fitted(title, lines, max_tokens)

    def checkpoints(self, session: SessionName = "", max_tokens: Room = TOLD_TOKENS) -> str:
        """Read the summaries that stand in for a session's older messages, the newest first: state,
        decisions, files, names. Call it to take up work after a compaction, or to continue another
        session. `expand` reads the originals behind an id.
        """
        with self._opened(session) as ctx:
            if self.is_transcript and not ctx.checkpoints and len(ctx.history) > 1:
                ctx.compress_conversation()
            lines = [
                f"({each.id}, messages {each.span.first} to {each.span.last})\n{each.summary}"
                for each in reversed(ctx.checkpoints)
            ]
            title = f"checkpoints of {ctx.id}"
            if not lines:  # a session may have messages but no checkpoints
                title += f": {counted(len(ctx.history), 'message')}, none of them compacted"
            return self._fitted(title, lines, max_tokens)

    def pin(
        self,
        message: str,
        session: SessionName = "",
        keep: bool = True,
    ) -> str:
        """Keep a message (its id or number) word for word in every later context of its session.
        Call it for a rule or a specification of the user that must not be paraphrased. With `keep`
        false it may be shortened again.
        """
        with self._opened(session) as ctx:
            place = ctx.history.place_of(meant(ctx, message))
            (ctx.pin if keep else ctx.unpin)(ctx.history[place].id)
            words = one_line(ctx.history.redacted(place).text, LINE)
            return f"message {place} is {'pinned' if keep else 'not pinned'}: {words}"

    def goals(
        self,
        session: SessionName = "",
        add: list[str] | None = None,
        end: list[str] | None = None,
        status: Literal["done", "dropped"] = "done",
        max_tokens: Room = TOLD_TOKENS,
    ) -> str:
        """List a session's goals, after adding some (a sentence each) and ending some (by id, as
        `done` or `dropped`). Active goals stand in every later context. Call it when the user sets
        a goal, and when one is reached or given up.
        """
        with self._opened(session) as ctx:
            if add or end:
                ctx.goals.set(goals_with(ctx, add or (), dict.fromkeys(end or (), status)))
            lines = [f"({goal.id[:8]}, {goal.status}) {goal.text}" for goal in ctx.goals]
            return self._fitted(f"goals of {ctx.id}", lines, max_tokens)

    # --- what they share --------------------------------------------------------------------------

    def _find(self, name: str) -> Session:
        """Return the session with that name. Without a name, return the only session."""
        catalog = self.catalog()
        sessions = catalog.sessions()
        if not name and len(sessions) == 1:
            return catalog.find(sessions[0].id)
        try:
            return catalog.find(name)
        except NotFound as error:
            rows = [
                f"{each.id} · {time_of(each.updated_at)} · "
                f"{counted(each.branch.messages, 'message')} · {one_line(each.title or '', LINE)}"
                for each in sessions[:LISTED]
            ]
            why = str(error) if name else "which session? Give its id"
            more = f", {LISTED} of {len(sessions):,}" if len(sessions) > LISTED else ""
            listed = "\n".join((f"Sessions, newest first{more}:", *rows))
            raise NotFound(f"{why}.\n{listed}" if rows else f"{why}. There is none yet.") from None

    @contextmanager
    def _opened(self, name: str) -> Iterator[ContextManager]:
        session = self._find(name)
        with context_of(self.catalog(), session) as ctx:
            ctx._session.state.masks_recalled = self.catalog().settings.redact
            yield ctx

    def _answer(self, name: str, tool: str, arguments: dict[str, Any], room: int) -> str:
        with self._opened(name) as ctx:
            return answer_tool(ctx._session.state, tool, arguments, room)

    def _fitted(self, title: str, lines: Sequence[str], room: int) -> str:
        """Return as many lines as fit, and how many there are. A first line that is too long is
        cut.
        """
        counter = wiring.token_counter_of(self.catalog().settings, "chat_completions")
        shown, left = list[str](), room - counter.text(title) - LINE // 4
        for line in lines:
            size = counter.text(line) + 1
            if size > left:
                break
            shown.append(line)
            left -= size
        if lines and not shown:
            shown = [lines[0][: 2 * room] + " … (cut: raise max_tokens)"]
        more = f"{len(shown)} of {len(lines)} " if len(shown) < len(lines) else f"{len(lines)} "
        hint = " (raise max_tokens, or narrow the question)" if len(shown) < len(lines) else ""
        return "\n\n".join((f"{more}{title}{hint}", *shown))


READ, WRITE = ("recall", "expand", "search", "timeline", "checkpoints"), ("pin", "goals")


def server(tools: SessionTools) -> MCPServer[Any]:
    """Build the server with these tools. Over a transcript, tools that write are left out."""
    made: MCPServer[Any] = MCPServer(
        "compact", instructions=" ".join(INSTRUCTIONS.split()), log_level="WARNING"
    )
    for name in READ if tools.is_transcript else READ + WRITE:
        hints = ToolAnnotations(
            read_only_hint=name in READ,
            destructive_hint=False,
            idempotent_hint=name != "goals",
            open_world_hint=False,
        )
        tool = getattr(tools, name)
        words = " ".join((tool.__doc__ or "").split())
        made.add_tool(
            _answering(tool, tools),
            name=name,
            description=words,
            annotations=hints,
            structured_output=False,
        )
    return made


def _answering(tool: Callable[..., str], tools: SessionTools) -> Callable[..., str]:
    """Return the tool with its secrets masked and its errors turned into sentences for a model."""

    def clean(text: str) -> str:
        masked: str = without_secrets(text) if tools.catalog().settings.redact else text
        return masked

    @functools.wraps(tool)
    def answer(**arguments: Any) -> str:  # noqa: ANN401 - the SDK checked them by the signature
        try:
            return clean(tool(**arguments))
        except CompactError as error:
            raise ToolError(without_secrets(str(error))) from None
        except Exception as error:  # noqa: BLE001 - the SDK would print a traceback
            what = without_secrets(f"{type(error).__name__}: {error}")
            raise ToolError(f"a bug in compact, please report it: {what}") from None

    return answer
