"""Recall as tools of a model: how they are declared and answered, and that what they bring back
is no news (issue part 7).
"""

import json
import re
from typing import Any

import pytest

from compact import ContextManager
from compact.engine.checkpoint_text import Composer
from compact.engine.chronology.extractive import ExtractiveSummarizer
from compact.engine.chronology.notes import Notes
from compact.errors import InvalidInput
from compact.messages.checkpoints import SummaryRequest
from compact.messages.own_text import headed
from compact.messages.protocols import SessionStore
from compact.store.inmemory import InMemoryStore
from compact.text.terms import readable
from tests import checker
from tests.session.asking import FACT, Dict, call, fill, result, session

# --- as tools -------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["chat_completions", "ollama", "anthropic", "responses"])
def test_the_tools_are_declared_as_the_provider_wants_them(format: str) -> None:
    """A name, a description and a JSON schema of the arguments, as each provider nests them."""
    declared = session(InMemoryStore(), format=format).tools.schemas()
    assert declared == session(InMemoryStore()).tools.schemas(format)
    schemas: dict[str, Dict] = {}
    for tool in declared:
        if format in ("chat_completions", "ollama"):
            assert tool.keys() == {"type", "function"}
        if format != "anthropic":
            assert tool["type"] == "function"
        tool = tool.get("function", tool)
        field = "input_schema" if format == "anthropic" else "parameters"
        assert tool.keys() - {"type", "strict"} == {"name", "description", field}
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"])
        assert len(tool["description"]) > 40
        schemas[tool["name"]] = tool[field]
    assert json.loads(json.dumps(schemas)) == schemas
    for schema in schemas.values():
        assert schema.keys() == {"type", "properties", "required"}
        assert schema["type"] == "object"
        assert set(schema["required"]) <= schema["properties"].keys()
        for argument in schema["properties"].values():
            assert argument["type"] in ("string", "integer")
            assert argument["description"]
    assert {name: schema["required"] for name, schema in schemas.items()} == {
        "recall": ["query"],
        "expand": ["id"],
    }


@pytest.mark.parametrize("as_text", [False, True], ids=["mapping", "JSON text"])
def test_a_model_that_calls_the_tools_reads_the_originals(
    store: SessionStore, as_text: bool
) -> None:
    """Within the tokens it is given; pages that are followed bring back every word (issue 7)."""
    ctx = session(store)
    said = ctx.add_message(role="assistant", content=FACT)
    fill(ctx, 0, 60)
    ctx.get_context_for_model()

    def asked(name: str, most: int | None = None, **arguments: Any) -> str:
        given = json.dumps(arguments) if as_text else arguments
        text = ctx.tools.call(name, given, max_tokens=most)
        assert headed(text) == "Recalled"
        assert checker.tokens(text) <= (most or 1_500)
        return text

    text = asked("recall", query="zircon valve")
    assert f"({said.id}, assistant) {FACT}" in text
    assert text.startswith("[Recalled · 1 messages for: zircon valve · ")
    assert f"({said.id}, assistant) {FACT}" in asked("expand", id=said.id)
    assert "nothing was found" in asked("recall", query="basilisk")
    some = asked("recall", 200, query="roof")
    assert re.match(r"\[Recalled · \d of 10 messages for: roof · ", some)
    (checkpoint, *_) = ctx.checkpoints
    read, start = "", 0
    while True:
        page = asked("expand", 400, id=checkpoint.id, start=start)
        read += page
        go_on = re.search(r", go on with start=(\d+) · digest", page)
        if go_on is None:
            break
        assert int(go_on[1]) > start
        start = int(go_on[1])
    for message in ctx.expand(checkpoint.id).messages:
        assert f"({message.id}, {message.role}) {message.text}" in read
    assert f"of the {checkpoint.span.messages} of {checkpoint.id}" in page
    assert "none from start=999" in asked("expand", id=checkpoint.id, start=999)


