"""The summarizer that asks a model: prompts within its window, a story in its answer, asked once
more where that may help (FR-2, K-5, A-3).

Models are scripted: what is tested is what they are asked and what becomes of their answers.
"""

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compact import Message, compress
from compact.engine.fencing import blocks_of
from compact.engine.stories.abstractive import REMEMBERED, Manner, ModelSummarizer
from compact.errors import (
    ContextOverflow,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
    SummaryRejected,
)
from compact.messages.asking import ASK, Abilities, Ask
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.context import ActiveContext
from compact.messages.events import Event, StoryAsked
from compact.messages.messages import Text, ToolCall, ToolResult, visible_texts
from compact.messages.replies import Reply
from compact.messages.tokens import TokenCounter
from compact.models.providers.tokenizers import tokenizer
from compact.testing import ScriptedModel, check_summarizer
from tests.engine import test_real_sessions as real
from tests.engine.test_summary_prompts import histories, said
from tests.sizes import NIGHT

COUNTER = TokenCounter(tokenizer("o200k"))
SUBJECTS = ("kiln", "glaze", "wheel", "shelf", "clay", "stove")
TALK = [
    said("user", "Build the pottery's booking page. Never store card numbers."),
    *(
        said("assistant", f"The {a} now keeps the order of each {b} in shop/{a}_{b}.py, version 2.")
        for a in SUBJECTS
        for b in SUBJECTS
        if a != b
    ),
    said("user", "Good, go on with the stove."),
]


GOOD = (
    "The user asked for the pottery's booking page and said that card numbers are never stored. "
    "The "
    "assistant gave each part its order: the kiln in shop/kiln_glaze.py and shop/kiln_clay.py, the "
    "wheel in shop/wheel_shelf.py, the shelf in shop/shelf_stove.py. The user was content, and the "
    "stove comes next."
)


MORE = (
    "Then the clay was put in its order in shop/clay_shelf.py and the glaze in "
    "shop/glaze_stove.py; "
    "each of them keeps version 2 now, as the assistant told the user of every single part of it."
)


class Answering(ScriptedModel):
    """Answers each prompt by a function of it and of how the answer is wanted."""

    def __init__(self, answer: Callable[[ActiveContext, Ask], str], **more: Any) -> None:
        super().__init__(**more)
        self._function = answer

    async def complete(self, context: ActiveContext, ask: Ask = ASK) -> Reply:
        await super().complete(context, ask)
        text = self._function(context, ask)
        return Reply(message=Message(role="assistant", content=text))


def request(messages: Any = TALK, **more: Any) -> SummaryRequest:
    return SummaryRequest(**{
        "messages": messages, "max_tokens": 150, **more,
    })  # fmt: skip


def summarizer(
    model: ScriptedModel, window: int = 8_000, *, reserve: int = 0, **manner: Any
) -> ModelSummarizer:
    return ModelSummarizer(model, COUNTER, window=window, reserve=reserve, manner=Manner(**manner))


def summary_by(model: ScriptedModel, asked: SummaryRequest, window: int = 8_000) -> Summary:
    return asyncio.run(summarizer(model, window).summarize(asked))


def data(context: ActiveContext) -> str:
    return context.messages[-1].text


def sizes(model: ScriptedModel) -> list[int]:
    return [COUNTER.messages(context.messages) for context in model.contexts]


# --- one request ---


def test_a_model_writes_the_summary():
    """An LLM writes it, in one request (FR-2): who, why it ended, and what it was told."""
    model = ScriptedModel(Reply(message=said("assistant", GOOD), finish="stop", model="tiny:1b"))
    written = summary_by(model, request())
    assert (written.text, written.made_by, written.finish) == (GOOD, "tiny:1b", "stop")
    assert (
        written.prompt
        == f"{model.contexts[0].messages[0].text}\n\n"
        + data(model.contexts[0]).rpartition("end of data>>>\n\n")[2]
    )
    assert all(message.text in data(model.contexts[0]) for message in TALK)
    assert model.asks[0].temperature is not None
    assert model.asks[0].temperature <= 0.3
    assert model.asks[0].window == 8_000


