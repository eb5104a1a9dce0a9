"""Bringing back what left the view, by words and by id (issue part 7, FR-8, FR-10)."""

import json
import random
import re
import time
from itertools import count, pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from compact import CompactPolicy, ContextManager, Message
from compact.errors import NotFound
from compact.messages.own_text import headed
from compact.messages.protocols import SessionStore
from compact.store.inmemory import InMemoryStore
from compact.text.recalls import Expansion
from tests import checker
from tests.pace import slowness
from tests.session.asking import FACT, Dict, call, fill, result, session


def pages(ctx: ContextManager, name: str, max_tokens: int) -> list[Expansion]:
    """All pages of what is behind an id, as one reads them."""
    out = [ctx.expand(name, max_tokens=max_tokens)]
    while (start := out[-1].next) is not None:
        assert start > out[-1].start, "each page goes on"
        out.append(ctx.expand(name, max_tokens=max_tokens, start=start))
    return out


# --- recall ---------------------------------------------------------------------------------------


def test_what_left_the_view_is_found_and_brought_back_word_for_word(store: SessionStore) -> None:
    """By words it shares with the question; the id it is found under expands to it (FR-8)."""
    ctx = session(store)
    said = ctx.add_message(role="assistant", content=f"{FACT}\n\n  “Größe”, \t移动端 \U0001f525")
    for i in range(4):
        fill(ctx, 20 * i, 20 * i + 20)
        ctx.get_context_for_model()
    assert ctx.compressions > 2
    assert all(said.content != m.content for m in ctx.active_context().messages)
    for query in ("Which file has the zircon valve?", "417 kelvin", "größe", "移动"):
        found = ctx.recall(query)[0]
        assert (found.id, found.position, found.role) == (said.id, 0, "assistant"), query
        assert found.text == said.content
        assert found.timestamp == said.timestamp
        (brought,) = ctx.expand(found.id).messages
        assert (brought.content, brought.role, brought.timestamp) == (
            said.content,
            said.role,
            said.timestamp,
        )


def test_what_was_said_a_moment_ago_is_found_whoever_said_it(store: SessionStore) -> None:
    """No commit, no prompt and no index come in between; another process's words count (FR-8)."""
    ctx, other = session(store), session(store)
    fill(ctx, 0, 2)
    mine = ctx.add_message(role="user", content="an ocelot")
    assert [r.id for r in ctx.recall("ocelot")] == [mine.id]
    theirs = other.add_message(role="user", content="a pangolin and an ocelot")
    assert [r.id for r in ctx.recall("pangolin")] == [theirs.id]
    last = other.add_message(role="user", content="a third one")
    assert ctx.expand(last.id).messages[0].content == "a third one"


def test_of_a_long_message_the_part_is_shown_that_was_looked_for(store: SessionStore) -> None:
    """Where most of the question's words stand together (FR-8)."""
    ctx = session(store, 100_000)
    noise = "the valve of the roof is dry. " * 200
    said = ctx.add_message(role="user", content=f"{noise}{FACT}{noise}")
    (found,) = ctx.recall("zircon valve 417")
    assert FACT in found.text
    assert len(found.text) < 1_000
    assert said.content == ctx.expand(found.id).messages[0].content


def test_of_many_lines_alike_the_one_is_shown_that_was_asked_for(store: SessionStore) -> None:
    """A word that stands in every line tells little of where to look (FR-8)."""
    ctx = session(store, 100_000)
    ctx.add_message(call("run", "c1"))
    lines = [f"line {i}: value {i * 37 % 1001}" for i in range(4_000)]
    ctx.add_message(result("c1", "\n".join(lines)))
    for query in ("3000", "line 3000", "the value of line 3000"):
        (found,) = ctx.recall(query)
        assert "\nline 3000: value" in found.text, query
        assert "\nline 3000: value" in ctx.tools.call("recall", {"query": query}), query


