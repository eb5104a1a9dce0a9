"""Every real conversation at hand is recognized, read and written (NFR-2, C-3).

The files are those of COMPACT_DATA, else of the shared folder beside the project; without either
these tests are skipped. A folder that was named but holds nothing fails.
"""

import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest

from compact.errors import InvalidTranscript
from compact.messages.messages import Message, MessageMetadata, Thinking
from compact.text.speakers import speaker_of
from compact.transcripts.writing import write
from evals.formats import detect, read
from tests import sizes

pytestmark = pytest.mark.data

NAMED = os.environ.get("COMPACT_DATA")
FOLDER = Path(NAMED) if NAMED else Path(__file__).resolve().parents[3] / "shared" / "data"

FORMAT_OF = {
    "claude_code_sessions": "claude_code",
    "claude_code_sessions_2": "claude_code",
    "claude_code_others": "claude_code",
    "codex_rollouts": "codex_cli",
    "specstory_sessions": "specstory",
    "gemini_cli_sessions": "gemini_cli",
    "opencode_sessions": "opencode",
    "pi_sessions": "pi",
    "copilot_cli_sessions": "copilot_cli",
    "mini_swe_agent_gemini3": "mini_swe_agent",
    "swe_agent": "swe_agent",
    "tau_bench": "tau_bench",
    "tau2_bench": "tau2_bench",
    "longmemeval_subset": "longmemeval",
}
REFUSED = {"qmsum": "a meeting of several people", "locomo": "a dialogue of two people"}
BESIDE = {"SOURCE", "README", "LICENSE", "manifest"}
SUFFIXES = {".json", ".jsonl", ".traj", ".md"}
MOST_TIMES_JSON = 7
"""How much longer than the JSON decoder alone reading may take."""


def files(folder: str) -> list[Path]:
    found = (p for p in (FOLDER / folder).rglob("*") if p.suffix in SUFFIXES)
    return sorted(p for p in found if p.stem not in BESIDE)


@pytest.fixture(scope="module", autouse=True)
def data():
    if NAMED is None and not FOLDER.is_dir():
        pytest.skip("no real conversations here: set COMPACT_DATA to their folder")
    assert any(files(x) for x in (*FORMAT_OF, *REFUSED)), f"no conversations in {FOLDER}"


def conversations(path: Path) -> list[int | None]:
    try:
        count = read(path).conversations
    except InvalidTranscript:
        count = read(path, conversation=1).conversations
    return [None] if count == 1 else list(range(1, count + 1))


@pytest.mark.slow
@pytest.mark.parametrize("folder", FORMAT_OF)
def test_every_file_is_recognized_and_read(folder, capsys):
    """NFR-2: no file that says something is refused; each message has its own id and its rows."""
    paths = files(folder)
    if not paths:
        pytest.skip(f"no files in {folder}")
    counts: Counter[str] = Counter()
    speakers: Counter[str] = Counter()
    for path in paths:
        assert detect(path) == ("chat" if path.name.startswith("sft-") else FORMAT_OF[folder])
        try:
            numbers = conversations(path)
        except InvalidTranscript as error:
            counts[error.reason.partition(",")[0]] += 1  # nobody said anything yet
            assert set(counts) <= {"files", "conversations", "messages read", "holds no messages"}
            continue
        for number in numbers if len(numbers) <= 3 else [*numbers[:2], numbers[-1]]:
            transcript = read(path, conversation=number)
            assert len({m.id for m in transcript.messages}) == len(transcript.messages)
            assert set(transcript.rows) == {m.id for m in transcript.messages}
            speakers.update(speaker_of(m) for m in transcript.messages)
            counts["messages read"] += len(transcript.messages)
        counts["files"] += 1
        counts["conversations"] += len(numbers)
    with capsys.disabled():
        print(f"\n  {folder}: {dict(counts)} {dict(speakers)}")


@pytest.mark.parametrize("folder", REFUSED)
def test_what_is_no_conversation_with_an_assistant_is_refused(folder):
    paths = files(folder)
    if not paths:
        pytest.skip(f"no files in {folder}")
    for path in paths:
        with pytest.raises(InvalidTranscript, match=REFUSED[folder]):
            read(path)


