"""Lists and files of other programs, which nobody can read here: refused by their name."""

import pytest

from compact import CompactManager, ContextManager, compress
from compact.cli.main import main
from compact.errors import InvalidMessage

ASKED = "How many loaves are left?"
BEDROCK = [
    {"role": "user", "content": [{"text": ASKED}]},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}]},
]
UI_FOUR = [
    {"id": "1", "role": "user", "content": ASKED},
    {"id": "2", "role": "assistant", "content": "Seven.", "toolInvocations": [{"toolCallId": "t"}]},
]
UI_FIVE = [{"id": "1", "role": "user", "parts": [{"type": "text", "text": ASKED}]}]
MODEL = [
    {"role": "user", "content": ASKED},
    {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "t", "input": {}}]},
]
GEMINI = [{"role": "model", "parts": [{"text": "Seven."}]}]
LISTS = [
    (BEDROCK, "Bedrock Converse"),
    (BEDROCK[:1], "Bedrock Converse"),
    (UI_FOUR, "the Vercel AI SDK"),
    (UI_FIVE, "the Vercel AI SDK"),
    (MODEL, "the Vercel AI SDK"),
    (GEMINI, "Gemini's contents"),
]


@pytest.mark.parametrize(("given", "name"), LISTS)
def test_a_list_of_another_format_is_refused_by_its_name(given, name):
    """Never taken uncounted, and never sent broken."""
    told = f"in the format of .*{name}"
    with pytest.raises(InvalidMessage, match=told):
        compress(given, max_tokens=2_000)
    with CompactManager() as manager, pytest.raises(InvalidMessage, match=told):
        manager.preflight("s", given)
    with ContextManager() as ctx, pytest.raises(InvalidMessage, match=name):
        ctx.add_messages(given)


def test_what_is_unknown_says_what_it_has(tmp_path, capsys):
    path = tmp_path / "trace.json"
    path.write_text('{"trace": {"spans": [1]}}')
    assert main(["tokens", str(path)]) != 0
    told = capsys.readouterr().err
    assert "an unknown format: the file has an object with trace (dict). Looked for" in told
    assert told.count("\n") == 1
