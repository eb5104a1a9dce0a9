"""Behind an explicit key everything is the secret but a reference, a placeholder, a type and prose.

All are made up here, so that no scanner finds a key in this file.
"""

import random
import string

import pytest

from compact import plan
from compact.secrets.redaction import redact
from tests.secrets.test_redaction import pem

LOT = random.Random("explicit keys")
ALNUM = string.ascii_letters + string.digits


def made(length, letters=ALNUM):
    return "7Qd" + "".join(LOT.choice(letters) for _ in range(length - 3))


JOINED = ("basalt-heron-" + "417", "k.h" + "38R", "k_h" + "38", "ochre-wren-tulip-" + "gravel")
KEYS = (
    "password: {}\n",
    "Passwort: {}\n",
    "secret: {}\n",
    'apiKey: "{}"',
    'token = "{}"',
    "DB_PASSWORD={}\n",
    '{{"password": "{}"}}',
    "config['password'] = '{}';",
    "Adgangskode: {}\n",
    "Паролата \u0435 {}\n",
    "Lösenordet är {}\n",
    "비밀번호는 {} 입니다",
    "パスワードは {} です",
    "mot de passe : {}\n",
)
WORD = "Basalt" + "88heron"
KEY = made(32)
ELSEWHERE = (
    ("the key on the line above", 'variable "db_password" {\n  default = "{}"\n}', JOINED[0]),
    ("and numbers", ' 1→variable "db_password" {\n 2→  type = string\n 3→  default = "{}"', WORD),
    ("an object", '{"password": {"value": "{}"}}', JOINED[2]),
    ("an object with its type", '{"password": {"type": "secure", "value": "{}"}}', WORD),
    ("a name and its value", '{"name": "API_TOKEN", "secure": true, "value": "{}"}', KEY),
    ("a type", 'password: str = "{}"', JOINED[0]),
    ("a type with a default", "const password: string = '{}';", JOINED[0]),
    ("an address", "jdbc:mysql://db/app?user=app&password={}", JOINED[0]),
    ("an archive", "7z a -p{} a.7z docs", WORD),
    ("an unpacked one", "unzip -P {} a.zip", WORD),
    ("behind another option", "keytool -genkey -storepass {} -alias a", WORD),
    ("a share", "smbclient //nas/docs -U ada%{}", WORD),
    ("a user", "echo 'ada:{}' | chpasswd", WORD),
    ("Fernet", 'box = Fernet(b"{}")', KEY),
    ("an HMAC", 'crypto.createHmac("sha256", "{}").update(a)', KEY),
    ("a signed token", "jwt.sign({ sub: user.id }, '{}', { expiresIn: '1h' })", KEY),
    ("a buffer", "const secretKey = Buffer.from('{}', 'utf8');", KEY),
    ("bytes", 'jwtKey := []byte("{}")', KEY),
    ("a typed secret", 'token = SecretStr("{}")', KEY),
    ("colours", "\x1b[32mpassword\x1b[0m: \x1b[33m{}\x1b[0m\n", JOINED[0]),
    ("colours of a search", "a.ini:\x1b[01;31m\x1b[Kpassword\x1b[m\x1b[K = {}\n", JOINED[1]),
    ("colours in JSON", '{"out": "\\u001b[1mpassword\\u001b[0m: {}"}', WORD),
    ("no width", "pass\u200bword: {}\n", WORD),
    ("a heading", "user,password\nada,{}\n", JOINED[0]),
    ("a question", "What's the password?\n{}\n", WORD),
    ("a chat", "Q: what's the wifi password?\nA: {}\n", WORD),
    ("a first boot", "Use the following password to proceed:\n\n{}\n\nIt is in a.txt", JOINED[0]),
    ("a log", "A temporary password is generated for root@localhost: {}\n", JOINED[0]),
    ("a fence", "### Password\n\n```\n{}\n```\n", JOINED[0]),
    ("a command before", "cat a; PGPASSWORD={} psql -h db", JOINED[0]),
    ("an encoded address", "next=%2Fa&access_token%3D{}", KEY),
    ("a dash", "pw - {}\n", WORD),
    ("a bracket", "비밀번호({})", WORD),
    ("a possessive", "the wifi password's {}\n", WORD),
    ("a vendor in an address", "key%3D{} was sent", "AK" + "IA" + "QZ7L3MX2" * 2),
    ("Vercel", "I pasted {} there", "vercel_blob" + "_rw_" + made(16) + "_" + made(30)),
    ("Square", "run {} now", "EA" + "AA" + made(60)),
    ("Cloudflare", "run {} now", "v1" + ".0-" + made(24, "0123456789abcdef") + "-" + made(146)),
    ("Airtable", "run {} now", "pat" + made(14) + "." + "0a1b2c3d" * 8),
)
GENERATED = "Kd83jdYs62hdTrOpWqZz"
LINES = (
    ("a comment behind", '"{}"  # api token', GENERATED),
    ("an arrow back", "{}   <- password of iris", GENERATED),
    ("a bracket behind", "{} (that's the admin password)", GENERATED),
    ("a sentence", "{} is the password for the shed", JOINED[0]),
    ("a sentence of another language", "{} ist das Passwort vom Drucker", JOINED[0]),
    ("used as one", "log in as ada and use {} as the password", JOINED[0]),
    ("used as one, in German", "Nimm {} als Passwort.", GENERATED),
    ("an arrow", "here's the token for staging → {}", WORD),
    ("a dash of two", "the token for staging => {}", WORD),
    ("a drawn table", "│ user │ password │\n├──────┼──────────┤\n│ ivo  │ {} │\n", WORD),
    ("a double one", "║ user ║ password ║\n╠══════╬══════════╣\n║ ivo  ║ {} ║\n", WORD),
    ("a ruled one", "| user | password |\n+------+----------+\n| ivo  | {} |\n", WORD),
    ("one of spaces", "User   Password\n-----  --------\nivo    {}\n", WORD),
    ("an underlined heading", "Access token\n------------\n{}", GENERATED[:14]),
    ("a heading with a colon", "API key:\n\n{}", "8bcab577a0cf" * 3),
    ("a number assigned", "login?user=ada&otp={}", "442918"),
    ("a number in JSON", '{"otp": "{}"}', "442918"),
    ("a header", "x-functions-key: {}", "5be1c0ffee7d4a2f9c83b1aa0d6e7f42"),
    ("a header in a list", '[{"Authorization": ["Bearer {}"]}]', WORD),
    ("a header with letters in turn", "Authorization: Bearer {} now", "dQRJtaWp6NZHoN"),
    ("what a command tells", "$ pass show mail/ivo\n{}", GENERATED),
    ("short names", '[{"k":"token","v":"{}"}]', WORD),
    ("a field of a form", '<input type="password" name="p" value="{}">', JOINED[0]),
    ("an object of two lines", "a = {\n  'password':\n    '{}',\n}", JOINED[0]),
    ("a key of a network", "WLAN-Schlüssel ist {}, bitte", JOINED[0]),
    ("a key to enter", "clave de acceso: {}", JOINED[0]),
    ("an option at the beginning", "--api-key {} --region eu", JOINED[0]),
    ("a command before another", "set password={}&& run.bat", WORD),
    ("a label, a gap and a value", "Your new secret:\n\n    {}\n", JOINED[0]),
    ("a label in bold", "**Password**\n\n{}", "basalt+heron+417"),
    ("a form", "User\nivo\nPassword\n{}", GENERATED),
    ("a form with numbers", "  3 | Password\n  4 | {}\n", GENERATED),
    ("a label over a number", "PIN\n{}", "604418"),
    ("a label over an item", "user: ivo\npassword:\n  - {}\n", GENERATED),
    ("a label over words", 'Passphrase:\n"{}"', "basalt heron tulip gravel wren"),
    ("capitals over columns", "USER     PASSWORD           HOST\nivo      {}   db-2", JOINED[0]),
    ("what SQL inserts", "INSERT INTO a (n, password) VALUES (now(), '{}');", "UVK4X8KVGL"),
    ("a function of SQL", "SET PASSWORD FOR 'a'@'%' = PASSWORD('{}');", "lWMuaFEVu"),
    ("what SQL is told", "SELECT pgp_sym_decrypt(x, '{}') FROM t;", JOINED[0]),
    ("what SQLite is told", "PRAGMA key = '{}';", WORD),
    ("letters in turn", '{"user": "x", "pass": "{}"}', "bjftMHuWu"),
    ("words and a number", 'SMTP_PASS="{}"', "mail heron 17!"),
    ("words and a number of C", '#define WIFI_PASS "{}"', "garden heron 4"),
    ("words of a network", 'psk="{}"', "purple monkey 12"),
    ("words of an option", "gpg --passphrase '{}' -d a", "quartz heron glacier"),
    ("an arrow of R", 'password <- "{}"', JOINED[0]),
    ("dots between", "password ........ {}\n", JOINED[0]),
    ("what it is now", "The password is now {}, thanks.", JOINED[0]),
    ("a key shared before", "pre-shared-key {} ;", GENERATED),
    ("characters of Java", 'store.load(in, "{}".toCharArray());', "k3yst0re!"),
    ("two arguments", 'conn.authenticate("root", "{}")', GENERATED),
    ("openssl", "openssl enc -aes-256-cbc -k {} -in a -out b", WORD),
    ("a number between words", "password: {}\n", "heron-532-comet"),
    ("a short name before", "+ export PGPASSWORD={}", "brooklime_7"),
    ("a label with a remark", "Password (case sensitive)\n{}", "basalT_Tea_6"),
    ("a label with a hint", "Access token\n(copy it now)\n{}", GENERATED + "_" + GENERATED),
    ("a label with a box", "\u2611 Root password\n   {}", "Xa9-prFUPrkc"),
    (
        "a label over a rule",
        "Passphrase\n\u2014\u2014\u2014\u2014\n{}",
        "nine grey herons over ice",
    ),
    ("an activation key", "Activation key:\n{}", "V0VR-NMSW-5VLP-LJBS"),
    ("words that identify", "CREATE USER 'a'@'%' IDENTIFIED BY '{}';", "neap tide spring tide"),
    ("a key that attaches", "ATTACH DATABASE 'a.db' AS t KEY '{}';", "dogwatch-bell-8"),
    ("a client in SQL", "INSERT INTO a (id, client_secret) VALUES (4, '{}');", GENERATED * 2),
    (
        "a key of a wallet",
        "WIF {} here",
        "5" + "JxhLmHrUxZ67E2J4" + "MqF2k755p4DEaywAzyAZq6aL8sHyJXnEbx",
    ),
    ("a token of Vault", "run {} now", "s." + "aOmmgPPrr7FHAOhZmqJ1SeE8"),
)
NONE = (
    "http2-server is the protocol; the token is sent once",
    "base64url is the encoding of the token",
    "pbkdf2_sha256 is the password hasher",
    "src/auth/token_store_v2.py  # token store",
    "9f8e7d6c5b4a39281706f5e4d3c2b1a098765432  # fix the token",
    "room-2041-east (key at the desk)",
    "│ field    │ type        │\n├──────────┼─────────────┤\n│ password │ varchar(64) │\n",
    "Token types\n-----------\nidentifier",
    "Access token\n------------\nread:packages",
    "x-cache-key: 5f4dcc3b5aa765d61d8327deb882cf99",
    "x-request-id: 7d1f0c2be93a4c5f8e6d7a9b0c1d2e3f",
    "otp: 30 seconds",
    '<input type="password" name="new" placeholder="12 characters">',
    "$ pass show work\nError: work is not in the password store.",
    '[{"Authorization": ["Bearer <token>"]}]',
    "the token => next_token2(stream)",
    "const lanes = Math.min(maxSessionLanes*2, 16);",
    "var e=n.password,r=t.token||n;e.key=r+2;return t.k0+t.k1",
    "secretKey:t.k8,apiKey:n.a1,token:r.b2",
    "cat data/chat_sessions/x7Kp2mQ9vL4tR8wZ/log.txt",
    '{"password": {"type": "string", "format": "password", "minLength": 8}}',
    '{"token": {"value": "{color.blue.500}", "type": "color"}}',
    'key = f"user:{user.id}:session-v3"',
    "password = random_password.db2.result",
    "token = data.aws_eks_cluster_auth.main2.token",
    "password: this.form.value.password2",
    "token: Token.Ident2,",
    "Unexpected token: punc2 (line 3)",
    "Token: ERC-20",
    '{"author": "Ada", "auth": "oauth2"}',
    '"clientRequestToken":"3d8150d9-f99c-41b6-ad1b-be94c8fa9189"',
    "apt\tpasswd\t1:4.13\napt\tperl-modules-5.36\t5.36\napt\tpostgresql-15\t15.18\n",
    "def revoke(self, token,\n           callback=None, body=body)",
    "compass: north-west-45",
    "What's the password policy?\nAt least 12 characters.",
    "Password: state-of-the-art hashing is used",
    "パスワードは8文字以上です",
    "비밀번호는 8자 이상입니다",
    "<code>{ psk: &#x3C;Buffer> }",
    '<input name="password" autocomplete="current-password" minlength="12">',
    "Password\nRequired",
    "Access key\nAlt+Shift+S",
    'errors = {"password": "does not match the other one"}',
    "DB_PASSWORD=settings.DB_PW1",
    "Token\nidentifier_2",
    "PIN\n2024",
    "Secret:\n\n  see the vault",
    "kind: Secret\nmetadata:\n  name: db-1",
    "USER     TOKENS   HOST\nivo      4096     db-2",
    "INSERT INTO a (name, password) VALUES (?, ?);",
    "INSERT INTO a (name, password_hint) VALUES ('ivo', 'the dog of 2012');",
    'passwordLabel = "enter 8 characters"',
    'password: "at least 8 characters"',
    'pass: "renderPassTwo"',
    "password <- read_password(prompt)",
    "passphrase: 'what you chose'",
    "keys: ISBN 978-3-16-148410-0, tokens 4096, model gpt-4o-mini-2024-07-18",
)


