"""No private thing is committed: nothing of a machine, nothing of other people's data (K-13).

Patterns are put together from pieces, so that this file does not find itself.
"""

import hashlib
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# People who live in sample conversations only.
INVENTED = ("ada", "alex", "dev", "me", "name", "sam", "user", "you")

FOLDERS = "|".join(("work", "root", "opt"))
HOMES = "|".join(("home", "Users"))
PLACE = re.compile(
    rf"(?<![\w.~:/>}}-])(?:/(?:{FOLDERS})/|/(?:{HOMES})/(?!(?:{'|'.join(INVENTED)})\b)[\w.-]+)"
)
HOSTS = ("pypi" + r"\.org", "python" + r"hosted\.org", "npm" + r"js\.org", "crates" + r"\.io")
HOST = re.compile("|".join(HOSTS))
NAMES_ITS_HOSTS = {"uv.lock"}  # the lock's format
INVENTED_LINES = "tests/fixtures/secrets/"  # lines of logs and shells that nobody has written
TOO_SMALL_TO_BE_DATA = 200  # bytes: empty and one-line files are alike everywhere


def committed(root: Path) -> list[Path]:
    """The files git knows; none where this is no clone."""
    command = ["git", "-C", str(root), "ls-files", "-z"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git clone")
    return [path for name in listed.split("\0") if name and (path := root / name).is_file()]


def violations(root: Path, files: Iterable[Path]) -> list[str]:
    """Lines that name a place on a machine or a package registry."""
    named = ((path, path.relative_to(root).as_posix()) for path in files)
    looked_at = ((path, name) for path, name in named if not name.startswith(INVENTED_LINES))
    return [line for path, name in looked_at for line in of_file(path, name)]


def of_file(path: Path, name: str) -> Iterator[str]:
    text = path.read_bytes().decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if found := PLACE.search(line):
            yield f"{name}:{number} names a place on a machine: {found[0]}"
        if name not in NAMES_ITS_HOSTS and (found := HOST.search(line)):
            yield f"{name}:{number} names a registry: {found[0]}"


def copies(files: Iterable[Path], data: Path) -> list[str]:
    """Files that are byte for byte one of the data's."""
    mine: dict[int, list[Path]] = defaultdict(list)
    for path in files:
        if (size := path.stat().st_size) >= TOO_SMALL_TO_BE_DATA:
            mine[size].append(path)
    return [
        f"{path.name} is a copy of {theirs.relative_to(data)}"
        for theirs in data.rglob("*")
        if theirs.is_file()
        for path in mine.get(theirs.stat().st_size, ())
        if digest(path) == digest(theirs)
    ]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_no_committed_file_names_a_machine_or_a_registry():
    found = violations(ROOT, committed(ROOT))
    assert not found, "\n".join(found)


@pytest.mark.data
def test_no_committed_file_is_a_copy_of_the_data():
    if not (data := os.environ.get("COMPACT_DATA")):
        pytest.skip("COMPACT_DATA is not set")
    assert copies(committed(ROOT), Path(data)) == []


@pytest.mark.parametrize(
    "line",
    [
        "see " + "/work" + "/main/notes",
        'open("' + "/root" + '/.config")',
        "--find-links=" + "/opt" + "/wheels",
        "cd " + "/home" + "/jane/project",
        "in `" + "/Users" + "/jane.doe`",
        "--index-url https://" + "pypi" + ".org/simple",
    ],
)
def test_the_guard_sees(line, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(f"fine\n{line}\n")
    (finding,) = violations(tmp_path, [path])
    assert finding.startswith("page.md:2 names a ")


@pytest.mark.parametrize(
    "line",
    ["src/work/x", "https://example.org/opt/x", "/home/user/app", "../root/x", "/workspace/a"],
)
def test_the_guard_lets_pass(line, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(line)
    assert violations(tmp_path, [path]) == []


def test_the_guard_sees_a_copy(tmp_path):
    data, mine, other = (
        tmp_path / name for name in ("data/a/x.jsonl", "mine.jsonl", "other.jsonl")
    )
    data.parent.mkdir(parents=True)
    data.write_text("line\n" * 100)
    mine.write_text("line\n" * 100)
    other.write_text("lime\n" * 100)
    assert copies([mine, other], tmp_path / "data") == ["mine.jsonl is a copy of a/x.jsonl"]
