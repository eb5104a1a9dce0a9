"""Scores how well messages answer a question, by their words and traits, without a model.

A message's score is the BM25 of the message together with its neighbours in the session; near ones
count more. The reason: an answer comes next to its question, and a topic is often named only once.
Small weights are added for who speaks, for questions, and for what an answer needs (a name, a
number, a time). The weights were chosen by hand on five conversations (docs/evidence.md, search).

Reads a question: its words without speakers' names, the speaker and the times that it names, and
the kind of answer that it asks for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from compact.memory.retention import DAY
from compact.messages.codec import instant
from compact.patterns import regex
from compact.text.dates import Time, times_in
from compact.text.languages import FUNCTION_WORDS, words_of
from compact.text.terms import STOP_WORDS, looked_for, pieces_of
from compact.text.turns import QUESTION_MARKS, ROLE_NUMBERS, SCORED, SELF, Keys, Trait, TurnTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


# --- questions ------------------------------------------------------------------------------------

_ASKED = {
    Trait.TIME: "asks_time",
    Trait.NUMBER: "asks_number",
    Trait.NAME: "asks_name",
}
_PHRASES = {
    sign: [f" {phrase.replace('_', ' ')} " for each in words_of(kind).values() for phrase in each]
    for sign, kind in _ASKED.items()
}
_ASKS = frozenset().union(
    *(own for k in ("asks", *_ASKED.values()) for own in words_of(k).values())
)
"""Words that a question can begin with."""
_ASKED_CLAUSE = regex(rf"(?:[^,;!\n。，.{QUESTION_MARKS}]|\.(?!\s))+[{QUESTION_MARKS}]")
_TALK = frozenset().union(*words_of("talk").values(), STOP_WORDS)
"""Words of questions such as `What did we talk about yesterday?`. They name no subject."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a question asks for."""

    text: str
    """The question without the names of speakers."""
    names: tuple[tuple[str, ...], ...]
    """The words to search for. A name with several pieces needs a message with all of them. Empty
    if the question only asks what was said at a time."""
    speaker: int
    """The number of the speaker that the question names; 0 if it names none or several."""
    names_speaker: bool
    """Whether it names one or more speakers."""
    times: tuple[Time, ...]
    """The times that the question names."""
    is_english: bool
    """Whether its function words are English. English words are looked up by their stems alone."""
    is_own: bool
    """Whether it has a word such as `my` or `I`."""
    is_asked: bool
    """Whether it names a time and is a question. Without a question mark it must begin with a
    question word. A statement about oneself is not one: `I slept badly last night, ok?`"""
    asks: Trait
    """The traits that an answer must have."""


def understood(text: str, speakers: Sequence[str], now: datetime | None = None) -> Question:
    """Read a question about a talk between these speakers. The first entry stands for speakers
    without names. Words such as `yesterday` count from `now`. Without `now`, no times are read.
    """
    pieces = pieces_of(text)
    names = [frozenset(pieces_of(speaker)) for speaker in speakers]
    named = [place for place, each in enumerate(names) if not each.isdisjoint(pieces)]
    of_speakers = frozenset().union(*names)
    times, asked, others = times_in(text, now) if now else ((), text, text)
    wanted = [each for name in looked_for(asked) for each in _alone(name)]
    telling = [rest for name in wanted if (rest := tuple(p for p in name if p not in of_speakers))]
    if times and _TALK.issuperset(pieces_of(others)):
        wanted = telling = []
    padded = f" {' '.join(pieces)} "
    # In `Ann's`, the first piece is the name.
    words = [word for word in text.split() if next(iter(pieces_of(word)), "") not in of_speakers]
    traits = [sign for sign, each in _PHRASES.items() if any(one in padded for one in each)]
    return Question(
        text=" ".join(words) or text,
        names=tuple(dict.fromkeys(telling or wanted)),
        speaker=named[0] if len(named) == 1 else 0,
        names_speaker=bool(named),
        times=times,
        is_english=_is_english(frozenset(pieces)),
        is_own=not SELF.isdisjoint(pieces),
        is_asked=bool(times) and _is_asked(text, pieces),
        asks=Trait(sum(traits)),
    )


