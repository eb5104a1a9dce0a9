"""The lists of a checkpoint: files, commands and names that stand nowhere else in view.

They are for whoever looks something up. A name is listed once, by its weight for its room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from itertools import chain, islice

from compact.compression.extraction.notes import Notes
from compact.compression.extraction.work import MOST_KEPT
from compact.compression.page import HEADING_TOKENS, Page, Row
from compact.compression.seen import Seen, names_in
from compact.core.anchors import NameUse, weights_at_once
from compact.core.cached import cached_property
from compact.core.commands import as_told
from compact.core.outline import COMMANDS, FILES, NAMES, OUTLINE, Emphasis
from compact.core.tokens import TokenCounter

MOST_FILES, MOST_COMMANDS, MOST_NAMES = 40, 5, 120
"""Files that were written, and as many that were read, commands, and names that are listed if there
is room: a mode that lists more raises the last of these."""
SEVERAL = 3
"""Names from which a file that stands above gets a line for them."""
LONGEST_COMMAND = 160
"""Characters of a command, which is told whole or not at all."""
OFTEN = 3
"""Runs from which a command that checks nothing is one that people here run."""
THRIFT = 0.5
"""Power of its tokens by which a name's weight is divided: short names give more for their
room."""
ROOT_SHARE = 0.7
"""Share of the absolute paths that lie below the root."""
AT_HAND = 4.0
"""What a name counts more that was seen in a file which the newest turn is about."""
LEAST_NAME = 3
"""Tokens of room below which no name is looked for."""
_MOST: Mapping[str, float] = {section.title: section.most for section in OUTLINE}


@dataclass(frozen=True)
class Listing:
    """Lists from notes what stands neither in a page nor beside it."""

    notes: Notes
    counter: TokenCounter
    seen: Seen
    """What the reader sees beside the page."""
    emphasis: Emphasis
    shortened: Iterable[NameUse]
    """The uses of names in what the reader sees shortened: what it lost may be worth naming."""

    def put(self, page: Page, room: int) -> None:
        """Put files, commands and names that stand nowhere else in view into a page, as many as
        there is room for; a name stands beside the file that it belongs to.
        """
        left = 0 if self.notes.is_plain_talk else min(room, page.left)
        told = page.text()
        known = self.seen.names | names_in(told)
        floor = page.left - int(self._most(COMMANDS) * left)
        untold = [command for command in self._commands if command not in told]
        for order, command in enumerate(untold[:MOST_COMMANDS]):
            left -= page.add(COMMANDS, Row(f"- `{command}`", order), page.left - floor)
        root, written, read, homes = self._files
        left -= self.counter.text(root) + 2 * HEADING_TOKENS
        most = int(self._most(FILES) * left)
        files = self._taken(list(written)[:MOST_FILES], known, most)
        files += self._taken(list(read)[:MOST_FILES], known, most - self._cost(files))
        left -= self._cost(files)
        told_by_now = frozenset(known)
        unknown = (x for x in self._likeliest if x not in told_by_now)
        likely = (x for x in unknown if not self._is_told_file(x, told_by_now, root))
        most = int(MOST_NAMES * max(1.0, self.emphasis.listed)) if self._most(NAMES) else 0
        names = self._taken(islice(likely, most), known, left)
        beside, others = _beside(names, homes, files)
        rows = _file_rows(beside, written)
        for row in [Row(f"- all under {root}", -1), *rows] if root and rows else rows:
            page.add(FILES, row)
        others = [_below(name, root) for name in others]
        while others and not page.add(NAMES, Row(", ".join(others))):
            others = others[: len(others) * 9 // 10]

    def _most(self, title: str) -> float:
        """The largest share of the lists' room that one of them may take."""
        return _MOST[title] * self.emphasis.of(title)

    @cached_property
    def _files(self) -> tuple[str, dict[str, int], dict[str, int], dict[str, str]]:
        """The folder that most files are in; the files that were written and those that were read,
        by their names below it, the last ones first; and the file that a name belongs to.
        """
        work = self.notes.work
        root = _root_of([*work.files, *work.read])
        written = _relative({f: n for f, (n, _) in reversed(work.files.items())}, root)
        read = _relative(dict.fromkeys(reversed(work.read), 1), root)
        return root, written, read, self._homes(root, [*written, *read])

    def _homes(self, root: str, files: Sequence[str]) -> dict[str, str]:
        """The file that a name belongs to: where it was defined, else where it was seen last."""
        rows = [(file, it) for turn in self.notes.turns.rows for file, it in turn.touched.items()]
        homes = {name: file for file, it in rows for name in it.names}
        homes |= {name: file for file, it in rows for name in it.defined}
        known = _ByLastPart(files)
        longest = {file: known.longer(_below(file, root)) for file in set(homes.values())}
        return {name: longest[file] for name, file in homes.items()}

    def _cost(self, names: Iterable[str]) -> int:
        return sum(self.counter.text(" " + name) + 1 for name in names)

    def _is_told_file(self, name: str, known: Set[str], root: str) -> bool:
        """Whether a name is a file that stands there under a shorter name."""
        if "/" not in name:
            return False
        return name.rsplit("/", 1)[-1] in known or _below(name, root) in known

    def _taken(self, names: Iterable[str], known: set[str], room: int) -> list[str]:
        """The first of these that are not known yet and find room; they are known then."""
        taken: list[str] = []
        for name in names:
            if room < LEAST_NAME:
                break
            if name in known or (cost := self.counter.text(" " + name) + 1) > room:
                continue
            taken.append(name)
            room -= cost
            known.update((name, name.rsplit("/", 1)[-1], name.rstrip("/")))
        return taken

    @cached_property
    def _likeliest(self) -> Likeliest:
        """Names that the reader does not see, by their weight for their room, those of messages
        that are shown shortened among them; the emphasis says which kinds weigh more.
        """
        rows = {text: (use.kind, weight) for text, use, weight in self.notes.ranked()}
        for text, (kind, weight) in weights_at_once(self.shortened).items():
            known = rows.get(text, (kind, 0.0))
            rows[text] = (known[0], known[1] + weight)

        turns = self.notes.turns.rows
        touched = turns[-1].touched if turns else {}
        now = {name for file, it in touched.items() for name in (file, *it.names)}

        kinds, seen = self.emphasis.anchors, self.seen.names
        weights = {
            text: weight * (kinds.get(kind, 1.0) * (AT_HAND if text in now else 1.0))
            for text, (kind, weight) in rows.items()
            if text not in seen
        }
        return Likeliest(weights, self.counter)

    @cached_property
    def _commands(self) -> list[str]:
        """The commands that check something or were run often, those run most and last first, each
        once and whole.
        """
        worth: dict[str, float] = {}
        for command, run in self.notes.work.commands.items():
            runs = [self.notes.freshness(p) for p in run.positions]
            if (run.is_check or len(runs) >= OFTEN) and (said := as_told(command)):
                worth[said] = worth.get(said, 0.0) + sum(runs)
        rows = sorted(worth, key=lambda command: -worth[command])
        return [command for command in rows if len(command) < LONGEST_COMMAND]


