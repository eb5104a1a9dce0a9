"""A call or result whose text was redacted is written as a whole one, in its own format."""

from typing import Any

import pytest

from compact.messages.formats.known import format_named
from compact.messages.message_redaction import redact_messages
from compact.messages.messages import Message
from compact.secrets.redaction import Known

TOKEN = "hf_" + "R9MTABOeOAbBXoLYkjTbXqsCnaKkWly7Qd"
SAID = f"login --token {TOKEN}"
GIVEN = '{"command": "' + SAID + '"}'
USER = {"role": "user", "content": "Log in."}
CALLS: dict[str, list[Any]] = {
    "chat_completions": [
        USER,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "run", "arguments": GIVEN},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": SAID},
    ],
    "anthropic": [
        USER,
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c1", "name": "run", "input": {"command": SAID}}
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": SAID}],
        },
    ],
    "responses": [
        USER,
        {"type": "function_call", "call_id": "c1", "name": "run", "arguments": GIVEN},
        {"type": "function_call_output", "call_id": "c1", "output": SAID},
    ],
}


@pytest.mark.parametrize("name", CALLS)
def test_a_redacted_call_is_whole(name):
    wire = format_named(name)
    messages = [wire.parse(each, i) for i, each in enumerate(CALLS[name])]
    written = wire.render(redact_messages(messages, Known()))
    again = [wire.parse(each, i) for i, each in enumerate(written)]
    calls = [call for message in again for call in message.tool_calls]
    results = [result for message in again for result in message.tool_results]
    assert [(call.id, call.name) for call in calls] == [("c1", "run")]
    assert [result.call_id for result in results] == ["c1"]
    for text in (calls[0].arguments, results[0].text):
        assert "login --token <REDACTED:hugging_face_token>" in text


@pytest.mark.parametrize("others", [0, 100])
@pytest.mark.parametrize("shown", ["{}", "\x1b[32m{}\x1b[0m", "{}\u200b{}"])
def test_what_a_later_message_gives_away_leaves_the_ones_before(others, shown):
    """Of few and of many that are known, and where something stands in it that nobody sees."""
    secret = "tr0ub" + "4dor-Quay"
    half = len(secret) // 2 if shown.count("{}") > 1 else len(secret)
    first = shown.format(secret[:half], secret[half:])
    known = Known((f"other{i:04}Zq8xK3", "api_key") for i in range(others))
    said = [f"Take {first} for it.", "Nothing.", f"password: {secret}"]
    left = redact_messages([Message(role="user", content=x) for x in said], known)
    assert "dor-Quay" not in "".join(str(message.content) for message in left)
    assert left[1].content == "Nothing."
