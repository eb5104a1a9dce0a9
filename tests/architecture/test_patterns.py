"""Patterns run alike on every Python from 3.11 on (docs/decisions/038)."""

import importlib
import pkgutil
import re

import compact


def patterns_in(value: object, depth: int = 3) -> list[re.Pattern]:
    """The patterns in a module's value."""
    if isinstance(value, re.Pattern):
        return [value]
    if isinstance(value, dict):
        value = tuple(value.values())
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [found for each in value for found in patterns_in(each, depth - 1)]
    return patterns_in(getattr(value, "pattern", None), 0) if depth else []


def newer(pattern: re.Pattern) -> bool:
    """Whether early releases of Python 3.11 find other things by it."""
    tree = str(importlib.import_module("re._parser").parse(pattern.pattern, pattern.flags))
    return "POSSESSIVE" in tree or "ATOMIC" in tree


def test_no_pattern_needs_a_newer_engine():
    seen = 0
    for module in pkgutil.walk_packages(compact.__path__, "compact."):
        if module.name.startswith(("compact.apps", "compact.providers", "compact.testing")):
            continue  # slow to import, and no conversation is read there
        for name, value in vars(importlib.import_module(module.name)).items():
            for pattern in patterns_in(value):
                assert not newer(pattern), f"{module.name}.{name}"
                seen += 1
    assert seen > 150


def test_a_possessive_repeat_is_seen():
    assert newer(re.compile("a*+b"))
    assert newer(re.compile("(?>a|b)c"))
