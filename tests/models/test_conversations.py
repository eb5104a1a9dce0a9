"""Whole conversations against a real llama.cpp server: nothing too large is ever sent, counts are
the server's, and garbage never stands in for what was said (issue 4).

The servers' windows are 1024, 2048 and 8192 tokens; a conversation is as long as many of them.
`pytest -m slow -s tests/models/test_conversations.py` prints the numbers of docs/evidence.md.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from compact import ContextManager
from compact.engine.pipeline import STANDS_IN
from compact.engine.stories.abstractive import ModelSummarizer
from compact.messages import clock_and_ids
from compact.messages.asking import Ask
from compact.messages.context import ActiveContext
from compact.messages.events import Event, SummaryCreated, SummaryReplaced
from compact.messages.formats.known import format_named
from compact.messages.policy import CompactPolicy
from compact.messages.tokens import TokenCounter
from compact.models.providers.openai_chat import OpenAIChat
from compact.models.providers.tokenizers import HuggingFaceEstimator
from compact.wiring import chat_model, session_store, token_counter
from tests import sizes
from tests.models import tiny_llama
from tests.models.conversing import (
    SYSTEM,
    TOOLS,
    TYPED,
    Notes,
    Watched,
    answered,
    listening,
    turns,
)

FACES = {"chat_completions": "", "responses": "responses+", "anthropic": "anthropic+"}
SIZES = (1024, 2048, 8192)
ANSWER = 48
"""Tokens an answer may have."""
OFF = 0.02
"""How far a count may lie from the server's where its tokenizer is known."""
FRAMES = 0.02
"""How much further above: messages that are sent as one are counted with the frame of each."""
UNKNOWN = {"chars": (0.60, 0.15), "o200k": (0.65, 0.15)}
"""How far under the server's count ours may lie where its tokenizer is not known: of the first
prompt, and of every later one, corrected by what the server reported before it."""

LONG = sizes.size(4, 30)
"""How many windows a long conversation is long."""
SEED = 11
"""So that a run throws the dice as the one before."""
OURS = {"extractive", "receipt"}
"""Who writes what stands in for a model's summary."""

Llama = Callable[[int], str]


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notes]:
    """What is noted of a test's conversations; printed at its end, so that `-s` shows it."""
    noted = Notes()
    listening(monkeypatch, noted)
    yield noted
    print(f"\n  {noted.said}")


@pytest.fixture(scope="session")
def estimator(tiny_model: tiny_llama.Model) -> HuggingFaceEstimator:
    return HuggingFaceEstimator(tiny_model.tokenizer, framing=tiny_llama.FRAMING)


def model_at(url: str, wire: str, size: int, notes: Notes) -> Watched:
    return Watched(chat_model(f"{FACES[wire]}{url}/v1#tiny-random"), size, notes)


def session(size: int, wire: str, notes: Notes, **options: Any) -> ContextManager:
    given: dict[str, Any] = {
        "format": wire,
        "tools": TOOLS,
        "system": SYSTEM,
        "policy": CompactPolicy(output_reserve=ANSWER),
        "on_event": notes.hear,
        **options,
    }
    return ContextManager(window=size, **given)


def converse(
    ctx: ContextManager,
    exact: TokenCounter,
    tokens: int,
    said: Iterator[list[dict[str, Any]]],
    model: Callable[[int], Watched],
    notes: Notes,
) -> int:
    """Go on until all messages together have that many tokens by the server's own tokenizer; each
    second answer is streamed. `model` says whom a turn's prompt is for. How many turns it took.
    """
    total = 0
    for turn, messages in enumerate(said):
        asked = model(turn)
        total += sum(map(exact.message, ctx.add_messages(messages)))
        total += exact.message(answered(ctx, asked, notes, streamed=bool(turn % 2)))
        if total >= tokens:
            return turn + 1
    raise AssertionError("turns go on and on")


