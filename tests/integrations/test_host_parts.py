"""Any message of a host survives the way to compact and back: all kinds of parts."""

from __future__ import annotations

import asyncio
import base64
import importlib
import random
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from compact import CannotFit, CompactConfig, CompactManager
from compact.integrations import parts as host_parts
from tests.strategies import log, prose

ai = pytest.importorskip("pydantic_ai.messages")
types = pytest.importorskip("google.genai.types")
adk = pytest.importorskip("compact.integrations.google_adk")
pydantic = pytest.importorskip("compact.integrations.pydantic_ai")

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WINDOWS = (1_500, 3_000, 500_000)
Make = Callable[[random.Random], Any]


def words(r: random.Random) -> str:
    return prose(r, r.choice((5, 40, 200)))


# --- pydantic-ai ----------------------------------------------------------------------------------

ITEMS: Sequence[Make] = (
    words,
    lambda r: ai.TextContent(words(r), metadata={"seen": True}),
    lambda r: ai.ImageUrl("https://example.org/lens.png"),
    lambda r: ai.BinaryContent(PIXEL, media_type="image/png"),
    lambda r: ai.BinaryContent(b"%PDF-1.4", media_type="application/pdf"),
    lambda r: ai.DocumentUrl("https://example.org/plan.pdf"),
    lambda r: ai.AudioUrl("https://example.org/horn.mp3"),
    lambda r: ai.VideoUrl("https://example.org/pier.mp4"),
    lambda r: ai.UploadedFile(file_id="file-1", provider_name="openai", media_type="image/png"),
    lambda r: ai.CachePoint(),
)
ASKED: Sequence[Make] = (
    lambda r: ai.UserPromptPart(words(r)),
    lambda r: ai.UserPromptPart([r.choice(ITEMS)(r) for _ in range(r.randint(1, 4))]),
    lambda r: ai.SystemPromptPart(words(r)),
    lambda r: ai.RetryFeedbackPart(words(r), retry=ai.RetryInfo(cause="model_retry")),
    lambda r: ai.SpeechPart(speaker="user", transcript=words(r)),
    lambda r: ai.InstructionDeltaPart(id=None, content=words(r)),
    lambda r: ai.InstructionBaselinePart(instructions=[]),
    lambda r: ai.ToolAvailabilityDeltaPart(tools_added=["dig"]),
    lambda r: ai.CompactionPart(words(r)),
)
REPLIED: Sequence[Make] = (
    lambda r: ai.TextPart(words(r), id="msg_1", provider_name="openai"),
    lambda r: ai.ThinkingPart(words(r), signature="c2VhbGVk", provider_name="anthropic"),
    lambda r: ai.ThinkingPart("", signature="c2VhbGVk", provider_name="anthropic"),
    lambda r: ai.FilePart(ai.BinaryContent(PIXEL, media_type="image/png")),
    lambda r: ai.NativeToolCallPart("web_search", {"query": words(r)}, "n1"),
    lambda r: ai.NativeToolReturnPart("web_search", words(r), "n1"),
)
CARRIED = ("instruction-delta", "instruction-baseline", "tool-availability-delta", "compaction")


def pydantic_call(r: random.Random, name: str) -> Any:
    args = {"lamp": r.randrange(9), "why": words(r)}
    return ai.ToolCallPart("look", r.choice((args, str(args).replace("'", '"'))), name)


def pydantic_result(r: random.Random, name: str) -> Any:
    content = r.choice((log(r, 400), {"lamp": [1, None]}, [log(r, 50), r.choice(ITEMS[2:-1])(r)]))
    outcome = r.choice(("success", "failed", "retried"))
    return ai.ToolReturnPart("look", content, name, outcome=outcome)


def pydantic_history(r: random.Random) -> list[Any]:
    """Turns with calls, one or two at a time, and all kinds of parts."""
    made: list[Any] = [ai.ModelRequest([ai.SystemPromptPart("Look."), ai.UserPromptPart("Hello")])]
    for turn in range(r.randint(3, 14)):
        names = [f"c{turn}-{i}" for i in range(r.choice((0, 1, 2)))]
        said = [r.choice(REPLIED)(r) for _ in range(r.randint(0 if names else 1, 3))]
        made.append(ai.ModelResponse([*said, *(pydantic_call(r, n) for n in names)]))
        results = [pydantic_result(r, name) for name in names]
        asked = [r.choice(ASKED)(r) for _ in range(r.randint(0 if names else 1, 3))]
        made.append(ai.ModelRequest([*asked, *results], metadata={"turn": turn}))
    return [*made, ai.ModelResponse([ai.TextPart("Yes.")]), ai.ModelRequest.user_text_prompt("So?")]


