"""Whatever is wrong with a file, reading it gives a transcript or says why not (NFR-2)."""

import json
import random
from pathlib import Path

import pytest

from compact.errors import InvalidTranscript
from compact.transcripts import table
from compact.transcripts.transcript import Transcript
from compact.transcripts.writing import write
from evals.formats import FORMATS, read
from tests.sizes import seed, size

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
FILES = sorted((*(FIXTURES / "transcripts").iterdir(), *(FIXTURES / "benchmarks").iterdir()))
PAIRED = {known.name for known in table.FORMATS} - {"chat", "claude_code", "codex_cli"}
"""Formats that are no provider's: their readers pair calls and results."""
WRONG: list[object] = [None, 5, "x", [], {}, True, [1], {"a": 1}, [[]], 1.5]
SCRAPS = [b"", b'"', b"{", b"\n", b"\xff", b"```", b"---", b"}", b"\\ud800", b"NaN", b"\x00"]


def changed(value: object, chance: random.Random, rate: float) -> object:
    """The value with some of its inner values replaced by others, or left out."""
    if chance.random() < rate:
        return chance.choice(WRONG)
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if chance.random() > rate}
        return {k: changed(v, chance, rate) for k, v in kept.items()}
    if isinstance(value, list):
        return [changed(x, chance, rate) for x in value]
    return value


def with_wrong_values(data: bytes, chance: random.Random) -> bytes:
    rate = chance.choice([0.005, 0.02, 0.08])
    lines = data.decode().splitlines()
    if len(lines) > 1 and lines[0].startswith("{") and lines[0].endswith("}"):
        return "\n".join(json.dumps(changed(json.loads(x), chance, rate)) for x in lines).encode()
    return json.dumps(changed(json.loads(data), chance, rate)).encode()


def with_scraps(data: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(damaged) + 1)
        damaged[place : place + chance.randint(0, 30)] = chance.choice(SCRAPS)
    return bytes(damaged)


def check(found: Transcript) -> None:
    """Each message has an id of its own and its rows; each result follows its own call."""
    ids = [message.id for message in found.messages]
    assert len(set(ids)) == len(ids)
    assert set(found.rows) == set(ids)
    if found.format not in PAIRED:
        return
    called: set[str] = set()
    for message in found.messages:
        called |= {call.id for call in message.tool_calls}
        for result in message.tool_results:
            called.remove(result.call_id)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_damaged_file_is_read_or_refused(file):
    """NFR-2, K-4: and what is read can be written, whole and in part."""
    data = file.read_bytes()
    refused: list[str] = []
    tries = size(300, 5_000)
    for number in range(tries):
        chance = random.Random(seed(number))  # repeatable
        is_json = file.suffix not in (".md", ".db") and chance.random() >= 0.4
        damage = with_wrong_values if is_json else with_scraps
        asked = chance.choice([None, None, None, chance.choice(FORMATS).name])
        chosen, active = chance.choice([None, 1, 2]), chance.random() < 0.3
        try:
            found = read(damage(data, chance), format=asked, conversation=chosen, active=active)
        except InvalidTranscript as error:
            refused.append(str(error))
            continue
        check(found)
        write(found, found.messages)
        write(found, found.messages[1:]).encode()
    assert tries / 60 < len(refused) < tries * 0.99
    assert not any("\n" in reason for reason in refused)