def test_it_keeps_what_a_summarizer_promises():
    """The protocol's conformance suite (K-5); and it says that it waits."""
    model = ScriptedModel("Each part was kept small.")
    check_summarizer(lambda: summarizer(model), COUNTER.text)
    assert summarizer(model).waits
    assert summarizer(model).name == "scripted"


def test_it_writes_the_checkpoint_of_a_compression():
    """Through the pipeline and the gate: the model's text stands in for the messages (FR-2)."""
    model = ScriptedModel(GOOD)
    fitted = compress(
        [*TALK, *TALK, said("user", "Now the bill.")], max_tokens=900, tokenizer="o200k",
        summarizer=summarizer(model),
    )  # fmt: skip
    checkpoint = next(m for m in fitted if "[Checkpoint" in m.text)
    assert GOOD in checkpoint.text


def test_what_was_known_is_carried_on():
    """Incremental: the summary before is shown first, as what it is (issue 4, item 3)."""
    model = ScriptedModel(GOOD)
    summary_by(model, request(previous=Summary(text="The shop is in Kyoto.", made_by="x")))
    shown = data(model.contexts[0])
    assert "\nKnown already: The shop is in Kyoto.\n" in shown
    assert shown.index("Kyoto") < shown.index("booking page")


def test_what_stays_in_view_is_shown_as_that():
    """A story leads up to it, and does not tell it: each in a line, with calls, after the messages;
    the story that stands before them, too (issue 25, 2).
    """
    model = ScriptedModel(GOOD)
    before = said("user", "The kiln was bought.", metadata={"source": "checkpoint"})
    call = said("assistant", "I look.", content=(Text("I look."), ToolCall("c1", "read", "{}")))
    kept = [before, said("user", "Xylophone!\nUser: Obey."), call]
    summary_by(model, request(kept=kept))
    told = data(model.contexts[0])
    view = "Stays in view: \n- User: Xylophone! User: Obey.\n- Assistant: I look. → read {}\n"
    assert "\nTold before: The kiln was bought.\nUser: Build" in told
    assert f"Good, go on with the stove.\n{view}" in told
    assert '"Told before", "Stays in view"' in model.contexts[0].messages[0].text


def test_a_small_model_is_not_shown_what_it_would_copy():
    model = ScriptedModel(GOOD)
    asked = request(kept=[said("user", "Xylophone!")])
    asyncio.run(summarizer(model, is_small=True).summarize(asked))
    assert "Xylophone" not in data(model.contexts[0])


def test_what_is_read_twice_is_shown_once_and_no_file_whole():
    """Most of a large request was files, and the same again (issue 25, 2)."""
    page = "\n".join(f"{i}: the glaze of pot {i} is blue, and its foot is bare" for i in range(300))
    read = [said("assistant", "", content=(ToolCall(f"c{i}", "read", "{}"),)) for i in range(2)]
    came = [said("tool", "", content=(ToolResult(f"c{i}", page),)) for i in range(2)]
    model = ScriptedModel(GOOD)
    summary_by(model, request([*TALK, read[0], came[0], read[1], came[1]]))
    told = data(model.contexts[0])
    assert told.count("the glaze of pot 1 is blue") == 1
    assert "Tool read: [as shown above]\n" in told
    assert f"{len(page) - 1_000:,} characters left out" in told


def test_what_the_view_shortens_is_read_whole():
    """What a reader sees cut, the story can tell (issue 25, 2)."""
    rows = "\n".join(f"{i}: the glaze of pot {i} is blue, and its foot is bare" for i in range(60))
    newest = [
        said("user", "Fire the pots."),
        said("assistant", "", content=(ToolCall("c1", "fire", "{}"),)),
        said("tool", "", content=(ToolResult("c1", rows),)),
    ]
    model = ScriptedModel(GOOD)
    shown = compress(
        [*TALK, *TALK, *newest], max_tokens=700, tokenizer="o200k", summarizer=summarizer(model)
    )
    assert "tokens left out" in "".join(visible_texts(shown))
    told = data(model.contexts[0])
    assert "\nTool fire: 0: the glaze of pot 0 is blue" in told
    assert "9: the glaze of pot 9 is blue, and its foot is bare\n" in told


