"""The invariants of compression on every real session at hand, at windows from 4k to 128k (NFR-2).

The sessions are those of COMPACT_DATA, else of the shared folder beside the project; without
either these tests are
skipped. A folder that was named but holds nothing fails. Counts and rules are `tests.checker`'s,
judges those of
`tests.engine.judging`.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from compact import plan, wiring
from compact.engine.plan import Plan
from compact.errors import CannotFit, InvalidTranscript
from compact.messages.formats.known import format_named
from compact.text.speakers import speaker_of
from compact.transcripts.transcript import Transcript
from evals import formats
from tests import checker
from tests.engine import judging
from tests.engine.judging import TOKENIZER, Case
from tests.sizes import NIGHT, size

pytestmark = pytest.mark.data

NAMED = os.environ.get("COMPACT_DATA")
FOLDER = Path(NAMED) if NAMED else Path(__file__).resolve().parents[3] / "shared" / "data"
FOLDERS = (
    "claude_code_sessions",
    "codex_rollouts",
    "specstory_sessions",
    "gemini_cli_sessions",
    "opencode_sessions",
    "pi_sessions",
    "copilot_cli_sessions",
    "mini_swe_agent_gemini3",
    "swe_agent",
    "tau_bench",
    "tau2_bench",
    "longmemeval_subset",
)
BESIDE = {"SOURCE", "README", "LICENSE", "manifest"}
SUFFIXES = {".json", ".jsonl", ".traj", ".md"}
WINDOWS = (128_000, 32_000, 8_000, 4_000)
FILLED = 0.9
LEAST_FILLED = 0.6
RARE = 0.03
"""Share of compressions that may use less than `FILLED`: a group of dozens of parallel calls at the
cut, whose stubs alone are too large."""
SAMPLED = size(1, 2)
"""Conversations looked at from each end of a file that holds many, in the quick set."""
FILES = 3
"""Files of a folder that are looked at by day, by their size: a small, a middle and a large one."""
JUDGES = (
    judging.fits,
    judging.provider_would_take_it,
    judging.order_stays,
    judging.nothing_is_lost_or_doubled,
    judging.everything_shown_was_said,
)


def files(folder: str) -> list[Path]:
    found = (p for p in (FOLDER / folder).rglob("*") if p.suffix in SUFFIXES)
    return sorted(p for p in found if p.stem not in BESIDE)


@pytest.fixture(scope="module", autouse=True)
def data():
    if NAMED is None and not FOLDER.is_dir():
        pytest.skip("no real conversations here: set COMPACT_DATA to their folder")
    assert any(map(files, FOLDERS)), f"no conversations in {FOLDER}"


def some(paths: list[Path]) -> list[Path]:
    """All files at night; by day a few whose sizes are spread over those of all."""
    if NIGHT is not None or len(paths) <= FILES:
        return paths
    by_size = sorted(paths, key=lambda p: (p.stat().st_size, p.name))
    return [by_size[(2 * i + 1) * len(by_size) // (2 * FILES)] for i in range(FILES)]


def windows(number: int) -> tuple[int, ...]:
    """All windows at night; by day each second one, those that the session before it had not."""
    return WINDOWS if NIGHT is not None else WINDOWS[number % 2 :: 2]


def conversations(path: Path, *, every: bool) -> Iterator[Transcript]:
    """The conversations of a file: all, or some of each end."""
    data = path.read_bytes()
    try:
        count = formats.read(data, source=path.name).conversations
    except InvalidTranscript:
        count = formats.read(data, source=path.name, conversation=1).conversations
    numbers = list(range(1, count + 1))
    if not every and count > 2 * SAMPLED:
        numbers = numbers[:SAMPLED] + numbers[-SAMPLED:]
    if every:
        numbers = numbers[:: size(6, 1)]
    for number in numbers:
        chosen = None if count == 1 else number
        yield formats.read(data, source=path.name, conversation=chosen)


def compressed(transcript: Transcript, window: int) -> Plan:
    return plan(transcript.messages, max_tokens=window, tokenizer=TOKENIZER, tools=transcript.tools)


def case_of(transcript: Transcript, window: int) -> Case:
    """The session as provider dictionaries, one a message, so that positions are the same."""
    wire = format_named(transcript.wire)
    before = [one for m in transcript.messages for one in wire.render([m])]
    case = Case(transcript.wire, before, window)
    case.plan = compressed(transcript, window)
    case.after = [one for m in case.plan.context.messages for one in wire.render([m])]
    return case


def judged(transcript: Transcript, window: int, seen: Counter[str]) -> Iterator[str]:
    """What is wrong with a session's compression, in words."""
    try:
        case = case_of(transcript, window)
    except CannotFit:
        seen[f"cannot fit {window:,}"] += 1
        if not is_true(transcript, window):
            yield "it could have fitted"
        return
    done = case.plan
    assert done is not None
    for judge in JUDGES:
        yield from (f"{judge.__name__}: {said}" for said in judge(case))
    yield from protected_stays(transcript, done)
    if done.unchanged:
        seen["fitted"] += 1
        return
    if done.tokens_before is not None and done.tokens_before <= window:
        seen["fitted, its calls closed"] += 1
        yield from written_and_read_again(transcript, done)
        return
    seen[f"compressed to {window:,}"] += 1
    if done.tokens_after < FILLED * window:
        seen["below 90 %"] += 1
        if done.tokens_after < LEAST_FILLED * window:
            yield f"uses {done.tokens_after:,} tokens of {window:,}"
    yield from written_and_read_again(transcript, done)