@pytest.mark.parametrize("secret", JOINED)
@pytest.mark.parametrize("key", KEYS)
def test_joined_words_behind_an_explicit_key_are_the_secret(key, secret):
    """A password need not look generated: its name says what it is."""
    before, after = key.split("{}") if "{{" not in key else key.format("{}").split("{}")
    told = redact(before + secret + after).text
    head, _, tail = told.partition("<REDACTED:")
    assert (head, tail.partition(">")[2]) == (before, after)


@pytest.mark.parametrize(("where", "text", "secret"), ELSEWHERE, ids=[x for x, *_ in ELSEWHERE])
@pytest.mark.parametrize(
    "before", ["", "A line.\n", "> and then: "], ids=["first", "below", "told"]
)
def test_a_key_is_explicit_wherever_it_stands(where, text, secret, before):
    """On another line, in an object, a call, an address, a command, between colours; and whatever
    stands before it.
    """
    assert secret not in redact(before + text.replace("{}", secret)).text, where


@pytest.mark.parametrize(("where", "text", "secret"), LINES, ids=[x for x, *_ in LINES])
@pytest.mark.parametrize("before", ["", "A line.\n"], ids=["first", "below"])
def test_a_line_tells_what_it_holds(where, text, secret, before):
    """Also behind the value, in a heading, and in a table however it is drawn."""
    assert secret not in redact(before + text.replace("{}", secret)).text, where


