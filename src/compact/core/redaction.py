"""Redaction: secrets in a text are replaced by `[redacted: kind]`. Pure, offline, linear in time.

Two kinds of finds. *Shapes* are secrets that are known by their look: keys with a vendor's prefix,
tokens, private-key blocks, credentials in URLs and headers. *Assignments* are values that stand
next to a telling name (`password=…`, `"api_key": "…"`); they must look like a secret and not like a
placeholder, a reference in code or a word.

A pattern runs only where one of its literal hints occurs. Every quantifier is bounded, possessive,
or begins at a place that no other try shares, so that no text takes more than linear time.
Passphrases of several words, and secrets that stand in plain prose without a name, are not found.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Secret(NamedTuple):
    """What was found: its kind and its length in characters, never itself."""

    kind: str
    length: int


class Redacted(NamedTuple):
    """A text without its secrets, and what was taken out, in the order of the text."""

    text: str
    found: tuple[Secret, ...]


class Place(NamedTuple):
    """Where a secret stands in a text."""

    start: int
    end: int
    kind: str


def redact(text: str, known: Mapping[str, str] | None = None) -> Redacted:
    """The text with `[redacted: kind]` in place of each secret. Redacting again changes nothing.

    `known` are secrets that were found elsewhere and their kinds (`secrets_of`): they are taken out
    wherever they stand by themselves, also without the name that gave them away.
    """
    found: list[Secret] = []
    while places := find_secrets(text, known):  # once more after a find: its neighbours changed
        found += [Secret(place.kind, place.end - place.start) for place in places]
        text = _without(text, places)
    return Redacted(text, tuple(found))


def without_credentials(name: str) -> str:
    """The name of a model or a server, as it may be shown: without what stands before the host of
    an address, or in its query, and without secrets.
    """
    return redact(_IN_QUERY.sub("…", _BEFORE_HOST.sub("…@", name))).text


def secrets_of(texts: Iterable[str]) -> dict[str, str]:
    """The secrets in some texts and their kinds, to be looked for in what is told of the texts.

    Only those that are long enough to be no common word; for `redact`, and to be kept nowhere.
    """
    return {
        text[place.start : place.end]: place.kind
        for text in texts
        for place in find_secrets(text)
        if place.end - place.start >= _KNOWN_LENGTH
    }


def find_secrets(text: str, known: Mapping[str, str] | None = None) -> list[Place]:
    """The places of all secrets, in order; where two overlap, one place that holds both."""
    places = [x for hint, shape in _BY_HINT if hint in text for x in shape.places(text, hint)]
    places += _assignments(text)
    places += _known_ones(text, known or {})
    places.sort(key=lambda place: place.start)
    apart: list[Place] = []
    for place in places:
        if apart and place.start < apart[-1].end:
            longest = max(apart[-1].end, place.end)
            apart[-1] = apart[-1]._replace(end=longest)
        else:
            apart.append(place)
    return apart


def _known_ones(text: str, known: Mapping[str, str]) -> Iterator[Place]:
    for secret, kind in known.items():
        start = text.find(secret)
        while start >= 0:
            end = start + len(secret)
            if not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
                yield Place(start, end, kind)
            start = text.find(secret, end)


def _without(text: str, places: Iterable[Place]) -> str:
    """The text with `[redacted: kind]` at each of the places, which are in order and apart."""
    pieces: list[str] = []
    end = 0
    for place in places:
        pieces += text[end : place.start], f"[redacted: {place.kind}]"
        end = place.end
    return "".join((*pieces, text[end:]))


# --- what a value looks like ----------------------------------------------------------------------

_KNOWN_LENGTH = 8
_FEW_CHARACTERS = 4
_RANDOM_CHARACTERS = 8
_LEAST_CHANGES, _CHANGES = 4, 0.25
_PASSWORD_LENGTH, _KEY_LENGTH = 6, 16
_PLACEHOLDER = re.compile(
    r"^(?:[<{(\[]|\$[A-Za-z_{(]|%[sd({A-Z])|\$[{(]|\{\{|\*\*\*|\.\.\.|…|xxxx|<|"
    r"redacted|example|placeholder|dummy|fake|mock|sample|your|undefined|\btodo\b|"
    r"change.?(?:me|it|this)|(?:replace|insert).?(?:me|with|this|here|your)|"
    r"environ|getenv|process\.env|secrets\.|vault:",
    re.IGNORECASE,
)
"""Stands where a secret will be put, or says where it is to be had."""
_PLACE_NAMES = re.compile(
    r"^(?:[a-z][a-z0-9+.-]{1,20}:|~?/|\.{1,2}/|[A-Za-z]:\\|arn:|[\w-]+\.\w{1,4}$)"
)
"""A URL, a path or a file: names a place, and is no secret by itself."""
_REFERENCE = re.compile(
    r"[A-Za-z_][a-z]*(?:[A-Z_-]+[a-z0-9]*)+|[A-Za-z_]\w*(?:\??(?:\.|->|::)[A-Za-z_]\w*)+",
)
"""camelCase, snake_case, kebab-case, or attributes of something: a name in code."""
_WORD_PARTS = re.compile(
    r"pass|pwd|secret|token|key|cred|auth|user|conf|value|input|str|arg|param|field|data|env|"
    r"default|opt|hash|sha\d|md5|base64|crypt|argon|char|int\d|utf|uuid|test",
    re.IGNORECASE,
)
_COMMON = frozenset(
    ("pass", "password", "passwd", "pwd", "secret", "user", "root", "guest", "admin", "test")
)
_PORT_DIGITS = 5
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[A-Za-z]")
_STRONG = re.compile(r"[\d!@#$%^&*?+~=]")


def _anything(_: str) -> bool:
    return True


def _is_filled(value: str) -> bool:
    """Whether it is more than a placeholder."""
    return len(set(value)) > _FEW_CHARACTERS and not _PLACEHOLDER.search(value)


def _is_random(value: str) -> bool:
    """Whether letters and digits change as often as in a generated key, and in no word or name."""
    if len(value) < _KEY_LENGTH or len(set(value)) < _RANDOM_CHARACTERS:
        return False
    if not _DIGIT.search(value) or not _is_filled(value):
        return False
    return _changes(value) >= max(_LEAST_CHANGES, _CHANGES * len(value))


_CLASSES = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "a" * 26 + "A" * 26 + "0" * 10
)


def _changes(value: str) -> int:
    """How often a lower-case letter, an upper-case letter and a digit stand side by side."""
    kinds = value.translate(_CLASSES)
    return sum(kinds.count(pair) for pair in ("aA", "Aa", "a0", "0a", "A0", "0A"))


def _is_key(value: str) -> bool:
    return _is_random(value) and not _PLACE_NAMES.match(value)


def _is_token(value: str) -> bool:
    return _is_key(value) and not _UUID.fullmatch(value)


def _is_password(value: str) -> bool:
    """Whether a quoted value is a password rather than a word, a label or a selector."""
    if not _STRONG.search(value) or not _LETTER.search(value) or _PLACE_NAMES.match(value):
        return False
    return _is_filled(value) and (bool(_DIGIT.search(value)) or not _WORD_PARTS.search(value))


def _is_bare_password(value: str) -> bool:
    """The same of a value without quotes, which may be a name in code."""
    if not _is_password(value):
        return False
    return _is_random(value) or not (_REFERENCE.fullmatch(value) or _WORD_PARTS.search(value))


def _is_url_password(value: str) -> bool:
    if value.lower() in _COMMON or (value.isdigit() and len(value) <= _PORT_DIGITS):
        return False
    return not _PLACEHOLDER.search(value) and len(set(value)) > 2


def _is_basic(value: str) -> bool:
    """Whether it decodes to a name and a password."""
    try:
        pair = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    name, colon, password = pair.partition(b":")
    return bool(colon and name and password) and pair.isascii() and pair.decode().isprintable()


def _is_bearer(value: str) -> bool:
    """Of a value that an Authorization header names."""
    return bool(_DIGIT.search(value) and _LETTER.search(value)) and _is_filled(value)


# --- shapes ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shape:
    """Secrets that are known by their look."""

    kind: str
    hints: tuple[str, ...]
    """How such a secret, or what leads to it, begins; the pattern is tried only there."""
    pattern: re.Pattern[str]
    """The secret is its first group, or all of it."""
    check: Callable[[str], bool] = _anything

    def places(self, text: str, hint: str) -> Iterator[Place]:
        """Where such secrets stand that begin with the hint."""
        group = 1 if self.pattern.groups else 0
        start = text.find(hint)
        while start >= 0:
            after = start + len(hint)
            if found := self.pattern.match(text, start):
                if self.check(found[group]):
                    yield Place(found.start(group), found.end(group), self.kind)
                after = found.end()
            start = text.find(hint, after)


def _shape(kind: str, hints: str, pattern: str, check: Callable[[str], bool] = _is_filled) -> Shape:
    return Shape(kind, tuple(hints.split()), re.compile(pattern), check)


_START = r"(?<![A-Za-z0-9_-])"
_BASE64_RUN = r"[A-Za-z0-9+/=]"
_BETWEEN = r"(?:\s|\\+[nrt]|[\"'+,|>]|\d+→){1,24}+"
"""Between two lines of a key: line ends, also escaped ones, quotes, a diff's marks."""
SHAPES: tuple[Shape, ...] = (
    _shape(
        "private key",
        "-----BEGIN",
        r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        rf"(?:(?:{_BETWEEN}(?:Proc-Type|DEK-Info|Version|Comment): ?[^\r\n\\]{{0,80}}){{0,4}}+"
        rf"(?:{_BETWEEN}(?=[a-z0-9+/=]*[A-Z])(?=[A-Z0-9+/=]*[a-z]){_BASE64_RUN}{{16,}}+)++"
        rf"(?:{_BETWEEN}{_BASE64_RUN}{{1,76}}+(?={_BETWEEN}-----END|\s*\Z))?"
        rf"(?:(?:{_BETWEEN})?-----END [A-Z0-9 ]{{1,48}}-----)?)",
        _anything,
    ),
    _shape(
        "AWS key id",
        "AKIA ASIA",
        r"(?<![A-Za-z0-9])A(?:KI|SI)A[A-Z0-9]{16}(?![A-Za-z0-9])",
    ),
    _shape("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", _START + r"gh[pousr]_[A-Za-z0-9]{30,}+"),
    _shape("GitHub token", "github_pat_", _START + r"github_pat_\w{22,}+"),
    _shape("GitLab token", "glpat-", _START + r"glpat-[\w-]{20,}+"),
    _shape("Slack token", "xox", _START + r"xox[a-z]-(?=[A-Za-z-]{0,12}\d)[A-Za-z0-9-]{10,}+"),
    _shape("Slack webhook", "hooks.slack.com", r"hooks\.slack\.com/services/([A-Za-z0-9/]{20,}+)"),
    _shape("Anthropic key", "sk-ant-", _START + r"sk-ant-[\w-]{20,}+"),
    _shape("OpenRouter key", "sk-or-", _START + r"sk-or-[\w-]{20,}+"),
    _shape("OpenAI key", "sk-", _START + r"sk-(?:proj|svcacct|admin|None)-[\w-]{20,}+"),
    _shape("API key", "sk-", _START + r"sk-[\w-]{18,}+", _is_random),
    _shape("Google API key", "AIza", r"(?<![A-Za-z0-9_+/-])AIza[\w-]{35}(?![\w-])"),
    _shape("Hugging Face token", "hf_", _START + r"hf_[A-Za-z0-9]{30,}+"),
    _shape("npm token", "npm_", _START + r"npm_[A-Za-z0-9]{36,}+"),
    _shape("PyPI token", "pypi-", _START + r"pypi-[\w-]{50,}+"),
    _shape(
        "Stripe key",
        "sk_live_ rk_live_ sk_test_ rk_test_",
        r"(?<![A-Za-z0-9])[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+",
    ),
    _shape("Stripe key", "whsec_", r"(?<![A-Za-z0-9])whsec_[A-Za-z0-9+/]{24,}+={0,2}"),
    _shape("SendGrid key", "SG.", _START + r"SG\.[\w-]{16,32}+\.[\w-]{32,64}+"),
    _shape("Twilio key", "SK", r"(?<![A-Za-z0-9])SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _shape("Telegram token", ":AA", r"(?<=\d{8})(:AA[\w-]{32,36})(?![\w-])"),
    _shape("JWT", "eyJ", _START + r"[\w-]{12,}+\.eyJ[\w-]{8,}+(?:\.[\w-]++)?"),
    _shape(
        "authorization",
        "uthorization UTHORIZATION",
        r"(?i:uthorization)\\?[\"']?\]?[ \t]{0,3}[:=,][ \t]{0,3}\\?[\"'`]?"
        r"(?i:bearer|token|apikey|key) {1,3}([A-Za-z0-9._~+/-]{8,}+={0,2})",
        _is_bearer,
    ),
    _shape(
        "authorization", "earer", r"(?<=[Bb])earer {1,3}([A-Za-z0-9._~+/-]{16,}+={0,2})", _is_random
    ),
    _shape("authorization", "asic", r"(?<=[Bb])asic {1,3}([A-Za-z0-9+/]{8,}+={0,2})", _is_basic),
    _shape(
        "URL password",
        "://",
        r"://[^\s:/@?#\"'<>`\[\]]{0,128}:([^\s/?#\"'<>`]{3,256})@(?=[\w\[${<])",
        _is_url_password,
    ),
)
"""The first of two that begin together gives the kind: the particular before the general."""
_BY_HINT = tuple((hint, shape) for shape in SHAPES for hint in shape.hints)


_BEFORE_HOST = re.compile(r"(?:(?<=//)|^)[^/@#]*:[^/@#]*@|(?<=//)[^/@#]*@")
_IN_QUERY = re.compile(r"(?<=[?&])[^#\s]+")

# --- assignments ----------------------------------------------------------------------------------

_ASSIGNS = r"\d{0,2}(?:\\{0,3}[\"'`]\]?)?[ \t]{0,4}(?:=>|:=|={1,2}|[:：])[ \t]{0,4}"
_NAMES = r"passwor[dt]|passwd|passphrase|pwd|kennwort|密码|口令|secret|token|key|密钥"
_NAME = re.compile(f"(?:{_NAMES}){_ASSIGNS}")
"""The end of a telling name, and what assigns. Searched in lower case, without groups: so the
alternatives are told apart by their first letter, four times as fast."""
_FLAG = re.compile(rf"--(?:[a-z]{{1,16}}-){{0,3}}(?:{_NAMES}) {{1,3}}")
_KEY_OF = re.compile(
    r"(?:api|access|secret|private|auth|account|signing|encryption|master|service|shared)[_ -]?\Z"
)
"""What makes a key a secret one; others open tables and maps."""
_AWS = re.compile(r"(?:secret[_ -]?access|aws[_ -]?secret)[_ -]?\Z")
_NO_TOKEN = re.compile(r"(?:eos|bos|pad|unk|sep|cls|mask|stop|next|page|continuation|cursor)_?\Z")
"""Tokens of a vocabulary or of a list's pages."""
_QUOTED = re.compile(r"[bfru]{0,2}\\{0,3}[\"'`]([^\s\"'`\\]{6,}+)")
_BARE = re.compile(
    r"((?:[A-Za-z0-9+/_.~!#%^*-]|&(?![A-Za-z_-]{1,32}=)|@(?![A-Za-z0-9-]{1,63}[.:/])){6,}+"
    r"={0,2})(?![(\[{=])"
)
"""Ends before the next parameter of a query, and before the host of a URL."""
_BEFORE = 32
_Check = Callable[[str], bool]
_FAMILIES: tuple[tuple[str, str, _Check, _Check], ...] = (
    ("secret", "secret", _is_key, _is_key),
    ("token", "token", _is_token, _is_token),
    ("key", "key", _is_key, _is_key),
    ("密钥", "key", _is_key, _is_key),
    ("", "password", _is_password, _is_bare_password),
)
"""How a name begins, the kind of its value, and what must hold of a quoted and of a bare one."""


def _assignments(text: str) -> Iterator[Place]:
    """Values that stand next to a telling name."""
    lower = text.replace("\u0130", "I").lower()  # the one letter that grows in lower case
    for found in _NAME.finditer(lower):
        yield from _value(
            text, found[0], lower[max(0, found.start() - _BEFORE) : found.start()], found.end()
        )
    if "--" in text:
        for found in _FLAG.finditer(lower):
            before, _, name = found[0].rpartition("-")
            yield from _value(text, name, before, found.end())


def _value(text: str, name: str, before: str, position: int) -> Iterator[Place]:
    """The value at a position, where what is said before and it make it a secret."""
    kind, of_quoted, of_bare = next(row[1:] for row in _FAMILIES if name.startswith(row[0]))
    if kind == "token" and _NO_TOKEN.search(before):
        return
    if kind == "key":
        if name.startswith("key") and not _KEY_OF.search(before):
            return
        kind = "AWS secret key" if _AWS.search(before) else kind
    quoted = _QUOTED.match(text, position)
    value = quoted or _BARE.match(text, position)
    if value is not None and (of_quoted if quoted else of_bare)(value[1]):
        yield Place(value.start(1), value.end(1), kind)
