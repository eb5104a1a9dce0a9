"""Checks what a value looks like: a credential, a placeholder, a word, a name in code, a path.

The other modules of this package find the values that are checked here. The limits below were
chosen so that keys are found and names in code are not.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from itertools import pairwise

_RANDOM_CHARACTERS = 8
"""The fewest different characters of a generated value; the shortest scrambled value."""
_LEAST_CHANGES, _CHANGES = 4, 0.18
"""How often a generated value must change between small letters, capitals and digits: in total, and
per character. With lower numbers names in code count as keys, with higher ones keys are missed."""
_UPPER_CHANGES, _LETTER_CHANGES, _PATH_CHANGES = 0.12, 0.42, 0.35
"""The fewest changes per character: in a value without small letters, in a value of letters only or
one that may be a name in code, and in a possible path."""
_KEY_LENGTH, _SHORT_KEY = 16, 8
"""The fewest characters of a generated key, and of a token or a password in a sentence."""
_PLACEHOLDER = re.compile(
    r"[<{(\[][\w .:-]*(?:[>})\]]|$)|\$[A-Za-z_]\w*(?:$|[./:\[{(-])|\?|"
    r"%[sd]\b|%[({]|%\w{1,64}%$|@\w{1,64}@$|#\{|&[#a-z]"
)
"""The beginning of a placeholder for a secret, in lower case."""
_PLACEHOLDER_WORDS = (
    *("${", "$(", "{{", "***", "...", "…", "xxxx", "redacted", "example", "placeholder", "dummy"),
    *("fake", "mock", "sample", "your", "undefined", "environ", "getenv", "process.env"),
    *("secrets.", "vault:"),
)
"""Texts that occur in placeholders, or in references to the place where a secret is kept."""
_MAY_ASK = ("{", "todo", "change", "replace", "insert")
"""Each match of `_ASKS` contains one of these texts. Searching for them first is faster."""
_ASKS = re.compile(
    r"\{[a-z_][\w.]*\}|\btodo\b|change.?(?:me|it|this)|(?:replace|insert).?(?:me|with|this|here|your)"
)
_COUNTED = re.compile("123456|abcdef|(.)\\1{5}", re.IGNORECASE)
"""Characters that count up or repeat. No issued key has them."""
_PLACE_NAMES = re.compile(
    r"^(?:[a-z][a-z0-9+.-]{1,20}:(?://|[\w./:@+-]*$)|~?/|\.{1,2}/|[A-Za-z]:\\|arn:|0x[0-9a-fA-F]+$|[A-Za-z]+/\d+\.|[\w-]{1,64}\.[a-z]{1,4}\d?$)"
)
"""A URL, a path or a file name: it names a place and is not a secret."""
_FILE_NAME = re.compile(r"[\w.@+-]{1,128}\.[a-z]{1,7}\d?")
_REFERENCE = re.compile(
    r"[A-Za-z_][a-z]*(?:[A-Z_][a-z0-9]*)+|[a-z]+(?:-[a-z0-9]+)+|"
    r"[A-Za-z_]\w*(?:\??(?:\.|->|::)[A-Za-z_]\w*)+",
)
"""A name in code: camelCase, snake_case, kebab-case, or an attribute."""
_DIGIT_INSIDE = re.compile(r"[A-Za-z]\d+[a-z]|\d[A-Za-z]+\d")
_ATTRIBUTE = re.compile(r"\w+(?:\??(?:\.|->|::)[A-Za-z_]\w*)+")
_RULES = re.compile(r"[a-z_]{2,32}(?::[\w,.-]+)?(?:\|[a-z_]{2,32}(?::[^|]{1,64})?)+")
"""The rules of a form for a value, such as `required|min:12`."""
_WORD_PARTS = re.compile(
    r"pass|pwd|secret|token|key|cred|auth|user|conf|value|input|str|arg|param|field|data|env|"
    r"default|opt|hash|sha\d|md5|base64|crypt|argon|char|int\d|utf|uuid|test",
    re.IGNORECASE,
)
_COMMON = frozenset(
    """
    pass password passwd pwd secret user root guest admin test none null true false required
    optional string prompt empty enabled disabled unset stdin
    """.split()  # noqa: SIM905 - a table to read
)
_PARTS = re.compile("[A-Z]*[a-z]+|[A-Z]+")
_CODE_WORDS = frozenset(
    """
    arg args argon auth base bcrypt char config cred creds credential credentials crypt data default
    env field hash id input int key length login max md min name number option param pass passwd
    password ptr pwd ref reset scrypt secret secrets session sha str string test token tokens type
    url user username utf uuid value var vault
    """.split()  # noqa: SIM905 - a table to read
)
"""Words of code. An unquoted value that contains one of them is a name in code."""
_HEX = re.compile("[0-9a-f]+|[0-9A-F]+")
UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_FOLLOWS = {
    row[0]: row[1:]
    for row in """
    abcdfgiklmnprstuvwy baeilorsu cacehiklorstu dadeilorsu eabcdefgilmnopqrstuvwxyz faefilortu
    gaeghilnorsu haeiortu iabcdefglmnoprstvxz jeou keis ladeilostuvy mabeimopsu nacdefgiklnostuvy
    oabcdfgiklmnoprstuvw paehiloprstu qu rabcdefgiklmnoprstuvy sacehiklmopstuy tacehilorstuy
    uabcdefgilmnprst vaeio waehinors xceipt yinps zae
    """.split()  # noqa: SIM905 - a table to read
}
"""Letter → its usual next letters. They follow in 97% of pairs in words, 40% at random."""
_UNUSUAL, _FEW_LETTERS = 3, 10
"""This many unusual pairs show that a value is no word; one more if it has few letters."""
_KNOTTED_WORD = re.compile(r"[A-Za-z](?:\d+[A-Za-z]|[A-Za-z]{2}\d|[!@#$%^*+=]+\w)")
_JOINED = re.compile(
    r"[A-Za-z]\w*(?:[-_.]\w+)*?[-_.](?=\w{0,32}\d\d)\w+|\w*\d\d\w*(?:[-_.]\w*[A-Za-z]{3})+"
    r"|(?:[A-Z][a-z]+){2,}\d\d+"
)
"""Words joined with a number. Names in code seldom contain a number of two digits."""
_PHRASE = re.compile(
    r"[A-Za-z]{2,}(?:-[A-Za-z]{3,}){3,}|[A-Za-z]{2,}(?:_[A-Za-z]{3,}){3,}|[A-Za-z]{2,}(?:\.[A-Za-z]{3,}){3,}"
)
"""At least four words, joined by `-`, `_` or `.`."""
_HUMPS = re.compile("[A-Z]?[a-z]+|[A-Z]+")
_VOWELS = frozenset("aeiouyAEIOUY")
_PROSE = frozenset(
    """
    is are was be been must should may can least most to for not no your our my this that it enter
    type choose new wrong invalid incorrect required expired characters chars digits letters symbols
    length long short minimum maximum contain contains include includes if than field here see from
    you what which who how when why does do did has have had too already taken match matches empty
    blank weak strong missing given set updated changed forgot forgotten same again please show hide
    """.split()  # noqa: SIM905 - a table to read
)
"""Words of sentences about passwords. Several words with one of these are not a password."""
_NUMBERED = re.compile(r"[A-Za-z]+\d+")
_LEAST_JUMBLED, _LEAST_KINDS, _TURNS, _MOST_WORDS = 8, 7, 0.36, 1 / 3
_LONG, _LONG_KINDS, _LONG_SYMBOLS, _LONG_DIGITS = 32, 18, 4, 3
"""A value with at least this many characters, different characters, symbols and digits counts as
jumbled, even if the kinds of characters seldom change."""
_SYMBOL = re.compile(r"[^\w\s.:/-]")
_RUN_OF_LETTERS = re.compile("[A-Za-z][a-z]{4,}|[A-Z]{5,}")
_CODE_MARKS = re.compile(r"\(\?|\.\*|a-z|A-Z|\w[=!]=|[=-]>|&&|\|\||\(\)|\[\]|\{\}|::|//|\$\{|#\{")
_CALL = re.compile(r"[A-Za-z_][\w.]*(?:\([^()]*\)|\[[^\[\]]*\])|[a-z_]{3}[\w.]*[(\[]")
_DIGIT, _SMALL = re.compile(r"\d"), re.compile(r"[a-z]")
_STRONG = re.compile(r"[\d!@#$%^&*?+~=]")
_CLASSES = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "a" * 26 + "A" * 26 + "0" * 10
)
_MARKED = re.compile(r"\w[!#$^&*+~%@]+\w|\w[!$^*+~]\Z")
_MADE_UP = re.compile(
    r"(?=.{0,80}[A-Za-z]{3})[A-Za-z][\w.-]{1,40}[!^#%&*~$+@][\w.!^#%&*~$+-]{1,40}"
)
_NO_PASSWORD = re.compile(
    r"^[^\w*!~]|^~/|^[\w./-]+#L?\d+$|^[\w.+-]+@(?:\d{1,3}\.|[\w-]+\.)|%[0-9A-Fa-f]{2}|//|\+\d+\b|\d%|/.*/|\w&\w+="
    r"|\$\w\$|\d{4}-\d\d|\d:\d|^0x|:\d+$|\.[a-z]{2,4}(?:$|[./])|^[A-Za-z]\w*[*+%]\d{1,3}$|\w\.\w+\+"
)
"""Shows that a value is no password but a reference, address, version, share, path or date."""
Check = Callable[[str], bool]


def anything(_: str) -> bool:
    """Accept every value."""
    return True


def has_digit(value: str) -> bool:
    """Whether the value contains a digit."""
    return _DIGIT.search(value) is not None


def is_id(value: str) -> bool:
    """Whether the value may be an id or a checksum: a UUID, or only hexadecimal digits."""
    bare = value.removeprefix("0x")
    is_hex = len(bare) >= 20 and _HEX.fullmatch(bare) is not None
    return (is_hex or UUID.fullmatch(value) is not None) and len(set(value)) >= _RANDOM_CHARACTERS


def is_placeholder(value: str) -> bool:
    """Whether the value is a placeholder for a secret, or tells where the secret is kept."""
    head = value[:256].lower()  # further on, such words occur by chance, as in a picture
    return (
        _PLACEHOLDER.match(head) is not None
        or any(map(head.__contains__, _PLACEHOLDER_WORDS))
        or (any(map(head.__contains__, _MAY_ASK)) and _ASKS.search(head) is not None)
    )


def is_filled(value: str) -> bool:
    """Whether the value has more than four different characters and is not a placeholder."""
    return len(set(value)) > 4 and not is_placeholder(value)


def _changes(value: str) -> int:
    """Return how often the value changes between small letters, capitals and digits."""
    kinds = value.translate(_CLASSES)
    return sum(kinds.count(pair) for pair in ("aA", "Aa", "a0", "0a", "A0", "0A"))


def is_scrambled(value: str) -> bool:
    """Whether the letters follow each other in a way that is unusual in words and names in code."""
    if len(value) < _RANDOM_CHARACTERS or not (value.isascii() and value.isalnum()):
        return False
    pairs = [(a.lower(), b.lower()) for a, b in pairwise(value) if a.isupper() or b.islower()]
    unusual = sum(b not in _FOLLOWS.get(a, b) for a, b in pairs)
    return unusual >= _UNUSUAL + (len(value) < _FEW_LETTERS)


def is_wordlike(value: str) -> bool:
    """Whether the value is a word, or a name in code made of words. Weak passwords may be, too."""
    is_word = value.isalpha() and (value[1:].islower() or value.isupper())
    is_name = not _DIGIT.search(value) and _REFERENCE.fullmatch(value) is not None
    return (is_word or is_name) and not is_scrambled(value)


def is_jumbled(value: str) -> bool:
    """Whether letters, digits and symbols alternate as in a generated password, unlike in code."""
    if len(value) < _LEAST_JUMBLED or len(set(value)) < _LEAST_KINDS:
        return False
    symbols = len(_SYMBOL.findall(value))
    if symbols < 2 or _CALL.match(value) or _COUNTED.search(value) or not is_filled(value):
        return False
    if len(value) >= _LONG and len(set(value)) >= _LONG_KINDS and symbols >= _LONG_SYMBOLS:
        return len(_DIGIT.findall(value)) >= _LONG_DIGITS
    kinds = [x if x in "aA0" else "#" for x in value.translate(_CLASSES)]
    turns = sum(a != b for a, b in pairwise(kinds))
    if len(set(kinds)) < 3 or turns < _TURNS * len(value) or _CODE_MARKS.search(value):
        return False
    return sum(map(len, _RUN_OF_LETTERS.findall(value))) <= _MOST_WORDS * len(value)


def is_knotted(value: str) -> bool:
    """Whether the value may be an invented password: with a digit, small letters and capitals."""
    if len(value) < _LEAST_JUMBLED or _CODE_MARKS.search(value) or _CALL.match(value):
        return False
    is_mixed = _DIGIT.search(value) and value != value.lower() and value != value.upper()
    return bool(is_mixed) and not _WORD_PARTS.search(value)


def is_generated(value: str) -> bool:
    """Whether the value was generated, and is neither a word nor a name in code."""
    return is_random(value) or is_scrambled(value) or is_jumbled(value)


def is_issued(value: str) -> bool:
    """Whether a value with a vendor's prefix was generated, and is not a word or a counter."""
    if len(set(value)) < _RANDOM_CHARACTERS or _COUNTED.search(value) or not is_filled(value):
        return False
    share = _CHANGES if _SMALL.search(value) else _UPPER_CHANGES
    return _changes(value) >= max(_LEAST_CHANGES, share * len(value))


