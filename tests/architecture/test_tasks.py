"""The tasks: one list for make and Python, an environment made once, errors in one line (K-1)."""

import ast
import re

import pytest

import tasks


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project whose commands are recorded instead of run."""
    commands = []

    def execute(command, *, check=True):
        commands.append(" ".join(map(str, command)))
        tasks.PYTHON.parent.mkdir(parents=True, exist_ok=True)
        tasks.PYTHON.touch()
        return tmp_path.joinpath("fail").exists()

    venv = tmp_path / ".venv"
    for name, value in {"ROOT": tmp_path, "VENV": venv, "PYTHON": venv / "bin" / "python"}.items():
        monkeypatch.setattr(tasks, name, value)
    monkeypatch.setattr(tasks, "execute", execute)
    monkeypatch.setattr("shutil.which", lambda name: None)
    for name in ("pyproject.toml", tasks.RUN, tasks.DEV):
        (tmp_path / name).write_text("one")
    return tmp_path, commands


def test_the_makefile_offers_every_task():
    text = (tasks.ROOT / "Makefile").read_text(encoding="utf-8")
    (names,) = re.findall(r"^TASKS := (.*)$", text, flags=re.MULTILINE)
    assert set(names.split()) == set(tasks.TASKS)


def test_the_environment_is_made_once_and_again_when_the_lock_changes(project):
    folder, commands = project
    tasks.environment(tasks.DEV)
    made = len(commands)
    whole = "--no-deps --require-hashes -r requirements-dev.txt"
    assert whole in commands[1], "the lock is complete: pip resolves nothing, whatever is newer"
    tasks.environment(tasks.DEV)
    tasks.environment(tasks.RUN)  # the dev set includes it
    assert len(commands) == made
    (folder / tasks.DEV).write_text("two")
    tasks.environment(tasks.DEV)
    assert len(commands) == 2 * made


def test_errors_are_one_line(project, capsys):
    assert tasks.main(["bench"]) == 1
    assert capsys.readouterr().err == "tasks.py: bench/ has no __main__.py yet: nothing to run\n"
    assert tasks.main(["clean", "now"]) == 2
    assert tasks.main(["dance"]) == 2
    assert tasks.main(["--help"]) == 0


CLOCKS = {"is_linear", "slowness", "process_time", "thread_time"}
"""What compares speeds. Tests that only end where something hangs read other clocks."""


def of_seconds(source: str) -> list[str]:
    """Tests that read a clock of the processor and are not marked as such."""
    return [
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        if CLOCKS & {getattr(each, "id", getattr(each, "attr", "")) for each in ast.walk(node)}
        if not any("timing" in ast.unparse(mark) for mark in node.decorator_list)
    ]


def test_no_test_of_every_day_compares_seconds():
    tests = tasks.ROOT / "tests"
    found = {path.name: of_seconds(path.read_text("utf-8")) for path in tests.rglob("test_*.py")}
    assert not [name for name, tests in found.items() if tests]


def test_a_test_that_compares_seconds_is_seen():
    timed = "def test_it():\n    assert is_linear(work, text)\n"
    assert of_seconds(timed) == ["test_it"]
    assert of_seconds("@pytest.mark.timing\n" + timed) == []
