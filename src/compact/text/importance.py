"""Rates a message's importance from 0 to 1. Instructions and requests outrank chatter (C-4).

    importance = min(1, speaker + instruction + question + decision + error + code + recency)

    speaker      system .40 · person .20 · checkpoint .20 · assistant .10 · all others .00
    instruction  .35 × how far a person's best line (`text.instructions`) scores above a plain one
    question     .08 if a person asks
    decision     .12 if the message states a decision (cues of `text.sentences`)
    error        .10 if the message or a tool result names an error
    code         .05 if the message has a code fence
    recency      .15 × 2^(−age / 20), the age in messages

The constants were judged, not measured. When a message is appended, the session stores its score
without recency. A score that the application sets (`SQLiteManager.update_importance_score`) is used
instead. Pinned and protected messages score 1, and those marked as important at least .8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from compact.messages.messages import Message
from compact.text import anchors, sentences
from compact.text.instructions import instructions_in
from compact.text.speakers import Speaker, own_words_of, speaker_of

SPEAKER: Mapping[Speaker, float] = {
    "system": 0.40,
    "person": 0.20,
    "checkpoint": 0.20,
    "assistant": 0.10,
}
INSTRUCTION, QUESTION, DECISION, ERROR, CODE = 0.35, 0.08, 0.12, 0.10, 0.05
"""At most how much each of these adds to the score."""
RECENCY, HALF_LIFE = 0.15, 20.0
"""The bonus for the newest message, and after how many messages the bonus is halved."""
PLAIN = 0.25
"""The instruction score of a plain statement. Only a higher score adds to the importance."""
IMPORTANT = 0.8
"""A message that is marked as important scores at least this."""
LOOKED_AT = 4_000
"""How many characters of a message are read. This bounds the time."""


def importance(message: Message, *, age: float = 0) -> float:
    """Return the importance of a message, 0 to 1. `age` is how many messages came after it."""
    if message.is_pinned:
        return 1.0
    score = message.importance_score
    if score is None:
        score = lasting(message) + RECENCY * math.exp2(-age / HALF_LIFE)
    if message.metadata.important:
        score = max(score, IMPORTANT)
    return min(1.0, score)


def lasting(message: Message) -> float:
    """Return the message's stored score. If it has none, compute its importance without recency."""
    if message.importance_score is not None:
        return message.importance_score
    speaker = speaker_of(message)
    text = message.text[:LOOKED_AT]
    score = SPEAKER.get(speaker, 0.0)
    if speaker == "person":
        found = instructions_in(own_words_of(message)[:LOOKED_AT])
        best = max((x.score for x in found), default=0.0)
        score += INSTRUCTION * max(0.0, best - PLAIN) / (1 - PLAIN)
        score += QUESTION * ("?" in text or "？" in text)
    lines = list(sentences.lines_of(text))
    topics = {sentences.topic_of(line) for line in lines}
    score += DECISION * ("decisions" in topics) + CODE * ("```" in text)
    results = "\n".join(r.text[:LOOKED_AT] for r in message.tool_results)
    score += ERROR * ("errors" in topics or bool(anchors.error_lines(results, most=1)))
    return score


def scored(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with `importance_score` set to their importance."""
    last = len(messages) - 1
    return [
        m.model_copy(update={"importance_score": importance(m, age=last - i)})
        for i, m in enumerate(messages)
    ]