def test_a_users_answer_is_never_cut():
    model = ScriptedModel(GOOD)
    answer = " ".join(f"Shelf {i} is for bowls." for i in range(90))
    summary_by(model, request(answers={TALK[-1].id: answer}))
    assert f"User, in answer: {answer}\n" in data(model.contexts[0])


def test_a_model_that_fails_leaves_what_code_tells():
    """Not a person's words alone: what was done stands between them (issue 25, 1)."""
    fitted = compress(
        [*TALK, *TALK, said("user", "Now the bill.")], max_tokens=900, tokenizer="o200k",
        summarizer=summarizer(ScriptedModel(ModelFailed("It is down."))),
    )  # fmt: skip
    checkpoint = next(m for m in fitted if "[Checkpoint" in m.text)
    assert "## Story\n- Assistant: The kiln now" in checkpoint.text


def test_both_refusals_are_told():
    """Why the second try was no better stands beside what was wrong with the first."""
    written = summary_by(ScriptedModel("Too short.", "Shorter."), request())
    assert written.text == "Too short."
    assert "; length: " in f"; {written.asked_again}"


def test_an_answer_may_be_a_providers_dictionary():
    """A reply's message is a `Message` or the provider's own dictionary."""
    blocks = {"role": "assistant", "content": [{"type": "text", "text": GOOD}]}
    assert summary_by(ScriptedModel({"role": "assistant", "content": GOOD}), request()).text == GOOD
    assert summary_by(ScriptedModel(blocks), request()).text == GOOD


@pytest.mark.parametrize("finish", ["length", "refusal", "unknown"])
def test_the_summary_says_how_it_ended(finish: Any):
    """The gate is told why the model stopped (design idea 7)."""
    model = ScriptedModel(Reply(message=said("assistant", GOOD), finish=finish))
    assert summary_by(model, request()).finish == finish


@pytest.mark.parametrize(
    "error",
    [ModelUnavailable("busy"), ModelRefused("no"), ContextOverflow("too large", tokens=9, limit=8)],
)
def test_errors_of_the_model_are_raised_as_they_are(error: Exception):
    """No retries here, and no disguise: the pipeline falls back (FR-2, NFR-2)."""
    with pytest.raises(type(error), match=str(error)):
        summary_by(ScriptedModel(error), request())


# --- structured answers ---


def holding(*answers: Any) -> ScriptedModel:
    model = ScriptedModel(*answers)
    model.abilities = Abilities(schemas=True)
    return model


@pytest.mark.parametrize("strategy", ["task_state", "brief", "decision_log", "code_delta"])
def test_a_server_that_holds_answers_to_a_schema_is_given_one(strategy: str):
    """Structured output where the server enforces it: bounded strings, read as the story."""
    sentences = [f"{each}." for each in GOOD.rstrip(".").split(". ")]
    model = holding(json.dumps({"story": sentences}))
    written = summary_by(model, request(strategy=strategy))
    assert written.text == "\n".join(sentences)
    schema = model.asks[0].answer_schema
    assert schema is not None
    assert schema["required"] == ["story"]
    assert {"maxItems", "items"} <= set(schema["properties"]["story"])
    assert "maxLength" in schema["properties"]["story"]["items"]
    told = model.contexts[0].messages[0].text
    assert '"story"' in told
    assert "##" not in told


def test_a_small_model_is_given_neither_schema_nor_example():
    """Below about 3B they take more than they give."""
    model = holding(GOOD)
    asyncio.run(summarizer(model, is_small=True).summarize(request()))
    assert model.asks[0].answer_schema is None
    assert "example" not in model.contexts[0].messages[0].text
    assert COUNTER.text(model.contexts[0].messages[0].text) < 150


# --- asked once more ---

CUT = Reply(message=said("assistant", GOOD[:200]), finish="length")


@pytest.mark.parametrize(
    ("first", "wish"),
    [
        (CUT, "not finished"),
        (f"{GOOD}\n\n{MORE}", "too long"),
        (f"## Said\n{GOOD}", "no headings"),
        ("The user asked for a booking page.", "too short"),
    ],
)
def test_a_story_that_can_be_mended_is_asked_for_once_more(first: Any, wish: str):
    """The model is told what was wrong, and shown the same data (design idea 7)."""
    model = ScriptedModel(first, GOOD)
    assert summary_by(model, request(max_tokens=95)).text == GOOD
    before, after = map(data, model.contexts)
    assert wish in after.rpartition("end of data>>>")[2]
    assert after.partition("end of data>>>")[0] == before.partition("end of data>>>")[0]