def pydantic_fitted(history: list[Any], window: int) -> list[Any]:
    from pydantic_ai import Agent
    from pydantic_ai.models.function import FunctionModel

    seen: list[list[Any]] = []

    class Shown(pydantic.FittedContext):  # type: ignore[misc,name-defined]
        async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
            request_context.messages = history
            done = await super().prepare_model_request(ctx, request_context)
            seen.append(list(done.messages))
            return done

    def answer(messages: list[Any], info: Any) -> Any:
        return ai.ModelResponse([ai.TextPart("Yes")])

    with CompactManager(CompactConfig(max_context_tokens=window, tokenizer="o200k")) as manager:
        agent = Agent(FunctionModel(answer), capabilities=[Shown(manager, "s")])
        asyncio.run(agent.run("Hello"))
    return seen[0]


# --- Google ADK -----------------------------------------------------------------------------------

PARTS: Sequence[Make] = (
    lambda r: types.Part(text=words(r)),
    lambda r: types.Part.from_bytes(data=PIXEL, mime_type="image/png"),
    lambda r: types.Part.from_bytes(data=b"%PDF-1.4", mime_type="application/pdf"),
    lambda r: types.Part.from_uri(file_uri="https://example.org/plan.pdf", mime_type="text/pdf"),
    lambda r: types.Part(code_execution_result={"outcome": "OUTCOME_OK", "output": words(r)}),
)
THOUGHT: Sequence[Make] = (
    *PARTS,
    lambda r: types.Part(text=words(r), thought=True, thought_signature=b"sealed"),
    lambda r: types.Part(executable_code={"language": "PYTHON", "code": words(r)}),
    lambda r: types.Part(text="", thought_signature=b"sealed"),
)


def adk_contents(r: random.Random) -> list[Any]:
    made = [types.UserContent("Hello")]
    for turn in range(r.randint(3, 14)):
        own_ids = r.random() < 0.5  # ADK takes its own ids away before the model is asked
        names = [f"c{turn}-{i}" if own_ids else None for i in range(r.choice((0, 1, 2)))]
        said = [r.choice(THOUGHT)(r) for _ in range(r.randint(0 if names else 1, 3))]
        for name in names:
            call = types.FunctionCall(id=name, name="look", args={"why": words(r)})
            said.append(types.Part(function_call=call, thought_signature=b"sealed"))
        made.append(types.Content(role="model", parts=said))
        answers = []
        for name in names:
            response = r.choice(({"result": log(r, 400)}, {"lamps": [1, None]}, None))
            answer = types.FunctionResponse(id=name, name="look", response=response)
            answers.append(types.Part(function_response=answer))
        asked = [r.choice(PARTS)(r) for _ in range(r.randint(0 if names else 1, 3))]
        made.append(types.Content(role="user", parts=[*asked, *answers]))
    return [*made, types.ModelContent("Yes."), types.UserContent("So?")]


def adk_fitted(contents: list[Any], window: int) -> list[Any]:
    from google.adk.models.llm_request import LlmRequest

    session = SimpleNamespace(app_name="harbour", user_id="u", id="s")
    context: Any = SimpleNamespace(session=session, agent_name="keeper", invocation_id="i")
    with CompactManager(CompactConfig(max_context_tokens=window, tokenizer="o200k")) as manager:
        plugin = adk.CompactPlugin(manager)
        request = LlmRequest(contents=list(contents))
        request.contents = contents
        asyncio.run(plugin.before_model_callback(callback_context=context, llm_request=request))
        return list(request.contents)


# --- both -----------------------------------------------------------------------------------------

BOTH = [
    pytest.param(pydantic_history, pydantic_fitted, id="pydantic-ai"),
    pytest.param(adk_contents, adk_fitted, id="Google ADK"),
]