HARD = (
    "",
    " \n\t",
    "\U0001f525\U0001f525",
    '"',
    'zircon" OR text:* NEAR(a b) NOT -',
    "'; DROP TABLE words; --",
    "zircon*^{}[]()\\",
    "\x00zircon\ud800",
    "锆石阀门在哪里？",
    "the of and",
    "zircon " * 150_000,
    " ".join(f"w{i}" for i in range(150_000)) + " zircon",
)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("query", HARD, ids=lambda q: repr(q[:20]))
def test_any_question_is_answered(store: SessionStore, query: str) -> None:
    """Marks of a query language, empty, without words, a megabyte long: never an error (FR-8)."""
    ctx = session(store, 100_000)
    said = ctx.add_message(role="user", content="zircon 阀门")
    ctx.add_message(role="assistant", content="nothing")
    assert len(query) < 20_000 or len(query) > 1_000_000
    found = [r.id for r in ctx.recall(query)]
    if re.match(r"[^a-z]*zircon", query) or "阀门" in query:
        assert found == [said.id]
    else:
        assert found == []
    assert headed(ctx.tools.call("recall", {"query": query})) == "Recalled"


@pytest.mark.timing
def test_a_long_question_over_long_messages_takes_no_time() -> None:
    """The part to be shown is found in one walk (NFR-1)."""
    ctx = session(InMemoryStore(), 1_000_000)
    words = [f"word{i}" for i in range(64)]
    for _ in range(40):
        ctx.add_message(role="user", content=" ".join(words * 60))
    began = time.thread_time()
    assert len(ctx.recall(" ".join(words), limit=40)) == 40
    assert time.thread_time() - began < 3 * slowness()


def test_only_the_branch_that_is_open_is_searched(store: SessionStore) -> None:
    """What it goes on from counts; another branch and another session do not (FR-1, S-5)."""
    other = session(store, session_id="other")
    other.add_message(role="user", content="zebra of another session")
    ctx = session(store)
    first = ctx.add_message(role="user", content="zebra before the fork")
    left = ctx.add_message(role="user", content="zebra that was left")
    root = ctx.branch_id
    snapshot = ctx.time.snapshot()
    ctx.time.branch(at=1)
    new = ctx.add_message(role="user", content="zebra of the branch")
    assert [r.id for r in ctx.recall("zebra")] == [new.id, first.id]
    assert ctx.recall("zebra", limit=0) == []
    with pytest.raises(NotFound):
        other.expand(ctx.add_message(Message(role="user", content="x", id="only-here")).id)
    ctx.time.restore(snapshot)
    assert ctx.branch_id != root
    assert [r.id for r in ctx.recall("zebra")] == [left.id, first.id]


# --- expand ---------------------------------------------------------------------------------------

STUB = re.compile(r"\[output (\S+) masked · [^\n]+ · ([\d,]+) tokens, ([\d,]+) lines")
CLIPPED = re.compile(r"the whole text is (message|output|in call) (\S+) …\]")
HEADING = re.compile(r"\[Checkpoint (ck-\S+) · ([\d,]+) of messages")
ASKED = re.compile(r"^- (?:Asked last )?\((\w+)(?:, shown below)?\):? “(.{20})", re.MULTILINE)
MORE = re.compile(r"\[… [\d,]+ words, (\w+)\]")


def busy(ctx: ContextManager, *, random_ids: bool) -> None:
    """A session whose prompt shows ids of every kind."""
    anthropic, ids = ctx._session.state.wire.name == "anthropic", random.Random(3)

    def add(message: Dict) -> None:
        if not random_ids:
            ctx.add_message(message)
            return
        parsed = ctx._session.state.wire.parse(message, 0)
        fresh = UUID(int=ids.getrandbits(128), version=4).hex
        ctx.add_message(parsed.model_copy(update={"id": fresh}))

    def step(i: int, arguments: Dict, lines: int) -> None:
        text = "\n".join(f"line {i}.{n} of what it printed" for n in range(lines))
        if anthropic:
            use = {"type": "tool_use", "id": f"c{i}", "name": "run", "input": arguments}
            add({"role": "assistant", "content": [use]})
            answer = {"type": "tool_result", "tool_use_id": f"c{i}", "content": text}
            add({"role": "user", "content": [answer]})
            return
        add(call("run", f"c{i}", **arguments))
        add(result(f"c{i}", text))

    for i in range(25):
        rules = " ".join(f"Never touch file_{i}_{n}.py without asking." for n in range(10))
        add({"role": "user", "content": f"Question {i} is about the roof and its tiles. {rules}"})
        add({"role": "assistant", "content": f"Answer {i}: " + "it holds. " * 30})
        step(i, {"path": "a.py"}, 30)
    ctx.get_context_for_model()
    add({"role": "user", "content": "And now read everything."})
    for i in range(100, 112):
        step(i, {"path": "a.py"}, 40)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("wire", ["chat_completions", "anthropic"])