@pytest.mark.slow
def test_claude_code_comes_back_byte_for_byte_and_is_read_again_the_same():
    """C-3: on every real session, whole and after a compaction of ours."""
    summary = MessageMetadata(source="checkpoint")
    for path in files("claude_code_sessions"):
        transcript = read(path)
        assert write(transcript, transcript.messages).encode() == path.read_bytes()
        kept = transcript.messages[len(transcript.messages) // 2 :]
        text = write(transcript, [Message(role="user", content="s", metadata=summary), *kept])
        again = read(text.encode())
        assert [m.content for m in again.messages[1:]] == [m.content for m in kept]
        assert [m.id for m in again.messages[1:]] == [m.id for m in kept]
        assert write(again, again.messages) == text


@pytest.mark.slow
def test_our_boundary_has_the_keys_of_the_real_ones():
    """C-3: compared with every boundary and summary row of the real sessions."""
    checkpoint = Message(role="user", content="s", metadata=MessageMetadata(source="checkpoint"))
    seen = 0
    for path in files("claude_code_sessions"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        real = [r for r in rows if r.get("subtype") == "compact_boundary"]
        summaries = [r for r in rows if r.get("isCompactSummary")]
        if not real:
            continue
        transcript = read(path)
        ours = write(transcript, [checkpoint, *transcript.messages[-2:]]).splitlines()
        boundary, summary = json.loads(ours[0]), json.loads(ours[1])
        for theirs in real:
            assert list(boundary) == list(theirs)
            assert set(boundary["compactMetadata"]) == set(theirs["compactMetadata"])
        for theirs in summaries:
            assert list(summary) == list(theirs)
            assert summary["message"].keys() == theirs["message"].keys()
        seen += len(real)
    assert seen > 0 or not files("claude_code_sessions")


@pytest.mark.slow
def test_active_starts_with_the_last_real_summary():
    """C-2: and the whole file is longer, because it has the originals."""
    for path in files("claude_code_sessions"):
        active, whole = read(path, active=True), read(path)
        if "no compaction boundary" in " ".join(active.notes):
            assert active.messages == whole.messages
        else:
            assert speaker_of(active.messages[0]) == "checkpoint"
            assert len(active.messages) < len(whole.messages)


@pytest.mark.slow
def test_codex_items_are_read_once_and_what_was_typed_is_a_persons():
    """C-2, C-8: counted in the rows themselves; active is what the last compaction kept, and what
    follows it."""
    for path in files("codex_rollouts"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        items = [row["payload"] for row in rows if row["type"] == "response_item"]
        typed = [row for row in rows if row["payload"].get("type") == "user_message"]
        whole = read(path)
        assert [m.wire for m in whole.messages] == items
        assert sum(speaker_of(m) == "person" for m in whole.messages) == len(typed) > 0
        bounds = [i for i, row in enumerate(rows) if row["type"] == "compacted"]
        kept = rows[bounds[-1]]["payload"]["replacement_history"] if bounds else []
        start = bounds[-1] if bounds else 0
        later = [row["payload"] for row in rows[start:] if row["type"] == "response_item"]
        assert [m.wire for m in read(path, active=True).messages] == [*kept, *later]


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def words(transcript, speaker: str) -> list[str]:
    return [m.text for m in transcript.messages if speaker_of(m) == speaker]


def pairs(transcript) -> dict[str, str]:
    """The results by the ids of their calls, each behind its call."""
    called: set[str] = set()
    found: dict[str, str] = {}
    for message in transcript.messages:
        called |= {call.id for call in message.tool_calls}
        for result in message.tool_results:
            assert result.call_id in called
            assert result.call_id not in found
            found[result.call_id] = result.text
    return found


def test_opencode_parts_are_all_read_or_counted():
    """C-2, C-8, MIG: counted in the parts themselves."""
    for path in files("opencode_sessions"):
        found = read(path)
        rows = json.loads(path.read_text(encoding="utf-8"))["messages"]
        parts = [(row["info"]["role"], part) for row in rows for part in row["parts"]]
        kinds = Counter((role, part["type"]) for role, part in parts)
        said = [p["text"] for who, p in parts if p["type"] == "text" and who == "assistant"]
        assert [x for m in found.messages for x in [m.text] if m.role == "assistant" and x] == said
        typed = [p for who, p in parts if who == "user" and not p.get("synthetic")]
        assert words(found, "person") == [p.get("text") or f"/{p['command']}" for p in typed]
        ran = [p["state"] for _, p in parts if p["type"] == "tool"]  # ids of calls repeat
        assert list(pairs(found).values()) == [x.get("output", x.get("error")) for x in ran]
        thought = [p for m in found.messages for p in m.parts if isinstance(p, Thinking)]
        assert len(thought) == kinds["assistant", "reasoning"]
        for kind in ("patch", "step-start", "step-finish"):
            assert f"{kinds['assistant', kind]} {kind} parts" in found.notes


def test_pi_entries_are_all_read_or_counted():
    """C-2, C-8, MIG: counted in the entries themselves; active is what the last compaction kept."""
    for path in files("pi_sessions"):
        rows = rows_of(path)
        found, active = read(path), read(path, active=True)
        sent = [row["message"] for row in rows if row["type"] == "message"]
        ran = [m for m in sent if m["role"] == "bashExecution"]
        empty = [m for m in sent if m["role"] == "assistant" and not m["content"]]
        assert len(found.messages) == len(sent) + len(ran) - len(empty)
        assert f"{len(empty)} empty assistant messages" in found.notes
        results = [m for m in sent if m["role"] == "toolResult"]
        assert list(pairs(found)) == [m["toolCallId"] for m in results]
        assert len(words(found, "person")) == len(ran) + sum(m["role"] == "user" for m in sent)
        bounds = [i for i, row in enumerate(rows) if row["type"] == "compaction"]
        assert f"{len(bounds)} compaction entries" in found.notes
        first = rows[rows[bounds[-1]]["firstKeptEntryIndex"]]["message"]["content"][0]["text"]
        assert [m.text for m in active.messages[:2]] == [rows[bounds[-1]]["summary"], first]
        assert speaker_of(active.messages[0]) == "checkpoint"
        tail = [m.content for m in active.messages[1:]]
        assert [m.content for m in found.messages][-len(tail) :] == tail


def test_copilot_cli_events_are_all_read_or_counted():
    """C-2, C-8, MIG: counted in the events themselves."""
    for path in files("copilot_cli_sessions"):
        rows = rows_of(path)
        found = read(path)
        of = {kind: [r["data"] for r in rows if r["type"] == kind] for kind in
              {row["type"] for row in rows}}  # fmt: skip
        assert words(found, "person") == [data["content"] for data in of["user.message"]]
        assert words(found, "injected") == [d["content"] for d in of["system.notification"]]
        replies = [m for m in found.messages if m.role == "assistant"]
        assert [m.text for m in replies] == [d["content"] for d in of["assistant.message"]]
        asked = [x["toolCallId"] for d in of["assistant.message"] for x in d["toolRequests"]]
        assert [call.id for m in replies for call in m.tool_calls] == asked
        done = {d["toolCallId"]: d for d in of["tool.execution_complete"]}
        assert pairs(found).keys() == done.keys() == set(asked)
        assert all(
            text == (done[k]["result"]["content"] if done[k]["success"] else
                     done[k]["error"]["message"])
            for k, text in pairs(found).items()
        )  # fmt: skip
        counted = sum(int(note.split()[0]) for note in found.notes)
        assert counted + len(found.messages) == len(rows)


@pytest.mark.slow
def test_other_formats_are_written_and_read_again():
    """C-3: as chat completions, with the same calls, results and words."""
    for folder in FORMAT_OF:
        for path in files(folder)[:: sizes.size(3, 1)]:
            transcript = read(path, conversation=conversations(path)[-1])
            if transcript.format == "claude_code" or not transcript.messages:
                continue
            again = read(write(transcript, transcript.messages).encode())
            assert [m.text for m in again.messages] == [m.text for m in transcript.messages]
            ours = [(r.call_id, r.text) for m in transcript.messages for r in m.tool_results]
            assert ours == [(r.call_id, r.text) for m in again.messages for r in m.tool_results]


@pytest.mark.slow
def test_every_conversation_of_the_large_collections_is_read():
    for folder in ("tau_bench", "tau2_bench", "longmemeval_subset"):
        for path in files(folder):
            data = path.read_bytes()
            for number in conversations(path)[:: sizes.size(5, 1)]:
                assert read(data, conversation=number).messages


@pytest.mark.timing
def test_the_largest_file_is_read_fast(capsys):
    """NFR-1: the largest Claude Code session (about 3.8 MB)."""
    paths = files("claude_code_sessions")
    if not paths:
        pytest.skip("no Claude Code sessions")
    largest = max(paths, key=lambda p: p.stat().st_size)
    ours, bare = [], []
    for _ in range(5):
        start = time.thread_time()
        transcript = read(largest)
        between = time.thread_time()
        lines = [json.loads(line) for line in largest.read_bytes().splitlines()]
        ours.append((between - start) * 1000)
        bare.append((time.thread_time() - between) * 1000)
    with capsys.disabled():
        size = largest.stat().st_size / 1e6
        print(f"\n  {size:.1f} MB, {len(transcript.messages)} messages: {min(ours):.0f} ms")
    assert len(lines) >= len(transcript.messages)
    assert min(ours) < MOST_TIMES_JSON * min(bare)
