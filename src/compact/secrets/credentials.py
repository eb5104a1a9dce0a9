"""Finds credentials by their form: a vendor's prefix, or a typical structure.

`SHAPES` is the table: vendors' prefixes, private keys, tokens with parts, and credentials in URLs,
headers and commands.

One scan finds the hints that occur in a text (`secrets.redaction`), and only the patterns of these
hints are tried. Each pattern takes linear time: repetitions are bounded, or end at a character that
no other part matches. All patterns work with the `re` of every Python version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from compact.secrets.secret_values import (
    UUID,
    Check,
    anything,
    is_bare_password,
    is_basic,
    is_coded_key,
    is_filled,
    is_generated_key,
    is_hash,
    is_header,
    is_issued,
    is_jwt,
    is_pair,
    is_password,
    is_random,
    is_session,
    is_set_password,
    is_smtp,
    is_token,
    is_url_password,
)


class Place(NamedTuple):
    """The place of a secret in a text (in characters), and the kind of the secret."""

    start: int
    end: int
    kind: str


class SecretFinder(NamedTuple):
    """Finds secrets of one kind."""

    hint: str
    """An RE2 pattern that occurs in every text with such a secret."""
    places: Callable[[str], Iterable[Place]]


_LINE = r"(?<=\\[nrt])|(?<=%[0-9A-F]{2})"
"""The place after an escaped line break or tab, as in JSON, or a percent code in an address."""
_START = rf"(?:(?<![A-Za-z0-9_-])|{_LINE})"
STARTS = r"(?:^|[^A-Za-z0-9_-]|\\[nrt]|%[0-9A-F]{2})"
"""`_START` in RE2's syntax, which has no lookbehind. Hints of rare secrets begin with it."""
_ALONE, _END = rf"(?:(?<![A-Za-z0-9+/_-])|{_LINE})", r"(?![A-Za-z0-9])"
"""The bounds of a secret whose pattern could match inside long base64 by chance."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Describes secrets of one form."""

    kind: str
    hints: tuple[str, ...]
    """The secret's beginning, or the text before it. The pattern is tried only there."""
    pattern: re.Pattern[str]
    """The secret is the first group of the match, or else the whole match."""
    check: Check = anything
    lead: int = 0
    """How many characters before the hint the match begins."""
    behind: tuple[str, ...] = ()
    """Commands that take the secret as an option. Only arguments are between the two."""

    def finder(self, hint: str) -> SecretFinder:
        """Build the finder for one hint. A secret that may not be part of a longer word needs at
        least 16 letters, digits, `_` and `-`, the hint included.
        """
        occurs = re.escape(hint)
        is_alone = self.pattern.pattern.startswith((_START, _ALONE)) and not self.lead
        if is_alone and _BARE.fullmatch(hint):
            occurs = rf"{STARTS}{occurs}[A-Za-z0-9_-]{{{16 - len(hint)}}}"
        if self.behind:
            occurs = rf"(?s:(?:{'|'.join(map(re.escape, self.behind))}).*{occurs})"
        return SecretFinder(occurs, partial(self.places, hint=hint))

    def places(self, text: str, hint: str) -> Iterator[Place]:
        """Yield the secrets of this form at each place of the hint."""
        group = 1 if self.pattern.groups else 0
        start = text.find(hint)
        while start >= 0:
            after = start + len(hint)
            match = self.pattern.match(text, max(0, start - self.lead))
            if match and self.check(match[group]) and self._follows(text, start):
                yield Place(match.start(group), match.end(group), self.kind)
                after = max(after, match.end(group))
            start = text.find(hint, after)

    def _follows(self, text: str, start: int) -> bool:
        if not self.behind:
            return True
        least = max(0, start - 300)  # 300 characters: the longest command line considered
        name, place = max(
            ((x, text.rfind(x, least, start)) for x in self.behind),
            key=lambda each: (each[1] + len(each[0]) * (each[1] >= 0), len(each[0])),
        )
        if place < 0 or (place > 0 and _IN_WORD.match(text, place - 1)):
            return False
        return _are_arguments(text[place + len(name) : start])


