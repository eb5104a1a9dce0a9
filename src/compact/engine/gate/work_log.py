"""Does a story say of a check what the work log says? Of commits and changes the log's own lines
stand beside it; a check that is called passed and failed is asked about, and marked.

English words of outcomes alone: what is told in another language is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from compact.engine.chronology.cutting import WORD
from compact.engine.chronology.notes import Notes
from compact.engine.gate.summary_source import RuleResult, SummarySource, sentences
from compact.messages.checkpoints import SummaryRequest
from compact.patterns import regex

_PASSED = regex(r"\b(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?|clean)\b", re.IGNORECASE)
_DOUBTED = regex(
    r"\b(?:fail\w*|not|never|error\w*|red|broke\w*|until|before|if|once|should|must|when)\b|n't",
    re.IGNORECASE,
)
"""Words of an outcome that is none, or of another time."""
_CHECKS: Mapping[str, str] = {
    **dict.fromkeys(("test", "tests", "pytest", "jest", "vitest", "tox", "suite"), "test"),
    **dict.fromkeys(("build", "builds", "compile", "compiles", "tsc"), "build"),
    **dict.fromkeys(("lint", "linter", "ruff", "clippy", "eslint"), "lint"),
    **dict.fromkeys(("mypy", "vet"), "types"),
}
"""Words that name a check, in commands and in stories, and which kind it is."""


def checks(source: SummarySource) -> RuleResult:
    """It calls no check passed whose last run failed, by the work log."""
    wrong = contradicted(source.story.text, source.request)
    if not wrong:
        return RuleResult(True, "it says of no check what the work log denies")
    return RuleResult(False, "; ".join(wrong))


def contradicted(story: str, request: SummaryRequest) -> list[str]:
    """What the work log says of checks that the story calls passed."""
    last = dict(_last_runs(request))
    claims = dict[str, bool]()
    for sentence in sentences(story) if any(map(_failed, last.values())) else ():
        for kind in _kinds_in(sentence):
            claims[kind] = bool(_PASSED.search(sentence)) and not _DOUBTED.search(sentence)
    return [run for kind, run in last.items() if _failed(run) and claims.get(kind)]


def _last_runs(request: SummaryRequest) -> Iterator[tuple[str, str]]:
    """The checks of the messages that the story tells: kind → how it came out last."""
    notes, (first, last) = request.notes, request.reach
    for deed in notes.work.deeds if isinstance(notes, Notes) else ():
        if deed.kind == "checked" and first <= deed.position < last:
            for kind in _kinds_in(deed.what):
                yield kind, f"`{deed.what}` came to: {deed.came_to}"


def _kinds_in(text: str) -> set[str]:
    words = WORD.findall(text.lower().replace("_", " "))
    return {_CHECKS[word] for word in words if word in _CHECKS}


def _failed(run: str) -> bool:
    return "` came to: failed" in run
