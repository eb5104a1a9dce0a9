"""Values that are found first and judged by the name beside them: which names tell, which do not.

All are made up here, so that no scanner finds a key in this file.
"""

import random
import string

import pytest

from compact.secrets.redaction import redact
from tests.pace import is_linear

LOT = random.Random("lone values")
ALNUM = string.ascii_letters + string.digits


def made(length, letters=ALNUM):
    return "".join(LOT.choice(letters) for _ in range(length))


HEX = made(40, "0123456789abcdef")
GUID = "-".join(made(n, "0123456789abcdef") for n in (8, 4, 4, 4, 12))
KEY = "k7" + made(30) + "9x"
TOLD = (
    ("store set service_secret_access_key ", KEY, " --profile a"),
    ("tool config add-authtoken ", KEY, "\n"),
    ("headers: {'X-Api-Key': '", GUID, "'}"),
    ("  hec_token ", GUID, "\n"),
    ("--private-key 0x", HEX, ""),
    ('"primaryKey": "', KEY + "=", '",'),
    ("<sessionId>", KEY, "</sessionId>"),
    ("define('AUTH_KEY',   '", KEY, "');"),
    ("admin key ", HEX, "\n"),
    ("deploy(a.id, '", HEX, "') // auth token of the staging account"),
    ("cat agent.psk\n", HEX, "\n"),
    ("The password was reset.\nNew value: ", KEY, "\n"),
    ("[mail.example.org]:587 post@example.org:", KEY, "\n"),
    ("POST https://chat.example/hooks/", KEY, "?a=b"),
    ("https://shop.example/password/reset/", HEX, "?a=b"),
    ("  hec_token ", f"{KEY}.prod", "\n"),
    ("'token:\\", f"n{KEY}.prod", "'"),
    ("static const uint8_t APPKEY[16] = { ", ", ".join(["0x5F", "0x6C"] * 8), " };"),
    ("import -t ", KEY, " -a"),
    ("\n", f"-----BEGIN OpenVPN Static key V1-----\n{HEX}\n{HEX}", "\n"),
)
UNTOLD = (
    f"secrets: commit {HEX}",
    f"public_key = '{KEY}'",
    f"dnskey {KEY}",
    f"password of the image sha256\n{HEX}\n",
    f"token id {GUID}",
    f"password file sha256 {HEX}",
    f"The key {{{GUID}}} was not found",
    f"Sync Revision: {HEX}\n",
    f"https://vault.example/secrets/db-password/{HEX}",
    f"refs/heads/rotate-secrets\n{HEX}\trefs/tags/v1\n",
    f"GPG_KEY={HEX}",
    f"Session {GUID} started",
    f"{HEX} /* PasswordView.swift in Sources */",
    "inference_session: Sam2VideoInferenceSession",
    f"the token expired\ncf-ray: {KEY}",
    f"token\n{KEY} and more words",
)


@pytest.mark.parametrize(("before", "secret", "after"), TOLD)
def test_what_a_name_right_beside_it_tells_of_is_taken_out(before, secret, after):
    """Whole, and nothing more: names in code, on the line above, in a comment, in an address."""
    told = redact(before + secret + after).text
    head, _, tail = told.partition("<REDACTED:")
    assert (head.removesuffix("0x"), tail.partition(">")[2]) == (before.removesuffix("0x"), after)


@pytest.mark.parametrize("text", UNTOLD)
def test_what_a_public_thing_is_named_stays(text):
    """Checksums, ids, commits, classes, and what stands further from the name."""
    assert redact(text).text == text


@pytest.mark.parametrize("folder", ["/data/a_sessions/", "data/my_tokens/", "C:\\api_keys\\"])
@pytest.mark.parametrize("ending", [".jsonl", ".json", ".sqlite3", ".parquet", ".tar.zst"])
@pytest.mark.parametrize("stem", [KEY, GUID, f"10-{HEX[:10]}-5", f"Backup_{KEY}"])
def test_the_name_of_a_file_stays_whatever_its_folder_is_called(folder, ending, stem):
    """It is generated, and its folder's name assigns nothing."""
    for text in (f"{folder}{stem}{ending}", f"'{folder}{stem}{ending}': an unknown format"):
        assert redact(text).text == text


@pytest.mark.timing
@pytest.mark.parametrize(
    ("opener", "piece"),
    [
        ("", "token aB3dE5fG7hJ9kL1mN3 "),
        ("secret\n", "aB3dE5fG7hJ9kL1mN3oP\n"),
        ("key = {", "0x5F, "),
        ("'", "a1b/"),
        ("?", "a1b=c2d&"),
        ("", "a1b2c3:"),
        ("", "'a1b2c3d4"),
        ("password", " - "),
        ("<pass>", "<a>"),
        ("send ", 'send "a1'),
    ],
)
def test_it_takes_linear_time(opener, piece):
    assert is_linear(redact, opener + piece * (60_000 // len(piece)))
