"""Searches memory for the messages and sessions that answer a question, best first.

Each method adds candidates, and none removes those of another. Boosts are small: they reorder
messages with similar scores, and hide none.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from compact.memory.lasting import (
    ON_TOPIC,
    SEAT,
    SEATS,
    Asked,
    barred,
    newest_first,
    persons,
    standing,
    with_later,
)
from compact.memory.lexical import (
    WEIGHTS,
    Evidence,
    Question,
    Weights,
    nearness,
    prior,
    session_of,
    session_scores,
    shared,
    understood,
    words_score,
)
from compact.memory.retention import DAY
from compact.messages import clock_and_ids
from compact.messages.codec import instant
from compact.messages.messages import Message
from compact.text.found import FoundSession, Hit, Method, Neighbour, SearchFilter
from compact.text.snippets import Sought
from compact.text.turns import ROLE_NUMBERS, Keys, Trait, TurnTable, instant_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from compact.text.embedding import Near
    from compact.wiring import SQLiteManager

    Floats = NDArray[np.float64]
NEAREST = 400
"""How many messages the search by meaning returns."""
BOOST = 0.1
"""The most by which recency, or the current topic, may raise a score, as a share of it."""
ANY_NUMBER = 2**31
"""More messages than any word is in. With it, no words are looked for inside other words."""
HALF_LIFE = 30 * DAY
"""The age at which the boost for recency is halved, in microseconds."""


Nearest = Callable[[str, Sequence[tuple[int, int]], int], Sequence["Near"]]
"""Takes a text, ranges of keys and a limit. Returns the messages nearest in meaning to the text."""


class Ways(NamedTuple):
    """The methods of a search and their weights."""

    nearest: Nearest | None = None
    """Searches by meaning; None without an embedder."""
    words: bool = True
    """Whether to search by words."""

    weights: Weights = WEIGHTS

    recent: bool = False
    """Whether to raise the scores of newer messages."""
    now: datetime | None = None
    """The time from which words such as `yesterday` count; None means now."""
    about: str = ""
    """The current topic. Messages that share its words get a higher score."""

    @property
    def method(self) -> Method:
        """The name of the method: `lexical`, `semantic` or `hybrid`."""
        if self.nearest is None:
            return "lexical"
        return "hybrid" if self.words else "semantic"


WAYS = Ways()


class Ranked(NamedTuple):
    """Messages and sessions as places in the table of turns, best first. Scores are 0 to 1."""

    turns: TurnTable
    places: Sequence[int]
    scores: Sequence[float]
    sessions: Sequence[int]
    session_scores: Sequence[float]
    evidence: Evidence = Evidence()
    """How much the text has in common with the best-fitting message."""
    barred: Sequence[int] = ()
    """Places of requests not to talk about something. They come with what is recalled."""
    standing: Sequence[int] = ()
    """Places of standing sentences that are near the question in meaning, the best first."""


def ranked(
    index: SQLiteManager,
    scope: str | None,
    text: str,
    *,
    most: int,
    only: SearchFilter,
    ways: Ways = WAYS,
    without: Iterable[tuple[str, int]] = (),
) -> Ranked:
    """Find the messages that answer a text best, at most `most`, and as many sessions. Messages in
    `without` (session id and position) are left out.
    """
    import numpy as np

    turns = index.turns(scope)
    within: list[tuple[int, int]] = []
    if only.sessions:
        turns = turns.of(only.sessions)
        within = _ranges(turns)
    may = _allowed(index, turns, only) & _other_than(turns, without)
    now = ways.now or clock_and_ids.now()
    question = understood(text, turns.names, now)
    fits, is_found = nearness(turns, question.times, may)
    is_empty = not text.strip() and bool(only.since or only.until)
    if not question.names and len(question.times) == 1:
        may &= is_found
    is_found |= is_empty or (not question.names and len(question.times) > 1)
    scores, touched, asked, known = _scored(index, turns, question, ways, may, within)
    scores = (scores + ways.weights.date * fits) * _boost(index, turns, ways, within)
    scores = np.where(may, 1.0 if is_empty else scores, -np.inf)
    candidates = np.flatnonzero((touched | is_found) & may)
    order = turns.rows["at"] if is_empty else scores  # an empty text asks for the newest
    # Always enough for standing sentences: a small limit gives the beginning of a large one.
    best = candidates[_best(order[candidates], max(most, SEAT + SEATS))].tolist()
    is_ordered = bool(question.times or ways.about)
    best, firm = _with_lasting(index, turns, best, asked, most, is_ordered=is_ordered)
    by_session = session_scores(turns, scores)
    own = np.flatnonzero(np.bincount(session_of(turns)[may], minlength=len(turns.sessions)))
    sessions = own[_best(by_session[own], most)]
    return Ranked(
        turns,
        best,
        _shares(scores[best]),
        sessions.tolist(),
        _shares(by_session[sessions]),
        known._replace(is_of_past=_is_of_past(turns, question, now, may)),
        barred(turns, best, asked),
        [place for place in firm if asked.cosines[place] >= ON_TOPIC],
    )


def _with_lasting(
    index: SQLiteManager,
    turns: TurnTable,
    best: list[int],
    asked: Asked,
    most: int,
    *,
    is_ordered: bool,
) -> tuple[list[int], list[int]]:
    """Return the hits with what was said later and with standing sentences, at most `most`; and
    those sentences. With `is_ordered`, times or a topic order the hits.
    """
    best, firm = with_later(index, turns, best, asked), standing(turns, asked)
    if not is_ordered:
        best = newest_first(turns, best, asked)
    if len(best) > SEAT:
        best = list(dict.fromkeys([*best[:SEAT], *firm, *best[SEAT:]]))
    return best[:most], firm


def _is_of_past(
    turns: TurnTable, question: Question, now: datetime, may: NDArray[np.bool_]
) -> bool:
    """Return whether the text asks about the conversation, or about a person in it, at a past time
    that has messages. A time that has begun but is not over counts only if the question names a
    speaker or has a word such as `my`.
    """
    is_personal = question.is_own or question.names_speaker
    if not question.is_asked or (question.names and not is_personal):
        return False
    past = [
        tuple(s for s in time if s.stop <= now or (is_personal and s.start <= now))
        for time in question.times
    ]
    return bool((nearness(turns, past, may)[1] & may).any())


def _scored(
    index: SQLiteManager,
    turns: TurnTable,
    question: Question,
    ways: Ways,
    may: NDArray[np.bool_],
    within: Sequence[tuple[int, int]],
) -> tuple[Floats, NDArray[np.bool_], Asked, Evidence]:
    """Return the score of each message, which messages have something in common with the question,
    and the details for later steps.
    """
    import numpy as np

    scores, own, cosines = np.zeros(len(turns)), np.zeros(len(turns)), np.zeros(len(turns))
    touched, known = np.zeros(len(turns), bool), Evidence()
    if ways.words:
        most = ANY_NUMBER if question.is_english else None
        held = [turns.places(keys) for keys in index.holding(question.names, within, most)]
        own, known = shared(turns, question.names, held, may)
        places, words = words_score(turns, held)
        scores = prior(turns, question, ways.weights)
        scores[places] += ways.weights.words * words
        touched[places] = True
    if ways.nearest is not None and question.text:
        ranges = within or turns.once("ranges", lambda: _ranges(turns))
        near, more = _meaning(turns, ways.nearest(question.text, ranges, NEAREST))
        # Relative to the lowest cosine, so that scores fall gradually to 0 at the end of the list.
        scores[near] += ways.weights.meaning * (more - more.min(initial=1.0))
        touched[near] = True
        cosines[near] = more
        known = known._replace(cosine=float(cosines[may].max(initial=0.0)))
        # Standing sentences of a large memory are not among its nearest messages.
        firm = turns.keys[may & persons(turns, Trait.STANDING) & ~touched].tolist()
        if firm:
            alone = [(key, key) for key in firm]
            near, more = _meaning(turns, ways.nearest(question.text, alone, SEATS))
            cosines[near] = more
    is_personal = question.names_speaker or (question.is_own and not turns.speakers.all())
    asked = Asked(question.names, own, cosines, may, within)
    return scores, touched, asked, known._replace(is_personal=is_personal)


def readable(
    index: SQLiteManager, turns: TurnTable, places: Iterable[int], most: int
) -> tuple[list[int], list[str]]:
    """Return the first places whose messages can be read, at most `most`, and why archives could
    not be read. Each attempt reads twice as many, so that a large archive out of reach is tried
    only a few times.
    """
    left, found, unread, size = iter(places), list[int](), list[str](), most
    while len(found) < most and (some := list(islice(left, size))):
        keys = [int(turns.keys[place]) for place in some]
        messages, _, away = index.told(keys, ())
        unread += away
        found += [place for place, key in zip(some, keys, strict=True) if key in messages]
        size *= 2
    return found[:most], unread


def first_readable(index: SQLiteManager, every: Ranked, most: int) -> tuple[Ranked, list[str]]:
    """Return the first readable messages and the first sessions, at most `most` of each, and why
    archives could not be read.
    """
    places, unread = readable(index, every.turns, every.places, most)
    scores = dict(zip(every.places, every.scores, strict=True))
    top = max((scores[place] for place in places), default=0.0)
    shares = [scores[place] / top if top else 0.0 for place in places]
    sessions = every.sessions[:most], every.session_scores[:most]
    return Ranked(every.turns, places, shares, *sessions, every.evidence), unread


def _meaning(turns: TurnTable, near: Sequence[Near]) -> tuple[Keys, Floats]:
    """Return the places and cosines of the nearest messages."""
    import numpy as np

    keys = np.array([each.key for each in near], np.int64)
    own, places = turns.standing(keys)
    return places, np.array([each.cosine for each in near])[own]


def _ranges(turns: TurnTable) -> list[tuple[int, int]]:
    firsts, lasts = turns.runs()
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _allowed(index: SQLiteManager, turns: TurnTable, only: SearchFilter) -> NDArray[np.bool_]:
    import numpy as np

    allowed = _in_span(turns, only.since, only.until)
    if only.roles:
        allowed &= np.isin(turns.rows["role"], [ROLE_NUMBERS[role] for role in only.roles])
    if only.least_importance is not None:
        allowed &= np.isin(turns.keys, index.important(only.least_importance))
    return allowed


def _other_than(turns: TurnTable, without: Iterable[tuple[str, int]]) -> NDArray[np.bool_]:
    """Return a mask of the table's messages that excludes `without`."""
    import numpy as np

    may = np.ones(len(turns), bool)
    numbers = turns.once("numbers", lambda: {name: n for n, name in enumerate(turns.sessions)})
    for session_id, position in without:
        number = numbers.get(session_id)
        if number is not None and position < turns.starts[number + 1] - turns.starts[number]:
            may[turns.starts[number] + position] = False
    return may