def was_never_refused(notes: Notes) -> None:
    """Every prompt was taken: no request of the conversation got an answer that says it was wrong.
    With 404 the face of Anthropic says that it knows no single limits.
    """
    assert notes.overflows == 0
    assert set(notes.answers) <= {200, 404, 500}, notes.said
    assert notes.answers[500] <= notes.again, "500 is what llama.cpp cannot read itself"
    assert set(notes.stories) <= {200, 400, 500}, notes.said
    assert notes.answers[200] > len(notes.prompts) > 0
    assert all(prompt.reported + ANSWER <= prompt.size for prompt in notes.prompts)


def counts_are_the_servers(notes: Notes) -> None:
    assert all(-OFF <= prompt.off <= OFF + FRAMES for prompt in notes.prompts), notes.said


# --- conversations --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faces", "size", "windows"),
    [
        *[((wire,), SIZES[0], LONG) for wire in FACES],
        (("chat_completions",), SIZES[1], LONG),
        (tuple(FACES), SIZES[-1], sizes.size(2, 30)),
    ],
)
def test_many_windows_are_served_as_counted(
    llama: Llama,
    notes: Notes,
    estimator: HuggingFaceEstimator,
    faces: tuple[str, ...],
    size: int,
    windows: int,
) -> None:
    """Tools, streams, Chinese and typed control tokens: no refusal, and the server's own counts
    within 2 %. Several faces are asked in turn, of the same session.
    """
    wire = faces[0]
    exact, said = token_counter(wire, tokenizer=estimator), turns(wire, size)
    models = [model_at(llama(size), face, size, notes) for face in faces]

    def whose(turn: int) -> Watched:
        return models[turn // 2 % len(models)]

    with session(size, wire, notes, tokenizer=estimator) as ctx:
        took = converse(ctx, exact, windows * size, said, whose, notes)
        assert ctx.compressions >= windows / 2
        assert sum(map(exact.message, ctx.history)) >= windows * size
        print(f"\n  {wire}, n_ctx {size:,}: {took} turns, {ctx.compressions} compressions", end="")
    for model in models:
        asyncio.run(model.aclose())
    assert took == len(notes.prompts)
    was_never_refused(notes)
    counts_are_the_servers(notes)
    assert "compact.ratio_learned" not in notes.events, "there was nothing to correct"


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer", UNKNOWN)
def test_an_unknown_tokenizer_is_made_up_for(
    llama: Llama,
    notes: Notes,
    estimator: HuggingFaceEstimator,
    tokenizer: str,
) -> None:
    """Counts of a tokenizer that is not the model's are far too low for this one; what the server
    reports corrects them before the window is full.
    """
    wire, size, windows = "chat_completions", 2048, sizes.size(3, 30)
    exact, model = (
        token_counter(wire, tokenizer=estimator),
        model_at(llama(size), wire, size, notes),
    )
    with session(size, wire, notes, tokenizer=tokenizer) as ctx:
        converse(ctx, exact, windows * size, turns(wire, size), lambda _: model, notes)
    asyncio.run(model.aclose())
    was_never_refused(notes)
    first, *later = notes.prompts
    under, under_later = UNKNOWN[tokenizer]
    worst = min(prompt.corrected for prompt in later)
    print(
        f"\n  {tokenizer}, n_ctx {size:,}: the first count is off by {first.off:+.1%}, later ones, "
        f"corrected, by {worst:+.1%} at least; the ratio is {notes.ratio:.2f} at the end",
        end="",
    )
    assert first.off >= -under
    assert worst >= -under_later
    assert min(prompt.off for prompt in later) < -under_later, "corrections are of no use here"


@pytest.mark.slow
def test_typed_control_tokens_reach_no_server_as_such(
    llama: Llama, estimator: HuggingFaceEstimator
) -> None:
    """Each face counts them as the plain text they are: one that was read as such counts as one
    token, and speaks with another's voice.
    """
    typed: list[dict[str, Any]] = [{"role": "user", "content": text * 20} for text in TYPED]
    for wire, face in FACES.items():
        counter = token_counter(wire, tokenizer=estimator)
        messages = tuple(format_named(wire).parse(m, i) for i, m in enumerate(typed))
        context = ActiveContext(messages=messages, tokens=counter.messages(messages), system=None)
        notes = Notes()
        model = Watched(chat_model(f"{face}{llama(8192)}/v1#tiny-random"), 8192, notes)

        async def asked(model: Watched = model, context: ActiveContext = context) -> None:
            await model.complete(context, Ask(max_tokens=1))
            await model.aclose()

        asyncio.run(asked())
        assert [prompt.off for prompt in notes.prompts] == [0.0], wire


def test_results_in_one_message_are_counted_as_they_are_written(
    llama: Llama, estimator: HuggingFaceEstimator
) -> None:
    """A template writes each of Anthropic's result blocks as a message of its own."""
    counter, ids = token_counter("anthropic", tokenizer=estimator), ("a", "b", "c")
    calls = [{"type": "tool_use", "id": i, "name": "read_file", "input": {}} for i in ids]
    results = [{"type": "tool_result", "tool_use_id": i, "content": "It holds."} for i in ids]
    words = {"type": "text", "text": "And now?"}
    asked: list[dict[str, Any]] = [
        {"role": "user", "content": "Read them."},
        {"role": "assistant", "content": calls},
    ]
    for last in (results, [*results, words], [words, *results]):
        listed = [*asked, {"role": "user", "content": last}]
        messages = tuple(format_named("anthropic").parse(m, i) for i, m in enumerate(listed))
        context = ActiveContext(messages=messages, tokens=counter.messages(messages))

        async def counted(context: ActiveContext = context) -> int | None:
            model = chat_model(f"anthropic+{llama(2048)}/v1#tiny-random")
            tokens = await model.count(context)
            await model.aclose()  # type: ignore[attr-defined]  # not of the protocol
            return tokens

        assert asyncio.run(counted()) == context.tokens


@pytest.mark.parametrize(
    "given", ["", '{"path": "a.py", "te', '{"n": NaN}', "[1]", '{"path": "é"}']
)
@pytest.mark.parametrize("wire", FACES)
def test_arguments_that_no_server_reads_are_sent_so_that_it_does(
    llama: Llama, notes: Notes, estimator: HuggingFaceEstimator, wire: str, given: str
) -> None:
    """A model leaves arguments empty, or is cut off in their middle: the turns after that are
    served, and counted as written (issue 4). llama.cpp answers 500 to what it cannot read.
    """
    call = {"id": "a", "type": "function", "function": {"name": "read_file", "arguments": given}}
    listed: list[dict[str, Any]] = [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "It cannot be read."},
    ]
    chat = tuple(format_named("chat_completions").parse(m, i) for i, m in enumerate(listed))
    wired = enumerate(format_named(wire).render(chat))
    messages = tuple(format_named(wire).parse(m, i) for i, m in wired)
    context = ActiveContext(
        messages=messages, tokens=token_counter(wire, tokenizer=estimator).messages(messages)
    )

    async def asked() -> None:
        model = model_at(llama(2048), wire, 2048, notes)
        await model.complete(context, Ask(max_tokens=1))
        await model.aclose()

    asyncio.run(asked())
    assert notes.answers[500] == notes.again == 0
    [prompt] = notes.prompts
    assert 0 <= prompt.off <= 0.05, "what was not cut is written without spaces"