PUBLIC = (
    *("CERTIFICATE", "TRUSTED CERTIFICATE", "CERTIFICATE REQUEST", "PUBLIC KEY", "RSA PUBLIC KEY"),
    *("X509 CRL", "PGP PUBLIC KEY BLOCK"),
)


def block(label, lines=24):
    body = "\n".join(made(64, ALNUM + "+/") for _ in range(lines))
    return f"-----BEGIN {label}-----\n{body}\n{made(30)}==\n-----END {label}-----"


@pytest.mark.parametrize("label", PUBLIC)
@pytest.mark.parametrize("end", ["\n", "\\n", "\r\n", "\n    "])
def test_what_everybody_may_have_is_no_secret(label, end):
    """Whatever is generated in it; also cut off."""
    text = block(label, 48).replace("\n", end)
    assert redact(text).text == text
    assert redact(cut := text[: len(text) // 2]).text == cut


@pytest.mark.parametrize("kind", ["ssh-rsa", "ssh-ed25519", "ecdsa-sha2-nistp256"])
def test_a_public_key_of_ssh_is_no_secret(kind):
    text = f"{kind} AAAA{''.join(made(64, ALNUM + '+/') for _ in range(8))} token@desk"
    assert redact(f"key: {text}").text == f"key: {text}"


def test_what_stands_beside_a_public_block_is_found():
    """A private key behind its certificate; passwords before it, and below a cut one."""
    certificate = block("CERTIFICATE")
    text = f"password: {WORD}\n{certificate}\n{pem()}\n{certificate[:400]}\npassword: {KEY}\n"
    told = redact(text)
    assert told.found == ("password", "private_key", "password")
    assert certificate in told.text


@pytest.mark.parametrize("sign", ['" + "', '" +\n  "', '" . "', '"\n  "'])
def test_both_halves_of_a_text_are_one_secret(sign):
    told = redact(f'password = "basalt{sign}-{WORD}"').text
    assert told == 'password = "<REDACTED:password>"'


@pytest.mark.parametrize("number", ["{:6}\t", "{}: ", "{:3} | ", "{:5}→"])
def test_numbered_lines_of_a_private_key_are_one(number):
    told = redact("\n".join(number.format(i) + x for i, x in enumerate(pem().split("\n"), 1)))
    assert told.found == ("private_key",)
    assert told.text.endswith("<REDACTED:private_key>")


@pytest.mark.parametrize("text", NONE)
def test_references_types_and_prose_stay(text):
    assert redact(text).text == text


@pytest.mark.parametrize("secret", JOINED)
def test_no_checkpoint_tells_joined_words(secret):
    """Through the front door: what was said early is summarized without them."""
    rows = [{"role": "user", "content": f"Set up src/a.py.\nDB_PASSWORD={secret}\nGo on, please."}]
    for i in range(30):
        rows.append({"role": "user", "content": f"Now add handler_{i} to src/a.py."})
        rows.append({"role": "assistant", "content": f"Added handler_{i}. " + "It works. " * 30})
    (checkpoint,) = plan(rows, max_tokens=2_000).context.checkpoints
    assert "User: " in checkpoint.summary
    assert secret not in checkpoint.summary
