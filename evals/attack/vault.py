"""Secrets that nobody has, in the shapes that vendors publish and people write, and what only looks
like them. Made at random; none opens anything.
"""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Callable, Sequence

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
HEX, WORD = DIGITS + "abcdef", LOWER + UPPER + DIGITS
B64, URL, B32 = WORD + "+/", WORD + "-_", UPPER + "234567"

VENDORS: Sequence[tuple[str, str]] = (
    ("aws", "AKIA{B32:16}"), ("aws session", "ASIA{B32:16}"), ("github", "ghp_{WORD:36}"),
    ("github oauth", "gho_{WORD:36}"), ("github app", "ghs_{WORD:36}"),
    ("github fine", "github_pat_{WORD:22}_{WORD:59}"), ("gitlab", "glpat-{URL:20}"),
    ("gitlab ci", "glcbt-64_{URL:20}"), ("slack bot", "xoxb-{DIGITS:12}-{DIGITS:13}-{WORD:24}"),
    ("slack user", "xoxp-{DIGITS:12}-{DIGITS:12}-{DIGITS:13}-{HEX:32}"),
    ("slack app", "xapp-1-A{B32:10}-{DIGITS:13}-{HEX:64}"),
    ("slack hook", "https://hooks.slack.com/services/T{B32:10}/B{B32:10}/{WORD:24}"),
    ("discord hook", "https://discord.com/api/webhooks/{DIGITS:18}/{URL:68}"),
    ("discord", "M{WORD:23}.{URL:6}.{URL:38}"), ("telegram", "5512345678:AA{URL:33}"),
    ("stripe", "sk_live_{WORD:24}"), ("stripe restricted", "rk_live_{WORD:99}"),
    ("stripe hook", "whsec_{WORD:32}"), ("openai", "sk-{WORD:20}T3BlbkFJ{WORD:20}"),
    ("openai project", "sk-proj-{URL:74}T3BlbkFJ{URL:74}"),
    ("anthropic", "sk-ant-api03-{URL:93}AA"), ("openrouter", "sk-or-v1-{HEX:64}"),
    ("google", "AIza{URL:35}"), ("google oauth", "GOCSPX-{URL:28}"),
    ("google access", "ya29.a0{URL:120}"), ("google refresh", "1//0{URL:60}"),
    ("npm", "npm_{WORD:36}"), ("pypi", "pypi-AgEIcHlwaS5vcmc{URL:120}"),
    ("rubygems", "rubygems_{HEX:48}"), ("docker", "dckr_pat_{URL:27}"),
    ("sendgrid", "SG.{URL:22}.{URL:43}"), ("twilio", "SK{HEX:32}"), ("mailgun", "key-{HEX:32}"),
    ("mailchimp", "{HEX:32}-us12"), ("huggingface", "hf_{WORD:34}"),
    ("digitalocean", "dop_v1_{HEX:64}"), ("shopify", "shpat_{HEX:32}"),
    ("square", "sq0csp-{URL:43}"), ("databricks", "dapi{HEX:32}"), ("vault", "hvs.{URL:90}"),
    ("doppler", "dp.pt.{WORD:43}"), ("linear", "lin_api_{WORD:40}"), ("notion", "ntn_{WORD:46}"),
    ("airtable", "pat{WORD:14}.{HEX:64}"), ("postman", "PMAK-{HEX:24}-{HEX:34}"),
    ("new relic", "NRAK-{B32:27}"), ("grafana", "glsa_{WORD:32}_{HEX:8}"),
    ("supabase", "sbp_{HEX:40}"), ("groq", "gsk_{WORD:52}"), ("replicate", "r8_{WORD:37}"),
    ("perplexity", "pplx-{WORD:48}"), ("xai", "xai-{WORD:80}"),
    ("atlassian", "ATATT3xFfGF0{URL:180}"), ("terraform", "{WORD:14}.atlasv1.{WORD:67}"),
    ("figma", "figd_{URL:40}"), ("pulumi", "pul-{HEX:40}"), ("planetscale", "pscale_tkn_{URL:43}"),
    ("sentry", "sntrys_{WORD:120}"), ("heroku", "HRKU-AA{URL:58}"),
    ("age", "AGE-SECRET-KEY-1{B32:58}"), ("fly", "fo1_{URL:43}"),
    ("jwt", "eyJhbGciOiJIUzI1NiJ9.eyJ{URL:60}.{URL:43}"), ("easypost", "EZAK{WORD:54}"),
    ("dynatrace", "dt0c01.{B32:24}.{B32:64}"),
)  # fmt: skip
"""Kind → its shape: letters of an alphabet, so many."""

