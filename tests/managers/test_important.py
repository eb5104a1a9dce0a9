"""What is marked important, or scored 1, stays before what is not, whoever said it (C-4)."""

from collections.abc import Mapping
from typing import Any

import pytest

from compact import ContextManager, Message, compress
from compact.core.messages import ToolCall, ToolResult

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
    assert marked.text in [m.text for m in fitted]
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
