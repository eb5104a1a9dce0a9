"""Rules on the form of a summary (story): it is finished, does not speak as somebody else, fetches
nothing from a server, and holds no secrets.
"""

from __future__ import annotations

import re

from compact.engine.gate.summary_source import CJK, RuleResult, SummarySource, sentences
from compact.messages.characters import defused
from compact.patterns import regex
from compact.secrets.disguises import disguised
from compact.secrets.redaction import redact
from compact.text.languages import NAMES, language_of
from compact.text.outline import STORY, section_named

SMALLEST = 32
"""A summary of up to this many tokens may be larger than its source: it cannot be shorter."""
LEAST_SPOKEN, LEAST_TOLD = 150, 60
"""Fewest characters of a speaker, and words of a summary, from which a language is recognized."""
LONG_SENTENCE = 20
"""A line of more words than this is a sentence and needs an end."""
_ENDS = frozenset(".!?…。！？；;:)]}\"'`»”*_")
_PAGE = regex(r"\s*(?:<(?:!doctype|html|head|body|\?xml)\b|Traceback \(most recent)", re.I)
_BEFORE = r"^[ >*+•-]{0,8}(?:\d{1,2}[.)] ?)?"
_TITLE = regex(
    _BEFORE + r"#{1,6} ?(?P<hash>[^\n#]{1,60}?)[ #]{0,16}$"
    rf"|{_BEFORE}(?:\*\*|__)(?P<bold>[^\n*_]{{1,60}})(?:\*\*|__):? ?$"
    r"|<(?i:h[1-6]|b|strong|summary|dt|legend|caption)\b[^>\n]{0,200}>(?P<tag>[^<\n]{1,60})<"
    r"|^\d{1,2}[.)] (?P<number>[^\n]{1,60})$"
    r"|^(?P<colon>[^\n:]{1,60}):$|^\[(?P<square>[^\n\]]{1,60})\]$"
    r"|^(?P<under>[^\n]{1,60})\n(?:={3,}|-{3,})$",
    re.MULTILINE,
)
_AROUND = regex(r"^(?:\W|\d{1,2}[.):])+|\W+$")
"""What surrounds a title's words: numbers, punctuation, emoji."""
_OUR_HEADING = regex(
    r"^[^\w\n]{0,8}[\[\u3010][^\w\n]{0,4}(?:Checkpoint|Record|Goals|Prompt|Recalled|Memory)\b",
    re.MULTILINE,
)
_FETCHED = regex(
    r"!\[[^\]]{0,300}\](?:\(|\[)|^\[[^\]\n]{1,80}\]: ?<?(?:https?:|//)"
    r"|<(?:img|image|picture|source|iframe|frame|svg|object|embed|link|video|audio|style|script"
    r"|base|meta|form|input)\b"
    r"|<[a-z][^>]{0,300}\b(?:style|src|srcset|background|poster|on[a-z]{2,20}) ?="
    r"|(?:\]\( ?<?|\b(?:href|action|cite) ?= ?[\"']? ?|^\[[^\]\n]{1,80}\]: ?<?)"
    r"(?:\w{1,20}script|data):",
    re.IGNORECASE | re.MULTILINE,
)
_CODE = regex(r"`[^`\n]{1,200}`")
SPEAKERS = (
    "user|assistant|system|human|developer|tool|ai|model|benutzer|usuario|utilisateur|utente|用户"
)
"""Names of speakers in conversations."""
_SPEAKER = regex(
    rf"^[ >*+•#_-]{{0,8}}[\[<(]?(?:{SPEAKERS})"
    r"(?:[\])>]?[*_]{0,2} ?:(?! ?//)|> |\][*_]{0,2} (?=\S))"
    r"|</?(?:user|assistant|system|human|developer|tool|instructions?|important|directive)\b"
    r"[^>\n]{0,100}>"
    r"|[\"']role[\"'] ?: ?[\"']",
    re.IGNORECASE | re.MULTILINE,
)
_CALL = regex(
    r"</?(?:\w{1,20}:)?(?:function_calls?|invoke|parameter|tool_use|tool_calls?|tool_results?"
    r"|tool_code|function_results?)\b|<function=|\bto=functions\.|^Action Input ?:"
    r"|\"(?:tool_calls|function_call|tool_use)\""
    r"|\"name\" ?: ?\"[^\"]{1,80}\", ?\"(?:arguments|parameters|input)\" ?:",
    re.IGNORECASE | re.MULTILINE,
)
_UNREADABLE = regex(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff\ud800-\udfff\u202a-\u202e\u2066-\u2069"
    r"\U000e0000-\U000e007f]"
)
_LATIN_WORD = regex(r"[A-Za-zÀ-ɏ]{2,}")


