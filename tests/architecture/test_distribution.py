"""What is built contains the data files, the type marker and the command (K-1)."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tasks

SOURCE = tasks.ROOT / "src"
DATA = ("py.typed", ".jsonl", ".md", ".yaml", ".html", ".css", ".js")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The wheel of the working tree, built from a copy so that nothing is left behind."""
    folder = tmp_path_factory.mktemp("build")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (folder / name).write_bytes((tasks.ROOT / name).read_bytes())
    for path in files(SOURCE):
        copy = folder / "src" / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((SOURCE / path).read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", str(folder)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (built,) = (folder / "dist").glob("compactctl-*.whl")
    return zipfile.ZipFile(built)


def files(source: Path) -> list[Path]:
    """Modules and data files of the package, as they should be in the wheel."""
    return [
        path.relative_to(source)
        for path in sorted((source / "compact").rglob("*"))
        if path.is_file() and path.name.endswith((".py", *DATA))
    ]


@pytest.mark.slow
def test_every_module_and_data_file_is_in_the_wheel(wheel):
    missing = {path.as_posix() for path in files(SOURCE)} - set(wheel.namelist())
    assert not missing, f"declare in [tool.setuptools.package-data]: {sorted(missing)}"


def test_the_wheel_installs_the_command_and_nothing_beside_the_package(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    (info,) = (top for top in tops if top.endswith(".dist-info"))
    assert tops == {"compact", info}
    assert b"compactctl = compact.cli.entry:run" in wheel.read(f"{info}/entry_points.txt")