def _in_span(turns: TurnTable, since: datetime | None, until: datetime | None) -> NDArray[np.bool_]:
    import numpy as np

    at, in_span = turns.rows["at"], np.ones(len(turns), bool)
    if since is not None:
        in_span &= at >= instant(since)
    if until is not None:
        in_span &= at <= instant(until)
    return in_span


def _boost(
    index: SQLiteManager, turns: TurnTable, ways: Ways, within: Sequence[tuple[int, int]]
) -> Floats:
    """Return the factor by which to multiply each message's score."""
    import numpy as np

    factor = np.ones(len(turns))
    if ways.recent and len(turns):
        at = turns.rows["at"]
        factor += BOOST * np.exp2(-(at.max() - at) / HALF_LIFE)
    if ways.about:
        topic = understood(ways.about, turns.names)
        held = [turns.places(keys) for keys in index.holding(topic.names, within)]
        places, words = words_score(turns, held)
        factor[places] += BOOST * words
    return factor


def _best(scores: Floats, most: int) -> Keys:
    """Return the places of the highest scores, highest first; among equals the later first."""
    import numpy as np

    some = np.arange(len(scores))
    if most < len(scores):
        some = np.argpartition(-scores, most - 1)[:most] if most > 0 else some[:0]
    return some[np.lexsort((-some, -scores[some]))]