_BARE = re.compile(r"[\w-]+")
_IN_WORD = re.compile(r"(?<!\\)[\w.:-]|(?<=\\)[\w.:-](?<![nrt])")
_ARGUMENT = re.compile(r"(?:\\{0,3}\"[^\"]{0,300}\"|'[^']{0,300}'|\\\r?\n|[^\s\"'])+|\S|\n")
_ANOTHER = re.compile(r"[;|&\n]|\S*;|\S*[.,]")
"""Matches the end of a command, or of a sentence that mentions a command."""
_MOST_PLAIN = 1
"""How many plain words the arguments of a command may contain. More words are a sentence."""


def _are_arguments(between: str) -> bool:
    """Whether the text is arguments of one command, and no other command or sentence."""
    if not (between := re.sub("^[a-z-]{1,16}", "", between))[:1].isspace():
        return False
    before, plain = "", 0
    for word in _ARGUMENT.findall(between):
        if _ANOTHER.fullmatch(word):
            return False
        plain += word.isalpha() and before[:1] != "-"
        before = word
    return plain <= _MOST_PLAIN


def _shape(kind: str, hints: str, pattern: str, check: Check = is_filled, lead: int = 0) -> Shape:
    return Shape(kind, tuple(hints.split()), re.compile(pattern), check, lead)


def _issued(kind: str, prefixes: str, least: int = 16, check: Check = is_issued) -> Shape:
    """Describe keys that have a vendor's prefix and at least `least` characters after it."""
    begins = "|".join(map(re.escape, prefixes.split()))
    body = rf"[\w-]{{{least},}}(?:\.[\w-]{{6,}}){{0,3}}"
    return _shape(kind, prefixes, rf"{_START}(?:{begins}){body}", check)


def _option(commands: str, names: str, pattern: str, check: Check) -> Shape:
    found = re.compile(rf"(?<![\w-]){pattern}")
    return Shape("password", tuple(names.split()), found, check, behind=tuple(commands.split()))


