"""Secrets of every kind, a conversation that they are planted in, and the search for them."""

import json
import re
from collections.abc import Sequence
from typing import Any

from compact.messages.events import Event
from tests.secrets.test_redaction import POSITIVE

PLANTED: dict[str, tuple[str, str, str]] = {
    kind: (before, secret, after) for kind, before, secret, after in POSITIVE
} | {
    "email": ("write to ", "ada.lovelace@" + "engines.example", " today"),
    "phone": ("call ", "+49 30 " + "90182034", " today"),
    "staff_id": ("badge ", "E-" + "440917", " at the door"),
}
"""Kind → what stands before a secret of it, the secret, what stands after."""
SETTINGS: dict[str, Any] = {
    "redact_kinds": ("email", "phone"),
    "redact_patterns": {"staff_id": "E-[0-9]{6}"},
}
VARIABLES = {
    "COMPACT_REDACT_KINDS": "email,phone",
    "COMPACT_REDACT_PATTERNS": json.dumps(SETTINGS["redact_patterns"]),
}
"""The same settings for the command line."""
WORDS = {kind: "".join(parts) for kind, parts in PLANTED.items()}
ALL = "\n".join(WORDS.values())


def in_pieces(kind: str) -> set[str]:
    """A secret as a whole, and its lines: nobody may write one of them."""
    secret = PLANTED[kind][1]
    lines = {line for line in secret.splitlines() if len(line) > 7 and "PRIVATE" not in line}
    return {secret} | lines


def found_in(written: str) -> set[str]:
    """The kinds of the secrets that stand in what was written, also as JSON writes them."""
    plain = written.replace("\\\\", "\\").replace('\\"', '"').replace("\\n", "\n")
    return {
        kind
        for kind in PLANTED
        if any(_stands(piece, each) for piece in in_pieces(kind) for each in (written, plain))
    }


def _stands(piece: str, text: str) -> bool:
    """Digits count only alone: by chance they stand in an id, a digest or a time."""
    if not piece.isdecimal():
        return piece in text
    return re.search(rf"(?<![0-9A-Za-z.]){piece}(?![0-9A-Za-z])", text) is not None


def conversation() -> list[dict]:
    """Each kind in what a person says, in a call's arguments and a file's name, in a result and in
    an answer; and much to be compressed.
    """
    rows: list[dict] = [{"role": "system", "content": "You keep a lighthouse."}]
    for i, words in enumerate(WORDS.values()):
        arguments = json.dumps({"path": f"notes/{words}.txt", "command": words})
        function = {"name": "run", "arguments": arguments}
        call = {"id": f"c{i}", "type": "function", "function": function}
        rows += [
            {"role": "user", "content": f"Rule {i}: never forget this.\n{words}\nGo on."},
            {"role": "assistant", "content": f"I noted:\n{words}\n", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{i}", "content": f"exit 1\n{words}\nfailed"},
            {"role": "assistant", "content": f"We decided to keep\n{words}\n as it is. " * 2},
        ]
    pinned = {"metadata": {"pinned": True}}
    rows += [{"role": "user", "content": "Keep: " + list(WORDS.values())[3], **pinned}]
    return rows + harmless_rows(60)


def harmless_rows(turns: int) -> list[dict]:
    """Turns without secrets, long enough to be compressed."""
    return [
        {"role": role, "content": f"Lamp {i} is lit. " * 30}
        for i in range(turns)
        for role in ("user", "assistant")
    ]


class Kept:
    """An exporter that writes down all that it is told."""

    def __init__(self) -> None:
        self.text = ""

    def export(self, events: Sequence[Event]) -> None:
        self.text += "\n".join(f"{event!r} {json.dumps(event.as_dict())}" for event in events)

    def close(self) -> None: ...
