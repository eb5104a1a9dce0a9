"""Redaction: secrets leave a text, ordinary text stays (design idea 7, FR-6).

All secrets are made up here, from pieces and a seeded generator, so that no scanner finds a key in
this file.
"""

import base64
import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compact.messages.message_redaction import redact_messages
from compact.messages.messages import Message
from compact.secrets.credentials import SHAPES, public_blocks
from compact.secrets.redaction import Known, find_secrets, places_in, redact, secrets_of, tables
from tests.pace import is_linear, seconds, slowness
from tests.sizes import size

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
LARGEST_REPLACEMENT = 40


def made(n: int, letters: str = ALNUM, *, seed: int = 7) -> str:
    """Random letters that hold a digit, an upper and a lower case letter where they may."""
    r = random.Random(seed * 1_000 + n)
    body = "".join(r.choice(letters) for _ in range(n - 3))
    return body + "".join(c for c in "7Qd" if c in letters).ljust(3, "0")


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def pem(kind: str = "RSA ", *, lines: int = 6, end: bool = True, joint: str = "\n") -> str:
    body = [made(64, ALNUM + "+/", seed=i) for i in range(lines)] + [made(18) + "=="]
    rows = [f"-----BEGIN {kind}PRIVATE KEY-----", *body]
    return joint.join([*rows, f"-----END {kind}PRIVATE KEY-----"] if end else rows)


JWT = ".".join((encoded('{"alg":"HS256","typ":"jwt"}'), encoded('{"sub":"12345"}'), made(43)))
BASIC = base64.b64encode(b"ada:" + b"tr4verse!").decode()
GUID = "-".join((made(8, HEX), made(4, HEX), made(4, HEX), made(4, HEX), made(12, HEX)))
PASS = "hun" + "ter2x"

