"""`compactctl replay --ask` against a real llama.cpp server."""

import json

import pytest

from compact.cli.main import main
from tests.cli.test_cli_replay import spoken
from tests.models import tiny_llama


@pytest.mark.slow
def test_a_model_is_asked_under_each_policy_and_twice_under_the_first(
    llama, tiny_model, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("compact.cli.replaying.ANSWER_TOKENS", 12)
    file = tmp_path / "said.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in spoken(6)))
    key = f"{llama(8192)}/v1#{tiny_llama.NAME}"
    words = ["replay", str(file), "--policy", "all", "--policy", "compact:600", "--ask", key]
    assert main([*words, "--sample", "3", "--json"]) == 0
    again, other = json.loads(capsys.readouterr().out)["asked"]
    assert (again["policy"], again["again"], other["policy"], other["again"]) == (
        *("all", True),
        *("compact:600", False),
    )
    for row in (again, other):
        assert row["asked"] == 3
        assert 0 <= row["same_action"] <= row["same_tool"] <= 4
