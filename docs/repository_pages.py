"""Pages of the site that stand elsewhere in the repository, and links between both.

MkDocs calls these functions (`hooks` in mkdocs.yml). The README is the first page.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = ("ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "bench/RESULTS.md")
LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and the examples that stand outside of docs/."""
    examples = sorted(f"examples/{path.name}" for path in ROOT.glob("examples/*.*"))
    for name in (*OUTSIDE, *examples):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    files.append(File.generated(config, "index.md", abs_src_path=str(ROOT / "README.md")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Have links lead to where pages stand in the site."""
    place = page.file.src_uri
    outside = place == "index.md" or place in OUTSIDE
    folder = posixpath.dirname(place if outside else f"docs/{place}")

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        target = "index.md" if target == "README.md" else target.removeprefix("docs/")
        return f"]({posixpath.relpath(target, posixpath.dirname(place) or '.')}"

    return LINK.sub(moved, markdown)