@pytest.mark.parametrize("random_ids", [False, True], ids=["positions", "random ids"])
def test_every_id_that_a_prompt_shows_brings_back_the_original(
    store: SessionStore, wire: str, random_ids: bool
) -> None:
    """Stubs, headings and the lines of summaries each name one (issue part 7)."""
    ctx = session(store, 12_000, format=wire)
    busy(ctx, random_ids=random_ids)
    prompt = ctx.get_context_for_model()
    shown = "\n".join(text for message in prompt for text in checker.visible(message))
    kinds = {
        "stubs": STUB.findall(shown),
        "headings": HEADING.findall(shown),
        "asked": ASKED.findall(shown),
        "more": MORE.findall(shown),
    }
    assert all(kinds.values()), {kind: len(rows) for kind, rows in kinds.items()}
    for name, tokens, lines in kinds["stubs"]:
        texts = [r.text for m in ctx.expand(name).messages for r in m.tool_results]
        assert [len(t.splitlines()) for t in texts] == [int(lines.replace(",", ""))], name
        assert checker.tokens(texts[0]) == int(tokens.replace(",", "")), name
    for name, size in kinds["headings"]:
        assert len(ctx.expand(name).messages) == int(size.replace(",", ""))
    for name, words in kinds["asked"]:
        assert ctx.expand(name).messages[0].text.startswith(words), name
    for name in kinds["more"]:
        (message,) = ctx.expand(name).messages
        assert message.text.startswith(("Question ", "Answer ")), name


def test_every_clipped_text_names_what_brings_back_its_original(store: SessionStore) -> None:
    """The message it is part of, or the call whose arguments it is one of (issue part 7)."""
    words = "\n".join(f"The roof, part {i}." for i in range(900))
    ctx = session(store)
    ctx.add_message(role="user", content="Tell me all of it.")
    ctx.add_message(role="assistant", content=words)
    ((kind, name),) = CLIPPED.findall(str(ctx.get_context_for_model()))
    assert kind == "message"
    assert ctx.expand(name).messages[0].content == words

    ctx = session(store, session_id="other")
    ctx.add_message(role="user", content="Write all of it.")
    chapters = {f"chapter {i}": f"{i} tiles. " * 80 for i in range(16)}
    ctx.add_message(call("write", "c1", **chapters))
    ctx.add_message(result("c1", "written"))
    found = CLIPPED.findall(str(ctx.get_context_for_model()))
    assert set(found) == {("in call", "c1")}
    answer, made = ctx.expand("c1").messages
    assert answer.tool_results[0].text == "written"
    assert json.loads(made.tool_calls[0].arguments) == chapters