_QUOTE = r"\\{0,3}[\"'`]?"
_WORD = r"([^\s\"'`\\$</]{5,128})"
SHAPES: tuple[Shape, ...] = (
    _shape("aws_key_id", "AKIA ASIA ABIA ACCA", rf"{_ALONE}A(?:KI|SI|BI|CC)A[A-Z0-9]{{16}}{_END}"),
    _shape("aws_session_token", "IQoJb3JpZ2lu", rf"{_ALONE}IQoJb3JpZ2lu[A-Za-z0-9+/]{{80,}}=*"),
    _shape("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", _START + r"gh[pousr]_[A-Za-z0-9]{30,}"),
    _issued("github_token", "github_pat_", 22, is_filled),
    _issued(
        "gitlab_token",
        "glpat- gldt- glcbt- glptt- glft- glimt- glagent- gloas- glrt- glsoat- glffct- GR1348941",
        20,
        is_filled,
    ),
    _shape(
        "slack_token",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.",
        _START + r"xox[a-z][.-](?=[A-Za-z.-]{0,12}\d)[A-Za-z0-9%.-]{10,}",
    ),
    _issued("slack_token", "xapp-"),
    _shape("slack_webhook", "hooks.slack.com", r"hooks\.slack\.com/[a-z]+/([A-Za-z0-9/]{20,})"),
    _shape("webhook", "/api/webhooks/", r"/api/webhooks/\d{15,20}/([\w-]{50,})"),
    _shape("webhook", ".webhook.office.com/", r"\.webhook\.office\.com/\w{1,20}/([\w@/-]{40,})"),
    _shape("webhook", "outlook.office.com/webhook/", r"[\w.]+/webhook/([\w@/-]{40,})"),
    _shape("private_key", "PRIVATE+KEY+", r"PRIVATE\+KEY\+[\w.-]{1,80}\+\w{8}\+([\w+/]{40,}=*)"),
    _shape("api_key", "s.", rf"{_ALONE}s\.[A-Za-z0-9]{{24}}{_END}", is_random),
    _issued("anthropic_key", "sk-ant-", 20, is_filled),
    _issued("openrouter_key", "sk-or-", 20, is_filled),
    _issued("openai_key", "sk-proj- sk-svcacct- sk-admin- sk-None-", 20, is_filled),
    _shape("api_key", "sk-", _START + r"sk-[\w-]{18,}", is_random),
    _shape("google_api_key", "AIza", rf"{_ALONE}AIza[\w-]{{35}}(?![\w-])"),
    _issued("google_token", "ya29. GOCSPX- 1//0"),
    _shape("hugging_face_token", "hf_", _START + r"hf_[A-Za-z0-9]{30,}"),
    _shape("npm_token", "npm_", _START + r"npm_[A-Za-z0-9]{36,}"),
    _issued("pypi_token", "pypi-", 50),
    _issued("stripe_key", "sk_live_ rk_live_ sk_test_ rk_test_ sk_prod_ rk_prod_", 16, is_filled),
    _issued("api_key", "rzp_live_ rzp_test_", 14),
    _shape("stripe_key", "whsec_", r"(?<![A-Za-z0-9])whsec_[A-Za-z0-9+/]{24,}={0,2}"),
    _shape("sendgrid_key", "SG.", _START + r"SG\.[\w-]{16,32}\.[\w-]{32,64}"),
    _shape("twilio_key", "SK", rf"{_ALONE}SK[0-9a-f]{{32}}{_END}"),
    _shape("telegram_token", ":AA", r"(?<=\d{8})(:AA[\w-]{32,36})(?![\w-])"),
    _issued(  # as the vendors document them, in alphabetical order
        "api_key",
        "AGE-SECRET-KEY-1 api_org_ ATATT3 ATCTT3 bedrock-api-key- bkua_ CCIPAT_ CFPAT- CLOJARS_ "
        "csk- dckr_oat_ dckr_pat_ doo_v1_ dop_v1_ dor_v1_ dp.audit. dp.ct. dp.pt. dp.sa. dp.scim. "
        "dp.st. dt0c01. duffel_live_ duffel_test_ fc- figd_ fio-u- FLWSECK_TEST- FLWSECK- fm1_ "
        "fm1a_ fm1r_ fm2_ fo1_ fw_ glc_ glsa_ gsk_ HRKU- hvb. hvr. hvs. ico- jina_ lin_api_ "
        "lin_oauth_ lsv2_pt_ lsv2_sk_ napi_ nfp_ NRAK- NRII- NRIQ- NRJS- ntn_ nvapi- ops_eyJ "
        "ory_at_ ory_pat_ pat-eu1- pat-na1- pcsk_ phx_ PMAK- pnu_ pplx- pscale_oauth_ pscale_pw_ "
        "pscale_tkn_ pul- r8_ rdme_ re_ rnd_ rubygems_ sb_secret_ sbp_ secret_ sgp_ sha256~ "
        "shippo_live_ shippo_test_ shpat_ shpca_ shppa_ shpss_ sk_ sm_aat_ sm_pat_ sm_sat_ sntrys_ "
        "sntryu_ sq0atp- sq0csp- tfp_ tgp_v1_ tk-us- tskey- tvly- vck_ vcp_ wandb_v1_ waka_ xai- "
        "xkeysib- xsmtpsib- zpka_ hcaik_ hcxik_ hcalk_ nsec1 sdk- mob- secret- vercel_blob_rw_ "
        "aio_ squ_ sqp_ sqa_ access-sandbox- access-production- access-development- e2b_ pa- "
        "v1.0-",
    ),
    _shape("api_key", "AAAAAAAAAAAAAAAAAAAAA", r"A{18,24}([\w%-]{40,})", is_session),
    _shape(  # short prefixes, so the length must match too
        "api_key",
        "AKCp AKID ATBB EAA pat EZAK EZTK LTAI ABSK cio dapi key- oy2 sl.",
        rf"{_ALONE}(?:AKCp[A-Za-z0-9]{{60,80}}|AKID[A-Za-z0-9]{{32}}|ATBB[A-Za-z0-9]{{32}}|"
        rf"EAAA[\w-]{{60}}|pat[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}|EAA[A-Z][A-Za-z0-9]{{100,}}|EZ[AT]K[A-Za-z0-9]{{54}}|"
        rf"LTAI[A-Za-z0-9]{{12,24}}|ABSK[A-Za-z0-9+/]{{90,}}=*|cio[A-Za-z0-9]{{32}}|"
        rf"dapi[0-9a-f]{{32}}(?:-\d)?|key-[0-9a-f]{{32}}|oy2[a-z0-9]{{43}}|sl\.[\w-]{{60,}}){_END}",
        is_issued,
    ),
    _shape("api_key", "-us", rf"{_ALONE}[0-9a-f]{{32}}-us\d{{1,2}}{_END}", anything, 32),
    _shape("azure_secret", "Q~", r"[\w~.]{3}\dQ~[\w~.-]{31,34}", anything, 4),
    _shape("api_key", ".atlasv1.", r"\w{14}\.atlasv1\.[\w=-]{60,70}", anything, 14),
    _shape("password", "WIFI:", r"WIFI:[^\n]{0,120}?P:((?:\\.|[^;\\\n]){4,64});", is_url_password),
    _shape("private_key", "LS0tLS1CRUdJTi", rf"{_ALONE}LS0t[A-Za-z0-9+/]{{60,}}=*", is_coded_key),
    _shape("private_key", "WIF ", rf"WIF[ :]{{1,3}}([5KL][1-9A-HJ-NP-Za-km-z]{{50,51}}){_END}"),
    _shape("private_key", "<D>", r"<D>([A-Za-z0-9+/]{40,1024}={0,2})</D>"),
    _shape("password", "KEY", r"KEY '([^'\n]{6,256})'", is_password),
    _shape("api_key", "sk.eyJ", _START + r"sk\.eyJ[\w-]{40,}\.[\w-]{20,}"),
    _shape("jwt", "eyJ", _START + r"[\w-]{12,}\.[\w-]{8,}(?:\.[\w-]*){0,3}", is_jwt),
    _shape(
        "password_hash",
        "$1$ $2 $5$ $6$ $7$ $8$ $9$ $y$ $P$ $H$ $S$ $apr1$ $argon2 $scrypt $pbkdf2 $bcrypt",
        r"\$(?:[1-9yPHS]|2[abxy]?|[a-z0-9-]{3,16})\$[\w./+=,$-]{20,512}",
        is_hash,
    ),
    _shape(
        "password_hash",
        "SCRAM-SHA- grub.pbkdf2. pbkdf2: pbkdf2_ {SSHA {SHA {CRYPT {MD5 {PBKDF2 scrypt: '*",
        r"(?:SCRAM-SHA-\d{1,3}\$|grub\.pbkdf2\.|pbkdf2[_:]\w{3,8}[$:]|\{\w{3,13}\}|scrypt:|'\*(?=[0-9A-F]{40}'))"
        r"([\w./+=:$-]{20,600})",
        is_hash,
    ),
    _shape("password_hash", ":::", r"[0-9a-fA-F]{32}:([0-9a-fA-F]{32}):::", lead=65),
    _shape(
        "password_hash",
        "::",
        r"::[\w.-]{1,32}:([0-9a-fA-F]{16,48}:[0-9a-fA-F]{32,48}:[0-9a-fA-F]{16,2048})",
    ),
    _shape("authorization", 'response="', r'response="([0-9a-f]{32,64})"'),
    _shape(
        "cookie",
        "essionid= ESSIONID= SESSID= connect.sid= _session= essionId=",
        r"[\w.]{1,16}=([\w%.+/~-]{16,512}={0,2})",
        is_session,
    ),
    Shape(
        "cookie",
        ("TRUE\t", "FALSE\t"),
        re.compile(r"\w+\t\d{1,12}\t[\w.-]{1,64}\t([\w.%~+/=-]{20,4096})"),
        is_random,
    ),
    _shape(
        "signature",
        "ignature=",
        r"\w+=[\"']?([\w%+/~.-]{16,1024}={0,2})",
        is_session,
    ),
    _shape("private_key", '"d" "k"', r'"[dk]" ?: ?"([\w-]{42,2048})"', is_random),
    _shape("private_key", "xprv yprv zprv", _START + r"[xyz]prv[A-Za-z1-9]{100,112}", is_random),
    _shape("api_key", "alchemy.com/v infura.io/v", r"[\w.]{1,16}/v\d/([\w-]{24,64})", is_session),
    _shape(
        "authorization",
        "uthorization UTHORIZATION",
        rf"(?i:uthorization){_QUOTE}\]?[ \t]{{0,3}}[:=,][ \t]{{0,3}}\[?{_QUOTE}"
        r"(?:[A-Za-z][\w-]{1,20} {1,3}|key=)?([A-Za-z0-9._~+/:*-]{8,}={0,2})(?!\()",
        is_header,
    ),
    _shape(
        "authorization", "earer", r"(?<=[Bb])earer {1,3}([A-Za-z0-9._~+/-]{16,}={0,2})", is_random
    ),
    _shape("authorization", "asic", r"(?<=[Bb])asic {1,3}([A-Za-z0-9+/]{8,}={0,2})", is_basic),
    _shape("authorization", "AUTH", r"AUTH(?: PLAIN| LOGIN)? ([A-Za-z0-9+/]{12,}={0,2})", is_smtp),
    _shape("authorization", "_auth=", r"_auth=[\"']?([A-Za-z0-9+/]{8,}={0,2})", is_basic),
    _shape("authorization", "X-Amz-Signature", r"X-Amz-Signature=([0-9a-f]{64})"),
    _shape("authorization", "?sig= &sig=", r"[?&]sig=([\w%+/-]{16,}={0,2})", is_random),
    _shape(
        "authorization",
        "auth BasicAuth( .login( .authenticate( Credential( Credentials( PasswordToken(",
        r"(?:auth ?= ?|BasicAuth|\.login|\.authenticate|Credentials?|PasswordToken)\("
        r"[bf]?[\"'][^\"'\n]{1,64}[\"'], {0,2}[bf]?[\"']([^\"'\n]{3,128})",
        is_url_password,
    ),
    _shape(
        "url_password",
        "://",
        r"://[^\s:/@?#\"'<>`\[\]]{0,128}:([^\s/?#\"'<>`]{3,256})@(?=[\w\[${<])",
        is_url_password,
    ),
    _shape("url_password", "://", r"://([\w.~-]{20,128})@(?=\w)", is_random),
    _option(
        "curl wget",
        "-u --user --proxy-user",
        rf"(?:-u|--user|--proxy-user)[ =]{{0,2}}{_QUOTE}"
        r"([^\s:\"'`\\<]{1,128}:[^\s\"'`\\$<]{3,128})",
        is_pair,
    ),
    _option("7z 7za 7zz rar unrar", "-p", rf"-p{_QUOTE}{_WORD}", is_set_password),
    _option("zip unzip", "-P", rf"-P ?{_QUOTE}{_WORD}", is_set_password),
    _option(
        "ldapsearch ldapmodify ldapadd ldapwhoami", "-w", rf"-w ?{_QUOTE}{_WORD}", is_set_password
    ),
    _option(
        "smbclient smbmap rpcclient",
        "-U --user",
        rf"(?:-U|--user)[ =]?{_QUOTE}[\w.\\/-]{{1,64}}%{_WORD}",
        is_set_password,
    ),
    _shape(
        "password",
        "htpasswd ",
        r"htpasswd -\w{0,6}b\w{0,6} \S{1,128} \S{1,64} (\S{4,128})",
        is_set_password,
    ),
    _shape(
        "password",
        "mysqli( mysqli_connect( PDO( getConnection(",
        r"\w+\((?:(?:[\"'][^\"'\n]{1,128}[\"']|\$?\w{1,32}), {0,2}){2}"
        r"[\"']([^\"'\n]{3,128})[\"']",
        is_url_password,
    ),
    _shape("password", "NEO4J_AUTH=", r"NEO4J_AUTH=\w{1,32}/(\S{4,128})", is_url_password),
    _option("ssh-keygen", "-N", rf"-N ?{_QUOTE}{_WORD}", is_set_password),
    _option("xfreerdp rdesktop mstsc", "/p:", rf"/p:{_QUOTE}{_WORD}", is_set_password),
    _shape("password", "/user:", r"/user:\S{1,64} {1,3}(\S{5,128})", is_bare_password),
    _shape(
        "secret",
        "Fernet( createHmac( createCipheriv( hmac.new( HMAC.new( jwt.encode( jwt.decode( jwt.sign( "
        "jwt.verify( JWT.encode( JWT.decode( SecretKeySpec( AES.new( .encrypt( .decrypt( "
        "scryptSync( pbkdf2Sync( hash_hmac( openssl_encrypt( URLSafeSerializer( TimestampSigner( "
        "AES_ENCRYPT( AES_DECRYPT( aes_encrypt( aes_decrypt( pgp_sym_encrypt( pgp_sym_decrypt( "
        "DES_ENCRYPT( ENCRYPTBYPASSPHRASE( EncryptByPassPhrase(",
        r"[\w.]{1,20}\("
        r"(?:(?:[\"'][\w-]{1,16}[\"']|[\w.$]{1,40}|\{[^{}\n]{0,80}\}),\s{0,4}){0,2}"
        r"(?:\[\]byte\(|Buffer\.from\()?[bu]?[\"']([^\s\"'\\]{6,256})[\"']",
        is_token,
    ),
    _option("sshpass login useradd usermod", "-p", rf"-p ?{_QUOTE}{_WORD}", is_set_password),
    _option("mysql mariadb", "-p", rf"-p{_QUOTE}{_WORD}", is_set_password),
    _option("-u --user --username -U", "-p -P -w", rf"-[pPw] ?{_QUOTE}{_WORD}", is_bare_password),
    _option("openssl", "-k", rf"-k {_QUOTE}{_WORD}", is_set_password),
    _option("rclone", "obscure", rf"obscure {_QUOTE}{_WORD}", is_set_password),
    _shape(
        "password", "PRAGMA", r"PRAGMA (?:re|hex)?key ?= ?[\"']([^\s\"']{6,256})", is_bare_password
    ),
    _shape(
        "password", ".toCharArray", r"(?s:.{0,66}?)\"([^\s\"\\]{6,64})\"\.toChar", is_password, 66
    ),
    _option("redis-cli", "-a", rf"-a {_QUOTE}{_WORD}", is_bare_password),
    _shape(
        "password",
        "machine default",
        r"(?:machine\s{1,8}\S{1,128}|default)\s{1,8}(?:(?:login|account|user)\s{1,8}\S{1,128}\s{1,8})"
        r"{1,2}password\s{1,8}(\S{4,128})",
        is_url_password,
    ),
    _shape(
        "password",
        "jdbc:oracle: sqlplus expdp impdp sqlldr rman",
        r"[a-z:]{4,16}[^\n/@]{0,80}?[\w$#]/[\"']?([^\s/@\"']{4,128})[\"']?@",
        is_url_password,
    ),
    _shape(
        "password", ":5432:", r":5432:[\w.*-]{1,64}:[\w.*-]{1,64}:([^\s:]{4,128})", is_url_password
    ),
    _shape(
        "password",
        "echo printf",
        rf"(?:echo|printf)(?: -n)? {{1,3}}{_QUOTE}(?:\w{{1,32}}:)?([^\s\"'`\\$<]{{6,128}}){_QUOTE}"
        r" {0,3}\|"
        r"[^|\n]{1,120}(?:--password-stdin|chpasswd|sudo -S|--stdin|--passphrase-fd|cryptsetup)",
        is_url_password,
    ),
    _shape(
        "password",
        "$ ",
        r"\$ [^\n]{0,80}(?:key|secret|token|pass|cred)[^\n]{0,80}\r?\n(\S{20,256})(?=\s|\Z)",
        is_generated_key,
    ),
    Shape(
        "api_key",
        ("cat ",),
        re.compile(
            r"cat [^\n|]{0,80}(?:key|secret|token|pass|cred)[\w.]{0,16}\r?\n(\S{16,256})(?=\s|\Z)"
        ),
        is_session,
    ),
    _shape("password", "requirepass masterauth", r"\w+ {1,3}(\S{6,128})", is_bare_password),
    _shape("password", "pass:", rf"(?<= )pass:({_QUOTE}[^\s\"'`\\]{{5,128}})", is_bare_password),
)
"""All forms. If two begin alike, the first gives the kind, so special forms come first."""
_DISCORD = r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,45}"
"""A token of Discord. It has no prefix, only fixed lengths and a fixed set of first letters."""
_DISCORD_ALONE = re.compile(rf"{_START}{_DISCORD}(?![\w-])")


