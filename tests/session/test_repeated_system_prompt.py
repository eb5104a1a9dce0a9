"""One way to open a session or to begin it, and one place where calls say what they take."""

from __future__ import annotations

import pydoc
from pathlib import Path
from typing import Any

import pytest

import compact
from compact import ContextManager
from compact.errors import InvalidMessage
from compact.session.one_call import Options
from compact.session.opening import SessionOptions

SYSTEM = {"role": "system", "content": "You are a gardener's assistant."}
RULE = {"role": "developer", "content": "Answer in one sentence."}
ASKED = {"role": "user", "content": "What does the fern need?"}


def program(file: Path, *leading: dict[str, str]) -> list[str]:
    """What a program says at every start; the roles of its history."""
    with ContextManager(window=8_192, store=file, session_id="garden") as ctx:
        for message in leading:
            ctx.add_message(message)
        ctx.add_message(ASKED)
        return [message.role for message in ctx.history]


def test_a_program_that_starts_again_says_its_system_prompt_once(tmp_path: Path) -> None:
    file = tmp_path / "chat.db"
    assert program(file, SYSTEM, RULE) == ["system", "developer", "user"]
    assert program(file, SYSTEM, RULE) == ["system", "developer", "user", "user"]
    assert program(file) == ["system", "developer", *["user"] * 3]


def test_what_is_said_later_is_said(tmp_path: Path) -> None:
    """A reminder in the same words."""
    with ContextManager(window=8_192) as ctx:
        for message in (SYSTEM, ASKED, SYSTEM, SYSTEM):
            ctx.add_message(message)
        assert len(ctx.history) == 4


def test_a_session_that_began_without_a_system_prompt_gets_it_once(tmp_path: Path) -> None:
    """A program's second version says one, at each of its starts."""
    file = tmp_path / "chat.db"
    assert program(file) == ["user"]
    for starts in range(1, 5):
        assert program(file, SYSTEM, RULE) == ["user", "system", "developer", *["user"] * starts]
    assert program(file, RULE)[-2:] == ["user", "user"]


def test_after_a_list_was_taken_in_the_beginning_is_over(tmp_path: Path) -> None:
    file = tmp_path / "chat.db"
    program(file, SYSTEM)
    with ContextManager(window=8_192, store=file, session_id="garden") as ctx:
        ctx.sync([SYSTEM, ASKED, {"role": "assistant", "content": "Water."}])
        ctx.add_message(SYSTEM)
        assert [each.role for each in ctx.history] == ["system", "user", "assistant", "system"]


@pytest.mark.slow
def test_a_system_prompt_in_other_words_takes_the_place_of_the_first(tmp_path: Path) -> None:
    """However often a program starts, its prompt has one."""
    file = tmp_path / "chat.db"
    for day in range(40):
        with ContextManager(window=8_192, store=file, session_id="garden") as ctx:
            now = f"You are a gardener's assistant.{' Be kind.' * 40} Today is day {day}."
            said = ctx.add_message(role="system", content=now)
            assert said.content == now
            ctx.add_messages([RULE, ASKED] if day == 0 else [{**RULE, "content": f"Rule {day}"}])
            ctx.add_message(ASKED)
            prompt = ctx.get_context_for_model()
    systems = [m["content"] for m in prompt if m["role"] in ("system", "developer")]
    assert systems[:2] == [now, "Rule 39"]
    assert len(ctx.history) == 2 + 41
    with ContextManager(window=8_192, store=file, session_id="garden") as ctx:
        assert [m["content"] for m in ctx.get_context_for_model()][:2] == [now, "Rule 39"]


def test_a_system_prompt_in_other_words_is_what_is_told_of(tmp_path: Path) -> None:
    """Also where the first words were read before."""
    file = tmp_path / "chat.db"
    program(file, SYSTEM)
    with ContextManager(window=8_192, store=file, session_id="garden") as ctx:
        history = ctx._session.state.history
        assert history.redacted(0).text == SYSTEM["content"]
        ctx.add_message(role="system", content="You are a cook.")
        assert history.redacted(0).text == "You are a cook."


def test_a_beginning_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "chat.db"
    program(file, SYSTEM)
    other = {"role": "system", "content": "You are a cook."}
    with ContextManager(window=8_192, store=file, session_id="garden") as ctx:
        with pytest.raises(InvalidMessage):
            ctx.add_messages([other, {"role": "nobody at all", "content": 7}])
        assert ctx.get_context_for_model()[0] == SYSTEM
        ctx.add_messages([other, ASKED])
        assert ctx.get_context_for_model()[0] == other
    assert [message.role for message in ctx.history] == ["system", "user", "user"]


CALLS: list[tuple[Any, type]] = [
    (compact.compress, Options),
    (compact.acompress, Options),
    (compact.plan, Options),
    (compact.aplan, Options),
    (ContextManager, SessionOptions),
]


@pytest.mark.parametrize(("call", "options"), CALLS, ids=lambda each: each.__name__)
def test_help_shows_every_option_with_its_type_and_meaning(call: Any, options: type) -> None:
    text = pydoc.plain(pydoc.render_doc(call))
    assert "Unpack" not in text
    for name in options.__annotations__:
        kind = str(options.__annotations__[name].__forward_arg__)
        assert f"{name}: " in text
        described = [line for line in text.splitlines() if line.strip(" |").startswith(f"{name} (")]
        assert described, name
        assert kind.split()[0] in described[0]
        assert described[0].rstrip().partition("): ")[2] or len(kind) > 60, described[0]


@pytest.mark.parametrize("name", sorted(compact.__all__))
def test_help_says_what_every_public_name_is(name: str) -> None:
    """And each public method of it, with its parameters."""
    value = getattr(compact, name)
    assert (value.__doc__ or "").strip()
    if not isinstance(value, type) or not value.__module__.startswith(
        ("compact.session", "compact.memory")
    ):
        return
    for each in [each for each in vars(value) if not each.startswith("_")]:
        text = pydoc.plain(pydoc.render_doc(getattr(value, each)))
        assert "*args, **given" not in text