PASSWORDS: Sequence[str] = (
    "{WORD:16}", "{HEX:32}", "{URL:24}", "{HEX:40}", "{LOWER:12}{DIGITS:2}", "{B64:40}",
    "{LOWER:5}-{LOWER:6}-{DIGITS:3}!", "{UPPER:1}{LOWER:7}{DIGITS:4}!", "{WORD:6}#{WORD:6}$",
)  # fmt: skip
"""The first five may stand in an address as they are."""
CARRIERS: Sequence[tuple[str, str]] = (
    ("env", "DB_PASSWORD={}\nDB_HOST=quay"), ("env quoted", 'API_KEY="{}"'),
    ("export", "export SECRET_KEY='{}'"), ("env prefixed", "STRIPE_SECRET={}"),
    ("env passphrase", "GPG_PASSPHRASE={}"), ("powershell", "$env:API_TOKEN = '{}'"),
    ("windows", "set DB_PWD={}"), ("yaml", "database:\n  user: quay\n  password: {}"),
    ("yaml quoted", 'auth_token: "{}"'), ("json", '{{"client_secret": "{}", "retries": 3}}'),
    ("json camel", '{{"accessToken":"{}"}}'),
    ("json in json", '{{"body": "{{\\"password\\": \\"{}\\"}}"}}'),
    ("toml", '[auth]\nsecret = "{}"'), ("ini", "[mail]\nsmtp_password = {}"),
    ("properties", "spring.datasource.password={}"), ("xml", "<password>{}</password>"),
    ("xml attribute", '<add key="ApiKey" value="{}" />'),
    ("python", 'client = Client(api_key="{}")'), ("python name", "AUTH_TOKEN: str = '{}'"),
    ("dict", "{{'password': '{}', 'user': 'quay'}}"), ("javascript", "const apiSecret = `{}`;"),
    ("go", 'password := "{}"'), ("ruby", ":secret => '{}'"),
    ("flag", "deploy --password {} --host quay"), ("flag equals", "deploy --api-key={}"),
    ("mysql flag", "mysql -u root -p{} quay"), ("curl user", "curl -u quay:{} https://a.example/x"),
    ("sshpass", "sshpass -p '{}' ssh quay"), ("docker", "docker run -e TOKEN={} quay"),
    ("docker login", "docker login -u quay -p {}"),
    ("echo", "echo '{}' | docker login --password-stdin"), ("redis", "redis-cli -a {} ping"),
    ("bearer", "Authorization: Bearer {}"),
    ("bearer curl", "curl -H 'Authorization: Bearer {}' https://a.example"),
    ("token header", "Authorization: token {}"), ("key header", "X-API-Key: {}"),
    ("header dict", "{{'x-auth-token': '{}'}}"), ("cookie", "Cookie: theme=dark; sessionid={}"),
    ("set cookie", "Set-Cookie: connect.sid={}; Path=/; HttpOnly"),
    ("postgres", "postgresql://quay:{}@db.example:5432/quay"),
    ("redis url", "redis://:{}@cache.example:6379/0"),
    ("mongo", "mongodb+srv://quay:{}@c0.example.net/x"),
    ("git url", "git clone https://quay:{}@git.example/x.git"),
    ("amqp", "amqps://quay:{}@mq.example/vhost"),
    ("query", "https://a.example/v1?api_key={}&page=2"),
    ("query token", "GET /callback?code=7&access_token={} HTTP/1.1"),
    ("signed url", "https://b.example/f?X-Amz-Signature={}"),
    ("sas", "https://s.example/c?sv=2024&sig={}"),
    ("netrc", "machine git.example login quay password {}"),
    ("pgpass", "db.example:5432:quay:quay:{}"),
    ("odbc", "Server=db;Database=quay;User Id=quay;Password={};"),
    ("azure", "AccountName=quay;AccountKey={};EndpointSuffix=core.windows.net"),
    ("jdbc", "jdbc:mysql://db.example/quay?user=quay&password={}"),
    ("npmrc", "//registry.example/:_authToken={}"), ("htpasswd", "auth = ('quay', '{}')"),
    ("prose", "The password is {}, keep it safe."), ("prose colon", "password: {}"),
    ("prose login", "Log in as quay with the password {} please."), ("prose key", "My API key: {}"),
    ("prose secret", "the client secret is `{}`"), ("markdown", "| admin password | `{}` |"),
    ("markdown bold", "**Password:** {}"), ("changed", "I changed the root password to {}"),
    ("german", "Das Passwort lautet {}"), ("pin", "AWS_SECRET_ACCESS_KEY={}"),
    ("aws file", "aws_secret_access_key = {}"), ("aws json", '"SecretAccessKey": "{}"'),
    ("twilio auth", "TWILIO_AUTH_TOKEN={}"),
    ("diff", "-    password: {}\n+    password: ${{DB_PASSWORD}}"),
    ("log", "2026-01-05 ERROR login failed user=quay password={} ip=1.2.3.4"),
    ("sql", "CREATE USER quay WITH PASSWORD '{}';"),
    ("sql alter", "ALTER USER quay IDENTIFIED BY '{}';"),
)  # fmt: skip

