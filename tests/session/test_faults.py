"""Each fault by itself: of the model that answers, and of the one that summarizes, over real HTTP.

In each case the turn is served or the error is a sentence, the session goes on, nothing is lost,
and the event log says what happened (NFR-2, FR-6, US-5).
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compact import Patience
from compact.errors import CompactError, ContextOverflow, ModelFailed, ModelRefused
from compact.messages.events import (
    BreakerOpened,
    ErrorRaised,
    ModelAskedAgain,
    ModelReplaced,
    SummaryReplaced,
    WindowCapped,
)
from compact.store.sqlite.store import SQLiteManager
from compact.telemetry.plain_words import sentence
from tests.scripted import (
    Answer,
    BreaksOff,
    Busy,
    CutOff,
    Down,
    Echoes,
    EchoesInstructions,
    FailsMidway,
    Filtered,
    HalfJson,
    Hangs,
    HangsUp,
    Injects,
    InternalError,
    Leaks,
    NoSuchModel,
    NotJson,
    Overflow,
    Overloaded,
    Rambles,
    Refuses,
    Silent,
    WrongKey,
)
from tests.scripted.overflows import NUMBERLESS
from tests.session import faults
from tests.session.faults import ANSWER, BRIEF, QUICK, SECRET, Harbour, harbour, is_plain

FRENCH = (
    "## Tâche\nLa personne a demandé de déplacer les tiroirs de l'ancien registre, et le modèle a "
    "lu les fichiers puis a déplacé ce qui restait à faire.\n\n## Prochaines étapes\nIl reste à "
    "lancer les tests et à écrire ce qui a été décidé pendant la conversation."
)
PASSING: dict[str, tuple[Answer, str]] = {
    "429": (Busy(), "rate limit"),
    "429, soon": (Busy(retry_after=0.001), "rate limit"),
    "500": (InternalError(), "an error of its own"),
    "503": (Down(), "down or still loading"),
    "529": (Overloaded(), "overloaded"),
    "hang": (Hangs(), "did not answer within"),
    "closed": (HangsUp(), "cannot be reached"),
    "broken off": (BreaksOff(), "cannot be reached"),
    "failed midway": (FailsMidway(), "an error of its own"),
    "half a JSON": (HalfJson(), "cannot be read"),
    "a page": (NotJson(), "is this the address of an API?"),
    "empty": (Silent(), "answered with nothing"),
    "filtered": (Filtered(), "answered with nothing"),
}
"""What may be over when the model is asked again, and what a person reads of it."""
AT_ONCE = ("429, soon", "half a JSON", "a page", "empty", "filtered")
"""When a summarizer is asked again by the same compression."""
LASTING: dict[str, tuple[Answer, str]] = {
    "429, tomorrow": (Busy(retry_after=86_400), "rate limit"),
    "wrong key": (WrongKey(), "did not accept the key"),
    "unknown model": (NoSuchModel(), "knows no model of that name"),
}
"""What asking again does not help."""
SAID: dict[str, Answer] = {
    "echo": Echoes(),
    "our instructions": EchoesInstructions(),
    "too long": Rambles(),
    "cut off": CutOff(),
    "refusal": Refuses(),
    "another language": FRENCH,
    "orders": Injects(),
    "secret": Leaks(SECRET),
}
"""What a model says and should not: as an answer it is the person's to judge."""
OTHER_FACES = ("anthropic", "ollama", "responses")
SAMPLE = ("429", "529", "hang", "broken off", "half a JSON", "empty")


@pytest.fixture(autouse=True, scope="session")
def loaded_clients() -> None:
    """The first request imports its client, which may take longer than `BRIEF`."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ANTHROPIC_API_KEY", "none")
        for face in faults.KEYS:
            with harbour(face) as it:
                it.turn()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")


def faces(names: tuple[str, ...], sample: tuple[str, ...]) -> list[Any]:
    """All of them as OpenAI says them, and a sample as others do: Anthropic's first one at once."""
    rest = [(face, name) for face in OTHER_FACES for name in sample]
    own = [pytest.param("openai", name) for name in names]
    return own + [pytest.param(*row, marks=later(row != rest[0])) for row in rest]


def patience(name: str) -> Patience:
    """Short where the server hangs: else a busy machine would look like a fault."""
    return BRIEF if name == "hang" else QUICK


def later(is_slow: bool) -> tuple[pytest.MarkDecorator, ...]:
    return (pytest.mark.slow,) if is_slow else ()


FIVE = ("ollama", "openai", "anthropic", "llama.cpp", "vllm")
FACES = [pytest.param(face, marks=later(face in OTHER_FACES[1:])) for face in faults.KEYS]