def is_random(value: str) -> bool:
    """Whether letters and digits change as often as in a generated key, unlike in words."""
    if len(value) < _KEY_LENGTH or len(set(value)) < _RANDOM_CHARACTERS:
        return False
    if not (_changes_often(value) or is_jumbled(value)):
        return False
    return is_filled(value) and not _COUNTED.search(value)


def _changes_often(value: str) -> bool:
    changes = _changes(value)
    share = changes / len(value)
    if _HEX.fullmatch(value) or not _SMALL.search(value):
        return changes > 1 and share >= _UPPER_CHANGES
    if not _DIGIT.search(value) or _is_name(value):
        return share >= _LETTER_CHANGES
    return changes >= _LEAST_CHANGES and share >= _CHANGES


def _is_name(value: str) -> bool:
    """Whether the value may be a name in code, whose words have no digits inside."""
    return _REFERENCE.fullmatch(value) is not None and not _DIGIT_INSIDE.search(value)


def _has_code_word(value: str) -> bool:
    return not _CODE_WORDS.isdisjoint(map(str.lower, _PARTS.findall(value)))


def is_tangled(value: str) -> bool:
    """Whether small letters and capitals are mixed in a way that is unusual in names in code."""
    humps = _HUMPS.findall(value)
    if not (8 <= len(value) == sum(map(len, humps))) or len(humps) < 4:
        return False
    return sum(len(x) == 1 or _VOWELS.isdisjoint(x) for x in humps) > 1


