"""The comparison of counts with usage, on sessions whose growth is known."""

import json

import pytest

from evals import usage


def rows(*growth: int, boundary: bool = False):
    """A session of single calls; the prompt grows by the given tokens from one to the next."""
    prompt = 1000
    yield {"type": "user", "uuid": "u", "message": {"role": "user", "content": "Start."}}
    for number, more in enumerate((0, *growth)):
        prompt += more
        call = {"type": "tool_use", "id": f"t{number}", "name": "Run", "input": {"x": 1}}
        usage_ = {"input_tokens": 5, "cache_read_input_tokens": prompt - 5, "output_tokens": 9}
        inner = {"role": "assistant", "id": f"msg{number}", "content": [call], "usage": usage_}
        yield {"type": "assistant", "uuid": f"a{number}", "message": inner}
        if boundary and number == 0:
            yield {"type": "system", "subtype": "compact_boundary", "uuid": "b"}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "word " * 50}
        yield {
            "type": "user",
            "uuid": f"r{number}",
            "message": {"role": "user", "content": [result]},
        }


@pytest.fixture
def session(tmp_path):
    def write(*growth: int, boundary: bool = False):
        path = tmp_path / "session.jsonl"
        common = {"sessionId": "s", "timestamp": "2026-01-05T09:00:00.000Z"}
        lines = [json.dumps({**common, **row}) for row in rows(*growth, boundary=boundary)]
        path.write_text("\n".join(lines) + "\n")
        return usage.claude_code_steps(path)

    return write


def test_growth_is_compared_with_the_messages_between_two_calls(session):
    steps = session(400, 60)
    assert [s.growth for s in steps] == [400, 60]
    assert {(s.calls, s.results, s.messages, s.loop) for s in steps} == {(1, 1, 2, True)}
    text = steps[0].text
    assert 50 < text < 65
    found = usage.summary("x", steps)
    assert found.total == pytest.approx(460 / (2 * text))
    assert found.safe == 0.5
    assert found.ours == pytest.approx(2 * steps[0].ours / 460)
