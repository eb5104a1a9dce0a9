"""Finds anchors: names that a summary must not change, so they are kept word for word.

An anchor is a path, file name, identifier, URL, hash, version, reference or flag. `find` splits a
text into words and judges each distinct word once. `error_lines` finds lines that name an error.
`Ledger` ranks anchors by how likely they are needed again. `text.instructions` finds the user's
instructions.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from heapq import heappop, heappush, heapreplace
from importlib.resources import files
from itertools import islice
from typing import Literal, NamedTuple, cast

from compact.messages.arguments import leaves, read_json
from compact.patterns import regex
from compact.text.commands import CALLS_AT_HAND

AnchorKind = Literal[
    "path", "pair", "file", "identifier", "url", "hash", "version", "reference", "flag"
]
Origin = Literal["person", "assistant", "arguments", "result"]

SCANNED_CHARS = 40_000
"""In a longer text, only this many characters are searched: half of them at each end."""

_WORD = regex(
    r"(?<![<*A-Za-z0-9_])(?![A-Za-z][a-z]*[.:]*(?![A-Za-z0-9_À-ɏ./~@#:+%$\\-]))"
    r"[A-Za-z0-9_À-ɏ./~@#:+%$\\-]{2,300}"
)
"""A word that may be an anchor. Plain words of prose do not match, to save time."""
_ESCAPE = regex(r"\\[nrt](?![a-z]{3,}\\)")
"""An escaped line end or tab, as in JSON or source code, but not a folder of a Windows path."""
_URL = regex(r"https?://[^\s\"'<>)\]}`\\]+")
_LINE_NUMBER = regex(r"(?::\d+){1,2}(?:-\d+|:.*)?$|:$|#L\d+(?:-L?\d+)?$")
_FILE = regex(r"[\w@.-]*[\w-]\.[A-Za-z][A-Za-z0-9]{0,5}")
_EXTENSIONS = frozenset(
    """
    go py pyi ts tsx js jsx mjs cjs rs java kt kts swift c h cc cpp cxx hpp cs rb php pl lua r
    jl ex exs erl hs ml scala clj dart vue svelte sh bash zsh fish ps1 bat sql html htm css scss
    sass less md mdx rst txt json jsonl json5 yaml yml toml ini cfg conf env lock mod sum xml
    csv tsv parquet ipynb proto graphql tf gradle cmake mk log diff patch db sqlite png jpg jpeg
    gif svg webp pdf zip tar gz tgz whl exe dll so dylib pem key crt
    """.split()  # noqa: SIM905 - a table to read, not ninety quoted words
)
_SHAPE = regex(
    r"(?P<version>v?\d+\.\d+(?:\.\d+)+(?:[-+][\w.]+)?|v\d+\.\d+)"
    r"|(?P<fraction>[\d./:-]+)"
    r"|(?P<hash>(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}"
    r"|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12})"
    r"|(?P<reference>#\d+|[A-Z]{2,10}-\d+)"
    r"|(?P<flag>--[a-z][a-z0-9-]+)"
)
"""Words whose form alone decides their kind, the group's name. A `fraction` is not an anchor."""
_SIGN = regex(r"[/_0-9]|--|\.[A-Za-z]|[a-z0-9À-ɏ][A-Z]|-[0-9A-Fa-f]{4}-")
"""A quick test: every anchor contains one of these, and most other words do not."""
_IDENTIFIER = regex(
    r"(?=.*[A-Za-z])(?:\w*[a-zA-Z0-9]_\w+|_*[a-z]+[A-Z]\w+|_*[A-Z][a-z0-9]+[A-Z]\w*|"
    r"[A-Z]{2,}[a-z]\w*[A-Z]\w*)"
)
_PAIR = regex(r"[A-Za-z-]+/[A-Za-z-]+")
"""Two plain words: in code a path (`os/exec`), in prose two alternatives (`read/write`)."""
_PROSE = frozenset(
    """
    and/or or/and either/or yes/no on/off true/false he/she his/her him/her read/write start/stop
    input/output client/server key/value success/failure pass/fail before/after add/remove
    """.split()  # noqa: SIM905 - a table to read
)
_NO_FILE = frozenset(("/dev/null", "/dev/stderr", "/dev/stdout", "/tmp"))
ERROR_LINE = regex(
    r"^(?:\s*(?:E\s+|[-✗✖×]+\s*)?(?:[\w./()-]*[ \t]?:\s*){0,6}(?:error|fatal|panic|fehler|"
    r"warning: unused)\b\s*(?:\[\w+\])?:?"
    r"|\s*(?:--- )?FAIL(?:ED)?\b|Traceback \(most recent|\s*(?:[\w.]+\.)?\w*(?:Error|"
    r"Exception)(?::| at )"
    r"|.*\b(?:exit (?:code|status) [1-9]|command not found|No such file or directory|"
    r"Permission denied|"
    r"undefined: |cannot find |is not defined|segmentation fault)|.*(?:错误|失败|异常)：)",
    re.IGNORECASE,
)
_ERROR_SIGNS = (
    *("error", "fatal", "panic", "fehler", "warning: unused", "fail", "traceback (", "exception"),
    *("exit ", "command not found", "no such file", "permission denied", "undefined: "),
    *("cannot find ", "is not defined", "segmentation fault", "错误：", "失败：", "异常："),
)
"""A quick test: every line that `ERROR_LINE` matches contains one of these, whatever its case."""
EXIT_CODE = regex(r"\W*(?:exit (?:code|status)|returncode)[: ]*\d+\W*", re.IGNORECASE)
"""A line that only gives an exit code, without the reason for a failure."""
_KEY = regex(r'"[\w-]+"\s?:')
"""A JSON key. It belongs to the format of the data, so it is not an anchor."""
_TAG = regex(r"</?[A-Za-z][\w-]*>")
_LISTED_LINE = regex(r"\s*\d+\s*(?:→|\||:\s)|[+\-]\s*\d*\s*(?!--)")
"""A line of a file listing or a diff. It is code and reports no error."""