def _is_english(pieces: frozenset[str]) -> bool:
    counts = {code: len(words & pieces) for code, words in FUNCTION_WORDS.items()}
    english = counts.pop("en")
    return english > max(1, *counts.values())


def _is_asked(text: str, pieces: Sequence[str]) -> bool:
    """Return whether a text is a question (see `Question.is_asked`)."""
    if not _ASKS.isdisjoint(pieces[:1]) and SELF.isdisjoint(pieces[1:2]):  # no `what I bought …`
        return True
    asked = [piece for clause in _ASKED_CLAUSE.findall(text) for piece in pieces_of(clause)]
    is_own = not SELF.isdisjoint(pieces)
    return any(not is_own or piece in SELF or piece.isdecimal() for piece in asked)


def _alone(name: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield a name, then its pieces without stop words. Single ASCII letters are left out, and
    single digits that stand alone.
    """

    def is_word(piece: str) -> bool:
        return len(piece) > 1 or not piece.isascii()

    pieces = tuple(x for x in name if is_word(x) or (len(name) > 1 and x.isdecimal()))
    if pieces:
        yield pieces
    if len(pieces) > 1:
        yield from ((piece,) for piece in pieces if is_word(piece) and piece not in STOP_WORDS)


# --- lexical --------------------------------------------------------------------------------------

NEIGHBOURS = {-3: 0.4, -2: 0.6, -1: 0.8, 0: 1.0, 1: 0.6, 2: 0.4, 3: 0.2}
"""Distance of a neighbour → how much it counts. Earlier messages count more than later ones."""
ANSWER = 0.5
"""How much a question counts for the assistant's answer."""
REACH = 3
"""The distance of the farthest neighbour."""
_KERNEL = [NEIGHBOURS[-distance] for distance in range(-REACH, REACH + 1)]
LONG = 200
"""A message with more words does not count for its neighbours: logs and documents contain nearly
every word."""
K1, B = 1.2, 0.75
"""BM25 (Robertson and Zaragoza, 2009): K1 limits the effect of repetition, B of length."""


class Weights(NamedTuple):
    """What each part adds to a message's score."""

    words: float = 5.0
    """Added for the message whose words match best. Others get a share."""
    prior: float = 0.5
    """Added for the named speaker and each trait in `FOR`; subtracted for others and `AGAINST`."""
    answer: float = 1.0
    """Added for each trait that an answer must have."""
    date: float = 5.0
    """Added for the named day. Less for longer times and for days near it."""
    own: float = 1.0
    """Added for the user's own messages if the question has words such as `my` and `I`."""
    meaning: float = 8.0
    """This times (cosine − cosine of the last message found) is added for nearness in meaning."""


WEIGHTS = Weights()
FOR, AGAINST = Trait.SELF | Trait.AFTER_QUESTION, Trait.QUESTION
"""Traits that count for or against a message, whatever the question is."""
SPREAD = 0.1
"""How much less a longer time weighs: a day 1, a week .82, a month .71, a year .55."""
NEAR = 2 * DAY
"""The distance from the named time at which the weight is halved. People err by a few days."""
OTHER_YEARS = 0.5
"""The share of the weight for other years, if a date is named without a year."""
SHARPNESS = 3.0
"""How close a session's score (a soft maximum) is to the score of its best message."""
PLEASANTRIES = frozenset().union(*words_of("replies").values(), STOP_WORDS)
"""Words such as `thanks`. A message with only these words is no question to memory."""
SMALL_TALK = PLEASANTRIES.union(*words_of("talk").values())
"""Words that say nothing about the subject of a message."""


def words_score(turns: TurnTable, held: Sequence[Keys]) -> tuple[Keys, Floats]:
    """Return the places of messages that have words of the question, or have neighbours with them,
    and the BM25 score of each. The best score is 1.

    `held` are, for each word, the places of the messages that have it. A word counts once per
    message, with the weight ln(1 + (N − n + ½) / (n + ½)), if n of N messages have it.
    """
    import numpy as np

    score = np.zeros(len(turns))
    weight = turns.once("weight", lambda: _length_weight(turns))
    for places in held:
        if not len(places):
            continue
        often = spread(turns, places)
        rare = math.log(1 + (len(turns) - len(places) + 0.5) / (len(places) + 0.5))
        score += (rare * (K1 + 1)) * often / (often + weight)
    touched = np.flatnonzero(score)
    return touched, score[touched] / score.max(initial=1e-9)


def prior(turns: TurnTable, question: Question, weights: Weights = WEIGHTS) -> Floats:
    """Score each message without its words: by its speaker and its traits."""
    import numpy as np

    score: Floats = np.array(_worths(question.asks, weights))[_signs(turns) & SCORED]
    if question.speaker:
        is_named = turns.speakers == question.speaker
        score += np.where(is_named, weights.prior, -weights.prior)
    if question.is_own:
        is_user = (turns.rows["role"] == ROLE_NUMBERS["user"]) & (turns.speakers == 0)
        score += weights.own * is_user
    return score


@cache
def _worths(asks: Trait, weights: Weights) -> list[float]:
    """Return the score of each combination of traits."""

    def worth(sign: Trait) -> float:
        own = (sign in FOR) - (sign in AGAINST)
        return weights.prior * own + weights.answer * (sign in asks)

    return [sum(map(worth, Trait(each))) for each in range(SCORED + 1)]


def session_scores(turns: TurnTable, scores: Floats) -> Floats:
    """Score each session by the soft maximum (log of summed exponentials) of its messages' scores.
    The best message counts most; several good ones count more than one.
    """
    import numpy as np

    best = float(scores.max(initial=0.0))
    share = np.exp(SHARPNESS * (scores - best))
    sums = np.bincount(session_of(turns), share, len(turns.sessions))
    return best + np.log(sums + np.finfo(float).tiny) / SHARPNESS


# --- columns that are made once -------------------------------------------------------------------


def session_of(turns: TurnTable) -> Keys:
    """Return the number of each message's session."""
    import numpy as np

    def made() -> Keys:
        return np.repeat(np.arange(len(turns.sessions)), np.diff(turns.starts))

    return turns.once("session_of", made)


def spread(turns: TurnTable, places: Keys, weights: Floats | None = None) -> Floats:
    """Spread the weights of some messages to their neighbours in the session, by distance.

    If speakers have no names, a person talks to an assistant. Then only the weight of a question is
    spread, and only to the next message, its answer, because the message after that is on something
    else. The weight of a long message is never spread.
    """
    import numpy as np

    own, scores = session_of(turns), np.zeros(len(turns))
    values = np.ones(len(places)) if weights is None else weights
    is_short, is_named = turns.rows["length"][places] <= LONG, turns.speakers[places] > 0
    is_spread = is_short & is_named
    if is_spread.any():
        # Sessions are put REACH places apart, so that no weight reaches another session.
        apart = turns.once("apart", lambda: np.arange(len(turns)) + REACH * own)
        row = np.zeros(int(apart[-1]) + 1)
        row[apart[places[is_spread]]] = values[is_spread]
        scores = np.convolve(row, _KERNEL)[REACH:][apart]
    scores[places[~is_spread]] += values[~is_spread]
    is_question = turns.rows["signs"][places] & Trait.QUESTION > 0
    asked = is_short & ~is_named & is_question & (places + 1 < len(turns))
    asked[asked] = own[places[asked]] == own[places[asked] + 1]
    scores[places[asked] + 1] += ANSWER * values[asked]
    return scores


def _length_weight(turns: TurnTable) -> Floats:
    """Return BM25's length term for each message, its neighbours included."""
    import numpy as np

    lengths = spread(turns, np.arange(len(turns)), turns.rows["length"].astype(float))
    mean = float(lengths.mean()) if len(turns) else 0.0
    return K1 * (1 - B + B * lengths / max(mean, 1.0))


def _signs(turns: TurnTable) -> NDArray[np.uint16]:
    """Return each message's traits, with a mark if it follows a question in its session."""
    import numpy as np

    def made() -> NDArray[np.uint16]:
        signs = turns.rows["signs"].copy()
        after = np.flatnonzero(signs[:-1] & Trait.QUESTION) + 1
        own = session_of(turns)
        signs[after[own[after] == own[after - 1]]] |= np.uint16(Trait.AFTER_QUESTION)
        return signs

    return turns.once("signs", made)


def nearness(
    turns: TurnTable, times: Sequence[Time], may: NDArray[np.bool_]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return for each message how well its time fits the times named in a question (0 to 1), and
    whether it lies within one of them. If a time has no year, the latest year with messages counts;
    only messages where `may` is True are considered.
    """
    import numpy as np

    fits, inside = np.zeros(len(turns)), np.zeros(len(turns), bool)
    if not times or not may.any():
        return fits, inside
    at, share = turns.rows["at"], 1.0
    first, last = at[may].min(), at[may].max()
    for is_first, span in ((not place, span) for time in times for place, span in enumerate(time)):
        share = 1.0 if is_first else share
        start, stop = instant(span.start), instant(span.stop)
        if span.yearly and (stop <= first or start > last):
            continue
        away = np.maximum(np.maximum(start - at, at - (stop - 1)), 0)
        weight = share * min(1.0, (DAY / (stop - start)) ** SPREAD)
        fits = np.maximum(fits, weight * NEAR / (NEAR + away))
        if share == 1.0:
            inside |= away == 0
        if span.yearly and not away[may].all():
            share = OTHER_YEARS
    return fits, inside


# --- how much memory knows about a message --------------------------------------------------------

FEW = 40
"""This many messages without the words are assumed in addition to the real ones. A lower value
recalls more on small talk in a new memory. A higher value needs more shared words there."""


class Evidence(NamedTuple):
    """How much the best stored message has in common with a text."""

    distinct: float = 0.0
    """The weight of the shared words, divided by ln(messages). A word in only one message has about
    that weight."""
    covered: float = 0.0
    """The weight of the shared words, divided by the weight of all words of the text."""
    is_personal: bool = False
    """Whether the text names a speaker, or has first-person words where speakers have no names."""
    is_of_past: bool = False
    """Whether the text is a question about a past time that has messages."""
    cosine: float | None = None
    """The highest cosine of a message with the text; None without vectors."""


def shared(
    turns: TurnTable,
    names: Sequence[Sequence[str]],
    held: Sequence[Keys],
    may: NDArray[np.bool_],
) -> tuple[Floats, Evidence]:
    """Return for each message the weight of the words that it shares with a text, and the evidence.
    Messages where `may` is False get 0. `held` are, for each word of the text, the places of the
    messages that have it.

    A word weighs ln(messages / messages that have it). Words of small talk weigh nothing.
    Neighbours do not count: they show what a message is about, but contain no answer.
    """
    import numpy as np

    weights, total, messages = np.zeros(len(turns)), 0.0, int(may.sum()) + FEW
    for name, every in zip(names, held, strict=True):
        if len(name) == 1 and name[0] in SMALL_TALK:
            continue
        places = every[may[every]]
        # A word that no message has weighs as much as a word in one message.
        rare = math.log(messages / (max(1, len(places)) + 0.5))
        total += rare
        weights[places] += rare
    best = float(weights.max(initial=0.0))
    return weights, Evidence(best / math.log(messages), best / max(total, 1e-9))