class Likeliest:
    """Names by their weight for their room, those of the same by themselves. How long a name is is
    looked at only where it may come next: none takes less than two tokens.
    """

    def __init__(self, weights: Mapping[str, float], counter: TokenCounter) -> None:
        self._left = sorted([(weight, text) for text, weight in weights.items()])
        self._heap: list[tuple[float, str]] = []
        self._found: list[str] = []
        self._counter = counter

    def __iter__(self) -> Iterator[str]:
        place = 0
        while place < len(self._found) or self._find():
            yield self._found[place]
            place += 1

    def _find(self) -> bool:
        """Find the next one; whether there is one."""
        left, heap = self._left, self._heap
        while left and not (heap and heap[0][0] < -left[-1][0] / 2**THRIFT):
            weight, text = left.pop()
            tokens = self._counter.text(" " + text) + 1
            heappush(heap, (-weight / tokens**THRIFT, text))
        if heap:
            self._found.append(heappop(heap)[1])
            return True
        return False


def _beside(
    names: Iterable[str], homes: Mapping[str, str], files: Sequence[str]
) -> tuple[dict[str, list[str]], list[str]]:
    """The names that belong to each of these files, and to others that several belong to; the rest
    by themselves.
    """
    at_home: dict[str, list[str]] = {file: [] for file in files}
    others: list[str] = []
    for name in names:
        at_home.setdefault(homes.get(name, ""), []).append(name)
    for file, found in [*at_home.items()]:
        if file not in files and (len(found) < SEVERAL or not file):
            others += at_home.pop(file)
    return at_home, others