class Anchor(NamedTuple):
    """A name as it was written, and its kind."""

    text: str
    kind: AnchorKind


def find(text: str) -> Counter[Anchor]:
    """Count the anchors of a text. In a very long text, only the two ends are searched."""
    return find_all(searched(text))


def find_all(text: str) -> Counter[Anchor]:
    """Count the anchors of a whole text, however long it is."""
    counts: Counter[Anchor] = Counter()
    if "\\" in text:
        text = _ESCAPE.sub(" ", text)
    if "://" in text:
        urls = Counter(u.rstrip(".,;:") for u in _URL.findall(text))
        counts.update({Anchor(u, "url"): n for u, n in urls.items()})
        text = _URL.sub(" ", text)
    before = counts.get  # a look-up of a missing key in a Counter is slower
    for word, times in Counter(_WORD.findall(text)).items():
        for anchor in _in_word(word):
            counts[anchor] = before(anchor, 0) + times
    return counts


def searched(text: str) -> str:
    """Return the part of a text to search: the whole text, or the two ends of a very long text."""
    if len(text) <= SCANNED_CHARS:
        return text
    half = SCANNED_CHARS // 2
    return text[:half] + "\n" + text[-half:]


@lru_cache(maxsize=20_000)
def _in_word(word: str) -> tuple[Anchor, ...]:
    if not _SIGN.search(word):
        return ()
    word = word.lstrip("@:+%\\").rstrip(".:,-+%\\$@#/")
    if ":" in word or "#" in word:
        word = _LINE_NUMBER.sub("", word)
    if len(word) < 2:
        return ()
    if "/" in word:
        return _judge_path(word)
    kind = _kind_of(word)
    if kind is not None:
        return (Anchor(word, kind),)
    if "." in word or ":" in word or "\\" in word or "$" in word:
        pieces = [p for p in re.split(r"[.:\\$]+", word) if len(p) > 2]
        return tuple(Anchor(p, k) for p in pieces if (k := _kind_of(p)) is not None)
    return ()


def _kind_of(word: str) -> AnchorKind | None:
    if shape := _SHAPE.fullmatch(word):
        kind = shape.lastgroup
        return None if kind == "fraction" else cast("AnchorKind", kind)
    if word[0] == "-":
        return None
    if "." in word:
        known = _FILE.fullmatch(word) and word.rsplit(".", 1)[1].lower() in _EXTENSIONS
        known = known and word[0] not in "_-"
        return "file" if known else None
    return "identifier" if _IDENTIFIER.fullmatch(word) and len(word) < 80 else None


def is_file(name: str) -> bool:
    """Whether the name's last part has a known file extension."""
    last = name.rsplit("/", 1)[-1]
    return "." in last and _kind_of(last) == "file"


def names_of_file(file: str, names: Iterable[str]) -> list[str]:
    """Return those of `names` that name this file, or what is below it if it is a folder. A name
    that may be another file's too, such as a last part that several share, is left out.
    """
    end, below = f"/{file}", f"/{file}/"
    names = list(names)
    longer = [x for x in names if f"/{x}".endswith(end) or below in f"/{x}/"]
    if "/" not in file and len({x for x in longer if "/" in x}) > 1:
        longer = [x for x in longer if x == file]
    known = set(longer)
    shorter = [x for x in names if x not in known and file.endswith(f"/{x}")]
    return longer + [
        x for x in shorter if not any(y.endswith(f"/{x}") for y in names if y not in known)
    ]