TABLE = "\n".join(f"line {i}: value {i * 37 % 1001}" for i in range(4_000))
LONG: dict[str, tuple[Dict, ...]] = {
    "output": (call("run", "c1"), result("c1", TABLE)),
    "one line": (call("run", "c1"), result("c1", "né\U0001f525" * 9_000)),
    "arguments": (call("write", "c1", text=TABLE),),
    "words": ({"role": "user", "content": TABLE},),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("most", [None, 150, 1_000])
@pytest.mark.parametrize("kind", LONG)
def test_a_long_message_is_read_page_by_page(kind: str, most: int | None) -> None:
    """Each page says which part it is and how to go on; together they are all of it (issue 7)."""
    ctx = session(InMemoryStore())
    message = ctx.add_messages(LONG[kind])[-1]
    text = readable(message).removeprefix("c1 ")
    name, read, start = message.id if kind == "words" else "c1", "", 0
    while start < len(text):
        page = ctx.tools.call("expand", {"id": name, "start": start}, max_tokens=most)
        assert headed(page) == "Recalled"
        assert checker.tokens(page) <= (most or 1_500)
        heading, _, body = page.partition("\n")
        read += body.removeprefix(f"({message.id}, {message.role}) ").removeprefix("c1 ")
        told = re.search(rf"characters {start + 1:,} to ([\d,]+) of the {len(text):,} of ", heading)
        lines = f"to {1 + read.removesuffix(chr(10)).count(chr(10)):,} of "
        assert told, heading
        assert lines in heading, heading
        end = int(told[1].replace(",", ""))
        assert (end < len(text)) == (f", go on with start={end} · " in heading)
        assert end > start
        start = end
    assert read == text
    assert "none from start=" in ctx.tools.call("expand", {"id": name, "start": len(text)})


def test_one_among_several_that_is_clipped_names_what_reads_all_of_it() -> None:
    ctx = session(InMemoryStore(), 100_000)
    ctx.add_messages([call("write", "c1", text=TABLE), result("c1", TABLE)])
    page = ctx.tools.call("expand", {"id": "c1"})
    assert (found := re.search(r"clipped: expand (\S+) reads all of it, go on with start=1", page))
    assert "characters 1 to" in ctx.tools.call("expand", {"id": found[1]})


def test_an_answer_that_has_no_room_says_so() -> None:
    """Never that nothing was found (issue part 7)."""
    ctx = session(InMemoryStore())
    said = ctx.add_message(role="user", content="zircon " * 400)
    for name, arguments in (("recall", {"query": "zircon"}), ("expand", {"id": said.id})):
        for most in (3, 30, 60, 100, 200):
            text = ctx.tools.call(name, arguments, max_tokens=most)
            assert headed(text) == "Recalled"
            assert re.search(r"left out|does not fit|go on with| …$", text), text
            assert checker.tokens(text) <= max(most, 74)


WRONG: tuple[tuple[str, Any], ...] = (
    ("forget", {"query": "x"}),
    ("recall", {}),
    ("recall", {"q": "x"}),
    ("recall", {"query": 7}),
    ("expand", {"query": "x"}),
    ("expand", {"id": None}),
    *[("expand", {"id": "m0", "start": wrong}) for wrong in ("one", "5", None, True, 1.5)],
    ("recall", ""),
    ("recall", "[]"),
    ("recall", '{"query": '),
    ("recall", "[" * 100_000),
)


@pytest.mark.parametrize(("name", "arguments"), WRONG, ids=lambda x: str(x)[:20])
def test_a_wrong_call_is_refused_with_a_text_for_the_model(name: str, arguments: Any) -> None:
    """It says what there is; so the application can hand it back (issue part 7)."""
    ctx = session(InMemoryStore())
    fill(ctx, 0, 1)
    with pytest.raises(InvalidInput, match=r"recall\(query|JSON object|start must") as caught:
        ctx.tools.call(name, arguments)
    assert len(str(caught.value)) < 400


# --- what was brought back is no news -------------------------------------------------------------


def recalled(ctx: ContextManager, call_id: str, name: str = "recall", **arguments: Any) -> None:
    """A model asks, and the application stores its call and the answer."""
    ctx.add_message(call(name, call_id, **arguments))
    ctx.add_message(result(call_id, ctx.tools.call(name, arguments)))


def test_what_was_recalled_is_not_found_again(store: SessionStore) -> None:
    """Only the original is: neither the answer nor the question it came by (design, section 2)."""
    ctx = session(store)
    said = ctx.add_message(role="assistant", content=FACT)
    for i in range(5):
        recalled(ctx, f"r{i}", query="zircon valve kelvin")
        recalled(ctx, f"e{i}", "expand", id=said.id)
        ctx.add_message(role="user", content=ctx.tools.call("recall", {"query": "zircon"}))
    assert [r.id for r in ctx.recall("zircon valve kelvin")] == [said.id]
    other = ctx.add_message(call("recall", "own", product="zircon"))
    assert [r.id for r in ctx.recall("zircon")] == [other.id, said.id], "a tool of another's"


def test_a_recalled_output_is_itself_brought_back_by_its_call(store: SessionStore) -> None:
    """Its stub names that id when it is masked (issue part 7)."""
    ctx = session(store)
    ctx.add_message(role="assistant", content=FACT)
    recalled(ctx, "r1", query="zircon")
    (answer,) = ctx.expand("r1").messages
    assert FACT in answer.tool_results[0].text
    assert FACT in ctx.tools.call("expand", {"id": "r1"})


def request(*messages: Dict) -> SummaryRequest:
    ctx = session(InMemoryStore(), 100_000)
    ctx.add_messages(messages)
    return SummaryRequest(messages=tuple(ctx.history), max_tokens=600)


def test_a_summary_takes_no_facts_from_what_was_recalled() -> None:
    """They were taken down where they were said (design, 7)."""
    ctx = session(InMemoryStore(), 100_000)
    ctx.add_message(role="assistant", content=FACT)
    text = ctx.tools.call("recall", {"query": "src/valves/zircon.py"})
    around = {"role": "user", "content": "Look at the tiles, please."}
    asks = call("recall", "c1", query="src/valves/zircon.py")
    own = request(around, asks, result("c1", text))
    plain = request(around, call("read", "c1"), result("c1", text.split("\n", 1)[1]))
    counter = ctx.history.counter
    writer = ExtractiveSummarizer(counter)

    def told(asked: SummaryRequest) -> str:
        composer = Composer(Notes().read(asked.messages), counter)
        return composer.written(None, asked.max_tokens) + writer.extracted(asked).text

    assert "zircon" in told(plain)
    assert "zircon" not in told(own)
    assert "recall" not in told(own), "nor from the question"


def test_a_session_that_recalls_goes_on_as_if_it_had_not(store: SessionStore) -> None:
    """Recalled text is covered like any output, and no checkpoint tells it as news (design, 7)."""
    ctx = session(store)
    ctx.add_message(role="assistant", content="The lapis lever is in src/levers/lapis.py.")
    fill(ctx, 0, 40)
    ctx.get_context_for_model()
    before = {c.id for c in store.checkpoints("s")}
    for i in range(3):
        recalled(ctx, f"r{i}", query="lapis lever")
        fill(ctx, 40 + 30 * i, 70 + 30 * i)
        ctx.get_context_for_model()
    assert len(ctx.checkpoints) > 1
    later = [c for c in store.checkpoints("s") if c.id not in before and c.span.first > 5]
    assert later
    assert not any("lapis" in c.summary for c in later)
    assert [r.position for r in ctx.recall("lapis lever")] == [0]


def test_what_a_model_sees_is_not_found_again() -> None:
    """The first answer brings what left the prompt; a message of middling size as a whole."""
    with ContextManager(window=4_096, tokenizer="o200k") as ctx:
        houses = ("cedar", "maple", "poplar", "walnut", "willow", "juniper")
        for n, house in enumerate(houses):
            walls = ", ".join(f"{house} wall {i} is of brick" for i in range(50))
            words = f"Here is the list of walls of the {house} house: {walls}, key W-471{n}"
            ctx.add_message(role="user", content=words)
            ctx.add_message(role="assistant", content="Noted.")
        for i in range(60):
            ctx.add_message(
                role="user", content=f"{i}: and the walls? " + f"Rain falls on wall {i}. " * 8
            )
            ctx.add_message(role="assistant", content=f"{i}: they stand. " + "All dry. " * 12)
        seen = [m["content"] for m in ctx.get_context_for_model()]
        gone = [n for n in range(6) if not any(f"W-471{n}" in str(text) for text in seen)]
        assert gone
        answer = ctx.tools.call("recall", {"query": f"walls of the {houses[gone[0]]} house"})
        assert f"W-471{gone[0]}" in answer
        assert not any(text in answer for text in seen[-20:])
    with ContextManager(window=4_096, tokenizer="o200k") as ctx:
        ctx.add_message(role="user", content="The key of the wall is W-4711.")
        assert "W-4711" in ctx.tools.call("recall", {"query": "key"}), "nothing else is found"