def _shares(scores: Floats) -> list[float]:
    """Return the scores divided by the best score. Negative scores become 0."""
    best = float(scores.max(initial=0.0))
    return [max(0.0, float(score)) / best if best else 0.0 for score in scores]


def by_day(
    turns: TurnTable, since: datetime | None, until: datetime | None
) -> Iterator[tuple[int, int, int, int]]:
    """Yield a row for each session on each day that has messages between two times, earliest first:
    the session's number, the number of messages, and the times (`at`) of the first and last one.
    """
    import numpy as np

    at = turns.rows["at"]
    chosen = np.flatnonzero(_in_span(turns, since, until))
    groups = np.stack([at[chosen] // DAY, session_of(turns)[chosen]])
    kinds, where = np.unique(groups, axis=1, return_inverse=True)
    counts = np.bincount(where.ravel(), minlength=kinds.shape[1])
    firsts = np.full(kinds.shape[1], np.iinfo(np.int64).max)
    lasts = np.full(kinds.shape[1], np.iinfo(np.int64).min)
    np.minimum.at(firsts, where.ravel(), at[chosen])
    np.maximum.at(lasts, where.ravel(), at[chosen])
    for place in np.argsort(firsts, kind="stable").tolist():
        yield int(kinds[1, place]), int(counts[place]), int(firsts[place]), int(lasts[place])


# --- the results with their texts -----------------------------------------------------------------


NEIGHBOUR_LENGTH = 160
"""How many characters of a neighbour a hit shows, at most."""


class ResultReader:
    """Reads the texts of a search's results, and builds its hits and sessions."""

    def __init__(
        self,
        query: str,
        best: Ranked,
        index: SQLiteManager,
        neighbours: int,
    ) -> None:
        self._snippets, self._best, self._turns = Sought(query), best, best.turns
        self._around = [best.turns.beside(place, neighbours) for place in best.places]
        keys = [int(best.turns.keys[each]) for places in self._around for each in places]
        numbers = {best.turns.where(place)[0] for place in best.places} | set(best.sessions)
        names = [best.turns.sessions[number] for number in numbers]
        self._messages, self._titles, self.unread = index.told(keys, names)

    @property
    def is_whole(self) -> bool:
        """Whether every message that was found could be read."""
        return all(self._message(place) is not None for place in self._best.places)

    def hits(self, archived: Container[str] = ()) -> Iterator[Hit]:
        """Yield the messages that can be read. `archived` are ids of archived sessions."""
        best, turns = self._best, self._turns
        for place, score, around in zip(best.places, best.scores, self._around, strict=True):
            number, position = turns.where(place)
            message = self._message(place)
            if message is None:
                continue
            text = self._snippets.around(_text_of(message))
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
                highlights=self._snippets.highlights(text),
                before=self._neighbours(range(around.start, place)),
                after=self._neighbours(range(place + 1, around.stop)),
                archived=turns.sessions[number] in archived,
            )

    def _message(self, place: int) -> Message | None:
        return self._messages.get(int(self._turns.keys[place]))

    def _neighbours(self, places: range) -> tuple[Neighbour, ...]:
        return tuple(
            Neighbour(
                position=self._turns.where(place)[1],
                role=message.role,
                speaker=message.name,
                text=_beginning(_text_of(message)),
            )
            for place in places
            if (message := self._message(place)) is not None
        )

    def sessions(self) -> Iterator[FoundSession]:
        """Yield the sessions, except those that were deleted meanwhile."""
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
    return text if len(text) <= NEIGHBOUR_LENGTH else text[:NEIGHBOUR_LENGTH] + " …"


def _text_of(message: Message) -> str:
    # Ids of calls are left out: they answer no question.
    parts = [message.text]
    parts += [f"{call.name} {call.arguments}" for call in message.tool_calls]
    parts += [result.text for result in message.tool_results]
    return "\n".join(filter(None, parts))
