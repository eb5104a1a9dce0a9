"""No secret of a history is told of: not in a checkpoint, not in pieces, not to a summarizer."""

import base64
import json

import pytest

from compact import ContextManager, compress
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.messages import visible_texts
from tests.secrets.test_redaction import ALNUM, BASIC, HEX, JWT, PASS, made

SECRETS = {
    "key": "sk" + "-ant-" + "api03-" + made(90, ALNUM + "-_"),
    "token": "gl" + "pat-" + made(24, ALNUM + "-_"),
    "JWT": JWT,
    "basic": BASIC,
    "password": "Qw/8" + made(12) + ".rs",
    "coded": base64.b64encode(b"ada:" + made(20).encode()).decode(),
    "hex": made(40, HEX),
}
SAID = {
    "key": "export ANTHROPIC_API_KEY=%s",
    "token": "git remote add origin https://oauth2:%s@gitlab.example.org/a/b.git",
    "JWT": "Authorization: Bearer %s",
    "basic": "Authorization: Basic %s",
    "password": 'DB_PASSWORD="%s"',
    "coded": "_auth=%s",
    "hex": "the access token is %s, always use it",
}
PIECE = 9
"""Characters of a secret that nobody may see."""


def pieces(secret: str) -> list[str]:
    return [secret[i : i + PIECE] for i in range(len(secret) - PIECE + 1)]


def said_by(role: str, words: str) -> list[dict]:
    """A message of that role with those words."""
    arguments = json.dumps({"command": words}) if role == "arguments" else "{}"
    function = {"name": "run", "arguments": arguments}
    call = {"id": "c1", "type": "function", "function": function}
    match role:
        case "arguments":
            result = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
            return [{"role": "assistant", "content": None, "tool_calls": [call]}, result]
        case "result":
            asked = {"role": "assistant", "content": None, "tool_calls": [call]}
            return [asked, {"role": "tool", "tool_call_id": "c1", "content": words}]
    return [{"role": role, "content": words}]


def talk(role: str, words: str) -> list[dict]:
    """A conversation in which somebody says it early, so that it must be summarized."""
    rows = [{"role": "user", "content": "Set up src/app/server.py, please."}, *said_by(role, words)]
    for i in range(40):
        rows.append({"role": "user", "content": f"Now add handler_{i} to src/app/server.py."})
        rows.append({"role": "assistant", "content": f"Added handler_{i}. " + "It works. " * 30})
    return rows


@pytest.mark.sampled(4)
@pytest.mark.parametrize("role", ["user", "assistant", "arguments", "result"])
@pytest.mark.parametrize("name", SECRETS)
def test_no_piece_of_a_secret_stands_in_a_checkpoint(name, role):
    """Names are cut from the text after the secrets were taken out."""
    secret = SECRETS[name]
    out = compress(talk(role, SAID[name] % secret), max_tokens=2_000)
    assert "[Checkpoint" in str(out)
    assert not [each for each in pieces(secret) if each in str(out)]


class Listener:
    """Keeps what a summarizer is asked."""

    waits = False
    name = "listener"

    def __init__(self) -> None:
        self.asked: list[SummaryRequest] = []

    async def summarize(self, request: SummaryRequest) -> Summary:
        self.asked.append(request)
        return Summary(text="They set up a server.", made_by=self.name)


@pytest.mark.parametrize("name", SECRETS)
def test_a_summarizer_is_told_no_secret(name):
    """Messages, record, goals, open tasks and guidance, and what only stands alone elsewhere."""
    secret, listener = SECRETS[name], Listener()
    ctx = ContextManager(window=4_000, summarizer=listener)
    ctx.goals.set([f"Log in with {SAID[name] % secret}"])
    for row in talk("user", f"first {secret} it was"):
        ctx.add_message(row)
    ctx.add_message(role="user", content=SAID[name] % secret)
    ctx.compress_conversation(target_ratio=0.2)
    assert listener.asked
    for request in listener.asked:
        beside = (request.guidance, request.record, *request.goals, *request.open_tasks)
        told = "\n".join((*visible_texts(request.messages), *request.answers.values(), *beside))
        assert not [each for each in pieces(secret) if each in told]


def test_what_stays_in_view_is_told_without_secrets():
    """Not in what a summarizer is not to repeat, nor in what was said before."""
    listener = Listener()
    rows = [
        *talk("user", f"it was {PASS}"),
        {"role": "user", "content": f"The password is {PASS}."},
    ]
    compress(rows, max_tokens=2_000, summarizer=listener)
    request = listener.asked[0]
    assert "The password is <REDACTED:password>." in [message.text for message in request.kept]
    assert PASS not in "\n".join(visible_texts([*request.messages, *request.kept]))
    assert PASS not in repr(request.kept)


def test_the_history_stays_as_it_was_said():
    """Only what is told is cleaned."""
    ctx = ContextManager(window=4_000)
    for row in talk("user", f"password={PASS}"):
        ctx.add_message(row)
    ctx.compress_conversation(target_ratio=0.2)
    assert any(PASS in hit.text for hit in ctx.recall(PASS))
