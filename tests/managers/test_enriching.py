"""Titles, topics and names are found later, and what fails loses nothing (A-7, S-4)."""

import asyncio

import pytest

from compact import ContextManager, MemoryManager
from compact.errors import BlockingCallInLoop, ModelFailed
from compact.testing import ScriptedModel
from tests.scripted import Busy, ScriptedServer

CRANE = "Please mend the crane on the north pier, and never paint it red. It squeaks."
FERRY = "password: Xk9!fJq2Lm is what I use. When does the ferry moor?"


@pytest.fixture
def memory(tmp_path):
    for name, said in (("crane", CRANE), ("ferry", FERRY)):
        with ContextManager(window=8_192, store=tmp_path / "c.db", session_id=name) as ctx:
            ctx.add_message(role="user", content=said)
            ctx.add_message(role="assistant", content="Yes, at once.")
    with MemoryManager(tmp_path / "c.db") as made:
        yield made


def titles(memory):
    return {each.id: each.title for each in memory.sessions()}


def test_without_a_model_a_title_is_the_persons_first_words(memory):
    report = memory.enrich()
    assert report.enriched == 2
    assert (
        titles(memory)["crane"] == "Please mend the crane on the north pier, and never paint it …"
    )
    assert "Xk9" not in str(report)
    about = next(each.metadata for each in memory.sessions() if each.id == "crane")
    assert {"crane", "pier"} <= set(about["topics"])
    assert memory.enrich().enriched == 0


def test_a_model_writes_titles_once_and_sees_no_secret(memory):
    model = ScriptedModel("“The crane on the pier.”", "The ferry at night")
    report = memory.enrich(model=model)
    assert set(report.titles.values()) == {"The crane on the pier", "The ferry at night"}
    assert "Xk9" not in "".join(context.render_text() for context in model.contexts)
    assert memory.enrich(model=model).enriched == 0
    assert memory.enrich().enriched == 0


def test_a_title_of_a_person_stays(memory):
    memory.enrich()
    memory.describe("crane", title="Mine", important=True)
    with ContextManager(window=8_192, store=memory.store, session_id="crane") as ctx:
        ctx.add_message(role="user", content="Is it done?")
    memory.enrich(model=ScriptedModel("One title", "Another title"))
    assert titles(memory) == {"crane": "Mine", "ferry": "One title"}
    assert next(x for x in memory.sessions() if x.id == "crane").metadata["important"]


@pytest.mark.parametrize("written", ["", "one\ntwo", "x" * 61, "token ghp_" + "a1B2" * 9])
def test_what_is_no_title_is_reported_and_replaced(memory, written):
    report = memory.enrich(model=ScriptedModel(written, "A title"), most=1)
    (failed,) = report.failed
    assert report.titles[failed]
    assert memory.enrich(model=ScriptedModel("A title", "A title")).enriched == 2


def test_a_model_that_fails_is_not_asked_for_ever(memory):
    for number in range(6):
        with ContextManager(window=8_192, store=memory.store, session_id=f"s{number}") as ctx:
            ctx.add_message(role="user", content=f"Is berth {number} free?")
    model = ScriptedModel(ModelFailed("out of order"))
    report = memory.enrich(model=model)
    assert len(report.failed) == 3
    assert len(model.contexts) == 3
    assert len(report.titles) == report.enriched == 8


def test_over_http_with_a_server_that_is_busy(memory, monkeypatch):
    with ScriptedServer(Busy()) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        report = memory.enrich(model="ollama:qwen3:8b", most=1)
    assert len(report.failed) == 1
    assert None not in report.titles.values()


async def _inside(memory):
    memory.enrich(model=ScriptedModel("A title"))


def test_a_running_loop_is_not_held(memory):
    with pytest.raises(BlockingCallInLoop):
        asyncio.run(_inside(memory))
