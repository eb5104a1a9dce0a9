"""`compactctl chat` before the program begins: what it refuses, which session it opens (US-1)."""

import dataclasses
import sys
import threading
from pathlib import Path

import pytest

from compact import CompactConfig, ContextManager
from compact.cli import stores
from compact.cli.commands import chat as chats
from compact.cli.errors import Stop
from compact.cli.stores import StoreOptions
from compact.errors import NotFound
from compact.memory import memory_manager
from compact.messages.sessions import CHAT_NOTE
from compact.tui.app import ChatApp
from tests.cli.test_cli_sessions import Terminal


def test_without_its_package_it_says_how_to_get_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "textual", None)
    done = run("chat")
    assert done.code == 2
    assert "chat needs the package textual: pip install 'textual>=8'" in done.err
    assert "pip install '.[chat]'" in done.err


def test_it_needs_a_terminal(run):
    done = run("chat", "--model", "echo:4k")
    assert done.code == 2
    assert "needs a terminal" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("garden", "--last"), "leave SESSION out"),
        (("--json",), "chat is for people"),
        (("--window", "x"), "'x' is not a whole number"),
    ],
    ids=["two sessions", "json", "a window"],
)
def test_what_makes_no_sense_is_refused(run, arguments, said):
    done = run("chat", *arguments)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("kept", ["garden", None])
def test_it_ends_by_saying_how_to_go_on(run, monkeypatch, kept):
    monkeypatch.setattr(chats, "_run", lambda *_, **__: kept)
    done = run("chat", "--model", "echo:4k")
    assert done.code == 0
    assert ("continues with: compactctl chat garden" in done.err) == (kept is not None)


@pytest.fixture
def catalog(chat):
    with stores.opened(StoreOptions(store=str(chat))) as opened:
        yield opened


@pytest.mark.parametrize(
    "model",
    [
        *("echo", "echo:4k", "ollama:mine", "anthropic:claude-sonnet-4-5", "openai:gpt-4o"),
        *("http://127.0.0.1:9/v1#mine", "responses+http://127.0.0.1:9/v1#mine"),
        "anthropic+http://127.0.0.1:9#mine",
    ],
)
@pytest.mark.parametrize("file", ["kept.md", "kept.json"])
def test_a_chat_with_any_model_is_exported(tmp_path, model, file):
    """Also with one whose window only its server knows."""
    with stores.opened(StoreOptions(store=str(tmp_path / "chat.db")), create=True) as catalog:
        catalog = dataclasses.replace(catalog, settings=CompactConfig(model=model))
        with ContextManager(model, 8_192, catalog.store, session_id="garden") as ctx:
            ctx.add_message(role="user", content="Is berth 4 free?")
            ctx.add_message(role="assistant", content="It is free.")
        setup = chats.setup_of(catalog, "garden")
        assert setup.write("garden", str(tmp_path / file)).startswith("Wrote ")
    assert "berth 4" in (tmp_path / file).read_text()


def test_memory_ages_while_the_program_is_open(tmp_path, monkeypatch):
    heard, told = [], threading.Event()

    def hear(_, event):
        heard.append(event)
        told.set()

    monkeypatch.setattr(ChatApp, "hear", hear)
    monkeypatch.setattr(ChatApp, "run", lambda _: told.wait(60))
    monkeypatch.setattr(memory_manager, "FIRST_RUN", 0)
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with stores.opened(StoreOptions(store=str(tmp_path / "chat.db")), create=True) as catalog:
        memory = stores.memory_of(catalog)
        memory.add_message("old", "user", "The crane is mended.", timestamp="2020-05-01T09:00:00Z")
        chats._run(catalog, None, last=False, light=False)
        assert [(event.name, event.digests) for event in heard] == [("compact.memory_aged", 1)]
        assert memory.archives.moved() == {"old": False}, "its texts stay in the file"


def test_a_session_is_named_by_its_beginning_or_begun(catalog):
    assert chats.setup_of(catalog, "har").session_id == "harbour"
    assert chats.setup_of(catalog, "garden").session_id == "garden"
    assert chats.setup_of(catalog, None).session_id.startswith("chat-")
    assert chats.setup_of(catalog, None, last=True).session_id == "harbour"


def test_the_last_session_must_be_there(tmp_path):
    with (
        stores.opened(StoreOptions(store=str(tmp_path / "new.db")), create=True) as empty,
        pytest.raises(NotFound, match="no session"),
    ):
        chats.setup_of(empty, None, last=True)


@pytest.mark.parametrize("name", ["out.md", "out.json"])
def test_a_session_is_written_as_an_export_is(run, catalog, chat, tmp_path, name):
    told = chats.setup_of(catalog, "harbour").write("harbour", str(tmp_path / name))
    assert "120 messages" in told
    run("sessions", "export", "harbour", "-o", f"other-{name}", "--store", chat)
    assert (tmp_path / name).read_bytes() == (tmp_path / f"other-{name}").read_bytes()


def test_it_says_what_it_replaced_and_refuses_other_endings(catalog, tmp_path):
    write = chats.setup_of(catalog, "harbour").write
    assert write("harbour", str(tmp_path / "out.md")).startswith("Wrote")
    assert write("harbour", str(tmp_path / "out.md")).startswith("Replaced")
    with pytest.raises(Stop, match=r"end the name in \.md"):
        write("harbour", str(tmp_path / "out.txt"))
    assert not (tmp_path / "out.txt").exists()


def test_other_commands_show_the_model_that_a_chat_talked_to_last(run, catalog, chat):
    catalog.store.note("harbour", CHAT_NOTE, {"model": "echo:4k"})
    assert catalog.sessions()[0].model == "echo:4k"
    assert "echo:4k" in run("show", "harbour", "--store", chat).out
    run("sessions", "export", "harbour", "-o", "out.md", "--store", chat)
    assert "- model: echo:4k" in Path("out.md").read_text(encoding="utf-8")
