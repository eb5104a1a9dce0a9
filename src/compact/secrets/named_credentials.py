"""Finds credentials that have a name: `password=…`, `"api_key": "…"`, "the password for the server
is …".

The name must mark its value as a secret. The value must look like one: not like a placeholder, a
reference in code or a word. Each pattern takes linear time: repetitions are bounded, or end at a
character that no other part matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from compact.secrets.credentials import Place, SecretFinder
from compact.secrets.near_names import TO, words_of
from compact.secrets.occurring import Spots
from compact.secrets.secret_values import (
    Check,
    is_bare_password,
    is_jumbled,
    is_knotted,
    is_password,
    is_phrase,
    is_secret,
    is_set_password,
    is_spaced_password,
    is_spoken_password,
    is_strong_password,
    is_token,
)

_COMMON_NAMES = (
    r"passwor[dt]|passwd|pass ?phrase|passcode|pass|pwd|pw|kennwort|contraseña|mot de passe|пароль|"
    r"identified by|psk|community|"
    r"密码|口令|パスワード|secret|token|key|密钥"
)
_RARE = "|".join(
    (
        "convertto-securestring",
        *sorted(words_of("key name"), key=len, reverse=True),
        *(name for name in words_of("password") if not re.fullmatch(_COMMON_NAMES, name)),
    )
)
"""Names that are rare in texts. They may have endings."""
_COPULAS = f"(?:{'|'.join(words_of('copula'))})(?: (?:now|still|currently|jetzt))?"
_ARROW = "(?:[-=~]{1,2}>?|[–—…→⇒➔➜]|\\.{3,40})"
_KINDS_OF_ONE = (
    r"(?:[_ -]?(?:\d{1,2}|base|prod(?:uction)?|dev|staging|live|test|input|value)\b)?(?:\.value)?"
    r"(?: \([^()\n]{1,40}\)(?=[ ]?[:=]))?"
    rf"(?:(?: (?:has been|{_COPULAS}))? (?:generated|set|created|reset|changed))?"
)
_OF_WHAT = (
    rf"(?P<of> {TO}(?: [\w.'@%/-]{{1,24}}){{1,4}}(?: \([^()\n]{{1,48}}\))?"
    rf"(?=[ ]?[:=：]| {_COPULAS} | to | {_ARROW} ))?"
)
"""What the password is for, between the name and the assignment."""
_OPENS = r"(?=[bflnru@]?\\{0,3}[\"'`])"
_SPACE = r"[ \t\u00a0\u202f]"
_GAP = r"\s{0,24}(?:\d{1,6}(?:→|\t|[:|])[ \t]{0,16})?\\{0,3}[\"']?"
"""White space, which may contain the number of the next line."""
_IS = r"\\{0,3}[\"']?[ \t]{0,8}[=:][ \t]{0,4}"
_FIELD = (
    rf"(?:{_GAP}[\w-]{{1,16}}{_IS}[^\s,{{}}][^\n,{{}}]{{0,60}}[,\n]"
    r"|[ ]{1,4}[\w-]{1,24}=[\"'][^\"'\n]{0,40}[\"'])"
)
"""Other fields between the name and the field that holds the value."""
_TYPED = rf"(?:\[\d{{0,4}}\]|[?!]?:[ ]?[a-z&][\w.<>\[\]|?& ]{{0,32}}?|[ ]string)[ ]?=[ ]?{_OPENS}"
_WRAPPED = (
    r"(?:(?:new |&)?(?:[\w.]{1,24}(?:\.|::))?(?:\[\]byte|from|fromhex|b64decode|unhexlify|bytes|"
    rf"string|str|some|secretstr|sensitive|decode|sha256)\({_OPENS}|\(\s{{0,24}}{_OPENS}|"
    rf"[>|][+-]?[ ]?\n\s{{1,24}}|\n\s{{1,24}}{_OPENS})?"
)
"""A call or a block that turns a text into a value."""
_ASSIGNS = (
    r"(?:\\{0,3}[\"'`]\]?|\*\*|\})?(?:"
    rf"{_TYPED}|\{{{_OPENS}|(?:{_SPACE}{{0,4}}[:=])?{_SPACE}{{0,4}}(?:\{{|,|(?=\s))(?:{_FIELD}){{0,3}}{_GAP}"
    rf"(?:val|v|value|default|plaintext|stringvalue){_IS}"
    rf"|[ \t]?(?:(?:\|\||\?\?)=?|or)[ \t]?{_OPENS}"
    rf"|{_SPACE}{{0,4}}(?:=>|<-|:=|={{1,2}}|[:：\uff1d|]|%3[ad])(?:\*\*)?{_SPACE}{{0,4}}{_WRAPPED}"
    rf"|[ \t]{{1,3}}{_ARROW}[ \t]{{1,3}}|['’]s[ \t]"
    r"|(?:[)\]?][ \t]?|[ ]?\((?:default:)?)(?=\S{0,64}\d)"
    rf"|[ \t]{{1,2}}{_COPULAS}:?[ \t]{{1,2}}|[ \t]?[是为は는은][ \t]?"
    rf"|[ \t]{{1,3}}(?:to[ \t]{{1,3}})?(?:{_OPENS}|(?=\S{{0,64}}\d))|\({_OPENS}|,[ \t]?{_OPENS}"
    r"|(?: [\w-]{1,24}=\"[^\"\n]{0,40}\"){0,3}>|['\"\])]{0,3}[ \t]?(?:<[^<>\n]{1,60}>\s{0,8}){1,4})"
)
_BEFORE, _BEHIND = 64, 512
"""How many characters are read before a name, and from its start to the assignment's end."""
_NAME = re.compile(f"(?P<name>{_COMMON_NAMES}){_KINDS_OF_ONE}{_OF_WHAT}{_ASSIGNS}")
_RARE_NAME = re.compile(rf"(?P<name>{_RARE})[^\W\d_]{{0,3}}(?: -string)?{_OF_WHAT}{_ASSIGNS}")
"""The end of a name that marks a secret, and the assignment. Both are matched in lower case."""
_FLAGS = f"(?:^|\\s)--?(?:[a-z]{{1,16}}-){{0,3}}[a-z]{{0,8}}(?:{_COMMON_NAMES})"
_FLAG = re.compile(
    rf"(?:^|\s)--?(?:[a-z]{{1,16}}-){{0,3}}[a-z]{{0,8}}?(?P<name>{_COMMON_NAMES})(?P<of>) {{1,3}}"
)
_KEY_OF = re.compile(
    r"(?:api|access|secret|private|auth|account|signing|encryption|master|service|shared|client|"
    r"app|application|server|admin|deploy|webhook|hmac|jwt|aes|storage|subscription|consumer|"
    r"license|licence|routing|write|read|ingest|sdk|unseal|recovery|setup|backup|integration|"
    r"instrumentation|cluster|session|data|root|consumer)[_ -]?\Z"
    r"|(?<![\w-])x-(?:[a-z]{1,16}-){1,3}\Z"
)
"""Words before `key` that show that the key is a secret. Other keys belong to tables and maps."""
_NO_SECRET_OF = re.compile(
    r"(?:public|publishable|cache|primary|foreign|partition|sort|gpg|idempotency|surrogate|object|host|from)"
    r"[_ -]?\Z"
)
_AWS = re.compile(r"(?:secret[_ -]?access|aws[_ -]?secret)[_ -]?\Z")
_NO_TOKEN = re.compile(
    r"(?:eos|bos|pad|unk|sep|cls|mask|stop|next|page|continuation|cursor|sync|resume|delta)_?\Z"
)
"""Words before `token` that show that it is no secret: it is of a vocabulary or a page list."""
_IN_TAG = re.compile(r"<[\w:.-]{0,32}(?: [\w-]{1,16}=\"[\w.:-]{0,64})?\Z")
_VARIABLE = re.compile(r"[A-Z0-9_]{3,}\Z")
_DEFINES = re.compile(r"#define \w*\Z")
_JOINT = (
    r"[\"'](?:\s{0,4}(?:\+|\.{1,2}|&|\\)\s{0,24}|\s{0,4}\n\s{0,24}(?!\S{0,64}[\"']\s?[:=]))"
    r"[bfr]?[\"']"
)
"""The text that joins two halves of a quoted text."""
_JOINTS = re.compile(_JOINT)
_QUOTED = re.compile(
    rf"[bflnruLNRU@]{{0,2}}\\{{0,3}}[\"'`]((?=[^\"'`]{{5}}|\w*{_JOINT})"
    rf"[^\s\"'`\\]+(?:{_JOINT}[^\s\"'`\\]+)*)"
)
_SPACED = re.compile(r"[bfru]?\\{0,3}([\"'`])([^\"'`\\\n]{8,64})\\{0,3}\1")
_WIDE = re.compile(
    r"((?:[^\s\"'`\\&;,@<=\u3000-\u303f\uff00-\uff0f\uff1a-\uff20]|&(?!&|[A-Za-z_-]{1,32}=)|"
    r";(?![A-Za-z_ -]{1,32}=)|,(?![\w -]{1,32}[=:])|@(?![A-Za-z0-9-]{1,63}[.:/])|"
    r"<(?!/)|=(?![a-z]{5})){5,256})"
)
"""An unquoted value. It ends before a query's next parameter, a URL's host, or another assignment.
It may contain brackets, commas and other marks."""
_NARROW = re.compile(r"[^;,|<>(){}\[\]:=\u2e80-\uffff]{5,}={0,2}")
"""The part of an unquoted value that cannot belong to the text around it."""
Span = tuple[int, int]
_CLOSES = ".,;:)]}>?"
_PHRASE = re.compile(
    r"\\{0,3}[\"'`]([a-z]{2,12}(?:[ -][a-z]{2,12}){2,24})"
    r"|((?!the )[a-z]{3,12}(?:[ -](?!the )[a-z]{3,12}){3,24})[ \t]{0,8}(?:[\r\n]|\Z)"
)
"""Words in quotes or up to the line's end, of three letters or more each."""
_FAMILIES: tuple[tuple[str, str, Check, Check], ...] = (
    ("secret", "secret", is_secret, is_secret),
    ("token|токен|トークン|토큰|令牌", "token", is_secret, is_token),
    ("key|api|密钥", "api_key", is_secret, is_secret),
    ("", "password", is_password, is_bare_password),
)
"""Each row: part of a name, its value's kind, the checks of a quoted and an unquoted value."""


