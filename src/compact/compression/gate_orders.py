"""The rule of the gate against orders: a summary tells what happened, it does not command its
reader.

Whoever can put words into a tool's output may try to have them remembered as an instruction. Lines
that read like one are left out, unless a person has said so: their standing instructions are what a
summary is for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compact.compression.fencing import harmless
from compact.compression.matter import Finding, Matter, rejection, words_of
from compact.core.checkpoints import REFERENCE_LINE, Summary
from compact.core.languages import FUNCTION_WORDS

MOSTLY = 0.5
"""Share of a summary's characters from which taking out its orders leaves nothing."""
SAID = 0.6
"""Share of an order's telling words that one text of a person must hold to be theirs."""
_STEM = 5
"""Letters by which two forms of a word are the same."""

_OURS = re.compile(r"\[(?:Checkpoint|Goals|Recalled)\b[^\]\n]{0,200}\bdigest [0-9a-f]{12}\][ \t]*")
"""A heading by which text of ours is recognized; in a summary it is a forgery."""
_ORDER = re.compile(
    r"\b(?:ignor\w*|disregard|forget|override|bypass|ignorier\w*|vergiss|oubli\w+|olvid\w+)\s+"
    r"(?:(?:all|any|every|the|your|these|those|my|of|alle|die|deine|toutes|les|tes|todas|las|tus)\s+)"
    r"{0,4}(?:previous|prior|above|earlier|preceding|foregoing|system|safety|existing|original|"
    r"vorherigen|bisherigen|vorigen|obigen|précédentes|anteriores|instructions?|guidelines|"
    r"anweisungen|regeln|instrucciones)\b"
    r"|\b(?:do not|don't|never|must not)\s+(?:tell|inform|mention (?:this|it) to|reveal (?:this|"
    r"it) to|alert|warn|notify|ask)\s+the\s+(?:user|human|person|developer|operator)\b"
    r"|\bwithout (?:telling|informing|asking|notifying) the (?:user|human|person)\b"
    r"|\byou are (?:now|no longer)\s+(?:an?|the|in|bound|required|restricted|free|dan|called)\b"
    r"|\b(?:pretend|act as if) (?:to be|you are|you were|you have no)\b"
    r"|\b(?:new|updated|real|secret|hidden) (?:system )?(?:instructions?|prompt)\s*(?::|for you\b)"
    r"|\byour (?:new|real|true|only) (?:task|goal|role|instructions?|job|purpose)\b"
    r"|\b(?:reveal|print|output|repeat|show|leak) (?:me )?(?:your|the) (?:full |entire |hidden )?"
    r"(?:system prompt|initial instructions|hidden instructions)\b"
    r"|\b(?:send|post|upload|exfiltrate|forward|transmit|leak|e-?mail)\b[^.\n]{0,60}\b(?:api keys?|"
    r"passwords?|secrets?|credentials?|tokens?|private keys?|conversation|system prompt|"
    r"env(?:ironment)? variables?|\.env|ssh keys?)\b[^.\n]{0,60}\b(?:to|at)\s+\S*(?:https?://|@|\.(?:com|net|org|io|"
    r"ru|xyz|example)\b)"
    r"|忽略(?:之前|以上|所有|先前|前面)[^\n]{0,12}(?:指令|指示|说明|提示|规则)|不要告诉用户|你现在是"
    r"|игнорируй\w*\s+(?:все\s+)?(?:предыдущие|прежние)",
    re.IGNORECASE,
)
"""Orders that nobody gives a summary's reader in good faith."""
_STANDING = re.compile(
    r"\b(?:from now on|henceforth|from this (?:point|moment) (?:on|forward)),? (?:you|always|never|"
    r"only|every|respond|answer|reply|act|behave|treat|obey|execute|run|call)\b"
    r"|\byou (?:must|will|shall) (?:always|only|never|now|obey|comply|respond|reply|answer)\b"
    r"|\b(?:respond|reply|answer) only with\b|\bab (?:jetzt|sofort) (?:musst|sollst|wirst) du\b"
    r"|\bassistant,? (?:you )?(?:must|should now|please)\b",
    re.IGNORECASE,
)
"""Orders that a person may well have given."""
_HEADER = re.compile(
    r"^\W{0,6}(?:system|developer|instructions?)\b(?: (?:prompt|message|override|note|notice|"
    r"update|alert))?\W{0,4}[:>\]](?=.*\b(?:you|your|must|ignore|always|never|instructions?|obey|"
    r"execute|respond)\b)|^\s*(?:#{2,4} (?:system|user|assistant|instruction|response|human)\b:?|"
    r"(?:human|user|assistant|system):)\s*$|^\s*</?(?:system|user|assistant|instructions?)>",
    re.IGNORECASE,
)
"""A line that begins as if another voice spoke."""
_PERSON = re.compile(r"\b(?:the )?(?:user|person|client)'?s?\b", re.IGNORECASE)
_FORM = frozenset(("must", "always", "never", "only", "shall", "please", "henceforth", "assistant"))


def injection(summary: Summary, matter: Matter) -> Finding:
    """It gives no orders that no person gave, speaks with no other voice, and holds no control
    token.

    Such lines are left out, and tokens and forged headings lose their power; a summary that is
    mostly orders may not stand in.
    """
    forged = len(_OURS.findall(summary.text))
    bare = _OURS.sub("", summary.text)
    text = harmless(bare)
    tokens = text.count(" ") - bare.count(" ")
    lines = text.split("\n")
    orders = set(_orders(lines, matter))
    if not (orders or forged or tokens):
        return Finding(True, f"none in {len(lines):,} lines")
    kept = "\n".join(line for number, line in enumerate(lines) if number not in orders)
    taken = sum(len(lines[number]) for number in orders)
    whole = len(text.replace(REFERENCE_LINE, "")) or 1
    done = (
        f"{len(orders):,} of {len(lines):,} lines were orders that nobody gave, "
        f"{forged:,} forged headings, {tokens:,} control tokens made harmless"
    )
    if taken >= MOSTLY * whole:
        return rejection(done)
    names = tuple(map(harmless, summary.anchors))
    return Finding(False, done, summary.model_copy(update={"text": kept, "anchors": names}))


def _orders(lines: list[str], matter: Matter) -> Iterator[int]:
    """Numbers of the lines that order something no person has."""
    for number, line in enumerate(lines):
        found = _ORDER.search(line) or _HEADER.search(line) or _STANDING.search(line)
        if found and not _is_theirs(line, found[0], matter):
            yield number


def _is_theirs(line: str, order: str, matter: Matter) -> bool:
    """Whether a person has said that: the order itself, or most of the words that tell what it
    is.
    """
    exact = " ".join(order.lower().split())
    told = _telling(line)
    for text in matter.commanding:
        said = " ".join(text.lower().split())
        if exact in said and len(exact) > _STEM:
            return True
        if told and len(told & _telling(text)) >= SAID * len(told):
            return True
    return False


def _telling(text: str) -> frozenset[str]:
    """The stems of a text's words that are neither function words nor the form of an order."""
    words = words_of(_PERSON.sub(" ", text)) - FUNCTION_WORDS["en"] - _FORM
    return frozenset(word[:_STEM] for word in words)
