"""What holds for every model behind a server, whatever API it speaks (FR-6, FR-14)."""

import asyncio
from typing import Any

import pytest

from compact.errors import (
    CompactError,
    ContextOverflow,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
    WrongLayer,
)
from compact.models.providers.anthropic_messages import AnthropicMessages
from compact.models.providers.ollama_chat import OllamaChat
from compact.models.providers.openai_chat import OpenAIChat
from compact.models.providers.openai_responses import OpenAIResponses
from compact.testing import check_chat_model
from compact.testing.models import WAIT
from compact.wiring import chat_model
from tests.models.asking import context, heard, run, said
from tests.scripted import ScriptedServer
from tests.scripted.answers import (
    BreaksOff,
    Busy,
    CutOff,
    Down,
    Failed,
    FailsMidway,
    HalfJson,
    Hangs,
    HangsUp,
    NoSuchModel,
    NotJson,
    Overflow,
    Overloaded,
    Refuses,
    WrongKey,
)

for package in ("openai", "anthropic", "ollama"):
    pytest.importorskip(package, reason=f"the package {package} is not installed")

FACES: dict[type[Any], str] = {
    OpenAIChat: "",
    OpenAIResponses: "responses+",
    AnthropicMessages: "anthropic+",
    OllamaChat: "ollama+",
}
"""Each model, and what stands before an address in its key."""
each = pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)


@pytest.fixture(autouse=True)
def no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.slow
@each
@pytest.mark.parametrize("format", ["chat_completions", "responses", "anthropic", "ollama"])
def test_it_keeps_the_promises_of_a_chat_model(face: Any, format: str) -> None:
    """In two event loops, left and cancelled, in sessions of any format (US-3, FR-6, FR-14)."""
    with (
        ScriptedServer("a few\n words  of mine") as good,
        ScriptedServer(Down()) as failing,
        ScriptedServer(lambda asked: Hangs() if WAIT in asked.prompt else "at once") as slow,
    ):
        check_chat_model(
            lambda: face("m", base_url=good.url),
            format=format,
            failing=lambda: face("m", base_url=failing.url),
            slow=lambda: face("m", base_url=slow.url),
        )


@each
def test_its_key_names_it(face: Any) -> None:
    """By the name of a server's address (FR-14)."""
    key = f"{FACES[face]}http://127.0.0.1:1#m:8b"
    model = chat_model(key)
    assert type(model) is face
    assert model.name == key


@each
def test_a_stream_says_the_same(face: Any) -> None:
    """Pieces make up the answer; the last one carries it, with its cost (FR-14)."""
    with ScriptedServer("It holds, as it was said before.") as server:
        model = face("m", base_url=server.url)
        pieces, reply = run(heard(model.stream(context("What now?"))))
        whole = run(model.complete(context("What now?")))
    assert "".join(pieces) == said(reply).text == said(whole).text
    assert len(pieces) > 2
    assert pieces[-1] == ""
    assert reply.usage is not None
    assert whole.usage is not None
    assert reply.usage.prompt_tokens == whole.usage.prompt_tokens
    assert (reply.usage.completion_tokens, reply.finish) == (8, whole.finish)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("streamed", [False, True])
@each
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Busy(2.5), ModelUnavailable),
        (Down(), ModelUnavailable),
        (Overloaded(), ModelUnavailable),
        (HangsUp(), ModelUnavailable),
        (Hangs(), ModelUnavailable),
        (BreaksOff(), ModelUnavailable),
        (FailsMidway(), ModelUnavailable),
        (HalfJson(), ModelFailed),
        (NotJson(), ModelFailed),
        (NoSuchModel(), ModelRefused),
        (WrongKey(), ModelRefused),
        (Overflow("llama.cpp", 20), ContextOverflow),
        (Overflow("openai", 20), ContextOverflow),
        (Overflow("anthropic", 20), ContextOverflow),
        (
            Failed(200, body={"error": {"message": "upstream is busy", "code": 429}}),
            ModelUnavailable,
        ),
        (Failed(200, body={"choices": [], "output": None}), ModelFailed),
    ],
    ids=lambda x: repr(x) if not isinstance(x, type) else "",
)
def test_whatever_the_server_does_is_one_of_our_errors(
    face: Any, fault: Any, expected: type[CompactError], streamed: bool
) -> None:
    """Errors, silence, half answers and pages, whole and streamed. The client tries nothing again
    by itself, and the model can be asked again (FR-6).
    """
    if face is OllamaChat and isinstance(fault, FailsMidway | Failed):
        expected = ModelFailed  # its package loses the status of an error inside an answer
    with ScriptedServer(fault, "ok", count=lambda body: 21) as server:
        model = face("m", base_url=server.url, timeout=0.2 if isinstance(fault, Hangs) else 10)

        async def asked() -> str:
            go = context("go")
            with pytest.raises(expected) as raised:
                await (heard(model.stream(go)) if streamed else model.complete(go))
            assert type(raised.value) is expected or face is OllamaChat
            assert model.name in str(raised.value)
            if isinstance(fault, Busy) and face is not OllamaChat:  # it hands on no headers
                assert getattr(raised.value, "retry_after", None) == 2.5
            if isinstance(raised.value, ContextOverflow):
                assert (raised.value.tokens, raised.value.limit) == (21, 20)
            if isinstance(fault, Hangs):
                return "ok"
            return said(await model.complete(go)).text

        assert run(asked()) == "ok"
        assert isinstance(fault, Hangs) or len(server.prompts) == 2


@each
def test_it_is_told_how_an_answer_ended(face: Any) -> None:
    """In both ways (FR-6)."""
    for answer, finish in ((CutOff(), "length"), (Refuses(), "refusal")):
        if face is OllamaChat and finish == "refusal":
            continue  # its API knows none
        with ScriptedServer(answer) as server:
            model = face("m", base_url=server.url)
            assert run(model.complete(context("go"))).finish == finish
            assert run(heard(model.stream(context("go"))))[1].finish == finish


@each
def test_cancelling_leaves_the_model_usable(face: Any) -> None:
    """Cancellation passes through at any await (issue 4)."""
    with ScriptedServer(Hangs(), "ok") as server:
        model = face("m", base_url=server.url)

        async def cancelled() -> str:
            task = asyncio.create_task(model.complete(context("go")))
            while not server.prompts:  # noqa: ASYNC110 - the server lives in another thread
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return said(await model.complete(context("go"))).text

        assert run(cancelled()) == "ok"


@each
def test_only_an_active_context_is_sent(face: Any) -> None:
    """Neither a history nor a list of messages (FR-3)."""
    wrong: Any = [{"role": "user", "content": "go"}]
    model = face("m", base_url="http://127.0.0.1:1")
    for ask in (model.complete, model.count):
        with pytest.raises(WrongLayer):
            run(ask(wrong))