def _judge_path(word: str) -> tuple[Anchor, ...]:
    pieces = [p for p in word.split("/") if p not in ("", ".", "..", "~")]
    if not pieces or all(len(p) < 2 for p in pieces):
        return ()
    if word in _NO_FILE or word.lower() in _PROSE:
        return ()
    if "//" in word or len(word) > 200 or not any(c.isalpha() for c in word):
        return ()
    return (Anchor(word, "pair" if _PAIR.fullmatch(word) else "path"),)


def error_lines(text: str, *, most: int = 6) -> list[str]:
    """Return up to `most` lines that name an error, the last line first."""
    text = _TAG.sub("", searched(text))
    folded = text.casefold()
    signs = list(filter(folded.__contains__, _ERROR_SIGNS))
    if not signs:
        return []
    rows = zip(reversed(text.splitlines()), reversed(folded.splitlines()), strict=True)
    lines = (line.strip() for line, low in rows if any(map(low.__contains__, signs)))
    errors = (
        line
        for line in lines
        if 8 <= len(line) <= 300 and not _LISTED_LINE.match(line)
        if ERROR_LINE.match(line) and not EXIT_CODE.fullmatch(line)
    )
    return list(islice(errors, most))


def failure(text: str) -> str | None:
    """Return the most telling line of a failed tool's output; None if there is none.

    Of up to four lines this is the first, of more lines the last. Lines of seven characters or
    fewer do not count.
    """
    lines = [line for raw in text.splitlines() if len(line := without_tags(raw)) > 7]
    lines = [line for line in lines if not EXIT_CODE.fullmatch(line)]
    if not lines:
        return None
    return (lines[0] if len(lines) <= 4 else lines[-1])[:300]


def without_tags(line: str) -> str:
    """Return the line without tags and outer white space."""
    return _TAG.sub("", line).strip()


@lru_cache(maxsize=CALLS_AT_HAND)
def strings_of(arguments: str) -> tuple[tuple[str, str], ...]:
    """Return the key and value of every string in a tool call's arguments.

    If the arguments are not JSON, return them as one string with an empty key.
    """
    try:
        value = read_json(arguments)
    except ValueError:
        return (("", arguments),)
    return tuple((key, leaf) for key, leaf in leaves(value) if isinstance(leaf, str))


@lru_cache(maxsize=CALLS_AT_HAND)
def keys_of(arguments: str) -> tuple[str, ...]:
    """Return the names of a tool call's arguments."""
    try:
        value = read_json(arguments)
    except ValueError:
        return ()
    return tuple(map(str, value)) if isinstance(value, dict) else ()


class Use:
    """Records how one anchor was used."""

    __slots__ = ("edits", "kind", "own", "position", "times")

    def __init__(self, kind: AnchorKind) -> None:
        self.kind = kind
        self.times = 0  # number of messages that use the anchor
        self.position = -1  # position of the last message that uses the anchor
        self.own = -1  # position of the last use outside tool results
        self.edits = 0


_WEIGHTS: Mapping[str, float] = json.loads(
    files("compact.text").joinpath("name_weights.json").read_text(encoding="utf-8")
)
"""Feature of a name → what it adds to the log odds that one of the next sixty messages uses the
name. Fitted by `python -m evals names` on the development sessions."""

_TIMES, _AGE, _EDITS, _OWN, _ONLY_IN_RESULTS = map(
    _WEIGHTS.__getitem__, ("times", "age", "edits", "own_age", "only_in_results")
)
_Rated = tuple[float, str, int]
"""An anchor's negative log odds, its text, and the position for which it was rated."""