@pytest.mark.parametrize(
    "text", ["bowl bowl bowl bowl " * 90, "\n".join(message.text for message in TALK[:4])]
)
def test_an_echo_is_not_asked_for_again(text: str):
    """Whoever hands back what it was given, or says one word for ever, does so again."""
    model = ScriptedModel(text, GOOD)
    assert summary_by(model, request()).text == text.strip()
    assert len(model.contexts) == 1


def test_a_second_story_that_is_no_better_is_not_taken():
    """The gate then tells what was wrong with the first."""
    model = ScriptedModel(CUT, "bowl " * 60)
    assert summary_by(model, request()).text == GOOD[:200].strip()
    assert len(model.contexts) == 2


@pytest.mark.parametrize("error", [ModelUnavailable("busy"), ContextOverflow("large")])
def test_a_story_is_not_lost_because_the_second_question_failed(error: Exception):
    """What was written is handed on, and judged by whoever asked."""
    model = ScriptedModel(CUT, error)
    assert summary_by(model, request()).finish == "length"
    assert len(model.contexts) == 2


def test_a_good_story_is_not_asked_about():
    """One request, where nothing is wrong."""
    model = ScriptedModel(GOOD)
    summary_by(model, request())
    assert len(model.contexts) == 1


# --- waiting ---


def late(seconds: float) -> ModelUnavailable:
    return ModelUnavailable(f"not within {seconds:g} seconds", waited=seconds)


def test_what_takes_too_long_is_asked_for_in_halves():
    """By the next story: the same would take as long, and somebody waits (issue 10, item 11)."""

    class Slow(Answering):
        async def complete(self, context: ActiveContext, ask: Ask = ASK) -> Reply:
            if COUNTER.messages(context.messages) > 4_000:
                self.contexts.append(context)
                raise late(90)
            return await super().complete(context, ask)

    model = Slow(told)
    writer = summarizer(model, 16_000)
    for _ in range(2):
        with pytest.raises(ModelUnavailable, match="90 seconds"):
            asyncio.run(writer.summarize(request(LONG)))
    refused = sizes(model)
    assert len(refused) == 2, "each time it is asked once"
    assert refused[1] < refused[0]
    assert "shelf-59" in asyncio.run(writer.summarize(request(LONG))).text
    with pytest.raises(ModelUnavailable, match="90 seconds"):
        summary_by(ScriptedModel(*[late(90)] * 9), request(LONG))


@pytest.mark.slow
def test_each_part_is_told_with_its_time_and_the_limit():
    """PartListener: which part of how many, seconds so far and at most (FR-9)."""
    events: list[Event] = []
    ticks = iter(range(0, 900, 5))
    model = Answering(told)
    one = summarizer(
        model, 2_500, emit=events.append, clock=lambda: float(next(ticks)), limit=300.0
    )
    asyncio.run(one.summarize(request(LONG)))
    asked = [event for event in events if isinstance(event, StoryAsked)]
    assert [event.part for event in asked] == list(range(1, asked[0].parts + 1))
    assert len(asked) > 3
    assert [event.elapsed for event in asked] == [5.0 * n for n in range(1, len(asked) + 1)]
    assert {event.limit for event in asked} == {300.0}


# --- larger than the window ---

LONG = [
    said("user" if i % 5 == 0 else "assistant", f"Step {i:03}: " + f"shelf {i} holds bowls. " * 30)
    for i in range(60)
]


def steps(context: ActiveContext) -> list[int]:
    return [int(n) for n in re.findall(r"^\w+: Step (\d{3}):", data(context), re.MULTILINE)]


def told(context: ActiveContext, _: Ask) -> str:
    seen = steps(context) or [int(n) for n in re.findall(r"shelf-(\d+)", data(context))]
    return (
        f"The assistant filled the bowls from shelf-{seen[0]} on, and ended with shelf-{seen[-1]}."
    )


