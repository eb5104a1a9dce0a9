"""How many of each common kind of secret are found, drawn by lot; and look-alikes that stay.

All are made up here, so that no scanner finds a key in this file.
"""

import random
import string

import pytest

from compact.secrets.redaction import Known, redact, secrets_of
from tests.secrets.test_redaction import PASS

TRIED, PIECE = 200, 6
ALNUM, MARKS = string.ascii_letters + string.digits, "!@#$%^&*()-_=+[]{};:,.<>?|~"
DJANGO = string.ascii_lowercase + string.digits + "!@#$%^&*(-_=+)"
KINDS: dict[str, tuple[str, str, int]] = {
    "Django's with its prefix": ("SECRET_KEY = 'django-insecure-{}'", DJANGO, 50),
    "Django's": ("SECRET_KEY = '{}'", DJANGO, 50),
    "Django's without quotes": ("SECRET_KEY={}", DJANGO, 50),
    "digits, set": ("DB_PASSWORD={}", string.digits, 10),
    "digits": ("password: {}", string.digits, 10),
    "small letters": ("password: {}", string.ascii_lowercase, 12),
    "small letters in quotes": ('password = "{}"', string.ascii_lowercase, 12),
    "letters": ("password: {}", string.ascii_letters, 12),
    "letters and digits, set": ("DB_PASSWORD={}", ALNUM, 12),
    "letters and digits": ("my password is {}", ALNUM, 12),
    "all marks": ("password: {}", ALNUM + MARKS, 14),
    "all marks, in quotes": ('{{"password": "{}"}}', ALNUM + MARKS, 14),
    "all marks, spoken": ("the password is {}", ALNUM + MARKS, 14),
    "all marks, set": ("DB_PASSWORD={}", ALNUM + "!@#%^*-_=+:,.~", 14),
    "of something": ("The password for the db: {}", ALNUM + "!#%*", 14),
}


@pytest.mark.parametrize("name", KINDS)
def test_nine_of_ten_of_each_kind_are_found(name):
    """No piece of them is left."""
    template, letters, length = KINDS[name]
    rng, left = random.Random(name), []
    for _ in range(TRIED):
        secret = "".join(rng.choice(letters) for _ in range(length))
        told = redact(template.format(secret)).text
        if any(secret[i : i + PIECE] in told for i in range(length - PIECE + 1)):
            left.append(secret)
    assert len(left) <= TRIED // 10, left[:5]


@pytest.mark.parametrize(
    ("before", "secret", "after"),
    [
        ("пароль: ", "Жук" + "жёлт123!x", "\n"),
        ("Mot de passe : ", "été" + "2024!x", "\n"),
        ("senha: ", PASS, "\n"),
        ("hasło: ", PASS, "\n"),
        ("비밀번호: ", PASS, "\n"),
        ("Wachtwoord voor de server is ", PASS, "."),
        ('$p = ConvertTo-SecureString "', "Win" + "ter2024!", '" -AsPlainText'),
        ("ConvertTo-SecureString -String '", PASS, "'"),
        ("credentials: ", "admin:Tr0ub4" + "dor&3", "\n"),
        ("password: ", "pa|ss" + "12!Q", "\n"),
        ("password: ", "Ab12" + "(cd34", "\n"),
        ("DB_PASSWORD=", "aB:cD1" + "eF2", "\n"),
        ('password: "', "my d0g " + "barks loud", '"'),
        ("passphrase: ", "correct horse battery staple", "\n"),
        ("GPG passphrase=", "river maple stone candle ladder", ""),
        ("password: ", "river-maple-stone-" + "candle42", "\n"),
        ("mysqldump -u root -p", PASS, " shop"),
        ("docker login quay.io -u bot -p ", PASS, "\n"),
        ("curl -X POST -H 'A: b c' \\\n  https://a.org -u ", "bob:" + PASS, "\n"),
        ("machine a.org\n  login bob\n  password ", PASS, "\n"),
        ("dbPass: '", PASS, "'"),
        ("DBPASS=", PASS, "\n"),
    ],
)
def test_what_people_write_is_found_as_it_stands(before, secret, after):
    """Neither cut in half nor longer than it is."""
    told = redact(before + secret + after).text
    head, _, tail = told.partition("<REDACTED:")
    assert (head, tail.partition(">")[2]) == (before, after)


@pytest.mark.parametrize(
    "text",
    [
        "https://github.com/a/b and then git push -u origin:feature-12x",
        "see http://x.org then docker run -u node:staff12 img",
        "Use curl and then docker run -u node:staff12 img",
        "curl https://a.org; docker run -u node:staff12 img",
        "On the login page use nc -p port8080x",
        "mysql -h db -p shop2024",
        "On this machine the password must be long",
        "compass: north12345",
        "bypass=12345678a",
        'renderPass: "gbuffer2"',
        'const pass = "shadow-map-2"',
        "first pass: 1234567 tokens",
        "'password' => 'required|min:12'",
        "password: required",
        "Password: incorrect",
        "mock.patch.object(pwd, 'getpwuid')",
        '"password": "At least 8 characters, 1 digit!"',
        "password: z.string().min(8).max(64)",
        "password: bcrypt.hashSync(plain1, 10)",
        "password: (v) => v.length > 8",
        "password: /^(?=.*[A-Z])(?=.*[0-9]).{8,}$/",
        "token = self._fp.read(1)[0]",
        "token, value = get_atom(value[1:])",
        "PASSWORD=$(cat /run/secrets/db1)",
        "DB_PASSWORD=settings.DB_PW1",
        "DB_PASSWORD=dbPassword",
        "пароль: обязательно",
        "密码必须至少8位",
        "the password for user1 is required",
        "the token for the api: see below",
        "credentials: same-origin",
        "credentials: read:user",
        "passphrase: used to open the key file",
        "passphrase: must be at least four words",
    ],
)
def test_look_alikes_stay(text):
    """Other commands' options, ends of other words, rules of forms, code, prose."""
    assert redact(text).text == text


def test_a_word_is_redacted_only_where_it_is_set():
    """A weak password is a word that is said otherwise, too."""
    weak = ["deployment", "Production", "CHANGELOG", "shop-backend"]
    said = [f"DB_PASSWORD={word}" for word in weak]
    assert [redact(each).text for each in said] == ["DB_PASSWORD=<REDACTED:password>"] * len(weak)
    assert secrets_of(said) == {}
    known = Known([("deployment", "password"), ("tcfbq" + "cvgvfid", "password"), (PASS, "token")])
    assert list(known) == ["tcfbq" + "cvgvfid", PASS]