@pytest.mark.parametrize(("made", "fitted"), BOTH)
@given(seed=st.integers(0, 10**9), window=st.sampled_from(WINDOWS))
@settings(max_examples=12, deadline=None)
def test_what_is_kept_is_the_hosts_own(
    made: Make, fitted: Callable[[list[Any], int], list[Any]], seed: int, window: int
) -> None:
    """A message that fits is the host's object, and one that does not is made of the host's parts;
    calls have their results; nothing of the host's is changed in place.
    """
    before = made(random.Random(seed))
    copy = repr(before)
    try:
        after = fitted(before, window)
    except CannotFit:  # what the framework alone may take away is larger than the window
        reject()
    assert repr(before) == copy
    own = {id(part) for message in before for part in message.parts or ()}
    if window == max(WINDOWS):
        assert [id(message) for message in after] == [id(message) for message in before]
    kept = [id(message) for message in after if any(message is each for each in before)]
    assert kept == [id(message) for message in before if id(message) in set(kept)]
    assert sum(id(part) in own for message in after for part in message.parts or ())
    assert dangling(after) == []
    assert carried(after) == carried(before)


def dangling(messages: Sequence[Any]) -> list[str]:
    """Calls and results that do not stand beside each other."""
    found, due = list[str](), list[str]()
    for message in messages:
        calls, answers = list[str](), list[str]()
        for part in message.parts or ():
            call = getattr(part, "function_call", None)
            answer = getattr(part, "function_response", None)
            if call or getattr(part, "part_kind", "") == "tool-call":
                calls.append(str(call.name if call else part.tool_call_id))
            elif answer or getattr(part, "part_kind", "") == "tool-return":
                answers.append(str(answer.name if answer else part.tool_call_id))
        if due and sorted(due) != sorted(answers):
            found.append(f"{due} were answered by {answers}")
        elif not due:
            found += [f"{each} answers nothing" for each in answers]
        due = calls
    return found + [f"{due} is open"] * bool(due)


def carried(messages: Sequence[Any]) -> list[int]:
    """The framework's own records, which no compression may take."""
    parts = [part for message in messages for part in message.parts or ()]
    return [id(part) for part in parts if getattr(part, "part_kind", "") in CARRIED]


def test_thoughts_without_words_stay_apart() -> None:
    """Their signatures are all that they have."""
    thoughts = [ai.ThinkingPart("", id=name, signature=name) for name in ("one", "two")]
    stood = [*thoughts, ai.TextPart("A long story.")]
    item = host_parts.reply(stood, pydantic._block)
    item["content"][-1] = {"type": "text", "text": "Short."}
    assert pydantic._written(item, stood) == [*thoughts, ai.TextPart("Short.")]


def test_an_older_pydantic_ai_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    from pydantic_ai.capabilities import AbstractCapability

    monkeypatch.delattr(AbstractCapability, "prepare_model_request")
    monkeypatch.delitem(sys.modules, "compact.integrations.pydantic_ai")
    with pytest.raises(ImportError, match=r"needs pydantic-ai 2\.64 or newer"):
        importlib.import_module("compact.integrations.pydantic_ai")


def test_two_users_of_adk_have_sessions_of_one_name() -> None:
    """ADK's ids are unique for one user only. A count belongs to the call that it was made for."""
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse

    used = types.GenerateContentResponseUsageMetadata(prompt_token_count=9)
    answer = LlmResponse(usage_metadata=used)
    with CompactManager(CompactConfig(max_context_tokens=3_000)) as manager:
        plugin = adk.CompactPlugin(manager)
        for user in ("u", "v"):
            session = SimpleNamespace(app_name="harbour", user_id=user, id="1")
            context: Any = SimpleNamespace(session=session, agent_name="k", invocation_id="i")
            other: Any = SimpleNamespace(session=session, agent_name="k", invocation_id="j")
            request = LlmRequest(contents=[types.UserContent(f"I am {user}.")])
            sent = plugin.before_model_callback(callback_context=context, llm_request=request)
            asyncio.run(sent)
            assert plugin._taken(other) is None
            sent = plugin.before_model_callback(callback_context=context, llm_request=request)
            asyncio.run(sent)
            done = plugin.after_model_callback(callback_context=context, llm_response=answer)
            asyncio.run(done)
        assert plugin._sent == {}, "nothing waits"
        names = {session.id for session in manager.store.sessions()}
    assert names == {"harbour/u/1/k", "harbour/v/1/k"}