def _values_of(pattern: re.Pattern[str], spots: Spots, text: str) -> Iterator[Place]:
    for start in spots.of(text):
        base = max(0, start - _BEFORE)
        lower = text[base : start + _BEHIND].replace("\u0130", "I").lower()
        if found := pattern.match(lower, start - base):
            yield from _value(text, lower, found, base)


def _value(text: str, lower: str, found: re.Match[str], base: int) -> Iterator[Place]:
    """Yield the value after a name, if both show that it is a secret. `lower` begins at `base`."""
    name, start, end = found["name"], base + found.start("name"), base + found.end()
    is_option = found.re is _FLAG
    assign = "=" if is_option else lower[max(found.end("of"), found.end("name")) : found.end()]
    before = lower[max(0, found.start("name") - 64) : found.start("name")]
    is_assigned = assign == "=" or _DEFINES.search(before) is not None
    whole = text[max(0, start - 32) : start + len(name)]
    is_set = is_assigned and whole[-1:].isupper() and _VARIABLE.search(whole) is not None
    if not _is_telling(text[start : start + len(name)], before, assign, is_set=is_set):
        return
    is_markup = assign.endswith(">") and not assign.endswith("=>") and "<" not in assign
    if is_markup and not _IN_TAG.search(before):
        return
    kind, of_quoted, of_bare = _checks_for(name, before, is_set=is_set)
    is_assigned_value = assign.strip(" \t\"'`\\()]") not in ("", "to")
    if kind == "password":
        of_bare = (
            is_set_password
            if is_set or (is_option and "-" in text[end : end + 64].partition(" ")[0])
            else of_bare
            if is_assigned_value
            else is_spoken_password
        )
    elif not (is_assigned_value or _QUOTED.match(text, end)):
        return
    is_named = is_set or is_option or name == "identified by"
    place = _words(text, end, name, assign, is_set=is_named) if kind == "password" else None
    if place is None and (quoted := _QUOTED.match(text, end)):
        place = quoted.span(1) if of_quoted(_JOINTS.sub("", quoted[1])) else None
    elif place is None:
        place = _bare(text, end, kind, of_bare, is_set=is_set)
    is_whole = before[-1:] in ('"', "'") and assign[:1] in ('"', "'")
    is_weak = name == "pass" and before[-1:] not in ("_", "-") and not (is_option or is_whole)
    if place and not (
        is_weak
        and not is_strong_password(
            text[slice(*place)],
            is_glued=before[-1:].isalpha(),
            is_word=before[-1:].isalpha() and text[start].islower(),
        )
    ):
        yield Place(*place, kind)


