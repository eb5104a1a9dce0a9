"""The tasks: one list for make and Python, an environment made once, errors in one line (K-1)."""

import ast
import os
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


def test_where_uv_cannot_pip_does_it(project, monkeypatch):
    folder, commands = project
    monkeypatch.setattr("shutil.which", lambda name: "uv")
    tasks.environment(tasks.RUN)
    assert commands[0].startswith("uv venv")
    assert all(command.startswith("uv ") for command in commands)
    (folder / tasks.RUN).write_text("two")
    (folder / "fail").touch()
    with pytest.raises(tasks.TaskError):
        tasks.environment(tasks.RUN)
    assert "-m venv" in commands[-1]


def test_a_failed_installation_leaves_no_stamp_and_says_so(project):
    folder, _ = project
    tasks.environment(tasks.RUN)
    (folder / "fail").touch()
    (folder / tasks.RUN).write_text("two")
    with pytest.raises(tasks.TaskError, match=r"venv failed|installing .* failed"):
        tasks.environment(tasks.RUN)
    assert not tasks.ready(tasks.RUN)


def test_a_python_without_venv_hears_which_package_to_install(project, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(tasks.TaskError, match="python3-venv"):
        tasks.environment(tasks.RUN)


def test_tests_run_in_two_processes_and_those_that_compare_times_alone(project, monkeypatch):
    """No check depends on the machine's pace; a `-m` of one's own is one plain run."""
    _, commands = project
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    tasks.test("--cov", "-x")
    quick = "-m pytest -n 2 --dist worksteal -m not slow and not timing"
    assert commands[-1].endswith(f"{quick} {tasks.PROOF} --cov -x"), "what a newcomer runs"
    tasks.test_all()
    assert commands[-1].endswith("-m pytest -n 2 --dist worksteal -m not timing")
    tasks.timing()
    assert commands[-1].endswith("-m pytest -m timing")
    made = len(commands)
    tasks.test_all("-m", "data")
    assert [command.partition(" ")[2] for command in commands[made:]] == ["-m pytest -m data"]


def test_a_file_that_is_named_stands_for_the_newcomers_tests(project):
    folder, commands = project
    (folder / "tests").mkdir()
    (folder / "tests" / "test_one.py").touch()
    tasks.test("tests/test_one.py::test_it", "-x")
    assert commands[-1].endswith("not timing tests/test_one.py::test_it -x")


def test_a_night_has_a_seed_of_its_own_that_is_printed(project, monkeypatch, capsys):
    """K-13: the same night again where $NIGHTLY names it."""
    _, commands = project
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    seeds = set()
    for given in (None, None, "17"):
        monkeypatch.setenv("NIGHTLY", "17")
        if given is None:
            monkeypatch.delenv("NIGHTLY")
        tasks.nightly()
        seed = os.environ["NIGHTLY"]
        assert f"NIGHTLY={seed} " in capsys.readouterr().out
        assert all(f"--hypothesis-seed={seed}" in command for command in commands[-2:])
        assert "-m not timing" in commands[-2]
        assert "-m timing" in commands[-1]
        seeds.add(seed)
    assert len(seeds) == 3
    assert "17" in seeds


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
