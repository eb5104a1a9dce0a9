"""What compact keeps of the part before a compaction, in as many tokens as its summary has."""

from __future__ import annotations

from compact import wiring
from compact.errors import CompactError
from compact.look.lines import names_in, with_file_names
from compact.look.measures import Compaction, beginning, letters
from compact.session.one_call import plan
from compact.text.terms import readable

_MOST = 64_000_000
"""Bytes of a file before a compaction that are read whole."""


def kept_by_compact(path: str, compaction: Compaction) -> dict[str, int] | None:
    """Return how many of the person's messages and of the names used next compact keeps, in the
    tokens of the summary. None if the file cannot be read as a conversation, or nothing fits.
    """
    if compaction.chain or not 0 < compaction.at <= _MOST:
        return None
    try:
        with open(path, "rb") as stream:
            data = stream.read(compaction.at)
        transcript = wiring.read_transcript(path, data=data)
        counter = wiring.token_counter("chat_completions")
        tokens = counter.text(compaction.summary)
        made = plan(
            transcript.messages, max_tokens=tokens, format=transcript.wire, tokenizer="o200k"
        )
    except (CompactError, OSError):
        return None
    text = "\n".join(map(readable, made.context.messages))
    plain, names = letters(text), with_file_names(names_in(text))
    return {
        "tokens": tokens,
        "messages": sum(beginning(m.spoken.text) in plain for m in compaction.messages),
        "names": len(compaction.window.used & names),
    }
