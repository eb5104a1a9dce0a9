"""The import contracts of pyproject.toml hold, and each is seen to fail (K-13, NFR-3)."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (
    "cli", "tui", "integrations", "exchange", "memory", "session", "wiring", "config", "engine",
    "store", "transcripts", "models", "models.providers", "telemetry", "text", "messages",
    "secrets", "errors", "testing",
)  # fmt: skip

DOWN = "Imports point down"
ENGINE = "The engine knows no adapter: they meet only in messages.protocols"
ADAPTERS = "The adapters know no engine: they meet only in messages.protocols"
WIRING = "Only the wiring names adapters"
PURE = "What things are and how context shrinks does no I/O"
TESTING = "Nothing in the product imports compact.testing"
FRONT_DOOR = "The rooms do not go out by the front door"
CYCLES = "No cycles between siblings"

# the contract, a module to add to a room, and what it says
VIOLATIONS = [
    (DOWN, "messages.zz_bad", "import compact.text.zz_room"),
    (ENGINE, "engine.zz_bad", "import compact.store.zz_room"),
    (ADAPTERS, "telemetry.zz_bad", "from compact.memory import zz_room"),
    (WIRING, "cli.zz_bad", "import compact.models.providers.zz_room"),
    (PURE, "messages.zz_bad", "import sqlite3"),
    (TESTING, "session.zz_bad", "import compact.testing"),
    (FRONT_DOOR, "messages.zz_bad", "from compact import Something"),
    (CYCLES, "messages.zz_one", "import compact.messages.zz_two"),
]
COMPANIONS = {"messages.zz_one": ("messages.zz_two", "import compact.messages.zz_one")}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts against the `compact` inside the folder."""
    code = "from importlinter.cli import lint_imports_command as main; main()"
    options = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    command = [sys.executable, "-c", code, *options]
    return subprocess.run(command, cwd=folder, text=True, capture_output=True, check=False)


def broken(output: str) -> set[str]:
    """The names of the broken contracts; the linter may add a remark in parentheses."""
    return set(re.findall(r"^(.+) BROKEN(?: \(.*\))?$", output, flags=re.MULTILINE))


def add(folder: Path, module: str, text: str) -> None:
    path = folder.joinpath("compact", *module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    for package in path.relative_to(folder).parents[:-1]:
        (folder / package / "__init__.py").touch()
    path.write_text(f"{text}\n" if "import" in text else f'"""{text}"""\n')


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A copy of the package in which every room exists."""
    folder = tmp_path_factory.mktemp("house")
    shutil.copytree(ROOT / "src" / "compact", folder / "compact")
    for room in ROOMS:
        if (folder / "compact" / f"{room}.py").exists():
            continue
        single = room in {"wiring", "config", "errors"}
        add(folder, room if single else f"{room}.zz_room", "made for this test")
    return folder


@pytest.mark.slow
def test_the_contracts_hold():
    result = lint(ROOT / "src")
    assert result.returncode == 0, result.stdout[result.stdout.find("Contracts") :]


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("contract", "module", "text"),
    [pytest.param(*violation, id=f"{violation[1]}: {violation[2]}") for violation in VIOLATIONS],
)
def test_a_violation_is_caught(contract, module, text, house, tmp_path):
    shutil.copytree(house / "compact", tmp_path / "compact")
    add(tmp_path, module, text)
    if module in COMPANIONS:
        add(tmp_path, *COMPANIONS[module])
    result = lint(tmp_path)
    assert result.returncode == 1, result.stderr
    assert contract in broken(result.stdout)


def test_every_contract_has_a_violation():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = {contract["name"] for contract in settings["tool"]["importlinter"]["contracts"]}
    assert names == {contract for contract, _, _ in VIOLATIONS}