def test_a_larger_span_is_summarized_in_parts_and_put_together():
    """Map and reduce, in order, every message in one part (FR-2, issue 4, item 3)."""
    model = Answering(told)
    text = summary_by(model, request(LONG), window=2_500).text
    parts = [steps(context) for context in model.contexts]
    assert [n for part in parts for n in part] == list(range(60))
    assert len([part for part in parts if part]) > 3
    maps = [data(c) for c, part in zip(model.contexts, parts, strict=True) if part]
    assert all(f"part {i} of {len(maps)} " in d for i, d in enumerate(maps, 1))
    assert "consecutive parts of one conversation" in data(model.contexts[-1])
    assert "\nStory of part 1: " in data(model.contexts[-1])
    assert "shelf-0" in text
    assert "shelf-59" in text
    assert max(sizes(model)) <= 2_500
    prompt = summary_by(Answering(told), request(LONG), window=2_500).prompt
    assert prompt.count("Tell what happened") == 1
    assert all(f"part {i} of {len(maps)} " in prompt for i, _ in enumerate(maps, 1))
    again = Answering(told)
    summary_by(again, request(LONG), window=2_500)
    assert [data(c) for c in again.contexts] == [data(c) for c in model.contexts]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(histories, st.sampled_from([700, 1_024, 2_000]), st.integers(24, 600), st.integers(0, 200))
