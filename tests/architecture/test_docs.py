"""The pages that people read exist and point to things that exist (K-14)."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "docs/requirements.md")

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", flags=re.MULTILINE | re.DOTALL)


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


def test_a_broken_link_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("[a](page.md#top) [b](https://example.org) [c](no.md)\n```\n[d](no2.md)\n```\n")
    assert list(broken_links(page)) == ["no.md"]
