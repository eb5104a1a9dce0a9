"""A hand-over: one text that gives an agent back what a compaction takes from it.

Its parts, in order: what the user said before an earlier compaction, word for word, since a second
summary holds hardly any of it; the present; the names that are likeliest to be needed next; and
long texts that are worth reading again, by their ids. No model is asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from compact import wiring
from compact.engine.checkpoint_text import Composer
from compact.engine.chronology.cutting import Cuttable, gist, squeezed
from compact.engine.chronology.items import MUST_STAY, PASTED, Item, sized
from compact.engine.chronology.names import listed
from compact.engine.chronology.notes import Notes, notes_of
from compact.engine.history import History
from compact.engine.visible import NOTHING, VisibleText
from compact.errors import InvalidArgument
from compact.messages.formats.known import format_named, format_of
from compact.messages.given import Given, messages_given
from compact.messages.messages import Message, short_id
from compact.messages.protocols import TokenEstimator
from compact.messages.tokens import TokenCounter
from compact.secrets.redaction import redact
from compact.secrets.redactor import NOTHING_ELSE, Redactor
from compact.session.prompt_overhead import checked_size
from compact.text.sentences import bare, beginning, plain
from compact.text.speakers import person_text

USUAL = 1_000
"""Tokens of a text if no limit is given. Coding programs take up to 10,000 characters."""
SAID_SHARE, STATE_SHARE = 0.4, 0.5
"""Shares of the room for the user's earlier words, and for the present with names. How to read the
rest goes before names, and takes at most as much as the words."""
LONG_MESSAGE, FIRST_WORDS = 0.3, 50
"""`LONG_MESSAGE`: the share of the room for words that one message may take. Of a longer message,
head and tail are quoted. `FIRST_WORDS`: how many characters of each message are quoted first."""
POINTERS, LEAST_WORDS, LEAST_POINTS, TITLE = 3, 60, 4, 60
"""`POINTERS`: how many long texts are named. `LEAST_WORDS`: a text of at least this many words is
long. `LEAST_POINTS`: list items are counted if there are at least this many. `TITLE`: the most
characters of a title."""
LONG, HEADINGS = 2_000, 20
"""`LONG`: if the limit is at least this many tokens, the text also tells what was done and
answered. `HEADINGS`: tokens reserved for the headings.
"""
CHARS_PER_TOKEN, TRIES = 3, 4
"""`CHARS_PER_TOKEN`: characters of a token in a list of names (prose has four). `TRIES`: how often
a text with too many characters is made again, smaller.
"""


def handover(
    messages: Sequence[Given],
    *,
    max_tokens: int | None = None,
    max_chars: int | None = None,
    since: int = 0,
    originals: str = "",
    tokenizer: str | TokenEstimator | None = None,
    redactor: Redactor | None = None,
) -> str:
    """Return what an agent needs after these messages left its context, as text for its prompt.

    The text has at most `max_tokens` tokens and `max_chars` characters (default: 1,000 tokens).
    What does not fit is left out; there is no least size. Secrets are masked. A person's messages
    before position `since` are quoted: those that an earlier summary stands for. `originals` is a
    sentence for the agent on how to read a message by its id; it stands at the end of the text,
    unless it takes over two fifths of the limit. `tokenizer` is as in `compress`.

    Raises:
        InvalidMessage: a message is malformed; the text names the field.
        InvalidArgument: a limit is not a positive whole number.
    """
    limit = USUAL if max_tokens is None else checked_size("max_tokens", max_tokens)
    if max_chars is not None:
        if isinstance(max_chars, bool) or not isinstance(max_chars, int) or max_chars < 1:
            raise InvalidArgument("max_chars", f"max_chars must be at least 1, got {max_chars!r}")
        room = max_chars // CHARS_PER_TOKEN
        limit = room if max_tokens is None else min(limit, room)
    given = messages_given(messages)
    last = given[-1] if given else None
    name = last.wire_format if isinstance(last, Message) else None
    wire = format_named(name or "chat_completions") if name else format_of(given)
    counter = wiring.token_counter(wire.name, tokenizer=tokenizer)
    history = History(given, wire, counter)
    history.secrets.redactor = redactor or NOTHING_ELSE
    notes = notes_of(history)
    body, ways, most = "", "", math.inf if max_chars is None else max_chars
    for _ in range(TRIES):
        ways = _ways(notes, counter, limit, originals)
        parts = _parts(notes, history, limit, since, counter.text(ways) + HEADINGS)
        body = redact("\n\n".join(filter(None, parts)), history.secrets).text
        ways = redact(f"\n\n{ways}" if ways else "", history.secrets).text
        if len(body) + len(ways) <= most:
            break
        limit = int(limit * most / (len(body) + len(ways)))
    body = _clipped(body, counter, limit - counter.text(ways), most - len(ways))
    return _clipped(f"{body}{ways}".strip(), counter, limit, most)


def _parts(notes: Notes, history: History, limit: int, since: int, taken: int) -> Iterator[str]:
    counter = history.counter
    said = _said(notes, history, int(SAID_SHARE * limit), since)
    if said:
        yield f"## The user said before\n{said}"
    room = limit - counter.text(said) - taken
    if limit >= LONG:
        yield Composer(notes, counter, VisibleText([said])).written(None, room)
    else:
        yield from _state(notes, counter, min(int(STATE_SHARE * limit), room), said)


def _state(notes: Notes, counter: TokenCounter, room: int, said: str) -> Iterator[str]:
    """Yield the present, and with the rest of the room names, which the summary lacks most."""
    now = Composer(notes, counter).now(room)
    if now:
        yield f"## Now\n{now}"
    left = room - counter.composed(f"## Now\n{now}\n\n## Names\n")
    if names := listed(notes, f"{said}\n{now}", left, counter, NOTHING):
        yield f"## Names\n{names}"


def _said(notes: Notes, history: History, room: int, since: int) -> str:
    """Quote the user's messages before a position in their order. As many as fit are quoted by
    their first words, then as many of those as fit by all of them. The demands come first, and then
    the newest.
    """
    rows = [x for x in notes.items.rows if x.kind in ("request", "aside") and x.position < since]
    rank = sorted(range(len(rows)), key=lambda i: (rows[i].demands >= MUST_STAY, i), reverse=True)
    quotes, costs, left = dict[int, str](), dict[int, int](), room
    for in_full in (False, True):
        for at in rank:
            quote = _quoted(rows[at], history, int(LONG_MESSAGE * room) if in_full else 0)
            cost = history.counter.text(quote) + 1
            if (at in quotes or not in_full) and cost - costs.get(at, 0) <= left:
                left -= cost - costs.get(at, 0)
                quotes[at], costs[at] = quote, cost
    gone = len(rows) - len(quotes)
    left_out = [f"[{gone:,} messages of the user are left out]"] * bool(gone)
    return "\n".join([*(quotes[at] for at in sorted(quotes)), *left_out])


def _quoted(item: Item, history: History, most: int) -> str:
    """Quote a message in about `most` tokens; with 0 only its first words."""
    text = sized(item, history.counter).text
    if item.kind == "request" and PASTED in item.text:  # the message may begin with what was pasted
        text = Cuttable(squeezed(person_text(history.redacted(item.position))), history.counter)
    if most:
        words = text.within(most, short_id(item.message_id))
        asked = f"to “{item.before}”: " if item.before else ""
        return f"- {asked}{words}".replace("\n", "\n  ")
    words = beginning(text.text, FIRST_WORDS)
    return f"- {words}{' …' * (len(words) < len(text.text))}"


def _ways(notes: Notes, counter: TokenCounter, limit: int, originals: str) -> str:
    """Return how to read what is left out: the caller's sentence, and long texts by their ids. Of
    these the newest that fit are named.
    """
    pointers = [_pointer(item) for item in _longest(notes)]
    for first in range(len(pointers) + 1):
        named = "; ".join(pointers[first:])
        named = f"Long messages, by their ids: {named}" if named else ""
        text = " ".join(filter(None, (originals, named)))
        if counter.text(text) <= SAID_SHARE * limit and notes.items.rows:
            return text
    return ""


def _longest(notes: Notes) -> list[Item]:
    """Return the assistant's texts with the most information, in order."""
    said = (x for x in notes.items.rows if x.kind in ("closing", "said"))
    rows = [x for x in said if len(x.text.split()) >= LEAST_WORDS]
    best = sorted(rows, key=lambda x: (_points(x.text), x.info, x.position), reverse=True)
    return sorted(best[:POINTERS], key=lambda x: x.position)


def _pointer(item: Item) -> str:
    lines = [line for line in item.text.splitlines() if line.strip()]
    titles = (bare(line) for line in lines if line.startswith("#"))
    title = next((x for x in titles if " " in x), "") or plain(gist(item.text, 2 * TITLE))
    points = _points(item.text)
    size = f"{points} points" if points >= LEAST_POINTS else f"{len(item.text.split()):,} words"
    return f"{short_id(item.message_id)} (“{beginning(title, TITLE)}”, {size})"


def _points(text: str) -> int:
    """Return how many list items a text has."""
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return sum(bare(line) != plain(line) for line in lines if line.strip())


def _clipped(text: str, counter: TokenCounter, limit: int, most: float) -> str:
    """Drop lines from the end, then characters, until the text fits."""
    while text and (counter.text(text) > limit or len(text) > most):
        shorter = text.rpartition("\n")[0].rstrip()
        text = shorter or text[: len(text) * 3 // 4]
    return text