def is_password(value: str) -> bool:
    """Whether a quoted value with a name is a secret. Placeholders, URLs, paths, the rules of a
    form and plain words are not.
    """
    if value.isdigit():
        return len(value) >= 6 and not _COUNTED.search(value) and is_filled(value)
    if not any(map(str.isalpha, value)) or _RULES.fullmatch(value):
        return is_jumbled(value)
    if _is_place(value) or not is_filled(value):
        return False
    if _DIGIT.search(value) or is_generated(value) or is_tangled(value):
        return True
    if _STRONG.search(value):
        return not _WORD_PARTS.search(value)
    return bool(_PHRASE.fullmatch(value)) and not _has_code_word(value)


def _is_place(value: str) -> bool:
    is_path = value[:1] != "/" or _changes(value) < _PATH_CHANGES * len(value)
    return is_path and _PLACE_NAMES.match(value) is not None


def is_bare_password(value: str) -> bool:
    """Like `is_password`, for an unquoted value, which may be a name in code or end a sentence."""
    if _is_bare(value):
        return True
    is_joined = sum(map(value.count, "-_.+&")) > 1 and not _ATTRIBUTE.fullmatch(value)
    if not (is_joined and _DIGIT.search(value) and _names_nothing(value)):
        return False
    return is_password(value) and not (_has_code_word(value) or _CALL.match(value))


