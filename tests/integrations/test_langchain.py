"""LangChain's agents: the suite of doors, its own requests, and a real llama.cpp server."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from compact import CompactConfig, CompactManager, InvalidArgument
from compact.models.providers.tokenizers import HuggingFaceEstimator
from compact.session.fitted import Fitted
from compact.testing import doors
from compact.testing.doors import PROMISES, TURNS, Judge, Run, Suite
from tests.models import tiny_llama

pytest.importorskip("langchain")

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from compact.integrations.langchain import CompactMiddleware
from tests.integrations.langchain_door import ANSWER, LangChainDoor

ROOT = Path(__file__).resolve().parents[2]
SERVED = 2_048


@pytest.fixture(scope="module")
def suite() -> Suite:
    return Suite(LangChainDoor())


@pytest.mark.slow
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_the_door_keeps_every_promise(suite: Suite, promise: Callable[[Suite], None]) -> None:
    promise(suite)


def test_a_short_conversation_is_not_touched(suite: Suite) -> None:
    doors.wrong_settings_fail_at_start(suite)
    doors.what_fits_is_not_touched(suite)


def test_a_conversation_without_a_name_is_refused() -> None:
    with doors.manager_of() as manager:
        agent = LangChainDoor().agent(Judge(), [doors.TOOL], manager, "")
        with pytest.raises(InvalidArgument, match="thread_id"):
            agent.turn("Is beam 1 sound?")


def test_what_a_provider_runs_itself_is_counted_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that is no function of ours; the count stands before the structured output."""
    tools: list[Any] = [{"google_search": {}}]
    model = FakeListChatModel(responses=["Yes."])
    usage = {"input_tokens": 900, "output_tokens": 1, "total_tokens": 901}
    said = [AIMessage("Yes.", usage_metadata=usage), ToolMessage("{}", tool_call_id="o")]
    with doors.manager_of() as manager:
        door = CompactMiddleware(manager, "s")
        request = ModelRequest(model=model, messages=[HumanMessage("Is it sound?")], tools=tools)
        told: list[object] = []
        monkeypatch.setattr(Fitted, "report", lambda _, said: told.append(said))
        door.wrap_model_call(request, lambda _: ModelResponse(result=said))
        assert told == [900]
        result = {"type": "tool_result", "tool_use_id": "c", "content": "Sound."}
        odd = ModelRequest(
            model=model, messages=[HumanMessage([result, {"type": "text", "text": "?"}])]
        )
        with pytest.raises(InvalidArgument, match="ToolMessages"):
            door.wrap_model_call(odd, lambda _: ModelResponse(result=said))


def test_a_server_with_a_smaller_window_is_obeyed() -> None:
    """The settings say 4,096 and the server has 2,500: one refusal, told, and then none."""
    with doors.manager_of() as manager:
        run = Run(LangChainDoor(), manager=manager, judge=Judge(window=2_500)).turns(0, 30)
        assert run.judge.refusals == 1
        assert run.judge.turn_of[-1] == 29
        assert len(run.judge.prompts) == 60


def test_the_example_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In ten lines, with another model in the place of OpenAI's."""
    source = (ROOT / "examples" / "langchain_agent.py").read_text(encoding="utf-8")
    code = [line for line in source.split('"""')[2].splitlines() if line.strip()]
    assert len([line for line in code if "import" not in line]) <= 10
    model = FakeListChatModel(responses=["The northern one."])
    monkeypatch.setattr("langchain.chat_models.init_chat_model", lambda _: model)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "langchain_agent.py"))
    assert capsys.readouterr().out == "The northern one.\n"


@pytest.mark.slow
@pytest.mark.parametrize("is_ours", [True, False])
def test_a_hundred_turns_against_a_real_server(
    llama: Callable[[int], str], tiny_model: tiny_llama.Model, is_ours: bool
) -> None:
    """Each prompt goes to llama.cpp with a window of 2,048: none is too large, most are without."""
    client = openai.OpenAI(base_url=f"{llama(SERVED)}/v1", api_key="none", max_retries=0)
    estimator = HuggingFaceEstimator(tiny_model.tokenizer, framing=tiny_llama.FRAMING)
    config = CompactConfig(max_context_tokens=SERVED, output_reserve=ANSWER)
    refused: list[str] = []

    class Server:
        """The client's completions; a refusal is counted."""

        def create(self, **request: object) -> None:
            try:
                client.chat.completions.create(**request)  # type: ignore[call-overload]
            except openai.BadRequestError as error:
                refused.append(str(error))
                judge.refusals += 1
                raise
            except openai.InternalServerError:
                return  # llama.cpp cannot read what its model wrote

    judge = Judge(window=None)
    with CompactManager(config, tokenizer=estimator, summarizer="extractive") as manager:
        door = LangChainDoor(Server())
        run = Run(door, manager=manager if is_ours else None, judge=judge).turns(0, TURNS)
    print(f"{len(refused)} of {len(refused) + len(judge.prompts)} refused")
    assert not judge.faults
    if is_ours:
        assert not refused
        assert len(judge.prompts) == 2 * TURNS
        assert len(run.states[-1]) > 4 * (TURNS - 1)
    else:
        assert len(refused) > TURNS // 2
        assert all("exceed" in text for text in refused)
    client.close()
