"""Check that a summary (story) agrees with the work log on how checks and changes came out.

If the summary says that something succeeded whose last attempt failed, the model is asked again. If
that does not help, the summary gets a remark. Only English words for outcomes are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from compact.engine.chronology.cutting import WORD
from compact.engine.chronology.notes import Notes
from compact.engine.chronology.work import Deed
from compact.engine.gate.summary_source import RuleResult, SummarySource, sentences
from compact.messages.checkpoints import SummaryRequest
from compact.patterns import regex

_PASSED = regex(r"\b(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?|clean)\b", re.IGNORECASE)
_DOUBTED = regex(
    r"\b(?:fail\w*|not|never|error\w*|red|broke\w*|until|before|if|once|should|must|when|nothing"
    r"|reject\w*|refus\w*|tried|attempt\w*|wanted|asked)\b|n't",
    re.IGNORECASE,
)
"""Words that deny an outcome, or refer to another time or to a wish."""
_JOINS = ("and", "but", "after", "though", "although", "then", "while", "yet", "until")
"""Words that begin a new statement after a comma."""
_ALL = frozenset(("all", "both", "everything", "it", "they"))
"""Words that stand for what the statement before was about."""
_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("test", "tests", "pytest", "jest", "vitest", "tox", "suite"), "test"),
    **dict.fromkeys(("build", "builds", "compile", "compiles", "tsc"), "build"),
    **dict.fromkeys(("lint", "linter", "ruff", "clippy", "eslint"), "lint"),
    **dict.fromkeys(("mypy", "vet"), "types"),
    **dict.fromkeys(("commit", "commits", "committed"), "commit"),
    **dict.fromkeys(("push", "pushes", "pushed"), "push"),
    **{word: word for word in ("pr", "issue", "release")},
}
"""Words for checks and changes in commands and summaries → their kind."""
_DONE: Mapping[str, frozenset[str]] = {
    "commit": frozenset(("committed",)),
    "push": frozenset(("pushed",)),
    **dict.fromkeys(
        ("pr", "issue", "release"),
        frozenset(("opened", "created", "merged", "closed", "published")),
    ),
}
"""Kind of change → the words that say that it was made."""


def checks(source: SummarySource) -> RuleResult:
    """Check that the summary calls nothing a success whose last attempt failed."""
    wrong = contradicted(source.story.text, source.request)
    if not wrong:
        return RuleResult(True, "it says of nothing what the work log denies")
    return RuleResult(False, "; ".join(wrong))


def contradicted(story: str, request: SummaryRequest) -> list[str]:
    """Return what the work log says about failed attempts that the summary calls successes."""
    failed = _failed(request)
    claims = dict[str, bool]()
    for kind, is_claimed in _claims(story, failed) if failed else ():
        claims[kind] = is_claimed
    return list(dict.fromkeys(str(failed[kind]) for kind in failed if claims.get(kind)))


class _Failure:
    """The last attempt of one kind, which failed."""

    def __init__(self, deed: Deed) -> None:
        self.deed = deed
        name, _, given = deed.what.partition("(")
        self.verb, *rest = [*_words(name.partition(" ")[0]), ""]
        self.verb = self.verb.removesuffix("e")
        values = (each.partition("=")[2] for each in given.rstrip(")").split(", "))
        more = (*rest, *_words(" ".join((name, *values, deed.came_to))))
        self.objects = {x for x in more if len(x) > 3 or not x.isalpha()}

    def __str__(self) -> str:
        came = "came to" if self.deed.kind == "checked" else "failed"
        return f"`{self.deed.what}` {came}: {self.deed.came_to}"

    def is_called_done(self, words: set[str]) -> bool:
        """Whether these words say that a tool did what it is named after, on what it failed on."""
        done = {x for x in words if x.startswith(self.verb) and x.endswith("ed")}
        about = self.objects & words
        return bool(done) and any(not x.startswith(self.verb) for x in about)


def _claims(story: str, failed: Mapping[str, _Failure]) -> Iterator[tuple[str, bool]]:
    """Yield the kinds that a statement of the summary is about, and whether it calls each of them a
    success.
    """
    before = set[str]()
    for sentence in sentences(story):
        inside = set[str]()
        for clause in _clauses(sentence):
            words = set(_words(clause))
            kinds = _kinds_in(words)
            is_doubted, is_passed = _DOUBTED.search(clause), _PASSED.search(clause)
            about = kinds or (inside if is_doubted else before if words & _ALL else ())
            for kind in about if kinds or is_doubted or is_passed else ():
                is_done = is_passed or not words.isdisjoint(_DONE.get(kind, ()))
                yield kind, bool(is_done and not is_doubted)
            tools = [
                x for x in failed if "_" in x.partition("`")[0] and failed[x].is_called_done(words)
            ]
            yield from ((tool, not is_doubted) for tool in tools)
            inside = {*kinds, *tools} or inside
            before = kinds or before


def _failed(request: SummaryRequest) -> dict[str, _Failure]:
    """Return the kinds of checks and changes in the span of the summary whose last attempt failed,
    and the tools whose last call did.
    """
    notes, (first, last) = request.notes, request.reach
    found = dict[str, _Failure]()
    for deed in notes.work.deeds if isinstance(notes, Notes) else ():
        if not first <= deed.position < last:
            continue
        if deed.kind == "wrote":
            found = {x: each for x, each in found.items() if deed.what not in str(each)}
        tool = deed.what.partition("(")[0].partition(" ")[0]
        is_change = deed.kind in ("checked", "changed")
        for kind in _kinds_in(_words(deed.what)) if is_change else (tool,):
            found.pop(kind, None)
            if deed.failed or deed.kind == "failed" or deed.came_to.startswith("failed"):
                found[kind] = _Failure(deed)
    return found


def _clauses(sentence: str) -> list[str]:
    for word in _JOINS:
        sentence = sentence.replace(f", {word} ", f"; {word} ")
    return sentence.split(";")


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower().replace("_", " ").replace("pull request", "pr"))


def _kinds_in(words: Iterable[str]) -> set[str]:
    return {_KINDS[word] for word in words if word in _KINDS}
