"""Write docs/licences.md from what the installed packages say of themselves:
`python docs/generate_licences.py`. A test fails when the page is not what this would write.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/licences.md"
HEAD = """# Licences of dependencies

<!-- Written by docs/generate_licences.py from the packages' metadata: run it after `make lock`. -->

compact is under the [MIT licence](../LICENSE). What comes along with it says this of itself.
"""


def locked() -> dict[str, Mapping[str, Any]]:
    """The newest locked entry of each package."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    return {package["name"]: package for package in lock["package"]}


def with_needs(names: Iterable[str], lock: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """These packages and all that they need."""
    left, seen = list(names), set()
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left += [each["name"] for each in lock[name].get("dependencies", ())]
    return sorted(seen)


def licence(said: PackageMetadata) -> str:
    """The licence that a package names, short."""
    named = said.get("License-Expression")
    classified = [
        line.rpartition(" :: ")[2]
        for line in said.get_all("Classifier", [])
        if line.startswith("License :: ") and not line.endswith("OSI Approved")
    ]
    words = named or ", ".join(classified) or (said.get("License") or "").strip().split("\n")[0]
    return re.sub(r"\s+", " ", words)[:60] or "not said"


def rows(names: Iterable[str]) -> Iterator[str]:
    """A line of a table for each package; one that is not installed here says so."""
    yield from ("", "| package | licence |", "|---|---|")
    for name in names:
        try:
            yield f"| {name} | {licence(metadata(name))} |"
        except PackageNotFoundError:
            yield f"| {name} | installed on other systems or Pythons |"


def written() -> str:
    """The page."""
    lock = locked()
    ours = lock["compactctl"]
    default = with_needs([each["name"] for each in ours["dependencies"]], lock)
    lines = [HEAD, "## Always", *rows(default)]
    for extra, needs in sorted(ours["optional-dependencies"].items()):
        more = with_needs([each["name"] for each in needs], lock)
        lines += ["", f"## With the extra `{extra}`", *rows(x for x in more if x not in default)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