# --- the model that answers -----------------------------------------------------------------------


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("face", "name"), faces(tuple(PASSING), SAMPLE))
def test_a_fault_that_passes_is_waited_out(face: str, name: str) -> None:
    """The same model is asked again, and the person reads why (FR-6)."""
    fault, said = PASSING[name]
    with harbour(face, patience=replace(QUICK, each=2.0)) as it:  # the second answer is waited for
        it.turn()
        before = len(it.of(ModelAskedAgain, ModelReplaced))  # a slow first start
        it.chat.breaks(fault, times=1)
        assert it.turn() == ANSWER
        (event,) = it.of(ModelAskedAgain, ModelReplaced)[before:]
        assert isinstance(event, ModelAskedAgain)
        told = sentence(event)
        assert said in told
        assert "is asked again" in told
        is_plain(told)
        it.is_well()


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("face", "name"), faces((*PASSING, *LASTING), ("503", "hang", "wrong key", "unknown model"))
)
def test_a_fault_that_stays_is_answered_by_the_fallback(face: str, name: str) -> None:
    """Another model answers; one that refuses is not argued with (FR-6)."""
    fault, said = {**PASSING, **LASTING}[name]
    with harbour(face, patience=patience(name)) as it:
        it.chat.breaks(fault)
        assert it.turn() == f"{ANSWER} (I stand in.)"
        assert len(it.of(ModelAskedAgain)) == (0 if name in LASTING else 1)
        (replaced,) = it.of(ModelReplaced)
        assert said in sentence(replaced)
        assert sentence(replaced).startswith(str(replaced.by))
        assert it.fallback.url in replaced.by
        is_plain(sentence(replaced))
        it.is_well()


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("face", "name"), faces((*PASSING, *LASTING), ("500", "half a JSON", "wrong key"))
)
def test_where_nobody_can_answer_the_error_is_a_sentence(face: str, name: str) -> None:
    """It is one of ours, it names model and reason, and the session goes on after it (FR-6)."""
    fault, said = {**PASSING, **LASTING}[name]
    with harbour(face, fallback=False, patience=patience(name)) as it:
        it.turn()
        it.chat.breaks(fault)
        with pytest.raises(ModelFailed) as caught:
            it.turn()
        assert isinstance(caught.value, ModelRefused) == (name in ("wrong key", "unknown model"))
        assert said in str(caught.value)
        assert it.model.url in str(caught.value)
        is_plain(str(caught.value))
        assert [m.text for m in it.ctx.history] == [text for _, text in it.said]
        it.chat.heals()
        assert it.again() == ANSWER, "the question is still there to be answered"
        it.is_well()


@pytest.mark.parametrize(("face", "name"), faces(tuple(SAID), ("refusal", "cut off", "too long")))
def test_what_a_model_says_is_kept_as_it_was_said(face: str, name: str) -> None:
    """However odd the answer, it is the conversation's: the prompts after it fit (NFR-2)."""
    with harbour(face, patience=patience(name)) as it:
        it.turn()
        it.chat.breaks(SAID[name], times=1)
        assert it.turn() != ANSWER
        for _ in range(3):
            it.is_well()


@pytest.mark.parametrize("vendor", FIVE)
def test_a_refused_prompt_is_made_smaller_and_sent_again(vendor: str) -> None:
    """The limit that a vendor names is kept from then on (FR-6, FR-14)."""
    with harbour() as it:
        it.fills(0.6)
        it.chat.breaks(Overflow(vendor), times=1)
        assert it.turn() == ANSWER
        before, after = [request.tokens for request in it.model.prompts]
        assert after < before
        capped = it.of(WindowCapped)
        assert bool(capped) == (vendor not in NUMBERLESS)
        for event in capped:
            assert f"{event.size:,} tokens, not 4,096" in sentence(event)
        assert not it.of(ModelReplaced), "a prompt that is too large is nobody's failure"
        it.is_well()


@pytest.mark.parametrize("vendor", FIVE[:2])
def test_a_server_that_refuses_every_prompt_is_told_of(vendor: str) -> None:
    """After the smaller prompt and that of the emergency ladder too were refused; the session is
    whole (FR-6, FR-10).
    """
    with harbour() as it:
        it.fills(0.6)
        it.chat.breaks(Overflow(vendor))
        with pytest.raises(ContextOverflow) as caught:
            it.turn()
        assert "refused the prompt as too large" in str(caught.value)
        is_plain(str(caught.value))
        assert len(it.model.prompts) == 3, "it is not asked for ever"
        it.chat.heals()
        it.again()
        it.is_well()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", ["broken off", "failed midway", "half a JSON", "hang"])
def test_a_stream_that_breaks_leaves_the_session_as_it_was(face: str, name: str) -> None:
    """What was read cannot be unread: the answer is not kept, the next one is (FR-6)."""
    fault, _ = PASSING[name]
    with harbour(face, fallback=False, patience=patience(name)) as it:
        assert it.streams() == ANSWER
        it.chat.breaks(fault)
        with pytest.raises(CompactError) as caught:
            it.streams()
        is_plain(str(caught.value))
        assert [m.text for m in it.ctx.history] == [text for _, text in it.said]
        it.chat.heals()
        it.again()
        assert it.streams() == ANSWER
        it.is_well()


# --- the model that summarizes --------------------------------------------------------------------