def _is_bare(value: str) -> bool:
    value = value.rstrip("?.,:;*") if _DIGIT.search(value) else value.rstrip("!?.,:;*")
    if not is_password(value):
        return False
    if is_generated(value) or (is_knotted(value) and not _ATTRIBUTE.fullmatch(value)):
        return True
    if _CALL.match(value) or _CODE_MARKS.search(value) or _has_code_word(value):
        return False
    return bool(_JOINED.fullmatch(value) or _PHRASE.fullmatch(value)) or not _is_name(value)


def is_secret(value: str) -> bool:
    """Whether the value of a token or key is a secret. Counters and plain ids are not."""
    if (
        _COUNTED.search(value)
        or UUID.fullmatch(value)
        or ("/" in value and not is_generated(value))
    ):
        return False
    return _is_bare(value)


def is_token(value: str) -> bool:
    """Like `is_secret`, but false for short values, because they may be ids of tokens."""
    return len(value) >= _SHORT_KEY and is_secret(value)


def is_set_password(value: str) -> bool:
    """Like `is_bare_password`, for the value of a shell variable. Ordinary words count as passwords
    here, but words of code do not.
    """
    if is_bare_password(value):
        return True
    if not (value.isalpha() or _REFERENCE.fullmatch(value)) or _ATTRIBUTE.fullmatch(value):
        return False
    is_own = value.lower() not in _COMMON and not _has_code_word(value)
    return is_own and is_filled(value)


