"""A coding assistant with the OpenAI Agents SDK: files and a shell for a whole day's session.

It shows the integration in full: the session in our store, calls that fit, words that stay, an
agent that hands over to another one, spans of the trace, and compressing by hand.

    pip install '.[agents]'    # in the clone; it needs OPENAI_API_KEY
    python examples/coding_assistant.py [FOLDER]

Say `/protect TEXT` for what must never be left out, `/compact` to make room now, `/quit` to end.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from agents import Agent, Runner, function_tool, set_trace_processors
from agents.tracing import TracingProcessor

from compact import CompactConfig, CompactManager
from compact.integrations.openai_agents import SPAN, CompactSession, mark_protected, run_config

MODEL = os.environ.get("CHAT_MODEL", "gpt-4o-mini")
ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
SESSION = "coding"


def inside(path: str) -> Path:
    """A path inside the folder."""
    found = (ROOT / path).resolve()
    if not found.is_relative_to(ROOT):
        raise ValueError(f"{path} lies outside of {ROOT}")
    return found


@function_tool
def read_file(path: str) -> str:
    """Read a file of the project."""
    return inside(path).read_text(encoding="utf-8")


@function_tool
def list_files(pattern: str) -> str:
    """Files of the project by a pattern such as `src/**/*.py`."""
    found = (each.relative_to(ROOT) for each in ROOT.glob(pattern))
    return "\n".join(map(str, sorted(found)))


@function_tool
def run_tests(test: str) -> str:
    """Run a test file with pytest."""
    command = [sys.executable, "-m", "pytest", "-q", str(inside(test))]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    return done.stdout + done.stderr


class Told(TracingProcessor):
    """Says when the context was compressed."""

    def on_span_end(self, span: Any) -> None:
        if getattr(span.span_data, "name", "") == SPAN:
            data = span.span_data.data
            print(f"[compressed to {data.get('tokens_after', '?')} tokens]", file=sys.stderr)

    def on_span_start(self, span: Any) -> None: ...
    def on_trace_start(self, trace: Any) -> None: ...
    def on_trace_end(self, trace: Any) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


def assistant() -> Agent:
    tools = [read_file, list_files, run_tests]
    reviewer = Agent(
        name="reviewer",
        handoff_description="Reviews a finished change.",
        instructions="Review the change. Name what could break, the worst first.",
        model=MODEL,
        tools=tools,
    )
    return Agent(
        name="coder",
        instructions=f"You work on the project in {ROOT}. Read before you write; be brief.",
        model=MODEL,
        tools=tools,
        handoffs=[reviewer],
    )


async def answer(agent: Agent, given: Any, **options: Any) -> Agent:
    """Print the answer as it is written; the agent that goes on."""
    result = Runner.run_streamed(agent, given, max_turns=50, **options)
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            print(event.data.delta, end="", flush=True)
    print()
    return result.last_agent


async def main() -> None:
    set_trace_processors([Told()])  # instead of what sends traces to OpenAI
    # COMPACT_MAX_CONTEXT_TOKENS and other settings of the environment hold too
    config = CompactConfig.load(store=str(ROOT / ".compact-coding.db"))
    with CompactManager(config) as manager:
        session = CompactSession(SESSION, manager)
        options = {"session": session, "run_config": run_config(manager, SESSION)}
        agent, protected = assistant(), []
        while (said := await asyncio.to_thread(line)) not in (None, "/quit"):
            command, _, rest = said.partition(" ")
            if command == "/protect":
                protected.append(mark_protected(rest))
            elif command == "/compact":
                await session.run_compaction({"force": True})
                budget = manager.session(SESSION).budget
                print(f"{budget.used_tokens:,} of {budget.max_tokens:,} tokens")
            elif said:
                given = [*protected, {"role": "user", "content": said}]
                agent, protected = await answer(agent, given, **options), []


def line() -> str | None:
    try:
        return input("> ").strip()
    except EOFError:
        return None


if __name__ == "__main__":
    asyncio.run(main())
