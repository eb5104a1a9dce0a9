"""Excerpts: lines of the messages that fill the room a digest has left.

Lines are chosen so that together they tell as much as possible; the user's questions and decisions
come first. The lines keep the order of the log, each message under its position and speaker, with
`…` for missing lines. What the digest says is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from compact.messages.messages import Message
from compact.messages.tokens import TokenCounter
from compact.text import anchors, sentences
from compact.text.facts import Candidates, Said
from compact.text.sentences import LONG_LINE, SHORTEST, topic_of
from compact.text.speakers import Speaker, speaker_of

HEADING = "## Excerpts"
PROSE = 120
"""Longer lines of speech are split into sentences, and tool lines longer than `LONG_LINE`."""
MARK_TOKENS = 7
"""About how many tokens the line above a message's lines takes, together with `…`."""
ORDER: Sequence[Speaker] = ("person", "assistant", "observation", "tool")
"""If no line says anything new, the rest is filled by speaker, in this order."""
FIRST_SHARE = 0.6
"""Questions and decisions take at most this share of the room."""
FIRST_TRY, TRIES, SPARE = 0.85, 5, 0.02
"""`FIRST_TRY`: share of the room for the first choice, since marks take room too. `TRIES`: how
often lines are chosen. `SPARE`: share of the room that may stay free."""
SHORTEST_PIECE = 40
"""Fewest characters of a piece of a line: about six words."""
LEFT_OUT = "…"


class Excerpts:
    """The lines of some messages, and the room in tokens. In a small room the pieces are small, so
    that some fit.
    """

    def __init__(self, messages: Iterable[Message], counter: TokenCounter, room: int) -> None:
        self._counter, self._room = counter, room
        longest = max(SHORTEST_PIECE, min(LONG_LINE, room))
        self._marks: list[str] = []
        self._lines: list[Said] = []
        for place, message in enumerate(messages):
            speaker = speaker_of(message)
            self._marks.append(f"{speaker} {message.name}" if message.name else speaker)
            self._lines += [Said(place, speaker, line) for line in lines_of(message, longest)]

    def telling(self, told: str, *, names: Iterable[str] = (), since: int = 0) -> str:
        """Return as many new lines as fit, lines with these `names` first. Positions count from
        `since`. Empty if no line fits.
        """
        room = self._room
        new = list(self._untold(told))
        wanted = [name for name in names if name not in told]
        costs = {line: self._counter.text(line) + 1 for line in {said.text for said in new}}
        best, budget = "", int(room * FIRST_TRY)
        for _ in range(TRIES):
            if budget <= MARK_TOKENS or not new:
                break
            chosen = self._chosen(new, budget, costs.__getitem__, wanted)
            text = self._shown(chosen, new, since)
            left = room - self._counter.composed(text)
            if left >= 0 and len(text) > len(best):
                best = text
            if 0 <= left <= max(MARK_TOKENS, int(room * SPARE)) or len(chosen) == len(new):
                break
            budget += left - MARK_TOKENS
        return best

    def _untold(self, told: str) -> Iterator[Said]:
        """Yield lines that the digest (`told`) lacks. Only speech is also found inside lines."""
        lines = set(map(str.strip, told.splitlines()))
        for said in self._lines:
            text = said.text.strip()
            is_prose = said.speaker in ("person", "assistant") and len(text) >= SHORTEST
            if text not in (told if is_prose else lines):
                yield said

    def _chosen(
        self,
        new: Sequence[Said],
        room: int,
        cost: Callable[[str], int],
        wanted: Iterable[str],
    ) -> list[int]:
        places = {id(said): place for place, said in enumerate(new)}
        chosen: set[int] = set()

        def take(some: Sequence[Said], most: int) -> int:
            found = Candidates(some, cost).within(most) if most > 0 else []
            chosen.update(places[id(said)] for said in found)
            return sum(cost(said.text) for said in found)

        def fill(some: Iterable[int], most: int) -> int:
            left = most
            for place in some:
                if place not in chosen and (took := cost(new[place].text)) <= left:
                    left -= took
                    chosen.add(place)
            return most - left

        first = [i for i, said in enumerate(new) if is_asked_or_decided(said)]
        most = int(room * FIRST_SHARE)
        took = take([new[i] for i in first], most)
        room -= took + fill(first, most - took)
        room -= fill(_naming(wanted, new, chosen, cost), room)
        room -= take([new[i] for i in range(len(new)) if i not in chosen], room)
        fill(sorted(range(len(new)), key=lambda i: (_rank(new[i].speaker), i)), room)
        return sorted(chosen)

    def _shown(self, chosen: Sequence[int], lines: Sequence[Said], since: int) -> str:
        if not chosen:
            return ""
        parts = [HEADING]
        gaps = {b for a, b in pairwise(chosen) if b != a + 1}
        for position, places in groupby(chosen, key=lambda place: lines[place].position):
            rows = list(places)
            parts.append(f"[{since + position} {self._marks[position]}]")
            for place in rows:
                if place in gaps and place != rows[0]:
                    parts.append(LEFT_OUT)
                parts.append(lines[place].text)
        return "\n".join(parts)


def _naming(
    wanted: Iterable[str],
    lines: Sequence[Said],
    chosen: Container[int],
    cost: Callable[[str], int],
) -> Iterator[int]:
    """Find the shortest line with each name that no chosen line has."""
    for name in wanted:
        places = [place for place, said in enumerate(lines) if name in said.text]
        if places and not any(place in chosen for place in places):
            yield min(places, key=lambda place: cost(lines[place].text))


def lines_of(message: Message, longest: int = LONG_LINE) -> Iterator[str]:
    """Yield a message's lines that may be shown (words, calls and results), cut into pieces of up
    to `longest` characters.
    """
    if message.role in ("system", "developer"):
        return
    for line in filter(str.strip, message.text.splitlines()):
        yield from _cut(line.rstrip(), min(PROSE, longest), longest)
    texts = []
    for call in message.tool_calls:
        values = [f"{name}: {value}" for name, value in anchors.strings_of(call.arguments)]
        texts.append("\n".join([f"→ {call.name}", *values]))
    texts += [result.text for result in message.tool_results]
    for line in filter(str.strip, "\n".join(texts).splitlines()):
        yield from _cut(line.rstrip(), longest, longest)


def _cut(line: str, most: int, longest: int) -> Iterator[str]:
    if len(line) <= most:
        yield line
        return
    for sentence in sentences.sentences_of(line):
        while sentence:
            end = min(len(sentence), longest)
            cut = sentence.rfind(" ", longest // 2, end) if end < len(sentence) else end
            cut = cut if cut > 0 else end
            yield sentence[:cut].strip()
            sentence = sentence[cut:].strip()


def is_asked_or_decided(said: Said) -> bool:
    """Whether the line is a user's question or anybody's decision."""
    if said.speaker not in ("person", "assistant"):
        return False
    if said.speaker == "person" and said.text.rstrip().endswith(("?", "？")):
        return True
    return topic_of(sentences.bare(said.text)) == "decisions"


def _rank(speaker: Speaker) -> int:
    return ORDER.index(speaker) if speaker in ORDER else len(ORDER)