def is_spaced_password(value: str, *, is_set: bool) -> bool:
    """Whether several words in quotes are a password, and not a form's rule about passwords."""
    words = value.split()
    if not 1 < len(words) <= 5 or not is_filled(value):
        return False
    is_own = len(words) > 2 and (_PROSE | _CODE_WORDS).isdisjoint(map(str.lower, words))
    is_phrase = value.islower() and value.isascii() and value.replace(" ", "").isalpha()
    if is_own and (is_phrase or (all(map(str.isalnum, words[:-1])) and _DIGIT.search(value))):
        return True
    if _WORD_PARTS.search(value):
        return False
    return any(_KNOTTED_WORD.search(x) and not (_is_name(x) or _has_code_word(x)) for x in words)


def is_strong_password(value: str, *, is_glued: bool, is_word: bool) -> bool:
    """Whether the value after a weak name can only be a password. A weak name, such as `pass`, may
    be the end of another name or word.
    """
    is_joined = _JOINED.fullmatch(value) is not None
    is_name = _is_name(value) and not (is_joined or is_tangled(value))
    if value.isdigit() or is_name or (is_word and is_joined):
        return False
    return not (is_glued and (_NUMBERED.fullmatch(value) or _COUNTED.search(value)))


def is_spoken_password(value: str) -> bool:
    """Like `is_bare_password`, for a value after a name without an assignment."""
    is_strong = _DIGIT.search(value) and _SMALL.search(value) and len(value) >= _SHORT_KEY
    return bool(is_strong or _JOINED.fullmatch(value)) and is_bare_password(value)


def is_passwordlike(value: str) -> bool:
    """Whether letters, a digit and a symbol are mixed as in an invented password."""
    if not 8 <= len(value) <= 64 or not _DIGIT.search(value) or not _MARKED.search(value):
        return False
    return _names_nothing(value) and sum(map(str.isalpha, value)) > 3


def is_made_up(value: str) -> bool:
    """Like `is_passwordlike`, but also with both cases and a word: a password in any context."""
    is_mixed = value != value.lower() and value != value.upper()
    return is_mixed and _MADE_UP.fullmatch(value) is not None and is_passwordlike(value)


def is_passphrase_like(value: str) -> bool:
    """Like `is_passwordlike`, near a word that names a password. Words with numbers count too."""
    if is_passwordlike(value):
        return True
    if len(value) < 8 or not _names_nothing(value) or _HEX.fullmatch(value):
        return False
    is_mixed = value != value.lower() and value != value.upper() and "/" not in value
    is_made = len(value) <= 64 and is_mixed and len(_DIGIT.findall(value)) > 1
    return is_random(value) or (is_made and not _is_name(value)) or is_joined(value)


def is_generated_key(value: str) -> bool:
    """Whether the value is a long generated key, and not an id or a checksum."""
    is_long = len(value) >= 20 and not _HEX.fullmatch(value)
    return is_long and is_random(value) and _names_nothing(value)


def is_number(value: str) -> bool:
    """Whether the value is a number of 4 to 8 digits, as people type in."""
    return value.isdigit() and 4 <= len(value) <= 8