def _checks_for(name: str, before: str, *, is_set: bool) -> tuple[str, Check, Check]:
    kind, of_quoted, of_bare = next(row[1:] for row in _FAMILIES if re.search(row[0], name))
    if kind == "api_key" and _AWS.search(before):
        kind = "aws_secret_key"
    return kind, of_quoted, of_bare


def _words(text: str, start: int, name: str, assign: str, *, is_set: bool) -> Span | None:
    if name.startswith("passphrase") and (phrase := _PHRASE.match(text, start)):
        group = phrase.lastindex or 0
        is_long = sum(map(phrase[group].count, " -")) > 2
        return phrase.span(group) if is_long or is_phrase(phrase[group]) else None
    spaced = _SPACED.match(text, start) if assign.strip() or is_set else None
    return spaced.span(2) if spaced and is_spaced_password(spaced[2], is_set=is_set) else None


def _bare(text: str, start: int, kind: str, check: Check, *, is_set: bool) -> Span | None:
    if not (wide := _WIDE.match(text, start)):
        return None
    value = wide[1].rstrip(_CLOSES)
    is_whole = is_jumbled(value) and (kind == "password" or is_set or len(value) >= 32)
    if (is_whole or (kind == "password" and is_knotted(value))) and check(value):
        return start, start + len(value)
    narrow = _NARROW.match(wide[1])
    if narrow is None or text[start + narrow.end() : start + narrow.end() + 1] in tuple("([{="):
        return None
    value = narrow[0].rstrip(".?")
    return (start, start + len(value)) if check(narrow[0]) else None


