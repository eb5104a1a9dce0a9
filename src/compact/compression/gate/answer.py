"""Rules of the gate that look at the answer as a whole: is it a finished summary at all?

They need no fact of the source: what a model hands back that failed, refused, repeated what it was
given, wrote another language or mere noise.
"""

from __future__ import annotations

import json
import re

from compact.compression.extraction.extractive import ORDER
from compact.compression.extraction.notes import LISTED, Notes
from compact.compression.gate import echoes, noise
from compact.compression.gate.matter import (
    HEADING,
    MOST_ANCHORS,
    Finding,
    Matter,
    is_ended,
    rejection,
    telling,
    with_text,
)
from compact.core.checkpoints import REFERENCE_LINE, Summary
from compact.core.languages import NAMES, language_of
from compact.core.messages import visible_texts
from compact.core.voices import voice_of

SECTIONS_FROM = 200
"""Tokens of cap and source from which a summary of a task's state is asked for sections, and tokens
of its source from which it has something to say."""
ECHO_SHARE = 0.5
LISTED_SHARE = 0.8
"""Share from which a summary that keeps a person's lists is nothing else."""
UNLISTED = 1 / 3
"""Share of a summary's lines without bullets from which those beside them hide no copy: copies of
real sessions have 0.41 at least. Lines that are taken over one by one all have bullets."""
LOOP_SHARE = 0.5
TRANSCRIPT_SHARE = 0.5
"""Shares of a summary from which it counts as copied, looped or a transcript (`echoes`)."""
SHORT = 900
"""Characters up to which a text may be nothing but a refusal or an error."""
LONG_SOURCE, LEAST_WORDS, FEW_WORDS = 60, 4, 10
"""Tokens of a source from which a summary has so many words at least, and up to the second number
of words at least half of the long ones, and ..."""
LEAST_KNOWN = 2
"""... so many, are the source's."""
TOLD_WORDS, LONG = 20, 60
"""Telling words from which a summary must be about its source, and from which it is a long one."""
LONG_WORD = 4
"""Letters of a word's stem from which it is looked for."""
KNOWN, KNOWN_LONG = 0.45, 0.78
"""Shares of those words that the source must know where a summary names none of its names, and
where a long one names none of `MANY_NAMES`. Summaries of real sessions name 18 of 60 at least, and
know 0.78 to 0.97."""
MANY_NAMES = 20
LEAST_SPOKEN = 150
"""Characters of a voice from which its language counts; what cannot be told then is a mixture."""
_WORDS = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]|[^\W\d_\u3040-\u9fff\uac00-\ud7af]{2,}")
_REFUSES = re.compile(
    r"(?:sorry\b|i(?:'m| am) (?:(?:very |so |really )?sorry|unable to|not able to|afraid)|"
    r"i apologi[sz]e|my apologies|unfortunately,? i (?:can|am|'m|won't)|as an? (?:ai|language|"
    r"large|artificial)\b|i (?:can(?:'t|not|no)|can not|won't|will not|must decline|decline)\b"
    r"[^.\n]{0,40}\b(?:help|assist|comply|summari[sz]e|provide|fulfil|do that|continue|process|"
    r"access|create)|"
    r"tut mir leid|es tut mir|entschuldigung|leider kann ich|als (?:ki|sprachmodell|künstliche)\b|"
    r"ich kann (?:dabei|dir|ihnen|diese[rsmn]?|das|hierbei|leider)[^.\n]{0,60}nicht|"
    r"(?:je suis )?désolée?\b|en tant qu(?:'|e )(?:ia|intelligence|mod[eè]le|assistant)|je ne peux|"
    r"lo siento|lo lamento|como (?:modelo|ia|inteligencia|asistente)|no puedo|"
    r"mi dispiace|come (?:modello|ia|intelligenza|assistente)|non posso|"
    r"desculpe|sinto muito|lamento|como (?:um )?(?:modelo|ia|uma ia)|não posso|"
    r"het spijt me|helaas kan ik|als (?:ai|taalmodel)|przepraszam|niestety nie mog|"
    r"jako (?:ai|model)|tyvärr kan jag|förlåt|jag är ledsen|jag kan inte|üzgünüm|maalesef|"
    r"bir yapay zeka|"
    r"извините|простите|к сожалению|как (?:ии|языковая|искусственный)|я не могу|"
    r"(?:很|非常)?(?:抱歉|对不起|對不起)|作为(?:一个|一名)?(?:ai|人工智能|语言模型|大型)|我(?:无法|不能)|"
    r"申し訳|すみません|ごめんなさい|죄송|미안)",
    re.IGNORECASE,
)
"""How a refusal opens, in several languages."""
_FAILS = re.compile(
    r"<(?:!doctype|html|head|body|\?xml)\b|traceback \(most recent call last\)|"
    r"(?:(?:http/?[\d.]*|error|status)(?: code)?[: ]*)*\b[45]\d\d\b(?!\s*(?:tokens|files|lines|"
    r"tests|rows|messages|items))|(?:internal server error|bad gateway|service (?:temporarily )?"
    r"unavailable|gateway time-?out|too many requests|rate limit|upstream |connection (?:refused|"
    r"reset|timed)|context length exceeded|(?:api|server|request|model|runtime)? ?error\s*:)",
    re.IGNORECASE,
)
"""How the page or the text of a failed call opens."""
_ERROR_KEYS = frozenset(("error", "errors", "detail", "fault", "exception", "status", "code"))
_TITLES = frozenset(title.lower() for title in ORDER) - _ERROR_KEYS
"""Keys of a summary that a server has held to a schema."""
_LINE_OF_OURS = re.compile(r"^- \d+ more, .*$|^- (?:First|Last) asked[^:]*: ", re.MULTILINE)


