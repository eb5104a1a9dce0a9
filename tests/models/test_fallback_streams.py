"""Answers that are read piece by piece, from models that are asked again (FR-6, K-5)."""

import asyncio

import pytest

from compact.errors import (
    ModelUnavailable,
)
from compact.messages.asking import ASK, Patience
from compact.messages.replies import Delta
from compact.testing import ScriptedModel
from tests.models.persisting import BUSY, PROMPT, Hanging, asked, pieces_of
from tests.pace import run_at_once


def test_a_stream_is_begun_again_before_its_first_piece():
    persistent, clock, _ = asked(ScriptedModel(BUSY, "one two"))
    pieces = run_at_once(pieces_of(persistent))
    assert "".join(p.text for p in pieces) == "one two"
    assert len(clock.waits) == 1
    assert pieces[-1].reply is not None


def test_a_stream_that_hangs_in_the_middle_is_not_begun_again():
    other = ScriptedModel("mine")
    persistent, _, _ = asked(Hanging(), other, patience=Patience(each=0.01))
    with pytest.raises(ModelUnavailable):
        run_at_once(pieces_of(persistent))
    assert not other.contexts


def test_an_empty_stream_is_no_answer():
    """(FR-6) As an answer in one piece that says nothing is none."""
    persistent, _, events = asked(ScriptedModel("", "here", name="one"))
    pieces = run_at_once(pieces_of(persistent))
    assert [piece.text for piece in pieces] == ["here", ""]
    assert pieces[-1].reply.model == "one"
    assert [event.reason for event in events] == ["one answered with nothing"]


@pytest.mark.parametrize("blank", ["\n", " \n", "  "])
def test_a_stream_of_blanks_is_no_answer(blank):
    """(FR-6) As an answer in one piece that says nothing is none."""

    class Blank(ScriptedModel):
        async def stream(self, context, ask=ASK):
            reply = await self.complete(context, ask)
            for character in blank:
                yield Delta(text=character)
            yield Delta(reply=reply)

    persistent, _, events = asked(
        Blank(blank, name="one"), ScriptedModel("here"), patience=Patience(attempts=1)
    )
    pieces = run_at_once(pieces_of(persistent))
    assert [piece.text for piece in pieces] == ["here", ""]
    assert [event.reason for event in events] == ["one answered with nothing"]


def test_the_blanks_before_a_streams_first_word_are_part_of_it():
    class Slowly(ScriptedModel):
        async def stream(self, context, ask=ASK):
            for text in ("", "\n", " ", "one", " two"):
                yield Delta(text=text)
            yield Delta(reply=await self.complete(context, ask))

    persistent, _, _ = asked(Slowly("one two"))
    pieces = run_at_once(pieces_of(persistent))
    assert [piece.text for piece in pieces] == ["\n one", " two", ""]


def test_a_stream_that_ends_after_blanks_is_begun_again():
    """(FR-6)"""

    class Ends(ScriptedModel):
        async def stream(self, context, ask=ASK):
            yield Delta(text=" ")

    persistent, _, events = asked(
        Ends(name="one"), ScriptedModel("here"), patience=Patience(attempts=1)
    )
    assert run_at_once(pieces_of(persistent))[-1].reply.message.text == "here"
    assert [event.reason for event in events] == ["one ended its answer before it began"]


def test_an_empty_stream_is_closed_before_the_next_model_is_asked():
    """(FR-6) Nothing is held open until somebody collects garbage."""
    done = []

    class Open(ScriptedModel):
        async def stream(self, context, ask=ASK):
            try:
                async for piece in super().stream(context, ask):
                    yield piece
            finally:
                done.append("closed")

        async def complete(self, context, ask=ASK):
            done.append("asked")
            return await super().complete(context, ask)

    persistent, _, _ = asked(Open("", "here"))
    run_at_once(pieces_of(persistent))
    assert done == ["asked", "closed", "asked", "closed"]


class Dripping(ScriptedModel):
    """Says a word whenever it would be given up, and never ends."""

    is_closed = False

    async def stream(self, context, ask=ASK):
        try:
            while True:
                await asyncio.sleep(0.005)
                yield Delta(text="drip ")
        finally:
            await asyncio.sleep(0)
            self.is_closed = True


def test_a_stream_as_a_whole_has_the_time_of_one_answer():
    """(K-5) A word now and then does not keep a person waiting for ever; the text names who it
    was.
    """
    down = ScriptedModel(ModelUnavailable("down"), name="one")
    patience = Patience(attempts=1, each=0.05)
    persistent, _, _ = asked(down, Dripping(name="two"), patience=patience)

    async def read():
        async with asyncio.timeout(60):
            return await pieces_of(persistent)

    with pytest.raises(ModelUnavailable, match=r"two did not answer within 0\.05 seconds"):
        run_at_once(read())


def test_the_time_that_a_reader_takes_is_not_the_models():
    persistent, _, _ = asked(ScriptedModel("one two"), patience=Patience(each=0.02))

    async def read():
        said = ""
        async for piece in persistent.stream(PROMPT):
            said += piece.text
            await asyncio.sleep(0.03)
        return said

    assert run_at_once(read()) == "one two"


def test_a_stream_that_is_left_at_its_first_piece_is_closed():
    model = Dripping()
    persistent, _, _ = asked(model)

    async def left():
        pieces = persistent.stream(PROMPT)
        await anext(pieces)
        await pieces.aclose()
        return model.is_closed

    assert run_at_once(left())
