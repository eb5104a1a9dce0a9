"""Control tokens of chat templates in what people and tools wrote.

A server of one's own (llama.cpp, Ollama, vLLM) fills a template with the messages and reads every
control token in the result as a real one: also those that somebody typed, who could speak with the
system's voice or end the prompt that way. What is sent there is written so that no tokenizer takes
it for one; the history keeps what was said.
"""

from __future__ import annotations

import re
from typing import Any

from compact.messages.characters import with_texts
from compact.patterns import regex

_BEGINNING = regex(
    r"<(?=[|\uff5c])"
    r"|<(?=/?(?:s|bos|eos|pad|unk|mask|cls|sep|SYS|think|tools|"
    r"tool_calls?|tool_responses?|tool_results?|"
    r"start_of_turn|end_of_turn|start_of_image|end_of_image|image_soft_token|fim_[a-z]{1,10}|"
    r"begin_of_[a-z]{1,12}|end_of_[a-z]{1,12}|endoftext|unused_?\d{1,4}|extra_id_\d{1,3}|"
    r"reserved_[\w-]{1,40}|special_[\w-]{1,40})>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|ARGS|"
    r"CALL_ID|IMG|IMG_BREAK|IMG_END|gMASK|sMASK|PREFIX|SUFFIX|MIDDLE|THINK|CLS|SEP|MASK|PAD)\])",
    re.IGNORECASE,
)
"""Where a control token of a known chat template begins: ChatML, Llama, Mistral, Gemma, GLM, Qwen,
DeepSeek, Phi, T5 and the like."""


def defused(text: str) -> str:
    """The text with a space after the first character of each control token; the same text where
    there is none.
    """
    if "<" not in text and "[" not in text:
        return text
    return _BEGINNING.sub(lambda found: f"{found[0]} ", text)


def all_defused(value: Any) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """A JSON value with every text in it defused; keys stay as they are."""
    return with_texts(value, defused)