def finished(source: SummarySource) -> RuleResult:
    """Check that the summary is complete: no refusal, no error, no broken JSON."""
    text = source.story.text.strip()
    if not text:
        return RuleResult(False, "it is empty")
    if source.story.finish in ("length", "refusal", "tool_calls"):
        how = {"length": "it was cut off", "refusal": "its maker refused to go on"}
        return RuleResult(False, how.get(source.story.finish, "its maker called a tool"))
    if _PAGE.match(text):
        return RuleResult(False, f"the text of an error, {len(text):,} characters")
    if text[0] == "{" or text[:2] in ("[{", '["'):
        return RuleResult(False, f"JSON and no story, {len(text):,} characters")
    if why := _broken_off(text):
        return RuleResult(False, f"it breaks off: {why}")
    return RuleResult(True, f"ended by {source.story.finish!r}")


def _broken_off(text: str) -> str:
    """Return why the last sentence is unfinished. Empty if it is finished, or if few of the other
    lines are.
    """
    lines = [line.rstrip() for line in text.split("\n") if line.strip()]
    last = lines[-1]
    if last[-1] in ".!?…。！？":
        return ""
    if sum(line.lstrip().startswith("```") for line in lines) % 2:
        return "a block of code is open"
    if last[-1] in ",(-–—" or last.count("(") > last.count(")") or last.count("`") % 2:
        return repr(last[-30:])
    others = [line for line in lines[:-1] if line[-1] not in ":#"]
    ended = sum(line[-1] in _ENDS for line in others)
    inside = len(sentences(last)) > 1 or len(last.split()) > LONG_SENTENCE
    if last[-1] not in _ENDS and (2 * ended > len(others) if others else inside):
        return repr(last[-30:])
    return ""


def language(source: SummarySource) -> RuleResult:
    """Check that the summary is in a language of the speakers or of the guidance, as far as code
    can recognize it.
    """
    spoken = {language_of(text) for text in source.samples if len(text) >= LEAST_SPOKEN}
    written = language_of(source.story.text)
    if not spoken or None in spoken:
        return RuleResult(True, "cannot be told of its source")
    if written is None:
        words = len(_LATIN_WORD.findall(source.story.text)) + len(
            re.findall(f"[{CJK}]", source.story.text)
        )
        if words < LEAST_TOLD:
            return RuleResult(True, "cannot be told")
        return RuleResult(False, "of no language that is known")
    if written in spoken or written == language_of(source.request.guidance):
        return RuleResult(True, NAMES[written])
    theirs = " and ".join(sorted(NAMES[code] for code in spoken if code))
    return RuleResult(False, f"{NAMES[written]}, of a conversation in {theirs}")


def cap(source: SummarySource) -> RuleResult:
    """Check that the summary is within the requested tokens, and no larger than its source."""
    tokens = source.counter.text(source.story.text)
    most = min(source.request.max_tokens, max(SMALLEST, source.source_tokens))
    return RuleResult(tokens <= most, f"{tokens:,} of {most:,} tokens")


def secrets(source: SummarySource) -> RuleResult:
    """Check that the summary holds no secret, however it is spelled."""
    found: list[str] = []
    for text in (source.story.text, *source.story.anchors):
        found += redact(text, source.secrets).found
        found += (place.kind for place in disguised(text, source.secrets))
    kinds = ", ".join(dict.fromkeys(found))
    return RuleResult(not found, f"{len(found):,} found: {kinds}" if found else "none found")


def headings(source: SummarySource) -> RuleResult:
    """Check that the summary has no headings except its own. Code writes the others."""
    if found := _OUR_HEADING.search(source.plain):
        return RuleResult(False, f"a heading of ours: {found[0].strip()}")
    for title in _TITLE.finditer(source.plain):
        words = _AROUND.sub("", next(filter(None, title.groups())))
        section = section_named(words)
        if section is None and not (title["number"] or title["colon"]):
            section = section_named(words.rpartition(" ")[2])
        is_code = source.plain.count("```", 0, title.start()) % 2
        if section is None and title["hash"] and "# " in title[0] and not is_code:
            return RuleResult(False, f"a heading of no story: {words.strip()[:60]}")
        if section is not None and section != STORY:
            return RuleResult(False, f"a section of the record: {words.strip()[:60]}")
    return RuleResult(True, "none")


def marks(source: SummarySource) -> RuleResult:
    """Check for control tokens, unreadable characters, and content that is fetched or run."""
    if any(defused(text) != text for text in (source.story.text, source.plain)):
        return RuleResult(False, "a control token of a chat template")
    if _UNREADABLE.search(source.story.text):
        return RuleResult(False, "characters that cannot be read")
    if found := _FETCHED.search(_CODE.sub("``", source.plain)):
        return RuleResult(False, f"what is fetched or run: {found[0].strip()[:40]}")
    return RuleResult(True, "none")


def voices(source: SummarySource) -> RuleResult:
    """Check that the summary has no line of a speaker and no tool call."""
    if found := _SPEAKER.search(source.plain):
        return RuleResult(False, f"a line of a speaker: {found[0].strip()}")
    if found := _CALL.search(source.plain):
        return RuleResult(False, f"a call of a tool: {found[0].strip()[:40]}")
    return RuleResult(True, "none")
