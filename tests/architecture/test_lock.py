"""The requirements files are what uv.lock says, and the lock is what pyproject.toml asks (K-1)."""

import re
import shutil
import sys
from pathlib import Path

import pytest

import tasks


@pytest.fixture(scope="module")
def uv() -> Path:
    """The uv of the dev group."""
    name = shutil.which("uv", path=str(Path(sys.executable).parent))
    assert name, "uv is in the dev group: install requirements-dev.txt"
    return Path(name)


@pytest.mark.parametrize("name", tasks.EXPORTS)
def test_the_requirements_file_is_exported_from_the_lock(name, uv):
    committed = (tasks.ROOT / name).read_text(encoding="utf-8")
    assert committed == tasks.exported(name, uv), "run: make lock"


def test_the_lock_is_what_pyproject_asks_for(uv):
    tasks.run_uv(uv, "lock", "--check", "--offline")


@pytest.mark.parametrize("name", tasks.EXPORTS)
def test_every_requirement_is_pinned_and_hashed(name):
    assert unpinned((tasks.ROOT / name).read_text(encoding="utf-8")) == []


def test_a_requirement_without_pin_or_hash_is_seen():
    text = "# head\na==1 ; python_version < '3.12' \\\n    --hash=sha256:00\n    # via b\n"
    assert unpinned(text) == []
    assert unpinned(text + "b>=2 \\\n    --hash=sha256:00\n") == ["b>=2 --hash=sha256:00"]
    assert unpinned(text + "c==3\n") == ["c==3"]
    assert unpinned(text + "--find-links wheels\n") == ["--find-links wheels"]


def unpinned(text: str) -> list[str]:
    """The requirements that are not pinned to one version and at least one hash."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    entries = [line.strip() for line in joined.splitlines() if not line.lstrip().startswith("#")]
    pinned = re.compile(r"[\w.\[\]-]+==\S+( ; [^#]+?)?(\s+--hash=sha256:\w+)+")
    return [entry for entry in entries if entry and not pinned.fullmatch(entry)]