def _file_rows(beside: Mapping[str, Sequence[str]], written: Mapping[str, int]) -> list[Row]:
    """The lines of files: those that were written, and of the others those with names, each with
    its own; the rest in one.
    """
    rows: list[Row] = []
    for file, names in beside.items():
        times = written.get(file, 0)
        deed = f"written ×{times}" if times > 1 else "written"
        if times or names:
            said = f"- {file} ({deed})" if times else f"- {file}"
            rows.append(Row(f"{said}: {', '.join(names)}" if names else said, 0 if times else 1))
    if rest := [file for file, names in beside.items() if not (names or file in written)]:
        rows.append(Row(f"- read: {', '.join(rest)}", 2))
    return rows


def _root_of(files: Sequence[str]) -> str:
    """The folder that most of the absolute paths have in common, its slash included; empty where
    there is none.
    """
    folders = Counter(chain.from_iterable(map(_folders_of, files)))
    total = sum(file.startswith("/") for file in files)
    common = [folder for folder, n in folders.items() if n > 1 and n >= ROOT_SHARE * total]
    return max(common, key=len) + "/" if common else ""


@lru_cache(maxsize=4 * MOST_KEPT)
def _folders_of(file: str) -> tuple[str, ...]:
    """The folders that an absolute path is in, none where it is another one; each compression asks
    it of the same ones.
    """
    parts = file.split("/") if file.startswith("/") else []
    return tuple("/".join(parts[:depth]) for depth in range(3, len(parts)))


def _below(name: str, root: str) -> str:
    """A name below the root, also where it is given from a folder within the root."""
    if not root or name.startswith(root):
        return name.removeprefix(root)
    parts = name.split("/")
    within = next((i for i in range(len(parts) - 1, 0, -1) if _ends(root, parts[:i])), 0)
    return "/".join(parts[within:])


def _ends(root: str, parts: Sequence[str]) -> bool:
    return bool(parts[0]) and root.endswith(f"/{'/'.join(parts)}/")


def _relative(files: Mapping[str, int], root: str) -> dict[str, int]:
    """Files by their names below the root, each once, with how often they were written."""
    found: dict[str, int] = {}
    known = _ByLastPart(())
    for file, times in files.items():
        longer = known.longer(_below(file, root))
        if longer not in found:
            known.take(longer)
        found[longer] = found.get(longer, 0) + times
    return found


class _ByLastPart:
    """Files by the last parts of their names."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files: dict[str, list[str]] = {}
        for file in files:
            self.take(file)

    def take(self, file: str) -> None:
        """Take one more."""
        self._files.setdefault(file.rsplit("/", 1)[-1], []).append(file)

    def longer(self, name: str) -> str:
        """The first file of that name that is named from a folder above, too; else the name."""
        alike = self._files.get(name.rsplit("/", 1)[-1], ())
        return next((file for file in alike if file.endswith(f"/{name}")), name)