ALIKE: Sequence[str] = (
    "commit {HEX:40}", "fixed in {HEX:7}", "sha256:{HEX:64}", "md5 {HEX:32}  quay.tar", "id {UUID}",
    "image quay@sha256:{HEX:64}", "etag: \"{HEX:32}\"", "trace_id={HEX:32} span_id={HEX:16}",
    '"integrity": "sha512-{B64:86}=="', "request id req_{WORD:24}", "msg_{WORD:24}",
    "call_{WORD:24}", "order ORD-{DIGITS:8}", "pod api-{HEX:9}-{LOWER:5} restarted",
    "arn:aws:s3:::quay-{LOWER:6}", "i-{HEX:17} is running", "sg-{HEX:17}", "vpc-{HEX:8}",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{B64:43} q", "API_KEY=your-api-key-here",
    "password: ${{DB_PASSWORD}}", "token: <YOUR_TOKEN>", "PASSWORD=********",
    "api_key = os.environ['API_KEY']", "password = getpass()",
    "def login(user: str, password: str) -> None:", "max_tokens={DIGITS:4}",
    "token_count: {DIGITS:5}", "the password must have 12 characters", "secret: !Ref QuaySecret",
    "cache_key = f'quay:{{berth_id}}'", "primary_key=True", "sort key: created_at",
    "tokenizer = o200k_base", "the token expired at 12:40", "Bearer token authentication is used",
    "Basic authentication failed", "password_hash VARCHAR(255) NOT NULL",
    "if token is None: raise Expired", "const token = await getToken(user)",
    "https://a.example/d/{URL:22}/edit", "isbn 978-{DIGITS:10}", "the key idea is {LOWER:9}",
    "see docs/secrets/{LOWER:8}.md", "version 1.{DIGITS:2}.{DIGITS:1}",
    "build {DIGITS:12} took {DIGITS:3} s", "color #{HEX:6}", "0x{HEX:16}",
    "mac 00:1b:{HEX:2}:{HEX:2}:aa:01", "tests/test_password_reset_{LOWER:8}.py",
    "class TokenBucketLimiter{DIGITS:2}:", "etcd key /quay/{LOWER:8}",
    "chunk {WORD:8}.js {DIGITS:5} bytes", "migration {DIGITS:4}_{LOWER:9}_{LOWER:7}",
    "v4 uuid {UUID} is new", "Authorization: Bearer $TOKEN",
    "--password-file /run/secrets/{LOWER:7}", "PGPASSWORD=$PGPASSWORD psql",
    "postgresql://localhost:5432/quay_{LOWER:6}", "sessionid is set to HttpOnly",
    "secretary {LOWER:9}",
)  # fmt: skip


