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
OUTSIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "where_decided.md",  # docs/ has a page of that name
    **{name: name for name in ("CHANGELOG.md", "SECURITY.md", "LICENSE", "bench/RESULTS.md")},
    "config.example.yaml": "examples/config.example.yaml",
}
"""Place in the repository → place in the site."""
INSTEAD = {"MIGRATION.md": "migration.md"}
"""Pages that are not in the site, and those that their links lead to: some file systems do not tell
small letters from large ones."""
LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and the examples that stand outside of docs/."""
    examples = {f"examples/{path.name}": "" for path in sorted(ROOT.glob("examples/*.*"))}
    for name, place in {**examples, **OUTSIDE}.items():
        files.append(File.generated(config, place or name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Have links lead to where pages stand in the site."""
    place = page.file.src_uri
    whence = {site: name for name, site in OUTSIDE.items()}.get(place, f"docs/{place}")
    folder = posixpath.dirname(place if place.startswith("examples/") else whence)

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        target = {**OUTSIDE, **INSTEAD}.get(target) or target.removeprefix("docs/")
        return f"]({posixpath.relpath(target, posixpath.dirname(place) or '.')}"

    return LINK.sub(moved, markdown)