# --- several servers ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("wire", [*FACES][: sizes.size(1, 3)])
def test_a_session_changes_between_servers(
    llama: Llama, notes: Notes, estimator: HuggingFaceEstimator, wire: str, tmp_path: Path
) -> None:
    """From a window of 8192 tokens to one of 1024 and back, every third turn; in the middle it is
    closed, and opened again (issue 4).
    """
    file = session_store(tmp_path / "moving.db")
    exact = token_counter(wire, tokenizer=estimator)
    models = {size: model_at(llama(size), wire, size, notes) for size in SIZES}
    order = (8192, 1024, 2048, 1024, 8192, 2048)
    open_for = {"tokenizer": estimator, "store": file, "session_id": "moving"}
    half = sizes.size(3, 30) * sum(SIZES) // len(SIZES) // 2
    for seed in range(2):
        with session(8192, wire, notes, **open_for) as ctx:

            def whose(turn: int, ctx: ContextManager = ctx) -> Watched:
                size = order[turn // 3 % len(order)]
                if turn % 3 == 0 and turn:
                    ctx.set_model(models[size].name, window=size)
                    assert ctx.window.size == size
                return models[size if turn else 8192]

            converse(ctx, exact, half, turns(wire, SIZES[0], seed), whose, notes)
    file.close()
    for model in models.values():
        asyncio.run(model.aclose())
    assert {prompt.size for prompt in notes.prompts} == set(SIZES)
    assert notes.events["compact.model_changed"] >= len(order)
    was_never_refused(notes)
    counts_are_the_servers(notes)


# --- garbage --------------------------------------------------------------------------------------


def an_hour_apart() -> Callable[[], datetime]:
    """A clock by which no breaker stays open."""
    hours = count()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return lambda: start + timedelta(hours=2 * next(hours))


@pytest.mark.slow
@pytest.mark.parametrize("wire", [*FACES][: sizes.size(1, 3)])
def test_garbage_never_stands_in(
    llama: Llama, notes: Notes, estimator: HuggingFaceEstimator, wire: str
) -> None:
    """The tiny model writes the summaries too: the gate catches each, and the extractive one stands
    in (issue 4).
    """
    size, windows = 2048, sizes.size(2, 30)
    exact = token_counter(wire, tokenizer=estimator)
    model = model_at(llama(size), wire, size, notes)
    written = Notes()
    same = OpenAIChat("tiny-random", base_url=f"{llama(8192)}/v1", extra={"seed": SEED})
    writer = Watched(same, 8192, written)
    chat = token_counter("chat_completions", tokenizer=estimator)
    summarizer = ModelSummarizer(writer, chat, window=8192)
    caught: list[str] = []
    makers: list[str] = []

    def hear(event: Event) -> None:
        notes.hear(event)
        if isinstance(event, SummaryReplaced):
            caught.append(event.reason)
        if isinstance(event, SummaryCreated):
            makers.append(event.made_by)

    with (
        clock_and_ids.using(clock=an_hour_apart()),
        session(
            size,
            wire,
            notes,
            tokenizer=estimator,
            summarizer=summarizer,
            on_event=hear,
        ) as ctx,
    ):
        converse(ctx, exact, windows * size, turns(wire, size), lambda _: model, notes)
        for checkpoint in ctx.checkpoints:
            if checkpoint.made_by == "extractive":
                [verdict] = checkpoint.verdicts
                assert (verdict.rule, verdict.passed) == (STANDS_IN, False)
                assert verdict.detail in caught, "it says why the model's is not here"
        known = ctx.store.checkpoints(ctx.id)
        theirs = [(c.summary, c.span.tokens) for c in known if c.made_by not in OURS]
    asyncio.run(writer.aclose())
    asyncio.run(model.aclose())
    assert not theirs, f"garbage was accepted: {theirs}"
    assert set(makers) <= set(OURS), Counter(makers)
    assert written.overflows == 0
    assert len(written.prompts) >= len(caught) / 2 > 0
    print(
        f"\n  {len(written.prompts)} answers for {len(makers)} summaries, {Counter(makers)}", end=""
    )
    assert Counter(makers)["extractive"] > 0
    was_never_refused(notes)
    rules = Counter(rule.split(":")[0] for why in caught for rule in why.split("; "))
    print(f"\n  caught by {dict(rules.most_common())}", end="")
    assert rules