def is_joined(value: str) -> bool:
    """Whether the value is an invented password, words joined with a number, or a long key."""
    if is_passwordlike(value) or is_long_key(value):
        return True
    is_mixed = value != value.lower() and value != value.upper()
    return is_mixed and bool(_JOINED.fullmatch(value)) and _names_nothing(value)


def is_class_name(value: str) -> bool:
    """Whether the value is mostly words in title case, such as `Sam2VideoSession`."""
    words = (x for x in _PARTS.findall(value) if len(x) > 2 and x.istitle())
    return 2 * sum(map(len, words)) > len(value)


def is_file_name(value: str) -> bool:
    """Whether the value ends like a file name, even if the rest was generated."""
    return _FILE_NAME.fullmatch(value) is not None


def is_dense(value: str) -> bool:
    """Whether the value is base64 whose letters and digits change more often than in a path."""
    kinds = value.rstrip("=").translate(_CLASSES)
    if len(value) < _LONG or not set("aA0+/_-").issuperset(kinds) or kinds.count("aA") <= 2:
        return False
    return _changes(value) >= _PATH_CHANGES * len(value)


def is_long_key(value: str) -> bool:
    """Like `is_generated_key`, for keys that are longer than ids."""
    return len(value) >= _LONG and is_generated_key(value)


def _names_nothing(value: str) -> bool:
    if UUID.fullmatch(value) or _NO_PASSWORD.search(value) or _PLACE_NAMES.match(value):
        return False
    return is_filled(value) and not _CODE_MARKS.search(value)


def is_url_password(value: str) -> bool:
    """Whether the value is a real password, and not a port or a word such as `password`."""
    if value.lower() in _COMMON or (value.isdigit() and len(value) <= 5):
        return False
    return not is_placeholder(value) and len(set(value)) > 2


def is_phrase(value: str) -> bool:
    """Whether the value is 3 to 12 words that form no sentence."""
    words = value.replace("-", " ").split()
    return 3 <= len(words) <= 12 and all(map(str.isalpha, words)) and _PROSE.isdisjoint(words)


def is_pair(value: str) -> bool:
    """Whether the value is `name:password`, and not a host with a path, or a user and a group."""
    name, _, password = value.partition(":")
    return is_url_password(password) and name != password and password[0] not in "/\\"


def _plain(value: str) -> bytes:
    """Return the bytes that base64 encodes. They are empty if the value is not base64."""
    try:
        bare = value.replace("-", "+").replace("_", "/").rstrip("=")
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def is_basic(value: str) -> bool:
    """Whether the value is the base64 of `name:password`."""
    pair = _plain(value)
    name, colon, password = pair.partition(b":")
    return bool(colon and name and password) and pair.isascii() and pair.decode().isprintable()


def is_smtp(value: str) -> bool:
    """Whether the value is the base64 of a name and a password, in the form for mail servers."""
    said = _plain(value)
    return said.count(b"\0") >= 2 and said.isascii()


def is_jwt(value: str) -> bool:
    """Whether the head of a JSON web token names an algorithm, or its second part is JSON too."""
    head, _, rest = value.partition(".")
    return rest.startswith("eyJ") or b'"alg"' in _plain(head)


def is_coded_key(value: str) -> bool:
    """Whether the value is the base64 of a private key."""
    return b"PRIVATE KEY" in _plain(value[:64])


def is_coded(value: str) -> bool:
    """Whether the value is base64 of an invented password, or of JSON with a password or a key."""
    plain = _plain(value)
    said = plain.decode().split('"') if plain.isascii() else []
    return any(is_made_up(x) or (len(said) > 1 and is_generated_key(x)) for x in said)


def is_hash(value: str) -> bool:
    """Whether the value may be the hash of a password: it has many different characters."""
    return len(set(value)) >= _RANDOM_CHARACTERS and is_filled(value)


def is_session(value: str) -> bool:
    """Whether the value was generated and is not a UUID."""
    bare = value.replace("%", "")
    is_made = is_random(bare) or (len(bare) >= _KEY_LENGTH and is_scrambled(bare))
    return is_made and not UUID.fullmatch(value)


def is_header(value: str) -> bool:
    """Whether the value in an Authorization header is a secret."""
    is_mixed = has_digit(value) and any(x.isascii() and x.isalpha() for x in value)
    is_name = _REFERENCE.fullmatch(value) and not is_generated(value)
    return bool(is_mixed) and is_filled(value) and not is_name
