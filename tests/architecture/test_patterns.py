"""Patterns run alike on every Python from 3.11 on (docs/decisions/038)."""

import importlib
import pkgutil
import re

import pytest

import compact
from compact.patterns import LazyPattern, UsedPattern, one_of, regex


def patterns_in(value: object, depth: int = 3) -> list[re.Pattern]:
    """The patterns in a module's value."""
    if isinstance(value, re.Pattern | UsedPattern):
        return [value]  # type: ignore[list-item]  # as good as one
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
        if module.name.startswith(
            (
                "compact.apps",
                "compact.cli",
                "compact.integrations.hermes",  # in an environment of its own, as strands
                "compact.integrations.strands",
                "compact.tui",
                "compact.models.providers",
                "compact.testing",
            )
        ):
            continue  # slow to import, and no conversation is read there
        for name, value in vars(importlib.import_module(module.name)).items():
            for pattern in patterns_in(value):
                assert not newer(pattern), f"{module.name}.{name}"
                seen += 1
    assert seen > 150


def test_a_possessive_repeat_is_seen():
    assert newer(re.compile("a*+b"))
    assert newer(re.compile("(?>a|b)c"))


def test_a_pattern_is_compiled_at_its_first_use():
    source = "a lazy (?P<name>pattern)"
    lazy, real = regex(source, re.IGNORECASE), re.compile(source, re.IGNORECASE)
    assert isinstance(lazy, LazyPattern)
    assert lazy.pattern == source
    assert isinstance(lazy, LazyPattern), "its source alone compiles nothing"
    found = lazy.search("A LAZY PATTERN")
    assert found is not None
    assert found.re is real, "the very pattern of re's own store"
    assert type(lazy) is UsedPattern
    for name in dir(re.Pattern):
        if not name.startswith("_"):
            assert getattr(lazy, name) == getattr(real, name), name


def test_a_wrong_pattern_fails_at_its_first_use_and_every_other():
    wrong = regex("(")
    for _ in range(2):
        with pytest.raises(re.error):
            wrong.search("x")


def test_what_no_pattern_has_a_lazy_one_has_not():
    lazy = regex("a")
    assert not hasattr(lazy, "missing")
    assert isinstance(lazy, LazyPattern)


def test_bytes_are_searched_by_bytes():
    assert regex(rb"\d+").findall(b"1 22") == [b"1", b"22"]


@pytest.mark.parametrize("text", ["apple", "Bear", "be", "bent it", "beer", "cold", "决定"])
def test_a_test_of_the_first_letter_changes_nothing(text: str) -> None:
    alternatives = r"apple|b(?:e(?:ar|nt)|d) ?(?:it|x)?|决定"
    plain, quick = (rf"\b{each}\b" for each in (f"(?:{alternatives})", one_of(alternatives)))
    found = [re.findall(each, text, re.IGNORECASE) for each in (plain, quick)]
    assert found[0] == found[1]


def test_an_alternative_begins_with_a_plain_character() -> None:
    with pytest.raises(AssertionError, match="plain character"):
        one_of("apple|(?:b|c)d")