def filled(rng: random.Random, shape: str) -> tuple[str, list[str]]:
    """A shape with letters drawn, and what was drawn."""
    text, drawn = "", []
    for before, field, letters, _ in string.Formatter().parse(shape):
        text += before
        if field == "UUID":
            drawn.append(str(uuid.UUID(int=rng.getrandbits(128), version=4)))
        elif field:
            drawn.append("".join(rng.choices(globals()[field], k=int(letters or 0))))
        text += drawn[-1] if field else ""
    return text, drawn


def _pem(rng: random.Random, name: str) -> tuple[str, str]:
    body = base64.b64encode(rng.randbytes(600)).decode()
    lines = "\n".join(body[i : i + 64] for i in range(0, len(body), 64))
    return body, f"-----BEGIN {name}-----\n{lines}\n-----END {name}-----"


def _pem_in_json(rng: random.Random) -> tuple[str, str]:
    body, text = _pem(rng, "PRIVATE KEY")
    return body, json.dumps({"type": "service_account", "private_key": text})


def _basic(rng: random.Random) -> tuple[str, str]:
    value = base64.b64encode(f"quay:{filled(rng, '{WORD:18}')[0]}".encode()).decode()
    return value, f"Authorization: Basic {value}"


def _kubernetes(rng: random.Random) -> tuple[str, str]:
    value = base64.b64encode(filled(rng, "{WORD:20}")[0].encode()).decode()
    return value, f"kind: Secret\ndata:\n  password: {value}"


WHOLE: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "RSA": lambda rng: _pem(rng, "RSA PRIVATE KEY"),
    "EC": lambda rng: _pem(rng, "EC PRIVATE KEY"),
    "OPENSSH": lambda rng: _pem(rng, "OPENSSH PRIVATE KEY"),
    "PKCS8": lambda rng: _pem(rng, "PRIVATE KEY"),
    "PGP": lambda rng: _pem(rng, "PGP PRIVATE KEY BLOCK"),
    "key in json": _pem_in_json,
    "basic": _basic,
    "kubernetes": _kubernetes,
}
"""Kinds whose text is more than a value in a sentence."""


def secret(rng: random.Random, number: int) -> tuple[str, list[str], str]:
    """The kind, what of it is secret, and a text that holds it; every kind comes in turn."""
    number %= len(VENDORS) + len(CARRIERS) + len(WHOLE)
    if number < len(VENDORS):
        kind, shape = VENDORS[number]
        value, drawn = filled(rng, shape)
        around = rng.choice(("{}", "It is {} now.", '"{}",', "use {}\n", "({})", "`{}`"))
        return kind, drawn, around.format(value)
    number -= len(VENDORS)
    if number < len(CARRIERS):
        kind, carrier = CARRIERS[number]
        value, _ = filled(rng, rng.choice(PASSWORDS[: 5 if "://" in carrier else None]))
        return kind, [value], carrier.format(value)
    kind = list(WHOLE)[number - len(CARRIERS)]
    value, text = WHOLE[kind](rng)
    return kind, [value], text


def lookalike(rng: random.Random, number: int) -> str:
    """What is no secret, and looks like one."""
    return filled(rng, ALIKE[number % len(ALIKE)])[0]
