"""Finds instructions: the user's sentences that compression must keep word for word.

Every sentence of the user's prose is a candidate, since people often state rules without "never" or
"must" ("we only support Linux here", "I'd rather have one file per command"). `score_of` says how
much a sentence reads like an instruction. Pasted logs, code and chatter are left out. Other modules
decide how many candidates fit the budget.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

from compact.patterns import one_of, regex
from compact.text.sentences import REMEMBERED, lines_of, sentences_of

LONGEST = 600
"""A candidate has at most this many characters. A longer line without sentence ends was pasted."""
PASTE_LINES, PASTE_ENDS = 40, 15
"""A message of more than `PASTE_LINES` lines counts as pasted text. Only its first and its last
paragraph are read, at most `PASTE_ENDS` lines of each."""

_STRONG_WORDS = (
    r"never(?! mind\b)|always|must(?:n't)?(?! (?:be|have)\b)|shall|forbidden|"
    r"under no circumstances|make sure|ensure|at all times|from now on|not allowed|stick (?:to|"
    r"with)|hands off|niemals?|nie|immer|muss|müssen|darf|dürfen|keinesfalls|ab (?:jetzt|"
    r"sofort)|finger weg"
)
_STRONG = regex(
    rf"\b{one_of(_STRONG_WORDS)}\b"
    r"|(?:^|[,;:.!—-]\s|\b(?:please|and|but|so|then) )(?:do(?:n't| not)|kein\w*)\b|"
    + one_of("绝不|不要|必须|总是|始终|禁止|只能|务必|一定|不得|不能|一律|统一|不许|别"),
    re.IGNORECASE,
)
_MILD_WORDS = (
    r"please|bitte|exactly|important|wichtig|remember|only|nur|no longer|required?|"
    r"changed? (?:my|our) minds?|at (?:most|least)|no more than|maximum|minimum|höchstens|"
    r"mindestens|should(?:n't)?|need(?:s)? to|have to|has to|want(?:s)?(?: to)?|would like|"
    r"i'd (?:like|rather|prefer)|prefer|instead|rather|keep|use|avoid|let's|don't want|without|"
    r"unless|no need|leave|stay|call it|name it|rename|ideally|looking to|willing to|up to|"
    r"budget|preference|call (?:it|them)|can't|cannot|won't|no \w+ing|can you|could you|"
    r"i think we|we (?:can|could|will|won't|use|support|don't)|it's (?:ok|fine)|supposed|"
    r"expect(?:ed)?|soll(?:te|en|ten)?|gilt|lass(?:t|en)?|brauch(?:e|en|t)|will(?:st)?|möchte|"
    r"lieber|statt|ohne|behalte|verwende|nutze|vermeide"
)
_MILD = regex(
    rf"\b{one_of(_MILD_WORDS)}\b|"
    + one_of("请|应该|需要|希望|想要|改成|改为|使用|保持|避免|最好|优先|采用|之前|先"),
    re.IGNORECASE,
)
_IMPERATIVE = regex(
    r"^(?:and |also |then |now |so |but |ok,? |yes,? |no,? )*"
    r"(?:add|apply|ask|avoid|build|call|change|check|commit|copy|create|delete|do|document|drop|"
    r"explain|fix|focus|follow|give|ignore|"
    r"implement|include|inline|keep|leave|let|limit|make|merge|move|name|only|open|pick|prefer|"
    r"prefix|print|push|put|read|refactor|remove|replace|return|"
    r"revert|rewrite|run|save|set|show|skip|split|start|stop|store|support|take|test|treat|try|"
    r"update|use|verify|wait|write)\b",
    re.IGNORECASE,
)
_CHATTER = regex(
    r"(?:ok(?:ay)?|yes|yep|yeah|no|nope|sure|thanks?(?: you)?|great|good|nice|cool|perfect|"
    r"go(?: on| ahead)?|continue|"
    r"proceed|done|hi|hello|hey|(?:good )?morning|moin|lovely|ouch|wow|fine|convinced|agreed|back|"
    r"next|stop|weiter|ja|nein|danke|gut|好的?|继续|谢谢|可以|是的?)"
    r"(?:[,.!\s]+(?:ok(?:ay)?|yes|please|thanks?|go on|go ahead|continue|do (?:it|that)|"
    r"sounds good|looks good))*[.!?…\s]*",
    re.IGNORECASE,
)
FEW_WORDS = 4
"""A sentence of fewer words is a fragment."""
_CJK = "\u3040-\u30ff\u4e00-\u9fff"
_WORDS = regex(rf"[^\W\d_{_CJK}]{{2,}}|[{_CJK}]")
_CODE = regex(
    r"[{};]\s*$|^\s*(?:import |from \S+ import|def |class |func |const |let |var |return\b|if \(|"
    r"#include)|=>"
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """A sentence that may be an instruction."""

    text: str
    score: float
    """How much the sentence reads like an instruction, 0 to 1."""
    message_id: str
    position: int
    same: str
    """The sentence in lower case with single spaces, to find repetitions."""

    @property
    def is_rule(self) -> bool:
        """Whether the sentence says that it holds beyond its turn. A question never does."""
        is_question = self.text.rstrip().endswith(("?", "？"))
        return not is_question and bool(_STRONG.search(self.text.replace("’", "'")))


def find_instructions(text: str, message_id: str, position: int) -> Iterator[Instruction]:
    """Yield the sentences of a user's text that may be instructions, in order."""
    for line in lines_of(_without_paste(text)):
        for sentence in sentences_of(line):
            if len(sentence) <= LONGEST and (score := score_of(sentence)) > 0:
                same = " ".join(sentence.lower().split())
                yield Instruction(sentence, score, message_id, position, same)


@lru_cache(maxsize=64)  # several readers ask for the same text in turn
def instructions_in(text: str) -> tuple[Instruction, ...]:
    """Return what `find_instructions` finds, without message id and position."""
    return tuple(find_instructions(text, "", 0))


@lru_cache(maxsize=REMEMBERED)
def score_of(line: str) -> float:
    """Return how much a line reads like an instruction, 0 to 1. Chatter, code and data get 0."""
    line = line.replace("’", "'")
    if not 6 <= len(line) <= LONGEST or _CHATTER.fullmatch(line) or _CODE.search(line):
        return 0.0
    words = len(_WORDS.findall(line))
    if words < 2 or words * 14 < len(line):  # more than 14 characters per word are not prose
        return 0.0
    score = 0.25
    if _STRONG.search(line):
        score += 0.4
    if _MILD.search(line):
        score += 0.2
    if _IMPERATIVE.match(line):
        score += 0.15
    if line.rstrip().endswith(("?", "？")):
        score -= 0.12
    if words < FEW_WORDS:
        score -= 0.1
    return max(0.05, min(1.0, score))


def _without_paste(text: str) -> str:
    lines = text.splitlines()
    if len(lines) <= PASTE_LINES:
        return text
    first = list(takewhile(str.strip, lines[:PASTE_ENDS]))
    last = list(takewhile(str.strip, lines[: -PASTE_ENDS - 1 : -1]))
    return "\n".join([*first, *reversed(last)])
