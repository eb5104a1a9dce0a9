"""The importance of a message, 0 to 1. A person's instructions and requests outrank chatter (C-4).

    importance = min(1, speaker + instruction + question + decision + error + code + recency)

    speaker      system .40 · person .20 · checkpoint .20 · assistant .10 · all others .00
    instruction  .35 × the best `text.instructions.score_of` of a person's lines, above plain ones
    question     .08 if a person asks
    decision     .12 if somebody decides (cues of `text.sentences`)
    error        .10 if an error is named
    code         .05 if code stands in fences
    recency      .15 × 2^(−age / 20), the age in messages

The constants are a judgement, not a measurement. A session stores the score without recency when a
message is appended. A score that was given or set (`SQLiteManager.update_importance_score`) counts
instead. Pinned and protected messages score 1, important ones at least .8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from compact.messages.messages import Message
from compact.text import anchors, sentences
from compact.text.instructions import find_instructions
from compact.text.speakers import Speaker, own_words_of, speaker_of

SPEAKER: Mapping[Speaker, float] = {
    "system": 0.40,
    "person": 0.20,
    "checkpoint": 0.20,
    "assistant": 0.10,
}
INSTRUCTION, QUESTION, DECISION, ERROR, CODE = 0.35, 0.08, 0.12, 0.10, 0.05
"""The most that each of these adds to the sum above."""
RECENCY, HALF_LIFE = 0.15, 20.0
"""The bonus of the newest message, and the number of messages after which it has halved."""
PLAIN = 0.25
"""The instruction score of a plain statement, which adds nothing."""
IMPORTANT = 0.8
"""The least score of a message that is marked as important."""
LOOKED_AT = 4_000
"""Characters of a message that are read."""


def importance(message: Message, *, age: float = 0) -> float:
    """Return the importance of a message, 0 to 1. `age` is the number of messages after it."""
    if message.is_pinned:
        return 1.0
    score = message.importance_score
    if score is None:
        score = lasting(message) + RECENCY * math.exp2(-age / HALF_LIFE)
    if message.metadata.important:
        score = max(score, IMPORTANT)
    return min(1.0, score)


def lasting(message: Message) -> float:
    """Return the importance without recency: the message's stored score, if it has one."""
    if message.importance_score is not None:
        return message.importance_score
    speaker = speaker_of(message)
    text = message.text[:LOOKED_AT]
    score = SPEAKER.get(speaker, 0.0)
    if speaker == "person":
        found = find_instructions(own_words_of(message)[:LOOKED_AT], "", 0)
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
    """Return the messages with their importance as their score."""
    last = len(messages) - 1
    return [
        m.model_copy(update={"importance_score": importance(m, age=last - i)})
        for i, m in enumerate(messages)
    ]