def pins(_: Summary, matter: Matter) -> Finding:
    """No message that must stay word for word is among those it stands in for."""
    pinned = [m.id for m in matter.request.messages if m.is_pinned]
    if pinned:
        return rejection(f"{len(pinned):,} pinned messages would be covered: {pinned[0]}")
    return Finding(True, f"none among {len(matter.request.messages):,} messages")


def finish(summary: Summary, matter: Matter) -> Finding:
    """It was written to its end, and is an answer: no refusal, no error's text.

    One that was cut off loses its last, unfinished line, if anything is left then.
    """
    if summary.finish == "refusal":
        return rejection("its maker refused to go on")
    said = summary.text.replace(REFERENCE_LINE, "").strip()
    if not said and matter.source_tokens > SECTIONS_FROM and not isinstance(summary.memo, Notes):
        return rejection(f"it says nothing of {matter.source_tokens:,} tokens")
    if reason := failed(summary.text):
        return rejection(reason)
    if summary.finish != "length":
        return Finding(True, f"ended by {summary.finish!r}")
    lines = summary.text.rstrip().split("\n")
    cut = "" if is_ended(lines[-1]) else lines.pop()
    while lines and (not lines[-1].strip() or HEADING.match(lines[-1])):
        lines.pop()
    kept = "\n".join(lines)
    if not HEADING.sub("", kept).replace(REFERENCE_LINE, "").strip():
        return rejection("cut off, and no whole line is left")
    done = f"cut off; {len(cut):,} characters of an unfinished line taken out"
    return Finding(False, done, with_text(summary, kept))


def failed(text: str) -> str:
    """Why a text is no answer; empty where it may be one."""
    bare = text.replace(REFERENCE_LINE, "").strip()
    if _is_error_object(bare):
        return f"the text of an error, {len(bare):,} characters"
    if len(bare) > SHORT and not bare.startswith("<"):
        return ""
    opening = bare.lstrip("*_#> \n").replace("’", "'")
    if _FAILS.match(opening):
        return f"the text of an error, {len(bare):,} characters"
    if "\n## " not in f"\n{bare}" and _REFUSES.match(opening):
        return f"a refusal of {len(bare):,} characters"
    return ""


