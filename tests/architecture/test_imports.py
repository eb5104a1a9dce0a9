"""Starting loads what it needs and nothing else (docs/decisions/088): modules are counted, since
seconds differ from one machine to the next.

A number of MOST may be lowered whenever fewer are loaded; to raise one takes a decision.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import compact

MOST: dict[str, tuple[int, tuple[str, ...]]] = {
    "from compact import compress": (5, ("pydantic", "re2", "apsw", "numpy", "orjson", "asyncio")),
    "from compact import ContextManager": (
        *(105, ("re2", "apsw", "numpy", "yaml", "rich", "typer", "pydantic_settings")),
    ),
    "from compact import CompactManager": (
        *(109, ("re2", "apsw", "numpy", "yaml", "rich", "typer", "pydantic_settings")),
    ),
    "compactctl sessions list": (170, ("re2", "numpy", "asyncio", "textual", "openai")),
}
"""What is started → modules of ours that it loads at most, and other people's that it does not."""
LATER = (
    *("compact.engine.pipeline", "compact.engine.gate", "compact.secrets.credentials"),
    *("compact.engine.chronology.notes", "compact.memory.memory_manager"),
    *(
        "compact.text.importance",
        "compact.messages.formats.anthropic",
        "compact.models.providers.openai_chat",
    ),
)
"""What a session loads at its first message, at its first compression, or never."""
COMMAND = "import sys; from compact.cli.main import main; main(sys.argv[1:])"


def loaded_by(start: str, *arguments: str) -> list[str]:
    """The modules that a fresh Python has loaded when it has run that."""
    code = f"{start}\nimport sys; print('loaded', *sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(Path(compact.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        check=True,
        text=True,
        encoding="utf-8",
        env=env,
    )
    return done.stdout.splitlines()[-1].split()[1:]


def surplus(loaded: list[str], most: int, unwanted: tuple[str, ...]) -> list[str]:
    """What is wrong with what was loaded."""
    ours = [name for name in loaded if name.partition(".")[0] == "compact"]
    wrong = [f"{len(ours)} modules of ours, {most} at most"] if len(ours) > most else []
    return wrong + [f"{name} is loaded" for name in unwanted if name in loaded]


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "chat.db"
    with compact.ContextManager(window=4_096, store=path) as ctx:
        ctx.add_message({"role": "user", "content": "Is the harbour open?"})
    return str(path)


@pytest.mark.parametrize("start", MOST)
def test_a_start_loads_no_more_than_it_needs(start, store):
    is_command = start.startswith("compactctl ")
    arguments = (*start.split()[1:], "--store", store) if is_command else ()
    loaded = loaded_by(COMMAND if is_command else start, *arguments)
    assert "compact" in loaded
    assert surplus(loaded, *MOST[start]) == []


def test_a_session_loads_neither_the_engine_nor_memory():
    loaded = loaded_by("from compact import ContextManager; ContextManager(window=4_096)")
    assert [name for name in LATER if name in loaded] == []


def test_what_is_loaded_later_is_there():
    """A module that was moved would be loaded by nobody, and the guard above hold nothing."""
    code = f"import importlib; [importlib.import_module(name) for name in {LATER!r}]"
    assert set(LATER) <= set(loaded_by(code))


def test_the_guard_sees_what_it_is_for():
    loaded = loaded_by("import compact.memory.memory_manager, re2")
    most, unwanted = MOST["from compact import ContextManager"]
    assert surplus(loaded, most, unwanted)[-1:] == ["re2 is loaded"]
    assert surplus(loaded, 1, ()) != []
