"""Every default dependency has a wheel for Linux, macOS and Windows, for every Python (NFR-5)."""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

import tasks

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = {
    "Linux": ("manylinux", ("x86_64",)),
    "Linux on ARM": ("manylinux", ("aarch64",)),
    "macOS": ("macosx", ("arm64", "universal2")),
    "Windows": ("win", ("amd64",)),
}
Package = Mapping[str, Any]


def needed(python: str) -> Iterator[str]:
    """Names of what `pip install compactctl` brings on a Python, as the lock says."""
    environment = {"python_version": python, "python_full_version": f"{python}.9", "extra": ""}
    left, seen = ["compactctl"], set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        for package in LOCK[name]:
            for each in package.get("dependencies", ()):
                if "marker" not in each or Marker(each["marker"]).evaluate(environment):
                    left.append(each["name"])
    seen.discard("compactctl")
    yield from sorted(seen)


def runs(tag: Tag, python: str, system: str) -> bool:
    """Whether a wheel of that tag can be installed."""
    family, machines = SYSTEMS[system]
    if tag.platform != "any" and not (
        tag.platform.startswith(family) and tag.platform.endswith(machines)
    ):
        return False
    if not tag.interpreter.startswith("cp"):
        return tag.interpreter.startswith("py3")
    major, minor = int(tag.interpreter[2]), int(tag.interpreter[3:])
    wanted = tuple(map(int, python.split(".")))
    return (major, minor) <= wanted if tag.abi == "abi3" else (major, minor) == wanted


def wheels(name: str) -> list[Tag]:
    """The tags of all locked wheels of a package."""
    urls = [wheel["url"] for package in LOCK[name] for wheel in package.get("wheels", ())]
    return [tag for url in urls for tag in parse_wheel_filename(url.rpartition("/")[2])[3]]


LOCK: dict[str, list[Package]] = {}
for _package in tomllib.loads((tasks.ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]:
    LOCK.setdefault(_package["name"], []).append(_package)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("python", PYTHONS)
def test_every_default_dependency_has_a_wheel(python, system):
    without = [
        name
        for name in needed(python)
        if not any(runs(tag, python, system) for tag in wheels(name))
    ]
    assert without == []


def test_a_dependency_without_one_is_seen():
    assert not any(runs(tag, "3.14", "Linux") for tag in wheels("rs-bpe"))
    assert "rs-bpe" in needed("3.13")
    assert "rs-bpe" not in needed("3.14")