def test_a_checkpoint_brings_back_exactly_what_it_stands_in_for(store: SessionStore) -> None:
    """Merged ones and those that were replaced too: in order, word for word (FR-4, issue 7)."""
    ctx = session(store)
    ctx.add_message(role="system", content="Be brief.")
    while not any(len(c.parents) > 1 for c in ctx.checkpoints):
        fill(ctx, len(ctx.history), len(ctx.history) + 5)
        ctx.get_context_for_model()
    said = list(ctx.history)
    view = ctx._session.view.projection
    assert view is not None
    hidden = [i for i in range(view.cut) if i not in view.kept]
    brought = [m for c in ctx.checkpoints for m in ctx.expand(c.id).messages]
    assert sorted(m.id for m in brought) == sorted(said[i].id for i in hidden)
    known = {c.id: c for c in store.checkpoints("s")}
    assert len(known) > len(ctx.checkpoints)
    for checkpoint in known.values():
        page = ctx.expand(checkpoint.id)
        wanted = [said[i] for i in checkpoint.covered()]
        assert page.is_whole
        assert page.next is None
        assert page.total == checkpoint.span.messages
        assert [(m.id, m.content) for m in page.messages] == [(m.id, m.content) for m in wanted]
    merged = next(c for c in ctx.checkpoints if len(c.parents) > 1)
    parts = {m.id for p in merged.parents for m in ctx.expand(p).messages}
    assert parts <= {m.id for m in ctx.expand(merged.id).messages}


@pytest.mark.parametrize("most", [60, 200, 1_500])
def test_pages_hold_whole_messages_and_say_where_to_go_on(store: SessionStore, most: int) -> None:
    """Within `max_tokens` by exact count; together all of it, each message once (issue 7)."""
    ctx = session(store)
    for i in range(4):
        fill(ctx, 20 * i, 20 * i + 20, words=1 + 3 * (i % 2))
    ctx.get_context_for_model()
    (checkpoint, *_) = ctx.checkpoints
    whole = ctx.expand(checkpoint.id)
    render = ctx._session.state.wire.render
    read = pages(ctx, checkpoint.id, most)
    assert len(read) > 1
    for page in read:
        assert page.total == whole.total
        assert page.tokens == checker.prompt_tokens(render(page.messages)) <= most
        assert not page.is_whole
        assert not page.clipped
    for page, after in pairwise(read):
        assert page.tokens + ctx.history.counter.message(after.messages[0]) > most, "it is full"
    assert [m for page in read for m in page.messages] == list(whole.messages)
    assert ctx.expand(checkpoint.id, start=whole.total).messages == ()


def test_a_message_that_fits_no_page_is_clipped_and_the_next_page_goes_on() -> None:
    """It is said that it is not whole; where even that does not fit it is left out (issue 7)."""
    ctx = session(InMemoryStore(), 8_192, policy=CompactPolicy(keep_user_messages=1))
    fill(ctx, 0, 4)
    ctx.add_message(role="assistant", content="before " + "one long word after the other " * 500)
    fill(ctx, 4, 40)
    ctx.compress_conversation(0.1)
    checkpoint = next(c for c in ctx.checkpoints if 8 in c.covered())
    total = ctx.expand(checkpoint.id).total
    read = pages(ctx, checkpoint.id, 300)
    clipped = [page for page in read if page.clipped]
    assert len(clipped) == 1
    assert 150 < clipped[0].tokens <= 300
    assert "tokens left out; the whole text is message" in clipped[0].messages[0].text
    assert sum(len(page.messages) for page in read) == total
    alone = ctx.expand(clipped[0].messages[0].id, max_tokens=300)
    long = next(m for m in ctx.history if m.text.startswith("before"))
    assert (alone.unit, alone.total, alone.is_whole) == ("characters", len(long.text), False)
    parts = pages(ctx, long.id, 300)
    assert [m.text for page in parts for m in page.messages]
    assert "".join(m.text for page in parts for m in page.messages) == long.text
    for page in parts:
        wire = ctx._session.state.wire.render(page.messages)
        assert page.tokens == checker.prompt_tokens(wire) <= 300
    (rest,) = ctx.expand(long.id, start=100).messages
    assert rest.text == long.text[100:]
    none = pages(ctx, checkpoint.id, 3)
    assert [(page.messages, page.clipped) for page in none] == [((), True)] * total


