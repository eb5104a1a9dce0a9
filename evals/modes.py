"""What each mode keeps more of than `assistant`, at the same size (FR-12).

Real coding sessions are compressed to a window in every mode. Counted in the checkpoint's text, by
the product's own patterns: distinct paths, files and code identifiers; distinct lines of the
tools' output that name errors; words of what was said. Sessions that fit are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any, Literal

from compact import plan
from compact.errors import CannotFit
from compact.messages.messages import Message
from compact.messages.policy import CompactPolicy
from compact.text import anchors
from compact.text.modes import ModeName
from compact.text.outline import SAID, STORY, sections_of
from compact.text.speakers import speaker_of
from compact.transcripts.transcript import Transcript
from compact.wiring import token_counter
from evals import data, formats

What = Literal["names", "errors", "said"]
PROMISED: Mapping[ModeName, What] = {
    "developer": "names",
    "debugger": "errors",
    "planning": "said",
}
"""What each mode keeps more of."""
WINDOWS = (8_000, 32_000)
FOLDERS = ("claude_code_sessions", "swe_agent", "mini_swe_agent_gemini3", "specstory_sessions")
_SUFFIXES = (".json", ".jsonl", ".traj", ".md")
_BESIDE = ("SOURCE", "README", "LICENSE")
_NAMES = ("path", "file", "identifier")
DONE = "  Did:"
"""How a line begins that tells what tools did."""
_FAILED, BEGINS = "FAILED ", 100
"""What a test runner puts before a line, and characters by which a line is found."""
_EVERY = 10_000


@dataclass(frozen=True)
class Kept:
    """What one checkpoint keeps."""

    tokens: int
    names: int
    errors: int
    said: int


@dataclass(frozen=True)
class Compared:
    """One session at one window, in every mode."""

    session: str
    window: int
    modes: Mapping[ModeName, Kept]


@dataclass(frozen=True)
class Outcome:
    """A mode beside `assistant`, over sessions."""

    mode: ModeName
    what: What
    plain: float
    """Mean count in `assistant`."""
    kept: float
    """Mean count in the mode."""
    more: int
    same: int
    less: int
    tokens: float
    """Tokens of all checkpoints by those of `assistant`."""

    @property
    def ratio(self) -> float:
        """How many times as many are kept, in the mean."""
        return self.kept / self.plain if self.plain else float("inf")


def sessions(folder: Path, folders: Sequence[str] = FOLDERS) -> Iterator[Path]:
    """The files of coding sessions in some of the data's folders.

    Raises:
        NoData: there is none.
    """
    found = [p for name in folders for p in sorted((folder / name).glob("*")) if _is_session(p)]
    if not found:
        raise data.NoData("there are no coding sessions", asked=False)
    yield from found


def _is_session(path: Path) -> bool:
    return path.suffix in _SUFFIXES and path.stem not in _BESIDE


def compared(session: str, transcript: Transcript, window: int) -> Compared | None:
    """A session at one window in every mode; None where it fits, or nothing can be summarized."""
    errors = error_lines(transcript.messages)
    found: dict[ModeName, Kept] = {}
    modes: tuple[ModeName, ...] = ("assistant", *PROMISED)
    for mode in modes:
        text = summary(transcript, window, mode)
        if not text:
            return None
        found[mode] = kept(text, errors)
    return Compared(session, window, found)


def summary(transcript: Transcript, window: int, mode: ModeName) -> str:
    """The text of the session's checkpoint; empty where there is none."""
    policy = CompactPolicy(mode=mode)
    try:
        planned = plan(
            transcript.messages,
            max_tokens=window,
            tokenizer="o200k",
            tools=transcript.tools,
            policy=policy,
        )
    except CannotFit:
        return ""
    return planned.checkpoint.summary if planned.checkpoint else ""


def error_lines(messages: Sequence[Message]) -> frozenset[str]:
    """The distinct lines of tools' output that name errors."""
    texts = [result.text for m in messages for result in m.tool_results]
    texts += [m.text for m in messages if speaker_of(m) in ("observation", "tool")]
    return frozenset(line for text in texts for line in anchors.error_lines(text, most=_EVERY))


def kept(text: str, errors: frozenset[str]) -> Kept:
    """What a checkpoint's text keeps, of these error lines too."""
    names = {anchor.text for anchor in anchors.find_all(text) if anchor.kind in _NAMES}
    told = [body.splitlines() for title, body in sections_of(text) if title in (STORY, SAID)]
    return Kept(
        tokens=token_counter("chat_completions", tokenizer="o200k").text(text),
        names=len(names),
        errors=sum(line.removeprefix(_FAILED)[:BEGINS] in text for line in errors),
        said=sum(len(x.split()) for lines in told for x in lines if not x.startswith(DONE)),
    )


def run(
    folder: Path, *, folders: Sequence[str] = FOLDERS, windows: Sequence[int] = WINDOWS
) -> list[Compared]:
    """Every coding session at every window it does not fit."""
    found = []
    for path in sessions(folder, folders):
        transcript = formats.read(path)
        rows = [compared(path.stem, transcript, window) for window in windows]
        found += [row for row in rows if row is not None]
    return found


def outcomes(rows: Sequence[Compared]) -> list[Outcome]:
    """Each mode beside `assistant`."""
    return [_outcome(rows, mode, what) for mode, what in PROMISED.items()]


def _outcome(rows: Sequence[Compared], mode: ModeName, what: What) -> Outcome:
    pairs = [(getattr(r.modes["assistant"], what), getattr(r.modes[mode], what)) for r in rows]
    plain = sum(row.modes["assistant"].tokens for row in rows)
    return Outcome(
        mode,
        what,
        plain=mean(before for before, _ in pairs),
        kept=mean(after for _, after in pairs),
        more=sum(after > before for before, after in pairs),
        same=sum(after == before for before, after in pairs),
        less=sum(after < before for before, after in pairs),
        tokens=sum(row.modes[mode].tokens for row in rows) / plain,
    )


def report(rows: Sequence[Compared], *, missed: bool = False) -> str:
    """Each mode at each window beside `assistant`; with `missed`, the sessions in which it keeps
    less.
    """
    lines = ["window  mode       keeps      assistant   here  ratio  more same less  tokens"]
    for window in dict.fromkeys(row.window for row in rows):
        here = [row for row in rows if row.window == window]
        for one in outcomes(here):
            lines.append(
                f"{window:>6,}  {one.mode:<9}  {one.what:<9}  {one.plain:>9.1f}  {one.kept:>5.1f}  "
                f"{one.ratio:>5.2f}  {one.more:>4} {one.same:>4} {one.less:>4}  {one.tokens:.3f}"
            )
            lines += _less(here, one) if missed else []
    return "\n".join(lines)


def _less(rows: Sequence[Compared], one: Outcome) -> Iterator[str]:
    for row in rows:
        before, after = (getattr(row.modes[m], one.what) for m in ("assistant", one.mode))
        if after < before:
            yield f"        {before} → {after}  {row.session}"


def as_json(rows: Sequence[Compared]) -> dict[str, Any]:
    """The same for machines."""
    return {
        "outcomes": [asdict(one) for one in outcomes(rows)],
        "sessions": [asdict(row) for row in rows],
    }
