"""What is marked important, or scored 1, stays before what is not, whoever said it (C-4)."""

from collections.abc import Mapping
from typing import Any

import pytest

from compact import ContextManager, Message, compress, plan
from compact.messages.messages import Text, ToolCall, ToolResult
from tests.doors.talking import verbatim

Dict = dict[str, Any]
FACT = "The zircon valve opens at 417 kelvin."
DULL = "The old mill pond was not looked at this time."
OTHER = "The bronze valve opens at 503 kelvin."
MARKS: Mapping[str, Dict] = {
    "flag": {"metadata": {"important": True}},
    "score": {"importance_score": 1.0},
}


def talk(role: str, mark: Dict) -> list[Message]:
    """A talk in which two messages of a role say a thing like each other, one of them marked."""
    out = [Message(role="user", content="Look after the boathouse, please.")]
    for i in range(60):
        marked = {5: (OTHER, {}), 6: (FACT, mark), 7: (OTHER.replace("503", "611"), {})}.get(i)
        out.append(Message(role="user", content=f"Question {i}: what of beam {i}? " + "oak " * 20))
        if marked and role == "user":
            out[-1] = Message(role="user", content=f"{marked[0]} {'oak ' * 20}", **marked[1])
        said = f"Beam {i} is held by {i + 3} trenails in frame_{i}.py, and so on. " * 4
        out.append(Message(role="assistant", content=said))
        if marked and role == "assistant":
            out[-1] = Message(role="assistant", content=f"{said} {marked[0]}", **marked[1])
    return out


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_what_is_marked_stays_word_for_word(role: str, mark: str) -> None:
    """In one call and through the compressions of a session; what is like it does not (C-4)."""
    given = talk(role, MARKS[mark])
    (marked,) = [m for m in given if m.metadata.important or m.importance_score == 1]
    fitted = compress(given, max_tokens=2_000)
    assert Text(marked.text) in [part for m in fitted for part in m.parts]
    ctx = ContextManager(window=4_096)
    for message in given:
        ctx.add_message(message)
        ctx.get_context_for_model()
    assert ctx.compressions > 1
    texts = [m.text for m in ctx.active_context().messages]
    assert marked.text in texts
    others = [m.text for m in given if "bronze" in m.text]
    assert not set(others) & set(texts)


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("works", [False, True])
def test_where_it_cannot_stay_the_story_tells_it_first(mark: str, works: bool) -> None:
    """Too large for what may stay, and dull without the mark; in talk and in an agent's work
    (C-4).
    """
    long = f"{DULL} " + "So it was, and so it went on all the while. " * 60
    for marks in (MARKS[mark], {}):
        given = talk("assistant", {})
        at = next(i for i, m in enumerate(given) if FACT in m.text)
        given[at] = Message(role="assistant", content=long, **marks)
        for i in range(len(given) - 2 if works else 0, 0, -2):
            call = ToolCall(f"c{i}", "bash", f'{{"command": "look {i}"}}')
            result = ToolResult(call.id, "x")
            given.insert(i, Message(role="tool", content=(result,)))
            given.insert(i, Message(role="assistant", content=(call,)))
        told = "\n".join(m.text for m in compress(given, max_tokens=700))
        assert (DULL in told) == bool(marks)


@pytest.mark.parametrize(("window", "words"), [(2_000, 90), (8_192, 700)])
@pytest.mark.parametrize("at_once", [False, True])
def test_a_larger_one_stays_while_others_do(window: int, words: int, at_once: bool) -> None:
    """C-4: also where it takes more than a quarter of the room."""
    ctx = ContextManager(window=window)
    marked = f"{FACT} {'pond reed ' * words}"
    asked = [
        {"role": "user", "content": f"Question {i}: go on with beam {i}, please."}
        for i in range(60)
    ]
    for i, question in enumerate(asked):
        ctx.add_message(question)
        if not at_once:
            ctx.get_context_for_model()
        ctx.add_message(role="assistant", content=f"Beam {i}: {'oak ' * (window // 60)}")
        if i == 9:
            ctx.add_message(role="assistant", content=marked, important=True)
    prompt = ctx.get_context_for_model()
    assert marked in [m["content"] for m in prompt]
    assert ctx.budget.used_tokens < ctx.window.trigger
    assert len(verbatim(asked, prompt)) >= 9, "beside a person's newest words"


def test_the_plan_names_what_has_no_room() -> None:
    """C-4: nothing that is marked leaves in silence."""
    talk: list[Dict] = [
        {"role": "user", "content": f"Question {i}. {'oak ' * 30}"} for i in range(60)
    ]
    talk[7] = {**talk[7], "content": "pond reed " * 1_000, "metadata": {"important": True}}
    done = plan(talk, max_tokens=1_000)
    assert "1 that are marked important are larger than the room for them" in done.explain()
    assert "message 7" in done.explain()
    assert "marked important" not in plan(talk[:7] + talk[8:], max_tokens=1_000).explain()


@pytest.mark.parametrize("ratio", [0.4, 0.5])
def test_the_first_request_stays_where_there_is_room(ratio: float) -> None:
    """K-4: also where nearly all room is set aside for the checkpoint."""
    ctx = ContextManager(window=4_096)
    first = "Hi, I'm planning my garden this year: 40 square metres in Freiburg, facing south."
    ctx.add_message(role="system", content="You are a gardener's assistant.")
    for i in range(15):
        ctx.add_message(role="user", content=first if i == 0 else f"And what of bed {i}, please?")
        ctx.add_message(role="assistant", content=f"Bed {i} takes {'soil and sand ' * 12}.")
    done = ctx.compress_conversation(target_ratio=ratio)
    assert not done.unchanged
    asked = [{"role": "user", "content": first}]
    assert verbatim(asked, ctx.get_context_for_model()) == asked


def test_the_plan_says_that_the_first_request_has_no_room() -> None:
    """K-4."""
    talk = [{"role": "user", "content": f"Question {i}. {'oak ' * 30}"} for i in range(60)]
    talk[0]["content"] = "pond reed " * 1_000
    said = plan(talk, max_tokens=1_000).explain()
    assert "the session's first request takes 2,00" in said
    assert "than there is room for" in said