def protected_stays(transcript: Transcript, done: Plan) -> Iterator[str]:
    """System prompt, pins and the newest words of a person, the very messages."""
    persons = [m for m in transcript.messages if speaker_of(m) == "person"]
    kept = {m.id: m for m in done.context.messages}
    for message in transcript.messages:
        fixed = message.role in ("system", "developer") or message.is_pinned
        if fixed or (persons and message is persons[-1]):
            here = kept.get(message.id)
            if here is None or here.text != message.text:
                yield f"message {message.id} is not there word for word"


def is_true(transcript: Transcript, window: int) -> bool:
    """Whether system prompt, tools, newest words and 256 tokens exceed the window."""
    wire = format_named(transcript.wire)
    system = [m for m in transcript.messages if m.role in ("system", "developer") or m.is_pinned]
    persons = [m for m in transcript.messages if speaker_of(m) == "person"]
    floor = checker.prompt_tokens(wire.render([*system, *persons[-1:]]))
    tools = compressed(transcript, 10**9).floor["tools"]
    return floor + tools + judging.MARGIN > window


def written_and_read_again(transcript: Transcript, done: Plan) -> Iterator[str]:
    """The output file is of the same format, and compressing it again changes nothing."""
    text = wiring.write_transcript(transcript, done.context.messages)
    again = wiring.read_transcript("out", data=text.encode("utf-8", "surrogatepass"))
    second = plan(
        again.messages, max_tokens=done.limit, tokenizer=TOKENIZER, tools=transcript.tools
    )
    if not second.unchanged:
        yield f"read again it has {second.tokens_before} tokens instead of {done.tokens_after}"
    if [m.text for m in again.messages] != [m.text for m in done.context.messages]:
        yield "read again it says something else"


def check(folder: str, capsys: pytest.CaptureFixture[str], *, every: bool) -> None:
    paths = files(folder)
    if not paths:
        pytest.skip(f"no files in {folder}")
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    for path in some(paths):
        for transcript in conversations(path, every=every):
            seen["sessions"] += 1
            for window in windows(seen["sessions"]):
                said = judged(transcript, window, seen)
                wrong += [f"{path.name}, {transcript.title}, {window:,}: {x}" for x in said]
    with capsys.disabled():
        print(f"\n  {folder}: {dict(seen)}")
    done = sum(times for what, times in seen.items() if what.startswith("compressed"))
    assert seen["below 90 %"] <= RARE * done
    assert not wrong, f"{len(wrong)} findings:\n" + "\n".join(wrong[:20])


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_sessions_fit(folder, capsys):
    """NFR-2, FR-3, K-4, FR-8: fits by exact count, groups whole, words kept, at least 90 % used,
    read again unchanged."""
    check(folder, capsys, every=False)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["tau_bench", "tau2_bench", "longmemeval_subset"])
def test_every_conversation_fits(folder, capsys):
    """NFR-2: all conversations of the files that hold many."""
    check(folder, capsys, every=True)


@pytest.mark.slow
def test_compressing_again_changes_nothing():
    """K-6: on the largest session, in memory, at each window; and the same twice."""
    paths = files("claude_code_sessions")
    if not paths:
        pytest.skip("no Claude Code sessions")
    largest = max(paths, key=lambda p: p.stat().st_size)
    transcript = formats.read(largest)
    for window in windows(1):
        once, other = compressed(transcript, window), compressed(transcript, window)
        assert once.context.render_text() == other.context.render_text()
        assert [m.id for m in once.context.messages] == [m.id for m in other.context.messages]
        again = plan(once.context.messages, max_tokens=window, tokenizer=TOKENIZER)
        assert again.unchanged
        assert again.context.messages == once.context.messages