# kind, what stands before, the secret, what stands after
POSITIVE: list[tuple[str, str, str, str]] = [
    ("card", "my card ", "4539 1188 " + "1712 9804", " is refused"),
    ("card", "pan=", "52545250" + "90453042", " amount=1299.00"),
    ("card", "Amex ", "3764 053691 " + "79616", " (valid to 11/28)"),
    ("card", '"number":"', "47163932" + "36555591", '"}'),
    ("card", "11,", "60111692" + "41978508", ",54.20"),
    ("password_hash", "root:", "$6$" + made(8) + "$" + made(86, ALNUM + "./"), ":19000:0"),
    ("password_hash", "'pbkdf2_sha256$", "600000$" + made(22) + "$" + made(43) + "=", "'"),
    ("signature", "?Expires=17&Signature=", made(80, ALNUM + "-_~"), "&Key=1"),
    ("cookie", "start.do;jsessionid=", made(32, HEX.upper()), "?view=list"),
    ("private_key", '{"kty":"EC","d":"', made(43, ALNUM + "-_"), '"}'),
    ("pin", "the PIN of the cabinet was changed to ", "830" + "516", ". Bring it"),
    ("password", "le mot de passe a été changé : ", "Vz9!marron" + "nier_12", ". Merci"),
    ("password", "a senha do usuário é ", "Trovao@22" + "91mx", " por 24 horas"),
    ("password", "passwordet? nei, adgangskoden er ", "Fjord-Lys-" + "4471", " nu"),
    ("password", "id,login,pwd,notes\n14,desk,", "Molar!Crown" + "62", ",old\n"),
    ("password", "| user | password |\n|---|---|\n| ada | ", "rye-Loaf-" + "7731", " |\n"),
    ("password", "-keystore a.jks -storepass ", "Heron!" + "Slate4", " app.aab"),
    ("password", "psql is up, take ", "Kestrel" + "^Ohm91", " as before"),
    ("password", "RESTIC_PASSWORD='", "acorn Velvet 7 harbor", "' restic"),
    ("recovery_code", "backup codes: ", "8174 " + "3619", ""),
    (
        "seed_phrase",
        "seed phrase: ",
        "sphere dolphin tomato slender hungry border cushion echo trumpet velvet orbit canyon",
        "\n",
    ),
    ("private_key", "key:\n", pem(), "\nthat was it"),
    ("private_key", "", pem(""), ""),
    ("private_key", "cat id_ed25519\n", pem("OPENSSH ", lines=3), "\n"),
    ("private_key", '{"private_key": "', pem("", joint="\\n"), '\\n", "id": 5}'),
    ("private_key", "cut off: ", pem("EC ", end=False), ""),
    ("private_key", "> ", pem("RSA ", joint="\n> "), "\n> he wrote"),
    ("private_key", "", pem("DSA ").replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\n", 1), "\n"),
    ("aws_key_id", "id ", "AK" + "IA" + made(13, string.ascii_uppercase) + "ABC", " end"),
    (
        "aws_key_id",
        "AWS_ACCESS_KEY_ID=",
        "AS" + "IA" + made(13, string.ascii_uppercase) + "XYZ",
        "",
    ),
    ("aws_secret_key", "aws_secret_access_key = ", made(40, ALNUM + "+/"), "\n"),
    ("aws_secret_key", '"SecretAccessKey": "', made(40), '"'),
    ("aws_secret_key", "AWS_SECRET_KEY='", made(40), "'"),
    ("github_token", "git clone with ", "gh" + "p_" + made(36), "."),
    ("github_token", "", "gh" + "o_" + made(36), ""),
    ("github_token", "token=", "gh" + "s_" + made(36), "&x=1"),
    ("github_token", "(", "github" + "_pat_" + made(22) + "_" + made(59), ")"),
    ("gitlab_token", "PRIVATE-TOKEN: ", "gl" + "pat-" + made(20), "\n"),
    ("slack_token", "", "xo" + "xb-" + made(12, string.digits) + "-" + made(24), " posted"),
    ("slack_token", "", "xo" + "xp-" + made(11, string.digits) + "-" + made(30), ""),
    (
        "slack_webhook",
        "https://hooks.slack.com/services/",
        "T0" + made(9) + "/B0" + made(24),
        " ok",
    ),
    ("anthropic_key", "key ", "sk" + "-ant-" + "api03-" + made(90), "\n"),
    ("openrouter_key", "", "sk" + "-or-" + "v1-" + made(64, HEX), ""),
    ("openai_key", "OPENAI_API_KEY=", "sk" + "-proj-" + made(80, ALNUM + "_-"), "\n"),
    ("api_key", "openai.api_key: ", "sk" + "-" + made(48), "\n"),
    ("api_key", "a bare ", "sk" + "-" + made(32), " in prose"),
    ("google_api_key", "?key=", "AI" + "za" + made(35, ALNUM + "_-"), "&q=x"),
    ("google_api_key", '"', "AI" + "za" + made(35), '"'),
    ("hugging_face_token", "login --token ", "h" + "f_" + made(34), ""),
    ("npm_token", "//registry/:_authToken=", "np" + "m_" + made(36), "\n"),
    ("pypi_token", "password = ", "py" + "pi-" + "AgE" + made(120, ALNUM + "_-"), "\n"),
    ("stripe_key", "Stripe.apiKey = '", "sk" + "_live_" + made(24), "'"),
    ("stripe_key", "", "rk" + "_live_" + made(60), ""),
    ("stripe_key", "", "sk" + "_test_" + made(24), ";"),
    ("stripe_key", "", "wh" + "sec_" + made(32), ""),
    ("sendgrid_key", "", "S" + "G." + made(22) + "." + made(43), ""),
    ("twilio_key", "", "S" + "K" + made(32, HEX), " rest"),
    ("telegram_token", "bot1234567890", ":A" + "A" + made(33, ALNUM + "_-"), "/getMe"),
    ("aws_session_token", "AWS_SESSION_TOKEN=", "IQoJb3JpZ2lu" + made(200, ALNUM + "+/"), "\n"),
    ("google_token", "bearer is ", "ya" + "29." + made(120, ALNUM + "_-"), " now"),
    ("azure_secret", "id ", "a8" + "~8Q~" + made(34), ""),
    ("webhook", "https://discord.com/api/webhooks/" + "4" * 18 + "/", made(68, ALNUM + "_-"), " x"),
    ("api_key", "use ", "dop" + "_v1_" + made(64, HEX), " for it"),
    ("api_key", "", "shp" + "at_" + made(32, HEX), "\n"),
    ("api_key", "key-id ", made(32, HEX) + "-us" + "19", "\n"),
    ("api_key", "export X=", "xai" + "-" + made(80), "\n"),
    ("api_key", "", "LT" + "AI" + made(20), " and"),
    ("jwt", "cookie ", JWT, ";"),
    ("jwt", "id_token=", JWT, ""),
    ("jwt", "Authorization: Bearer ", JWT, "\n"),
    ("authorization", "Authorization: Bearer ", "abc" + "123def", "\n"),
    ("authorization", '"Authorization": "Bearer ', made(30), '"'),
    ("authorization", "curl -H 'authorization: token ", made(40, HEX), "'"),
    ("authorization", "Authorization: Basic ", BASIC, "\n"),
    ("authorization", "sent as bearer ", made(24), " then"),
    ("url_password", "postgres://ada:", "tr4verse", "@db.example.org/x"),
    ("url_password", "https://x-access-token:", made(40), "@github.com/a/b.git"),
    ("url_password", "redis://:", "s3cr" + "etpw", "@127.0.0.1:6379/0"),
    ("url_password", "mongodb+srv://me:", "p@ss" + "w0rd1", "@cluster.example.net"),
    ("url_password", "git clone https://", made(40), "@github.com/a/b"),
    ("password", "curl -u ", "ada:" + PASS, " https://example.org"),
    ("password", "sshpass -p '", PASS, "' ssh root@example.org"),
    ("password", "machine example.org login ada password ", PASS, "\n"),
    ("cookie", "Cookie: theme=dark; session=", made(32), "; lang=en"),
    ("cookie", "curl --cookie 'sid=", made(26, HEX), "' https://example.org"),
    ("authorization", "//registry.example.org/:_auth=", BASIC, "\n"),
    ("authorization", "requests.get(u, auth=('ada', '", PASS, "'))"),
    ("authorization", "https://a.example.net/c?sv=2022&sig=", made(42) + "%3D", "&se=1"),
    ("password", "SMTP_PASS=", PASS, "\n"),
    ("password", "export DB_PASSWORD=", "swordfish", "\n"),
    ("password", "the password is ", PASS, ".\n"),
    ("password", "Das Passwort ist ", PASS, "\n"),
    ("password", "**Password:** ", PASS, "\n"),
    ("password", "<password>", PASS, "</password>"),
    ("password", "- name: DB_PASSWORD\n  value: ", PASS, "\n"),
    ("password", "CREATE USER ada IDENTIFIED BY '", PASS, "';"),
    ("password", 'user.setPassword("', PASS, '");'),
    ("password", 'passphrase: "', "correct horse battery staple", '"'),
    ("api_key", "WEATHER_KEY=", made(32, HEX), "\n"),
    ("token", "my access token is ", made(40), " ok"),
    ("password", 'password = "', PASS, '"'),
    ("password", "DB_PASSWORD=", PASS, "\n"),
    ("password", "password: ", "Tr0ub4dor&3", "\n"),
    ("password", '{"password": "', "Correct-Horse-9!", '"}'),
    ("password", '{\\"passwd\\": \\"', PASS, '\\"}'),
    ("password", "mysql --password ", PASS, " db"),
    ("password", "mysql --password=", PASS, " db"),
    ("password", "config['password'] = '", PASS, "'"),
    ("password", "Passwort: ", "geh3im!Wort", "\n"),
    ("password", "密码：", "wo8Ai+Mima", "。"),
    ("password", "PGPASSWORD='", "s#cr+t~word", "' psql"),
    ("api_key", 'SECRET_KEY = "', made(50, ALNUM + "!@#%^*"), '"'),
    ("secret", "client_secret: ", made(32, HEX), "\n"),
    ("secret", "JWT_SECRET=", made(44, ALNUM + "+/") + "=", "\n"),
    ("token", '"auth_token": "', made(32, HEX), '"'),
    ("token", "?access_token=", made(40), "&page=2"),
    ("token", "tool --api-token ", made(32), ""),
    ("api_key", 'api_key: "', made(32, HEX), '"'),
    ("api_key", "X-Api-Key: ", made(32), "\n"),
    ("api_key", "apiKey='", made(24), "'"),
    ("api_key", "API key: ", GUID, "\n"),
    ("api_key", "session_token: ", GUID, "\n"),
    ("api_key", "AccountKey=", made(86, ALNUM + "+/") + "==", ";"),
    # forms that an attack made without sight of the patterns found
    ("authorization", "Authorization: token ", "NK" + made(36), " here"),
    ("api_key", '{"text": "dry. \\n', "dapi" + made(31, HEX) + "a", '"}'),
    ("github_token", "a line\\t", "gh" + "p_" + made(36), " and more"),
    ("secret", '{"client_secret": "', "iaudq-" + "sjdjxp-274!", '", "retries": 3}'),
    ("api_key", "X-API-Key: ", "Zeazxosy" + "9481!", ""),
    ("cookie", "Cookie: theme=dark; sessionid=", "Pyjsoppq" + "1035!", ""),
    ("authorization", "https://s.example/c?sv=2024&sig=", "mnVbGpxx" + "7qNXy7RH", " there"),
    ("authorization", "auth = ('quay', '", "Zeazxosy" + "9481!", "')"),
    ("password", "echo '", "ldmptv" + "adtdki79", "' | docker login -u x --password-stdin"),
    ("password", "db.example:5432:boats:quay:", "ldmptv" + "adtdki79", "\n"),
    ("password", "I changed the root password to ", "3isQYE" + "#oAnUlm$", " today"),
    ("password", "out to dry. \\nsshpass -p '", "uO5Q7kVG" + "fbfqq14s", "' ssh quay"),
    ("discord_token", "`", "M" + made(25) + "." + made(6) + "." + made(38), "`"),
]
SECRET_AS_REFERENCE = "SECRET_KEY = "
NEGATIVE: list[str] = [
    "order 1715670011223344 and 4539 1188 1712 9805, EAN 4006381333931",
    "write to ada@example.org or call +49 30 901820",
    "a token of 128 bits, see RFC-6750 and OAuth2Client in auth_v2.py",
    "user,role,since\nada,admin,2024-01-02\n",
    "| token | meaning |\n|---|---|\n| NUMBER_1 | a number |\n",
    "Set the password to something 12 characters long.",
    "Change the password to v2.0.1 of the format.",
    "author = ('Anna Banana', 'Berta Blue')",
    "echo 'written to disk' | tee log",
    "see C:\\new_longer_directory_name1",
    '{"secretName": "harbour-tls-2", "sort_key": "created_at!"}',
    "Cookie: theme=dark; session_layout=two-columns; lang=de",
    "password = '<password>'",
    'password: "********"',
    "password=changeme",
    "PASSWORD=${DB_PASSWORD}",
    'password = os.environ["DB_PASSWORD"]',
    "password = os.getenv('DB_PASSWORD', None)",
    "password: None",
    "password = None  # set later",
    "password: str = ''",
    "password: Optional[str] = None",
    "def login(user: str, password: string): boolean",
    "password = user_password2",
    "password=self.password1",
    "password = getPassword2()",
    "password: required",
    '"password": "Password must not be empty"',
    '<input type="password" name="password">',
    'input = page.locator("#password")',
    "password_hash = compute()",
    "token_count: 1234567890123456",
    "max_tokens=128000",
    "total tokens: 4096, prompt tokens: 1024",
    "eos_token = '<|endoftext|>'",
    "next_page_token: '" + made(32) + "'",
    "tokenizer = 'o200k_base_2024_v1_large'",
    "token = response.json()['access_token']",
    "token = secrets.token_hex(16)",
    "const token = process.env.API_TOKEN_V2_2024;",
    'secret: "my-secret-name-for-the-cluster"',
    "secretName: db-credentials-v2",
    "SECRET_KEY = env('SECRET_KEY')",
    SECRET_AS_REFERENCE + "'replace-me-with-50-random-characters-2x7q9z1y'",
    'api_key = "YOUR_API_KEY_1234567890abcdef"',
    "api_key=xxxxxxxxxxxxxxxxxxxx1",
    "api_key: {{ vault_api_key_2024 }}",
    'api_key = "service-account-production-2"',
    "secret: my-secret-name-for-the-cluster-2",
    "client_secret = 'sha256:" + made(64, HEX) + "'",
    "private_key: /etc/ssl/private/" + made(12) + ".pem",
    'password: "#password-field"',
    '"password": "*Password required!"',
    "curl -u $USER:$PASS https://example.org",
    "docker run -u 1000:1000 -p 8080:80 image",
    "arn:aws:secretsmanager:us-east-1:123456789012:secret:db-" + made(6),
    "--- PASS: TestLogin/second_try_2 (0.01s)",
    "password is case-sensitive, and the token is base64url-encoded",
    "Cookie: theme=dark-mode-2; consent=accepted",
    "call_" + made(24),
    "secret_manager_client_v2_of_region_1",
    "pk_live_" + made(24),
    "client_secret = GetSecretFromVAULTForRegionABCDEFGHIJ2-EU",
    "sk-fading-circle-12-with-delay",
    "the key = value pairs of a1b2c3d4e5f6a7b8c9",
    "cache_key: " + made(40, HEX),
    "primary_key=" + GUID,
    "commit " + made(40, HEX),
    "sha256:" + made(64, HEX),
    "image: registry/x@sha256:" + made(64, HEX),
    "id " + GUID,
    "data:image/png;base64," + base64.b64encode(random.Random(3).randbytes(3_000)).decode(),
    '{"signature": "' + base64.b64encode(random.Random(4).randbytes(600)).decode() + '"}',
    "integrity sha512-" + made(86, ALNUM + "+/") + "==",
    "src/compact/secrets/redaction.py and /home/ada/project/tests/test_tokens_v2.py",
    "C:\\Users\\ada\\project\\secret\\token.txt",
    "https://example.org/build/77?page=2",
    "http://localhost:8080/path@2x.png",
    "postgres://user:password@localhost/db",
    "postgres://postgres:${PGPASSWORD}@db/x",
    "https://<user>:<password>@example.org",
    "ssh://git@example.org:22/a/b",
    "write to ada@example.org: it is urgent",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer ${TOKEN_V2}",
    "Basic authentication is on; basic arithmetic too",
    "the bearer authentication scheme of that server",
    "the bearer of this long-standing message2",
    "a task-force and risk-averse desk-bound people",
    '<div class="sk-folding-cube-with-long-name">',
    "hf_hub_download(repo_id)",
    "npm_config_cache and npm_lifecycle_event",
    "glpat- is GitLab's prefix, gh" + "p_ that of GitHub",
    "gh" + "p_" + "x" * 36,
    "AK" + "IA is how they begin",
    "SKU 12345 and SKILL.md",
    "-----BEGIN RSA PRIVATE KEY-----\nis how such a file begins",
    "-----BEGIN CERTIFICATE-----\n" + made(64) + "\n-----END CERTIFICATE-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5" + made(44) + " ada@example.org",
    "eyJ is how JSON begins in base64",
    "<REDACTED:password> and password = <REDACTED:password>",
    "The password is checked first. Its token: the word before it.",
    "access key: see the wiki; secret: none",
]


@pytest.mark.parametrize(("kind", "before", "secret", "after"), POSITIVE)
def test_a_secret_leaves_and_its_surroundings_stay(kind, before, secret, after):
    """Exactly the secret is taken out; what is told of it is its kind."""
    done = redact(before + secret + after)
    assert done.text == f"{before}<REDACTED:{kind}>{after}"
    assert done.found == (kind,)


@pytest.mark.parametrize("text", NEGATIVE)
def test_what_is_no_secret_stays(text):
    """Placeholders, references, hashes, ids, pictures, paths and prose."""
    assert redact(text) == (text, ())


def test_the_cases_are_enough_and_name_every_kind():
    """Each shape is seen to be found."""
    assert len(POSITIVE) >= 60
    assert len(NEGATIVE) >= 60
    named = {kind for kind, *_ in POSITIVE}
    assert {shape.kind for shape in SHAPES} <= named
    assert "cookie" in named


def test_a_secret_is_found_among_others_and_in_long_text():
    """All secrets of one text, in its order, beside each other and inside ordinary text."""
    text = "\n".join(
        "ordinary words " * 40 + a + s + b for _, a, s, b in POSITIVE if "PRIV" not in s
    )
    done = redact(text)
    assert not any(s in done.text for _, _, s, _ in POSITIVE if "PRIV" not in s)
    assert list(done.found) == [kind for kind, _, s, _ in POSITIVE if "PRIV" not in s]


def test_overlapping_secrets_are_one():
    """A token inside a credential URL inside an assignment: one place, no remainder."""
    token = "gh" + "p_" + made(36)
    done = redact(f'password = "https://ada:{token}@example.org"')
    assert token not in done.text
    assert len(done.found) == 1


def test_overlapping_secrets_leave_no_end():
    """One begins inside the other and ends behind it."""
    first, second = "gl" + "pat-" + made(20) + "-abcdef12", "abcdef12.rest9876"
    text = f"{first}.rest9876 end"
    assert redact(text, {second: "token"}).text == "<REDACTED:gitlab_token> end"


def test_known_secrets_are_found_without_their_names():
    """What a text gave away is taken out of what is told of it, where it stands by itself."""
    known = secrets_of([f"password={PASS}", "token=" + made(32, HEX), "password=s3cr3t"])
    assert known == {PASS: "password", made(32, HEX): "token"}, "short ones are common words"
    assert redact(f"it is {PASS}, no other", known).text == "it is <REDACTED:password>, no other"
    assert redact(f"x{PASS} {PASS}x", known).found == ()


@pytest.mark.parametrize("text", ["İ password=" + PASS, "ß\ud800 password=" + PASS, "İ" * 50])
def test_letters_that_change_their_length_move_nothing(text):
    """Lower case may be longer than its letter; a lone surrogate is text like any other."""
    assert redact(text).text == text.replace(PASS, "<REDACTED:password>")


PIECES = st.one_of(
    st.sampled_from([a for _, a, _, _ in POSITIVE] + [b for *_, b in POSITIVE]),
    st.sampled_from([s for _, _, s, _ in POSITIVE]),
    st.sampled_from(NEGATIVE),
    st.text(max_size=12),
    st.sampled_from(["=", ": ", '"', "'", "@", "]", " ", "\n", "\\", "-----", "\ud83d", "密钥"]),
)


@given(st.lists(PIECES, max_size=12).map("".join))
@settings(max_examples=size(100, 400))
def test_redacting_again_changes_nothing(text):
    """Idempotent, bounded in length, and nothing findable is left."""
    done = redact(text)
    assert redact(done.text) == (done.text, ())
    assert find_secrets(done.text) == []
    assert len(done.text) <= len(text) + LARGEST_REPLACEMENT * len(done.found)
    assert (done.text == text) == (not done.found)


@given(st.lists(PIECES, max_size=12).map("".join), st.booleans())
@settings(max_examples=size(200, 5_000))
def test_the_scan_hides_no_place_from_the_patterns(text, is_loud):
    """What RE2 says does not occur, `re` does not find."""
    text = text.upper() if is_loud else text
    found = sorted(place for table in tables() for finder in table for place in finder.places(text))
    public = public_blocks(text)
    own = [x for x in found if not any(a <= x.start and x.end <= b for a, b in public)]
    assert sorted(places_in(text)) == own


@given(st.text(st.characters(codec=None)))
def test_any_text_is_taken(text):
    """Never raises, surrogates included."""
    assert redact(text).text or not text


def of_length(n: int, piece: str) -> str:
    return (piece * (n // len(piece) + 1))[:n]


ADVERSARIAL: dict[str, str] = {
    "names": "password=",
    "quoted names": 'password="',
    "flags": "--password-",
    "nested flags": "--a-token ",
    "jwt heads": "eyJ",
    "jwt parts": "eyJaaaaaaaaaaa.",
    "urls": "a://u:",
    "url without end": "://",
    "begins": "-----BEGIN RSA PRIVATE KEY-----\n",
    "begins and bodies": "-----BEGIN PRIVATE KEY-----\n" + made(40) + " ",
    "one long key": made(64) + "\n",
    "spaces": " ",
    "slack": "xo" + "xb-1",
    "sk": "sk-",
    "basic": "Basic aaaa",
    "bearer": "Bearer a1",
    "headers": "Authorization: Bearer ",
    "digits": "1",
    "escapes": "\\",
    "quotes": "key'",
    "ampersands": "token=a&b",
    "telegram": "12345678:AA",
    "hex": "SK0",
    "secret bodies": "secret" + made(20),
    "growing letters": "İ",
    "found ones": "password=" + PASS + " ",
    "capital values": "token=" + "A" * 60 + "-" + " ",
    "cookies": "Cookie: a=",
    "users": "curl -u a:",
    "runs": "sk-a",
    "name and value": "password value=",
    "phrases": "passphrase: a ",
    "spoken": "password is ",
    "objects": "password {a: b, ",
    "halves": "password='a' + ",
    "colours": "\x1b[1mpassword",
    "of something": "password for a ",
    "types": "password: a[b] ",
    "said before": "a1 # x y token ",
    "used as": "a1a1a as the password, ",
    "public blocks": "-----BEGIN CERTIFICATE-----\n" + made(64) + "\n",
    "public lines": "ssh-rsa AAAA",
    "underlined": "token\n----\n",
    "prompts": "$ pass key secret token ",
    "rules": "│ user │ password │\n├──┼──┤\n",
    "attributes": 'password a="b"',
    "arrows": "token for a → ",
    "spaced columns": "token  a  b\n-----  -  -\n",
}


@pytest.mark.timing
@pytest.mark.no_cover
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ADVERSARIAL)
def test_time_grows_as_the_text_does(name):
    """No text takes more than linear time, and none more than an absolute limit."""
    prefix = "-----BEGIN PRIVATE KEY-----\n" if name == "one long key" else ""
    text = prefix + of_length(size(100_000, 1_000_000), ADVERSARIAL[name])
    assert is_linear(redact, text)
    assert seconds(redact, text) < 16 * slowness() * len(text) / 1_000_000


def test_what_a_later_message_gives_away_is_taken_out_before_it_too():
    """An archive is written of the whole history at once."""
    said = "Try kormoran77vest there."
    early = Message(role="user", content=said)
    late = Message(role="user", content="password=kormoran77vest")
    assert redact_messages([early], Known())[0].text == said
    told = redact_messages([early, late], Known())
    assert [message.text for message in told] == [
        "Try <REDACTED:password> there.",
        "password=<REDACTED:password>",
    ]
