"""The pages that people read exist and point to things that exist (K-14)."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compact.cli.helping import GONE
from compact.session.moved import METHODS
from tests.fixtures.make_database import DATABASES

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "docs/requirements.md")

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FETCHED = re.compile(r"<(?:script|img|link rel=.(?:stylesheet|preconnect))[^>]*=.?(https?:[^\s>]+)")
FENCE = re.compile(r"^```.*?^```", flags=re.MULTILINE | re.DOTALL)
MIGRATION = (ROOT / "docs/migration.md").read_text(encoding="utf-8")
FROM_0_1 = MIGRATION.partition("\n## From version 0.1")[2]


def broken_links(page: Path) -> Iterator[str]:
    """Relative links that lead nowhere; what is inside a code block is no link."""
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        path = target.partition("#")[0]
        if path and "://" not in path and not (page.parent / path).exists():
            yield target


@pytest.mark.parametrize("name", PAGES)
def test_the_page_exists(name):
    assert (ROOT / name).stat().st_size > 0


def test_every_relative_link_leads_somewhere():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    broken = [f"{page.relative_to(ROOT)}: {link}" for page in pages for link in broken_links(page)]
    assert not broken, "\n".join(broken)


def test_the_page_of_licences_is_that_of_the_lock():
    """Packages that are not installed here, as they are for others, keep what stands there."""
    spec = importlib.util.spec_from_file_location("licences", ROOT / "docs/generate_licences.py")
    assert spec is not None
    assert spec.loader is not None
    licences = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(licences)
    page = licences.PAGE.read_text(encoding="utf-8").splitlines()
    wanted = licences.written().splitlines()
    assert len(page) == len(wanted), "run docs/generate_licences.py"
    for line, want in zip(page, wanted, strict=True):
        here = "other systems" not in want and "other systems" not in line
        assert line == want or (not here and line.split("|")[1] == want.split("|")[1])


@pytest.mark.slow
def test_the_site_is_built_and_fetches_nothing(tmp_path):
    """Every link leads somewhere, and no page asks another machine for anything (K-14)."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.glob("**/*.html"))
    assert len(pages) > 40
    for page in pages:
        found = FETCHED.findall(page.read_text(encoding="utf-8"))
        assert not found, f"{page.name} fetches {found[:3]}"


def test_a_broken_link_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("[a](page.md#top) [b](https://example.org) [c](no.md)\n```\n[d](no2.md)\n```\n")
    assert list(broken_links(page)) == ["no.md"]


@pytest.mark.slow
@pytest.mark.parametrize("released", ["0001_sessions", "0005_traits"])
def test_the_steps_from_0_1_work_on_its_stores(released, tmp_path):
    """The page's own commands."""
    (steps,) = re.findall(r"^```console\n(.*?)^```", FROM_0_1, flags=re.MULTILINE | re.DOTALL)
    before = (DATABASES / f"{released}.db").read_bytes()
    (tmp_path / "chat.db").write_bytes(before)
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    said = []
    for step in steps.splitlines():
        words = shlex.split(step.removeprefix("$ "))
        if words[0] == "cp":
            shutil.copy(*(tmp_path / word for word in words[1:]))
            continue
        run = [sys.executable, "-m", "compact", *words[1:]]
        done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert not done.returncode, f"{step}\n{done.stdout}{done.stderr}"
        said.append(done.stdout)
    assert "harbour" in said[0]
    assert (tmp_path / "chat-0.1.db").read_bytes() == before
    assert (tmp_path / "chat.db").read_bytes() != before


def test_all_that_moved_or_went_since_0_1_is_named():
    named = set(re.findall(r"`([^`]+)`", FENCE.sub("", FROM_0_1)))
    assert not {*METHODS, *GONE} - named