def _is_error_object(text: str) -> bool:
    if text[:1] not in ("{", "["):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return '"error"' in text[:SHORT]
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict) or not _ERROR_KEYS.intersection(value):
        return False
    return not {str(key).lower() for key in value}.intersection(_TITLES)


def echo(summary: Summary, matter: Matter) -> Finding:
    """It is no copy of its source or of the prompt, no loop, and no transcript."""
    copied = copied_of(summary, matter)
    request = matter.request
    named = (*request.goals, *request.open_tasks, request.guidance)
    recited = echoes.recited(summary.text, matter.prompt, named)
    looped = echoes.looped(summary.text, matter.source)
    spoken = echoes.spoken(summary.text)
    said = (
        f"{'all' if copied.whole else f'{copied.share:.0%}'} copied in one piece or long ones, "
        f"{recited:.0%} our orders, {looped:.0%} repeated, {spoken:.0%} of the lines a speaker's"
    )
    is_copy = copied.whole or max(copied.share, recited) >= ECHO_SHARE
    passed = not is_copy and looped < LOOP_SHARE and spoken < TRANSCRIPT_SHARE
    share = max(1.0 if copied.whole else copied.share, recited, looped, spoken)
    return Finding(passed, said, share=share, rejects=not passed)


def copied_of(summary: Summary, matter: Matter) -> echoes.Copied:
    """What of it is copied from the source or from what was said there.

    Bullets are compared where it has other lines, too, with what assistants and tools said: the
    lists of an earlier summary may be told again, and a person's requirements word for word, unless
    hardly anything stands beside them.
    """
    sources = ([matter.prompt, *matter.source], matter.spoken)
    runs = [echoes.copied(summary.text, source) for source in sources]
    if echoes.unlisted(summary.text) >= UNLISTED:
        voices = [(voice_of(message), message) for message in matter.request.messages]
        heard = [(voice, message) for voice, message in voices if voice != "checkpoint"]
        others = [message for voice, message in heard if voice != "person"]
        spoken = [message.text for voice, message in heard if voice == "assistant"]
        listed = (list(visible_texts(others)), spoken)
        runs += [echoes.copied(summary.text, source, lists=True) for source in listed]
        everyone = (list(visible_texts(message for _, message in heard)), matter.spoken)
        of_all = (echoes.copied(summary.text, source, lists=True) for source in everyone)
        runs += [run for run in of_all if run.share >= LISTED_SHARE]
    return echoes.Copied(max(x.share for x in runs), any(x.whole for x in runs))


def garbage(summary: Summary, matter: Matter) -> Finding:
    """Its words stand together as they do in its source or in a language; it is no noise.

    What was put together from notes holds nothing but what the messages say, however odd that is.
    """
    if isinstance(summary.memo, Notes):
        return Finding(True, "put together from notes")
    found = noise.read(summary.text, matter)
    return Finding(not found.is_noise, found.detail, share=found.share, rejects=found.is_noise)


def substance(summary: Summary, matter: Matter) -> Finding:
    """It says more than a word or two of its source: names and rules that code appends would hide
    that it says nothing. A few words more are its source's own: what they mean cannot be told.
    """
    if isinstance(summary.memo, Notes) or matter.source_tokens < LONG_SOURCE:
        return Finding(True, "none asked for")
    words = _WORDS.findall(_prose(summary.text).lower())
    if len(words) >= FEW_WORDS:
        return Finding(True, f"{len(words):,} words")
    said = "\n".join((*matter.source, *matter.beside, *matter.strings)).lower()
    telling_ones = [word for word in words if len(word) >= LONG_WORD or not word.isascii()]
    known = sum(word in said for word in telling_ones)
    enough = len(words) >= LEAST_WORDS and known >= max(len(telling_ones) / 2, LEAST_KNOWN)
    detail = f"{len(words):,} words, {known:,} of {len(telling_ones):,} long ones known"
    return Finding(enough, detail, rejects=not enough)