def test_a_checkpoint_of_a_branch_that_was_left_brings_back_its_own_messages(
    store: SessionStore,
) -> None:
    """Not those that stand at the same positions of the branch that is open (FR-1, issue 7)."""
    ctx = session(store)
    fill(ctx, 0, 40)
    ctx.get_context_for_model()
    known = {c.id: [m.text for m in ctx.expand(c.id).messages] for c in ctx.checkpoints}
    assert max(c.span.last for c in ctx.checkpoints) > 20
    ctx.time.branch(at=20)
    fill(ctx, 900, 960)
    ctx.get_context_for_model()
    for name, texts in known.items():
        assert [m.text for m in ctx.expand(name).messages] == texts
    assert [m.text for page in pages(ctx, name, 300) for m in page.messages] == texts
    for checkpoint in ctx.checkpoints:
        wanted = [ctx.history[i].text for i in checkpoint.covered()]
        assert [m.text for m in ctx.expand(checkpoint.id).messages] == wanted


def test_an_unknown_id_is_said_to_be_so(store: SessionStore) -> None:
    """The text says what was looked for and what to do instead (issue part 7)."""
    ctx = session(store)
    fill(ctx, 0, 3)
    for name in ("ck-0123456789ab", "nobody", "", "m999", "Question", "'", "\x00\ud800"):
        with pytest.raises(NotFound, match=r"'s' has no message.*recall\(query\)") as caught:
            ctx.expand(name)
        assert repr(name) in str(caught.value)
    with pytest.raises(NotFound) as caught:
        ctx.expand("x" * 1_000_000)
    assert len(str(caught.value)) < 400


def test_an_id_may_be_shortened_and_the_newest_message_counts(store: SessionStore) -> None:
    """To eight characters, as summaries show it; a whole id counts before a beginning (issue 7)."""
    ctx = session(store)
    names = ("abcdefgh", "abcdefgh-1", "abcdefgh-2", "abcdefgi-3", "twice", "twice")
    for i, name in enumerate(names):
        ctx.add_message(Message(role="user", content=f"{name} at {i}", id=name))
    found = {
        "abcdefgh": "abcdefgh at 0",
        "abcdefgh-1": "abcdefgh-1 at 1",
        "abcdefgh-": "abcdefgh-2 at 2",
        "abcdefgi": "abcdefgi-3 at 3",
        "twice": "twice at 5",
    }
    assert {name: ctx.expand(name).messages[0].text for name in found} == found
    with pytest.raises(NotFound):
        ctx.expand("abcdefg")


def test_a_call_is_found_among_many_that_name_its_id(store: SessionStore) -> None:
    """Its words may stand in any message; the id must be the call's own (issue part 7)."""
    ctx = session(store, 1_000_000)
    for i in range(60):
        ctx.add_message(call("run", f"call_{i}"))
        ctx.add_message(result(f"call_{i}", f"output {i}; see call 3, and 3 calls of call_3"))
    for i in (0, 3, 59):
        (found,) = ctx.expand(f"call_{i}").messages
        assert found.tool_results[0].text.startswith(f"output {i};")
    ctx.add_message(call("run", "open"))
    assert ctx.expand("open").messages[0].tool_calls[0].id == "open", "nobody has answered it"


def test_a_call_id_that_was_used_again_brings_back_each_output(store: SessionStore) -> None:
    """Some models number their calls from one at every turn (issue part 7)."""
    ctx = session(store, 100_000)
    for i in range(30):
        ctx.add_message(call("run", "call_1"))
        ctx.add_message(result("call_1", f"output {i}"))
    texts = [m.tool_results[0].text for m in ctx.expand("call_1").messages]
    assert texts == [f"output {i}" for i in range(29, -1, -1)]


def test_what_others_add_between_two_looks_is_found_or_not_there_yet(tmp_path: Path) -> None:
    """NFR-2: the store may hold more than the history has caught up with."""
    file = tmp_path / "chat.db"
    with (
        ContextManager(window=8_192, store=file, session_id="s") as one,
        ContextManager(window=8_192, store=file, session_id="s") as two,
    ):
        search, said = one.store.search, count(1)

        def searched_late(*given: Any, **options: Any) -> Any:
            two.add_message(role="user", content=f"The kiln holds, number {next(said)}.")
            return search(*given, **options)

        one.store.search = searched_late  # type: ignore[method-assign]  # somebody writes while one looks
        assert [each.position for each in one.recall("kiln")] == [0]
        assert len(one.recall("kiln")) == 2