def _discord_tokens(text: str) -> Iterator[Place]:
    for found in _DISCORD_ALONE.finditer(text):
        if is_random(found[0]):
            yield Place(*found.span(), "discord_token")


_BEGINS = ("-----BEGIN", "Private-Lines:")
_KEY_HEAD = re.compile(
    r"(?i:-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}(?:PRIVATE|STATIC) KEY(?: BLOCK| V\d)?-----)"
    r"|Private-Lines: \d{1,4}"
)
_BETWEEN = r"(?:\s|\\{1,4}[nrt]|[\"'+,|>]|\d{1,6}(?:[→\t:|]| \|)){1,24}"
"""Characters between two lines of a key: line breaks (also escaped), quotes, marks of a diff."""
_KEY_FIELD = re.compile(rf"{_BETWEEN}(?:Proc-Type|DEK-Info|Version|Comment): ?[^\r\n\\]{{0,80}}")
_KEY_LINE = re.compile(rf"{_BETWEEN}([A-Za-z0-9+/=]{{16,}})")
_KEY_REST = re.compile(rf"{_BETWEEN}[A-Za-z0-9+/=]{{1,76}}(?={_BETWEEN}-----END|\s{{0,24}}\Z)")
_KEY_END = re.compile(rf"(?:{_BETWEEN})?-----END [A-Z0-9 ]{{1,48}}-----")