def _is_telling(name: str, before: str, assign: str, *, is_set: bool) -> bool:
    """Whether a name, together with the text before it, marks its value as a secret."""
    if assign == ":" == before[-1:]:  # it is part of a longer name, such as `a:token:`
        return False
    match name.lower():
        case "pass":
            is_assigned_value = "=" in assign or (":" in assign and name != "PASS")
            return is_assigned_value or before[-1:] in ("_", "-")
        case "token":
            return not _NO_TOKEN.search(before)
        case "key":
            is_open = _NO_SECRET_OF.search(before) is not None
            return not is_open and (is_set or _KEY_OF.search(before) is not None)
        case "pw":
            return not before[-1:].isalpha()
        case _:
            return True


_MAY_OPEN = r"[bflnru@]?\\{0,3}[\"'`]"
_MAY_ASSIGN = (
    r"[_ -]?(?:\pN{1,2}|base|prod(?:uction)?|dev|staging|live|test|input|value)?(?:\.value)?"
    r"(?: \([^()\n]+\))?"
    rf"(?:(?: (?:has been|{_COPULAS}))? (?:generated|set|created|reset|changed))?"
    rf"(?: {TO}(?: \S{{1,24}}){{1,4}}(?: \([^()\n]+\))?)?"
    r"(?:\\{0,3}[\"'`]\]?|\*\*|\})?(?:"
    rf"[ \t\pZ]{{0,4}}(?:[=:：\x{{ff1d}}|{{,]|%3[ad]|<-)|[?!]?:|\[|[ \t]?(?:\?\?|or)[ =]| string ?="
    rf"|[ \t]{_COPULAS}:?[ \t]|[ \t]?[是为は는은]"
    r"|[\s\pZ\pC]{1,24}(?:\pN{1,6}(?:→|\t|[:|])[ \t]*)?\\{0,3}[\"']?[\w-]{1,16}"
    r"\\{0,3}[\"']?[ \t]{0,8}[=:]"
    rf"|[ \t](?:[ \t]{{0,2}}to)?[ \t]{{0,3}}(?:{_MAY_OPEN}|\S{{0,64}}\pN)"
    rf"|[ \t]{{1,3}}{_ARROW}[ \t]|['’]s[ \t]|[ ]?[)(\]?](?:default:|[ \t])?\S{{0,64}}\pN"
    rf"|\({_MAY_OPEN}|(?: [\w-]+=\"[^\"\n]*\")*>|['\"\])]*[ \t]?<)"
)
"""The same as `_ASSIGNS` in RE2's syntax, which has no lookahead."""
FINDERS: tuple[SecretFinder, ...] = (
    SecretFinder(
        f"(?i:{_COMMON_NAMES})(?i:{_MAY_ASSIGN})",
        partial(_values_of, _NAME, Spots(_COMMON_NAMES, _MAY_ASSIGN)),
    ),
    SecretFinder(
        rf"(?i:(?:^|\s)--?[a-z-]*(?:{_COMMON_NAMES}) )",
        partial(_values_of, _FLAG, Spots(_FLAGS, " ")),
    ),
    SecretFinder(f"(?i:{_RARE})", partial(_values_of, _RARE_NAME, Spots(_RARE))),
)
"""The finders of values that have a name."""
