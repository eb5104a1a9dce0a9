"""Check that a summary (story) agrees with the work log on the outcome of checks.

If the summary says that a failed check passed, the model is asked again. If that does not help, the
summary gets a remark. Only English words for outcomes are known.
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
"""Words that deny an outcome, or refer to another time."""
_CHECKS: Mapping[str, str] = {
    **dict.fromkeys(("test", "tests", "pytest", "jest", "vitest", "tox", "suite"), "test"),
    **dict.fromkeys(("build", "builds", "compile", "compiles", "tsc"), "build"),
    **dict.fromkeys(("lint", "linter", "ruff", "clippy", "eslint"), "lint"),
    **dict.fromkeys(("mypy", "vet"), "types"),
}
"""Words for checks in commands and summaries → the kind of check."""


def checks(source: SummarySource) -> RuleResult:
    """Check that the summary does not say that a check passed if its last run failed."""
    wrong = contradicted(source.story.text, source.request)
    if not wrong:
        return RuleResult(True, "it says of no check what the work log denies")
    return RuleResult(False, "; ".join(wrong))


def contradicted(story: str, request: SummaryRequest) -> list[str]:
    """Return what the work log says about failed checks that the summary calls passed."""
    last = dict(_last_runs(request))
    claims = dict[str, bool]()
    for sentence in sentences(story) if any(map(_failed, last.values())) else ():
        for kind in _kinds_in(sentence):
            claims[kind] = bool(_PASSED.search(sentence)) and not _DOUBTED.search(sentence)
    return [run for kind, run in last.items() if _failed(run) and claims.get(kind)]


def _last_runs(request: SummaryRequest) -> Iterator[tuple[str, str]]:
    """Yield the kind and the result of each check in the span of the summary."""
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