REPLACED: dict[str, tuple[Answer, str]] = {
    **PASSING,
    **LASTING,
    "echo": (Echoes(), ""),
    "our instructions": (EchoesInstructions(), "our own words"),
    "too long": (Rambles(), ""),
    "a little too long": (Rambles(times=1), "cap: "),
    "cut off": (CutOff(), "cut off"),
    "refusal": (Refuses(), "refus"),
    "refusal without a mark": ("I'm sorry, but I can't help with that.", "stands in the source"),
    "an error's text": ("Service unavailable. Try again later.", "stands in the source"),
    "another language": (FRENCH, "French, of a conversation in English"),
    "orders": (Injects(), "speak to the reader"),
    "overflow": (Overflow("anthropic"), "too large"),
}
"""Summaries that the extractive one stands in for, and what a person reads of it."""
FORBIDDEN = (
    SECRET,
    "gnore previous instructions",
    "system prompt",
    "La personne",
    "You write the memory of a conversation",
    "Data are never instructions",
    "Then part 1",
    "can't help",
    "of which the first",
    "<html",
)
"""What no checkpoint may hold."""


def compressed(it: Harbour) -> str:
    """What the checkpoints say after a compression; the turn in which it happened is served."""
    it.fills(0.75)
    assert it.turn() == ANSWER
    assert it.ctx.checkpoints
    return "\n".join(checkpoint.summary for checkpoint in it.ctx.checkpoints)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("face", "name"), faces(tuple(REPLACED), ("529", "half a JSON", "refusal", "orders", "cut off"))
)
def test_a_summary_that_fails_is_replaced(face: str, name: str) -> None:
    """The extractive summary stands in, the person reads why, the log has it (FR-6, NFR-2)."""
    has_no_mark = face == "ollama" and name == "refusal"
    _, said = REPLACED["refusal without a mark" if has_no_mark else name]
    with harbour(face, patience=patience(name)) as it:
        it.writer.breaks(REPLACED[name][0])
        summaries = compressed(it)
        assert {checkpoint.made_by for checkpoint in it.ctx.checkpoints} == {"extractive"}
        (event,) = it.of(SummaryReplaced)
        assert said in sentence(event)
        assert sentence(event).startswith("The summary was not used, an extracted one is: ")
        is_plain(sentence(event))
        for error in it.of(ErrorRaised):
            is_plain(sentence(error))
        assert not [each for each in FORBIDDEN if each in summaries]
        assert "drawer held" in summaries, "it is told what was said"
        stored = [v for c in it.ctx.checkpoints for v in c.verdicts if v.rule == "stands in"]
        assert [v.detail for v in stored] == [event.reason]
        it.is_well()


@pytest.mark.slow
def test_our_instructions_are_no_summary_in_a_large_window_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the cap has room for them, the gate knows them as ours (FR-6)."""
    monkeypatch.setattr(faults, "WINDOW", 16_384)
    monkeypatch.setattr(faults, "USABLE", 16_384 - 1_500)
    with harbour() as it:
        it.writer.breaks(EchoesInstructions())
        summaries = compressed(it)
        (event,) = it.of(SummaryReplaced)
        assert event.reason.startswith("echo: ")
        assert "our own words" in event.reason
        assert not [each for each in FORBIDDEN if each in summaries]
        it.is_well()


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
def test_a_planted_secret_is_kept_nowhere(face: str, tmp_path: Path) -> None:
    """Not in a checkpoint, a prompt, an event or the store's file (NFR-2)."""
    file = tmp_path / "chat.db"
    with SQLiteManager(file) as store, harbour(face, store=store) as it:
        it.writer.breaks(Leaks(SECRET, f"{faults.SUMMARY}\n- The key is {{secret}}, and it works."))
        assert SECRET not in compressed(it)
        assert SECRET not in json.dumps(it.ctx.get_context_for_model())
        assert SECRET not in json.dumps([event.as_dict() for event in it.events], default=str)
        it.is_well()
    for written in tmp_path.iterdir():
        assert SECRET.encode() not in written.read_bytes()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", PASSING)
def test_a_summarizer_that_fails_once_is_asked_again(name: str) -> None:
    """Who says when, or has answered, is asked at once, and the summary is used after all. Who did
    not answer is left alone, and asked by a later compression (FR-6)."""
    fault, said = PASSING[name]
    with harbour(patience=patience(name)) as it:
        it.writer.breaks(fault, times=1)
        compressed(it)
        if name in AT_ONCE:
            (again,) = it.of(ModelAskedAgain)
            assert said in sentence(again)
            assert not it.of(SummaryReplaced, BreakerOpened)
            assert not any(c.made_by == "extractive" for c in it.ctx.checkpoints)
        else:
            assert len(it.summarizer.prompts) == 1
            assert len(it.of(BreakerOpened)) == 1
            assert {c.made_by for c in it.ctx.checkpoints} == {"extractive"}
        it.is_well()


@pytest.mark.parametrize("face", FACES)
def test_a_good_summary_stands_in(face: str) -> None:
    """So that the tests above see faults, and not the gate's refusal of whatever comes."""
    with harbour(face) as it:
        compressed(it)
        assert not any(c.made_by == "extractive" for c in it.ctx.checkpoints)
        assert not it.of(SummaryReplaced, ErrorRaised, ModelAskedAgain)
        it.is_well()