class Ledger:
    """Records the anchors of a conversation and their uses, message by message, in order.

    Uses by the user or the assistant, in tool arguments and in edits weigh more than uses in tool
    results. Recent uses weigh more than old ones.
    """

    def __init__(self) -> None:
        self.uses: dict[str, Use] = {}
        self._heap: list[_Rated] = []
        self._changed: set[str] = set()  # anchors used since they were last rated
        self._gone: dict[str, None] = {}  # deleted files; listed again only if a call uses them

    def edited(self, text: str) -> None:
        """Record that a file was written. `text` holds the names of the file."""
        for anchor in find_all(text):
            if anchor.kind in ("path", "file") and anchor.text in self.uses:
                self.uses[anchor.text].edits += 1
                self._changed.add(anchor.text)

    def note(self, text: str, origin: Origin, position: int) -> None:
        """Record the anchors of a text in the message at `position`."""
        if origin == "result" and '":' in text:
            text = _KEY.sub(" ", text)
        prose, is_diff = origin in ("person", "assistant"), "--- a/" in text
        for name, kind in find(text):
            if is_diff and name[:2] in ("a/", "b/"):
                name = name[2:]
            if prose and kind == "pair" and f"`{name}" not in text:
                continue
            if name in self._gone:
                if origin != "arguments" or "git " in text or "rm " in text:
                    continue  # it says that the file was deleted
                del self._gone[name]
            use = self.uses.get(name)
            if use is None:
                use = self.uses[name] = Use(kind)
            use.times += use.position != position
            use.position = position
            if origin != "result":
                use.own = position
            self._changed.add(name)

    def deleted(self, name: str) -> None:
        """Remove a file, branch, function or type that was deleted, in all its spellings. Prose
        and results that name a file later do not bring it back.
        """
        for same in names_of_file(name, self.uses):
            del self.uses[same]
            if "/" in name or "." in name:
                self._gone[same] = None

    def forget(self, text: str, kept: str) -> None:
        """Remove one use of each anchor of `text` that does not occur in `kept`.

        An anchor that has no uses left is removed.
        """
        for name, _ in find(text):
            use = self.uses.get(name)
            if use is not None and name not in kept:
                use.times -= 1
                self._changed.add(name)
                if use.times < 1:
                    del self.uses[name]

    def forget_results(self, positions: Collection[int]) -> None:
        """Remove the anchors that only the results at these positions hold."""
        self.uses = {
            name: use
            for name, use in self.uses.items()
            if use.own >= 0 or use.position not in positions or use.times > len(positions)
        }

    def ranked(self, position: int, most: int | None = None) -> list[tuple[str, Use, float]]:
        """Return anchors with their uses and approximate odds, the likeliest first.

        The odds say how likely an anchor is needed after the message at `position`. Anchors with
        equal odds are sorted by text, so the order is deterministic.
        """
        best = islice(self.likeliest(position), most)
        return [(text, self.uses[text], odds) for text, odds in best]

    def likeliest(self, position: int) -> Iterator[tuple[str, float]]:
        """Yield anchors with their odds, as `ranked` does. Without a new use, odds only fall, so an
        anchor is rated only when it may come next. Anchors must not be used again meanwhile.

        Two threads may call this at once. Each works on a copy, and the first result is kept.
        """
        before, uses, changed = self._heap, self.uses, self._changed.copy()
        heap, taken = before.copy(), dict[str, _Rated]()
        for text in changed:
            if text in uses:
                heappush(heap, (-_rate(uses[text], position), text, position))
        try:
            while heap:
                rated, text, at = heap[0]
                if text in taken or text not in uses:
                    heappop(heap)  # entered twice, or forgotten
                elif at == position:
                    taken[text] = heappop(heap)
                    yield text, math.exp(-rated)
                elif text in changed:
                    heappop(heap)  # a newer entry counts
                else:
                    heapreplace(heap, (-_rate(uses[text], position), text, position))
        finally:
            for entry in taken.values():
                heappush(heap, entry)
            if self._heap is before:
                self._heap, self._changed = heap, self._changed - changed
                if len(heap) > 2 * len(uses):
                    self._heap, self._changed = [], set(uses)

    def trim(self, position: int, most: int) -> None:
        """Keep about the `most` likeliest anchors and drop the rest, to bound memory."""
        # Allow a quarter more: to rank all anchors after every message would take longer.
        while len(self._gone) > most:
            del self._gone[next(iter(self._gone))]
        if len(self.uses) > most * 5 // 4:
            self.uses = {text: use for text, use, _ in self.ranked(position, most)}
            self._heap, self._changed = [], set(self.uses)


def _rate(use: Use, position: int) -> float:
    """Return the log odds that an anchor is needed after the message at `position`."""
    since = math.log1p(position - use.position)
    odds = _WEIGHTS.get(use.kind, 0.0) + _TIMES * math.log1p(use.times)
    odds += _AGE * since + (_EDITS * math.log1p(use.edits) if use.edits else 0.0)
    if use.own < 0:
        odds += _ONLY_IN_RESULTS
    else:
        odds += _OWN * (since if use.own == use.position else math.log1p(position - use.own))
    return odds


def texts_of(anchors: Iterable[Anchor]) -> set[str]:
    """Return the texts of the anchors."""
    return {anchor.text for anchor in anchors}