_PUBLIC_HEAD = re.compile(
    r"-{4,5} ?BEGIN (?:[A-Z0-9]{1,12} ){0,3}"
    r"(?:CERTIFICATE|PUBLIC KEY|CRL)(?: BLOCK| REQUEST)? ?-{4,5}"
)
_PUBLIC_LINE = re.compile(
    r"(?:ssh-\w{3,8}|ecdsa-sha2-\w{3,16}|sk-[\w.@-]{8,48}) AAAA[A-Za-z0-9+/=]{32,}"
)


def _blocks(text: str, begin: str, heads: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield the places of blocks of base64 under a heading, even of blocks that are cut off."""
    start = text.find(begin)
    while start >= 0:
        end = start + len(begin)
        if head := heads.match(text, start):
            end, lines = head.end(), 0
            while field := _KEY_FIELD.match(text, end):
                end = field.end()
            while (line := _KEY_LINE.match(text, end)) and not (
                line[1].isdigit()
                or (line[1].isalpha() and (line[1].islower() or line[1].isupper()))
            ):
                end, lines = line.end(), lines + 1
            for more in (_KEY_REST, _KEY_END) if lines else ():
                match = more.match(text, end)
                end = match.end() if match else end
            if lines:
                yield start, end
        start = text.find(begin, end)


def _private_keys(text: str, begin: str) -> Iterator[Place]:
    for start, end in _blocks(text, begin, _KEY_HEAD):
        yield Place(start, end, "private_key")


def public_blocks(text: str) -> list[tuple[int, int]]:
    """Return the places of certificates and public keys. They look generated but are public."""
    blocks = [
        x for begin in ("-----BEGIN", "---- BEGIN") for x in _blocks(text, begin, _PUBLIC_HEAD)
    ]
    if " AAAA" in text:
        blocks += (found.span() for found in _PUBLIC_LINE.finditer(text))
    return sorted(blocks)


_COOKIES = re.compile(
    r"(?:[Cc]ookies?|COOKIES?)(?:[\"'`]\]?)?(?:[ \t]{0,3}[:=]|[ \t]{1,3}[\"'])[^\r\n]{8,4096}"
)
_COOKIE = re.compile(r"[=:][ \t]?[\"']?([\w.%~+/!*-]{12,}={0,2})")
_USER_COOKIE = re.compile(r"(?i:sess|sid|auth|token|login)\w{0,16}\Z")
"""Matches the end of a name of a cookie that identifies a user."""


def _cookies(text: str) -> Iterator[Place]:
    """Yield generated values of cookies. Anybody who has such a value can act as its owner."""
    for line in _COOKIES.finditer(text):
        for found in _COOKIE.finditer(text, line.start(), line.end()):
            value = found[1].replace("%", "")
            is_users = _USER_COOKIE.search(
                text, max(line.start(), found.start() - 24), found.start()
            )
            if UUID.fullmatch(value) or is_random(value) or (is_users and is_token(value)):
                yield Place(found.start(1), found.end(1), "cookie")


FINDERS: tuple[SecretFinder, ...] = (
    *(shape.finder(hint) for shape in SHAPES for hint in shape.hints),
    SecretFinder(STARTS + _DISCORD, _discord_tokens),
    *(SecretFinder(begin, partial(_private_keys, begin=begin)) for begin in _BEGINS),
    SecretFinder("ookie|OOKIE", _cookies),
)
"""The finders of all forms. If two hints begin alike, the first gives the kind."""