def subject(summary: Summary, matter: Matter) -> Finding:
    """It tells of its source: it names something of it, or knows most of its words.

    What a model makes up, or tells of another conversation, reads well and does neither.
    """
    if isinstance(summary.memo, Notes):
        return Finding(True, "put together from notes")
    prose = _prose(summary.text)
    words = [stem for stem in telling(prose) if len(stem) >= LONG_WORD]
    asked = matter.likeliest(MOST_ANCHORS)
    named = sum(name in summary.text for name, _ in asked)
    spoken = {language_of(text) for text in matter.samples}
    if named or len(words) < TOLD_WORDS or language_of(prose) not in spoken | {None}:
        return Finding(True, f"{named:,} of {len(asked):,} key entities named")
    said = "\n".join((*matter.source, *matter.beside, *matter.strings)).lower()
    share = sum(stem in said for stem in words) / len(words)
    least = KNOWN_LONG if len(words) >= LONG and len(asked) >= MANY_NAMES else KNOWN
    detail = f"none of {len(asked):,} key entities named, {share:.0%} of its words known"
    return Finding(share >= least, detail, share=share, rejects=share < least)


def language(summary: Summary, matter: Matter) -> Finding:
    """It is written in a language of those who spoke, where both can be told.

    What was put together from notes is in the words of the messages, in whatever share.
    """
    if isinstance(summary.memo, Notes):
        return Finding(True, "put together from notes")
    written = language_of(_prose(summary.text))
    if written is None:
        return Finding(True, "cannot be told")
    spoken = {language_of(text) for text in matter.samples if len(text) >= LEAST_SPOKEN}
    wished = language_of(matter.request.guidance)
    if not spoken or None in spoken or written in spoken or written == wished:
        return Finding(True, NAMES[written])
    theirs = " and ".join(sorted(NAMES[code] for code in spoken if code))
    return rejection(f"{NAMES[written]}, of a conversation in {theirs}")


def _prose(text: str) -> str:
    """The summary without its headings, its lists of names, and the lines of ours."""
    blocks = re.split(r"^## ", text.replace(REFERENCE_LINE, ""), flags=re.MULTILINE)
    told = [blocks[0]]
    for block in blocks[1:]:
        title, _, body = block.partition("\n")
        if title not in LISTED:
            told.append(body)
    return _LINE_OF_OURS.sub("", "\n".join(told))


def size(summary: Summary, matter: Matter) -> Finding:
    """It says something, and is no larger than what it stands in for."""
    if not summary.text.strip():
        return rejection("it is empty")
    tokens = matter.counter.text(summary.text)
    said = f"{tokens:,} for a source of {matter.source_tokens:,} tokens"
    return Finding(tokens <= matter.most, said, rejects=tokens > matter.most)


def cap(summary: Summary, matter: Matter) -> Finding:
    """It is within the tokens that were asked for."""
    tokens, most = matter.counter.text(summary.text), matter.request.max_tokens
    return Finding(tokens <= most, f"{tokens:,} of {most:,} tokens", rejects=tokens > most)


def sections(summary: Summary, matter: Matter) -> Finding:
    """A longer summary of a task's state has at least one of the sections that are known.

    Prose without any is read as prose when it is carried on: it is worth less, not worthless.
    """
    known = [title for title in HEADING.findall(summary.text) if title in ORDER]
    if known:
        return Finding(True, f"{len(known):,} of {len(ORDER):,} known ones")
    smaller = min(matter.request.max_tokens, matter.source_tokens)
    if matter.request.strategy != "task_state" or smaller <= SECTIONS_FROM:
        return Finding(True, "none asked for")
    if summary.text.strip() == REFERENCE_LINE:
        return Finding(True, "there was nothing to tell")
    return Finding(False, "none of the known ones")
