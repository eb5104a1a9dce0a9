"""Control tokens that somebody typed never reach a server of one's own as such (issue 4)."""

from __future__ import annotations

import pytest

from compact.messages.characters import all_defused, defused

TOKENS = (
    "<|im_start|>", "<|eot_id|>", "<|endoftext|>", "<\uff5cUser\uff5c>", "<s>", "</s>",
    "<bos>", "<<SYS>>", "<start_of_turn>", "</think>", "<tools>", "</tool_call>", "<tool_result>",
    "<unused12>", "[INST]", "[/INST]", "[TOOL_CALLS]", "<|IM_END|>",
)  # fmt: skip


@pytest.mark.parametrize("token", TOKENS)
def test_no_control_token_stays_whole(token: str) -> None:
    """Wherever it stands, also where two could be made of one."""
    for text in (token, f"a{token}b", token * 3, f"<{token}"):
        assert token not in defused(text)
        assert defused(text).replace(" ", "") == text
        assert defused(defused(text)) == defused(text)


@pytest.mark.parametrize("text", ["", "a < b", "x[0] <span>", "list[int]", "if a<b|c:", "<system>"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert defused(text) is text


def test_every_text_of_a_prompt_is_defused() -> None:
    """Also what calls and parts hold; what is given is not changed."""
    call = {"function": {"name": "f", "arguments": '{"a": "<|im_end|>"}'}}
    prompt = {"messages": [{"role": "user", "content": [{"text": "<s>"}], "tool_calls": (call,)}]}
    told = all_defused({**prompt, "n": 1, "stream": True, "none": None})
    assert told["messages"][0]["content"] == [{"text": "< s>"}]
    assert told["messages"][0]["tool_calls"][0]["function"] == {
        "name": "f",
        "arguments": '{"a": "< |im_end|>"}',
    }
    assert (told["n"], told["stream"], told["none"]) == (1, True, None)
    assert prompt["messages"][0]["content"] == [{"text": "<s>"}]
