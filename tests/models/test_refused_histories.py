"""Histories that a real llama.cpp server refused for good, and is now asked with: a session goes on
whatever stands in it, and what cannot be shown is said once, in one plain error (issue 4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from compact import ContextManager
from compact.errors import ModelRefused
from compact.messages.asking import Ask
from compact.messages.context import ActiveContext
from compact.messages.formats.known import format_named
from compact.messages.policy import CompactPolicy
from compact.models.providers.tokenizers import HuggingFaceEstimator
from compact.wiring import chat_model, token_counter
from tests.models import tiny_llama
from tests.models.conversing import Notes, Watched, answered, listening
from tests.scripted import Failed, Received, Said, ScriptedServer
from tests.strategies import PNG

FACES = {"chat_completions": "", "responses": "responses+", "anthropic": "anthropic+"}
SIZE = 2048
Llama = Callable[[int], str]
Listed = list[dict[str, Any]]


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    noted = Notes()
    listening(monkeypatch, noted)
    return noted


@pytest.fixture(scope="module")
def estimator(tiny_model: tiny_llama.Model) -> HuggingFaceEstimator:
    return HuggingFaceEstimator(tiny_model.tokenizer, framing=tiny_llama.FRAMING)


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: object = None, **more: object) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def run(arguments: str = "{}", result: object = "It holds.", **call: object) -> Listed:
    """A call and its result."""
    function = {"name": "read_file", "arguments": arguments}
    made = {"id": "a", "type": "function", "function": function, **call}
    return [
        assistant(tool_calls=[made]),
        {"role": "tool", "tool_call_id": "a", "content": result},
    ]


HEAD = "data:image/png;base64,"
PICTURE: dict[str, Any] = {"type": "image_url", "image_url": {"url": HEAD + PNG}}
FREE = {"name": "patch", "input": "*** Begin"}
HISTORIES: dict[str, Listed] = {
    "an answer without content": [{"role": "assistant"}],
    "a name that is null": [assistant("Yes.", name=None)],
    "a bare text among parts": [user(["Hello."])],
    "a refusal among parts": [assistant([{"type": "refusal", "refusal": "No."}])],
    "a part of an unknown kind": [assistant([{"type": "x_new"}, {"type": "text", "text": "k"}])],
    "a result without content": [run()[0], {"role": "tool", "tool_call_id": "a"}],
    "a call without a type": [
        assistant(tool_calls=[{"id": "a", "function": {"name": "f", "arguments": "{}"}}]),
        run()[1],
    ],
    "a call of a custom tool": [
        assistant(tool_calls=[{"id": "a", "type": "custom", "custom": FREE}]),
        run()[1],
    ],
    "half an emoji": [assistant("Fine \ud83d"), *run(result="\udc80")],
    "half an emoji in arguments": run('{"path": "\\ud83d"}'),
    "a number without end": run('{"lines": 1e999}'),
    "brackets without end": run('{"a": ' * 300 + "1" + "}" * 300),
    "many brackets without end": run('{"a": ' * 5000),
    "control characters": [user("".join(map(chr, range(32))) + "\x7f\ufffe")],
    "results that answer nothing": [run()[1], run()[1]],
    "a call that nothing answers": [run()[0]],
    "calls with one id": [*run(), *run()],
    "the assistant's alone": [assistant("One."), assistant("Two.")],
    "nothing but empty messages": [user(""), assistant(""), assistant([]), user("  ")],
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "wire"),
    [
        pytest.param(name, wire, marks=() if (i + j) % 3 == 0 else pytest.mark.slow)
        for i, name in enumerate(HISTORIES)
        for j, wire in enumerate(FACES)
    ],
)
def test_a_session_goes_on_whatever_stands_in_it(
    llama: Llama, notes: Notes, estimator: HuggingFaceEstimator, name: str, wire: str
) -> None:
    """By each face of the server; every request is answered, but for what llama.cpp itself cannot
    read of its own answer.
    """
    model = Watched(chat_model(f"{FACES[wire]}{llama(SIZE)}/v1#tiny-random"), SIZE, notes)
    with ContextManager(
        window=SIZE, tokenizer=estimator, policy=CompactPolicy(output_reserve=4)
    ) as ctx:
        ctx.add_messages([user("Begin."), *HISTORIES[name], user("And now?")])
        answered(ctx, model, notes, streamed=False)
        ctx.add_messages([user("And then?")])
        answered(ctx, model, notes, streamed=True)
        asyncio.run(model.aclose())
    assert set(notes.answers) <= {200, 400, 404, 500}
    unknown = name == "a part of an unknown kind" and wire == "chat_completions"
    assert notes.answers[400] == unknown, "it is learned once"
    assert notes.answers[500] <= notes.again
    assert min(prompt.counted - prompt.reported for prompt in notes.prompts) >= 0


@pytest.mark.parametrize("wire", FACES)
@pytest.mark.parametrize(
    "said",
    [
        [user([{"type": "text", "text": word} for word in ("one two", "three", "four")])],
        run('{"a":["b","c","d","e","f"],"g":{"h":1,"i":[1,2,3,4]}}'),
        [*HISTORIES["a call of a custom tool"]],
    ],
    ids=["several texts", "arguments without spaces", "free text of a custom tool"],
)
def test_what_a_server_writes_otherwise_is_counted_so(
    llama: Llama, notes: Notes, estimator: HuggingFaceEstimator, wire: str, said: Listed
) -> None:
    """K-2: it puts line ends between texts and spaces into arguments; a count is never under."""
    listed = [user("Begin."), *said]
    messages = tuple(format_named("chat_completions").parse(m, i) for i, m in enumerate(listed))
    counter = token_counter("chat_completions", tokenizer=estimator)
    context = ActiveContext(messages=messages, tokens=counter.messages(messages))

    async def asked() -> None:
        model = Watched(chat_model(f"{FACES[wire]}{llama(SIZE)}/v1#tiny-random"), SIZE, notes)
        await model.complete(context, Ask(max_tokens=1))
        await model.aclose()

    asyncio.run(asked())
    [prompt] = notes.prompts
    assert 0 <= prompt.counted - prompt.reported <= 5, "5 where two messages are sent as one"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wire", FACES)
def test_an_image_is_refused_once_and_the_session_goes_on(
    llama: Llama, notes: Notes, estimator: HuggingFaceEstimator, wire: str, streamed: bool
) -> None:
    """A model of texts says so in one plain error, not to be asked again; then the log still holds
    the image, and what was said after it is answered.
    """
    model = Watched(chat_model(f"{FACES[wire]}{llama(SIZE)}/v1#tiny-random"), SIZE, notes)
    shown = user([{"type": "text", "text": "What is it?"}, PICTURE])
    with ContextManager(
        window=SIZE, tokenizer=estimator, policy=CompactPolicy(output_reserve=4)
    ) as ctx:
        ctx.add_messages([shown])
        with pytest.raises(ModelRefused, match=r"takes no images: ask another model"):
            list(ctx.stream(model)) if streamed else ctx.send(model)
        ctx.add_messages([user("Then tell me something else.")])
        answered(ctx, model, notes, streamed=streamed)
        assert ctx.history[0].wire == shown
        asyncio.run(model.aclose())
    assert notes.answers[500] == 1 + notes.again


class OnlyReads:
    """A model of texts."""

    def outcome(self, request: Received) -> Said | Failed:
        if any(message.get("images") for message in request.body["messages"]):
            return Failed(400, body={"error": "this model does not support image input"})
        return Said("Fine.")


def test_ollama_is_sent_words_for_an_image_that_it_refused() -> None:
    """Another image is refused again. A model that is asked later is shown none of them, and nobody
    has to be told.
    """
    pytest.importorskip("ollama", reason="the package ollama is not installed")
    with ScriptedServer(OnlyReads()) as server, ContextManager(window=4096) as ctx:
        model = chat_model(f"ollama+{server.url}#tiny")
        for turn, data in enumerate((PNG, PNG[:-8])):
            ctx.add_messages([user([{**PICTURE, "image_url": {"url": HEAD + data}}])])
            with pytest.raises(ModelRefused, match="takes no images"):
                list(ctx.stream(model)) if turn else ctx.send(model)
            ctx.add_messages([user("Go on.")])
            assert ctx.send(model).text == "Fine."
        *_, last = server.prompts
        assert [m["content"] for m in last.body["messages"]].count("[image]") == 2
        other = chat_model(f"ollama+{server.url}#other")
        ctx.add_messages([user("And now?")])
        assert "".join(piece.text for piece in ctx.stream(other)) == "Fine."


def key_at(server: ScriptedServer, wire: str) -> str:
    if wire == "ollama":
        return f"ollama+{server.url}#tiny"
    return f"{FACES[wire]}{server.url}/v1#tiny"


class Picky:
    """A model that sees, and reads no BMP."""

    def outcome(self, request: Received) -> Said | Failed:
        if "BMP" in str(request.body):
            said = "You uploaded an unsupported image. Please make sure your image is valid."
            return Failed(400, body={"error": {"message": said, "code": "invalid_image_format"}})
        return Said("Fine.")


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wire", [*FACES, "ollama"])
def test_one_broken_image_takes_no_sight_from_a_model(wire: str, streamed: bool) -> None:
    """It is refused once and left out from then on; good images, earlier and later ones, are still
    shown. A model that is asked later finds out alone.
    """
    for package in ("openai", "anthropic", "ollama"):
        pytest.importorskip(package, reason=f"the package {package} is not installed")
    later_data = PNG[:-8]
    good, broken, later = (
        user([{"type": "image_url", "image_url": {"url": HEAD + data}}])
        for data in (PNG, "BMP" + PNG[3:], later_data)
    )
    with ScriptedServer(Picky()) as server, ContextManager(window=8192) as ctx:
        key = key_at(server, wire)

        def asked(model: Any, *said: dict[str, Any]) -> str:
            ctx.add_messages(list(said))
            answer = (
                "".join(x.text for x in ctx.stream(model)) if streamed else ctx.send(model).text
            )
            return answer + str(server.prompts[-1].body)

        model = chat_model(key)
        assert PNG in asked(model, good)
        with pytest.raises(ModelRefused, match="cannot read a file"):
            asked(model, broken)
        seen = asked(model, later)
        assert (seen.count(PNG), seen.count(later_data), seen.count("[image]")) == (1, 2, 1)
        seen = asked(chat_model(key), user("And now?"))
        assert (seen.count(PNG), seen.count("[image]")) == (1, 2), "the newest are left out first"
