"""What a search of memory found, told with what stands there."""

from __future__ import annotations

from collections.abc import Iterator

from compact.memory.searching import Ranked
from compact.messages.memory_protocols import TurnIndex
from compact.messages.messages import Message
from compact.text.found import FoundSession, Hit, Neighbour
from compact.text.snippets import Sought
from compact.text.turns import instant_of

SAID = 160
"""Characters that are shown of a neighbour."""


class Telling:
    """The hits and sessions of one search, in its order."""

    def __init__(self, query: str, best: Ranked, index: TurnIndex, neighbours: int) -> None:
        self._sought, self._best, self._turns = Sought(query), best, best.turns
        self._around = [best.turns.beside(place, neighbours) for place in best.places]
        keys = [int(best.turns.keys[each]) for places in self._around for each in places]
        numbers = {best.turns.where(place)[0] for place in best.places} | set(best.sessions)
        names = [best.turns.sessions[number] for number in numbers]
        self._messages, self._titles = index.told(keys, names)

    def hits(self) -> Iterator[Hit]:
        """The messages; none that was deleted meanwhile."""
        best, turns = self._best, self._turns
        for place, score, around in zip(best.places, best.scores, self._around, strict=True):
            number, position = turns.where(place)
            message = self._message(place)
            if message is None:
                continue
            text = self._sought.around(_said(message))
            yield Hit(
                session_id=turns.sessions[number],
                title=self._titles.get(turns.sessions[number]),
                position=position,
                message_id=message.id,
                role=message.role,
                speaker=message.name,
                timestamp=message.timestamp,
                score=score,
                text=text,
                highlights=self._sought.highlights(text),
                before=self._neighbours(range(around.start, place)),
                after=self._neighbours(range(place + 1, around.stop)),
            )

    def _message(self, place: int) -> Message | None:
        return self._messages.get(int(self._turns.keys[place]))

    def _neighbours(self, places: range) -> tuple[Neighbour, ...]:
        return tuple(
            Neighbour(
                position=self._turns.where(place)[1],
                role=message.role,
                speaker=message.name,
                text=_beginning(_said(message)),
            )
            for place in places
            if (message := self._message(place)) is not None
        )

    def sessions(self) -> Iterator[FoundSession]:
        """The sessions; none that was deleted meanwhile."""
        best, turns = self._best, self._turns
        for number, score in zip(best.sessions, best.session_scores, strict=True):
            if turns.sessions[number] not in self._titles:
                continue
            at = turns.rows["at"][turns.starts[number] : turns.starts[number + 1]]
            yield FoundSession(
                session_id=turns.sessions[number],
                title=self._titles[turns.sessions[number]],
                begun=instant_of(int(at.min())),
                ended=instant_of(int(at.max())),
                messages=len(at),
                score=score,
            )


def _beginning(text: str) -> str:
    return text if len(text) <= SAID else text[:SAID] + " …"


def _said(message: Message) -> str:
    """What a message says, calls and results included, without ids."""
    parts = [message.text]
    parts += [f"{call.name} {call.arguments}" for call in message.tool_calls]
    parts += [result.text for result in message.tool_results]
    return "\n".join(filter(None, parts))