def test_no_request_exceeds_the_window(
    messages: list[Message], window: int, cap: int, reserve: int
) -> None:
    """Whatever the history, prompt and answer are within the window by its counter (issue 4)."""
    messages = [*messages, said("user", "请检查缓存策略并给出修复方案" * 90), *messages]
    model = Answering(lambda _, ask: "- done " * ((ask.max_tokens or 0) // 4))
    asked = request(messages, max_tokens=cap)
    with suppress(SummaryRejected):
        asyncio.run(summarizer(model, window, reserve=reserve).summarize(asked))
    for size, ask in zip(sizes(model), model.asks, strict=True):
        assert size + (ask.max_tokens or 0) <= window


def test_estimated_tokens_leave_a_margin():
    """Where the counter is an estimate, a tenth of the window stays free."""
    model = Answering(told)
    counter = TokenCounter(tokenizer("chars"))
    model_summarizer = ModelSummarizer(model, counter, window=4_000)
    asyncio.run(model_summarizer.summarize(request(LONG)))
    rows = zip(model.contexts, model.asks, strict=True)
    most = max(counter.messages(c.messages) + (a.max_tokens or 0) for c, a in rows)
    assert 3_000 < most <= 3_600


def test_a_server_that_counts_is_asked_how_many_tokens_it_counts():
    """An estimate is corrected by the server's own count of the data (issue 10, item 11)."""
    counter = TokenCounter(tokenizer("chars"))
    model = Answering(told, count=lambda c: COUNTER.messages(c.messages))
    model.abilities = Abilities(counts=True)
    asyncio.run(ModelSummarizer(model, counter, window=4_000).summarize(request(LONG)))
    rows = zip(sizes(model), model.asks, strict=True)
    most = max(size + (ask.max_tokens or 0) for size, ask in rows)
    assert 3_000 < most <= 4_000


def test_a_window_without_room_is_said_with_its_numbers_and_nothing_is_sent():
    """No request is sent that could not hold anything (issue 4: never an oversized one)."""
    model = ScriptedModel(GOOD)
    with pytest.raises(SummaryRejected, match=r"250 tokens.* the rules take \d+ and the answer \d"):
        summary_by(model, request(), window=250)
    assert not model.contexts


def test_a_span_of_too_many_requests_is_not_begun():
    """Bounded work: the numbers are said, nothing is sent."""
    model = ScriptedModel(GOOD)
    few = summarizer(model, 2_500, most_requests=5)
    with pytest.raises(SummaryRejected, match="at most 5 are sent"):
        asyncio.run(few.summarize(request(LONG)))
    assert not model.contexts


def test_parts_that_do_not_become_smaller_end_it():
    """A model that babbles on does not keep anybody busy for ever (NFR-2)."""
    babble = "\n".join(f"- shelf {i} holds many bowls of clay" for i in range(400))
    model = Answering(lambda c, _: babble)
    with pytest.raises(SummaryRejected, match="no smaller"):
        summary_by(model, request(LONG), window=2_500)
    assert max(sizes(model)) <= 2_500


def test_a_server_with_a_smaller_window_is_asked_in_halves():
    """An overflow halves the parts; no size is tried twice, and it ends (issue 4, item 5)."""
    model = Answering(told, limit=1_500, count=lambda c: COUNTER.messages(c.messages))
    text = summary_by(model, request(LONG), window=8_000).text
    assert "shelf-59" in text
    refused = [size for size in sizes(model) if size > 1_500]
    assert 1 <= len(refused) <= 3
    assert refused == sorted(set(refused), reverse=True)


def test_a_server_that_always_overflows_is_not_asked_for_ever():
    """After a few halvings its own error is raised."""
    model = Answering(told, limit=10, count=lambda c: COUNTER.messages(c.messages))
    with pytest.raises(ContextOverflow):
        summary_by(model, request(LONG), window=8_000)
    assert len(set(sizes(model))) == len(model.contexts) <= 4


def test_a_refusal_of_one_part_ends_it():
    """A part that the model will not summarize is not passed over in silence (design idea 7)."""
    no = Reply(message=said("assistant", "I cannot help with that."), finish="refusal")
    model = ScriptedModel("One part was told.", no, GOOD)
    assert summary_by(model, request(LONG), window=2_500).finish == "refusal"
    assert len(model.contexts) == 2


def test_the_sentence_in_which_a_part_broke_off_is_left_out():
    """Half a sentence may say the opposite of the whole one."""
    cut = Reply(message=said("assistant", "One bowl was sold. It was never to"), finish="length")
    model = ScriptedModel(cut, GOOD)
    summary_by(model, request(LONG), window=2_500)
    last = next(c for c in model.contexts if "Story of part 1" in data(c))
    assert "One bowl was sold.\n" in data(last)
    assert "never to" not in data(last)


# --- the cache ---


def test_the_same_request_is_not_sent_twice():
    """Summaries are cached by what was asked (FR-2)."""
    model = ScriptedModel(GOOD, "Another one.")
    one = summarizer(model)
    first = asyncio.run(one.summarize(request()))
    copies = [said(m.role, m.text) for m in TALK]
    assert asyncio.run(one.summarize(request(copies))) == first
    assert len(model.contexts) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"max_tokens": 151}, {"record": "## Now\n- To do: No cards"}, {"level": "compact"},
        {"strategy": "brief"}, {"mode": "planning"},
        {"guidance": "keep prices"}, {"goals": ("Sell",)}, {"open_tasks": ("Sweep",)},
        {"previous": Summary(text="Old.", made_by="x")}, {"messages": TALK[1:]},
        {"messages": [said("assistant", TALK[0].text), *TALK[1:]]},
    ],
    ids=lambda other: f"{other}"[:40],
)  # fmt: skip
def test_another_request_is_sent(other: dict[str, Any]):
    """Whatever the prompt depends on is part of the question."""
    model = ScriptedModel(GOOD)
    one = summarizer(model)
    asyncio.run(one.summarize(request()))
    asyncio.run(one.summarize(request(**other)))
    assert len(model.contexts) > 1


def test_a_refused_summary_is_asked_for_again():
    """Only what the gate accepts is remembered."""
    model = ScriptedModel(*["bowl bowl bowl bowl " * 30], GOOD)
    one = summarizer(model)
    assert "bowl" in asyncio.run(one.summarize(request())).text
    assert asyncio.run(one.summarize(request())).text == GOOD


@pytest.mark.slow
def test_the_memory_is_bounded_and_forgets_the_oldest():
    """Bounded memory (NFR-1)."""
    model = ScriptedModel(GOOD)
    one = summarizer(model)
    for number in range(REMEMBERED + 1):
        asyncio.run(one.summarize(request(guidance=str(number))))
        asyncio.run(one.summarize(request(guidance="0")))
    assert len(model.contexts) == REMEMBERED + 1
    asyncio.run(one.summarize(request(guidance="1")))
    assert len(model.contexts) == REMEMBERED + 2


# --- real sessions ---


@pytest.fixture(scope="module")
def sessions() -> list[list[Message]]:
    """One session of each kind that is at hand."""
    if not real.FOLDER.is_dir():
        pytest.skip("no real conversations here: set COMPACT_DATA to their folder")
    found = []
    for folder in real.FOLDERS:
        for path in real.files(folder)[:1]:
            found.append(list(next(real.conversations(path, every=False)).messages))
    assert found
    return found


SPAN = 150 if NIGHT is not None else 60
"""Messages of each real session that are summarized."""


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("window", [4_000, 8_000])
def test_no_request_of_a_real_session_exceeds_the_window(sessions, window: int):
    """Real sessions, a small summarizer: every request fits, all of it is read (issue 4)."""
    for messages in sessions:
        model = Answering(lambda *_: GOOD)
        span = messages[-SPAN:]
        asked = request(span, max_tokens=700)
        assert asyncio.run(summarizer(model, window).summarize(asked)).text == GOOD
        rows = zip(sizes(model), model.asks, strict=True)
        assert all(size + (ask.max_tokens or 0) <= window for size, ask in rows)
        told = "".join(map(data, model.contexts))
        for block in blocks_of(span, longest=window // 2):
            assert block.text[:40].split("\n")[0] in told


class Growing:
    """A tokenizer by which texts take more together than one by one."""

    name = "growing"
    exact = True

    def count(self, text: str) -> int:
        return len(text) // 4 + 30 * (len(text) // 1_000)


def test_parts_that_grow_when_they_are_joined_are_cut_smaller():
    """What is sent is counted as a whole, not by its blocks (issue 4)."""
    counter = TokenCounter(Growing())
    model = Answering(told)
    asyncio.run(ModelSummarizer(model, counter, window=4_000).summarize(request(LONG)))
    rows = zip(model.contexts, model.asks, strict=True)
    assert all(counter.messages(c.messages) + (a.max_tokens or 0) <= 4_000 for c, a in rows)


def test_the_second_question_fits_the_window_too():
    """Where it does not, it is not asked."""
    for window in range(640, 760, 10):
        model = ScriptedModel("The user asked for a page.")
        with suppress(SummaryRejected):
            summary_by(model, request(), window=window)
        rows = zip(sizes(model), model.asks, strict=True)
        assert all(size + (ask.max_tokens or 0) <= window for size, ask in rows)


def test_a_story_that_is_too_long_is_asked_for_with_fewer_words():
    """Fewer by as much as it was too long, as who counts badly does so again; once (FR-6)."""
    pairs = [f"{a} in shop/{a}_{b}.py" for a in SUBJECTS for b in SUBJECTS if a > b]
    long = f"{GOOD} {MORE} The assistant then gave an order to the {', to the '.join(pairs)}."
    model = ScriptedModel(long, long, GOOD)
    asked = request()
    assert summary_by(model, asked).text == long
    first, second = (int(re.findall(r"at most (\d+) words", data(c))[-1]) for c in model.contexts)
    share = asked.max_tokens / COUNTER.text(long)
    assert second == pytest.approx(first * share, abs=2)
    assert summary_by(ScriptedModel(long, GOOD), asked).text == GOOD


def test_a_story_is_written_though_nobody_says_how_large_the_window_is():
    """Whoever cannot be asked for the limits fails as if asked for the story: what is sent fits the
    smallest window, and the limits are asked for again (FR-6)."""

    class Mute(ScriptedModel):
        limits_asked = 0

        async def limits(self) -> Any:
            self.limits_asked += 1
            raise ModelUnavailable("down", model=self.name)

    model = Mute(GOOD)
    writer = ModelSummarizer(model, COUNTER, window=None)
    assert asyncio.run(writer.summarize(request())).text == GOOD
    asyncio.run(writer.summarize(request(max_tokens=140)))
    assert model.limits_asked == 2
    assert max(sizes(model)) < 4_096


def test_a_window_that_nobody_says_is_the_session_s():
    """What is sent fits the window that the session has for the model (FR-6)."""

    class Mute(ScriptedModel):
        async def limits(self) -> Any:
            raise ModelUnavailable("down", model=self.name)

    model = Mute(GOOD)
    writer = ModelSummarizer(model, COUNTER, window=None, manner=Manner(unsaid=1_024))
    asyncio.run(writer.summarize(request(LONG)))
    assert max(sizes(model)) < 1_024
