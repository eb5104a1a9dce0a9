"""Packs for blind reading: our checkpoint and the real summary as A and B in an order drawn by the
seed, what was compressed beside them, and the rubric.

    python -m evals reading --to DIR [--count 16] [--seed N] [--replies DIR]

Half of the packs are coding sessions at a real compaction, a quarter service dialogues with tools,
a quarter plain talk; all of the part that is only scored. `key.json` says which text is whose: it
is for whoever adds up the marks, and lies beside the folder of the packs. With `--replies` a model
tells the stories: its requests are written into that folder, and packs once each has its reply
(`evals.replies`).
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from compact.messages.context import render_text
from compact.messages.messages import Message
from compact.wiring import EXTRACTIVE, token_counter
from evals import contexts, data
from evals.replies import ByHand
from evals.sources import Kind, Source, of_kind

SHARES: dict[Kind, int] = {"coding": 2, "service": 4, "talk": 4}
"""Of so many packs one is of the kind."""
LAST = 24_000
"""Characters of the source's end that stand in the pack; the whole source lies beside."""
_OPENING = re.compile(
    r"\A(?:\[[^\]\n]*\]\n|For reference only[^\n]*\n|This session is being continued[^\n]*\n|"
    r"Analysis:\n|\s+)*"
)
_GAPS = re.compile(r"Below it stand[^\n]*")
"""How a checkpoint says which messages stand below it, and where some are missing between them."""
RUBRIC = """# How to mark

Each folder holds one conversation (`source.md`: its statistics and its last part; `whole.md`: all
of it) and one or two texts (`A.md`, `B.md`) that are to stand in for it: an agent that knows
nothing else must go on from the text. You are not told who wrote which. Read the source first, then
mark each text from 1 (useless or wrong) to 5 (nothing to wish for), with a half where you need one:

- goal: what the person wants now, and what it is part of
- state: what is done, what is not, what was last seen to pass or fail
- next step: what to do next, so that one could begin
- decisions: what was decided, with reasons, and what was refused
- rules: what the person wants to hold from now on, in their words
- artifacts: files, commands, names, numbers that are needed
- readable: a person can read it from the top
- not misleading: nothing in it is wrong, overtaken, or told as done when it is not

Write `marks.json` into each folder: `{"A": {"goal": 4, "state": 3.5, "next step": 4,
"decisions": 4, "rules": 4, "artifacts": 4, "readable": 4, "not misleading": 4, "worst": "the worst
line, and why"}, "B": {…}}`. Mark a criterion null where the conversation has nothing of the kind.
The end of a context may hold messages word for word: they count as part of the text. The system
prompt of the conversation, if it has one, stands above each text and need not be repeated in it.
"""


def outside(folder: Path) -> Path:
    """The folder, made.

    Raises:
        ValueError: it lies within the repository, which holds no real conversations.
    """
    if folder.resolve().is_relative_to(data.REPO_ROOT):
        raise ValueError(f"{folder} is within the repository: choose a folder outside of it")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def chosen(folder: Path, kind: Kind, count: int, draw: random.Random) -> list[Source]:
    """Sources of a kind from the scored part, of different sessions, in an order that is drawn."""
    by_session: dict[str, list[Source]] = {}
    for source in of_kind(kind, folder):
        if source.half == "score":
            by_session.setdefault(source.name.split(".")[0], []).append(source)
    names = sorted(by_session)
    draw.shuffle(names)
    return [draw.choice(by_session[name]) for name in names[:count]]


def bare(messages: Sequence[Message]) -> str:
    """Our context as a text to read, without the system prompt and the headings that tell whose it
    is.
    """
    own = list(contexts.ours(messages))
    rest = [m for m in messages if m.role != "system" and not contexts.is_ours(m)]
    gaps = next((found[0] for text in own if (found := _GAPS.search(text))), "")
    kept = f"\n\n## Messages word for word\n\n{gaps}\n\n{render_text(rest)}" if rest else ""
    return "\n\n".join(_OPENING.sub("", text) for text in own) + kept


def statistics(source: Source) -> str:
    """What can be counted of a source."""
    count = token_counter("chat_completions", tokenizer="o200k")
    calls = Counter(call.name for message in source.messages for call in message.tool_calls)
    roles = Counter(str(message.role) for message in source.messages)
    lines = [
        f"- kind: {source.kind}",
        f"- messages: {len(source.messages)} ({_shown(roles)})",
        f"- tokens: {count.messages(source.messages):,}, to be told in {source.max_tokens:,}",
        f"- tool calls: {_shown(calls)}",
    ]
    return "\n".join(lines)


def _shown(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.most_common()) or "none"


def write(source: Source, ours: str, folder: Path, draw: random.Random) -> dict[str, str]:
    """One pack; returns which letter is whose."""
    folder.mkdir()
    texts = {"ours": ours}
    if source.summary:
        texts["real"] = _OPENING.sub("", source.summary)
    names = sorted(texts)
    draw.shuffle(names)
    whole = render_text(source.messages)
    (folder / "whole.md").write_text(whole + "\n", encoding="utf-8")
    told = f"# Statistics\n\n{statistics(source)}\n\n# The last part\n\n{whole[-LAST:]}\n"
    (folder / "source.md").write_text(told, encoding="utf-8")
    for letter, name in zip("AB", names, strict=False):
        (folder / f"{letter}.md").write_text(texts[name] + "\n", encoding="utf-8")
    return {"source": source.name} | dict(zip("AB", names, strict=False))


def packs(folder: Path, to: Path, *, count: int, seed: int, replies: Path | None = None) -> str:
    """Write all packs; what was written, without a word of them."""
    draw = random.Random(seed)
    outside(to)
    sources = [
        s for kind, part in SHARES.items() for s in chosen(folder, kind, count // part, draw)
    ]
    draw.shuffle(sources)
    models = [ByHand(outside(replies), s.name) if replies else None for s in sources]
    rows = zip(sources, models, strict=True)
    texts = [(s, bare(s.compressed(m.summarizer() if m else EXTRACTIVE))) for s, m in rows]
    if waiting := sum(model.waiting for model in models if model):
        return f"{waiting} requests in {replies} wait for their replies"
    place = to / "packs"
    place.mkdir()
    key = {f"{n:02}": write(*row, place / f"{n:02}", draw) for n, row in enumerate(texts, start=1)}
    (place / "RUBRIC.md").write_text(RUBRIC, encoding="utf-8")
    (to / "key.json").write_text(json.dumps(key, indent=1) + "\n", encoding="utf-8")
    return f"{len(key)} packs for readers in {place}; {to / 'key.json'} says whose is whose"


def means(to: Path) -> str:
    """The mean marks of ours and of the real summaries, once there are marks beside the packs."""
    key = json.loads((to / "key.json").read_text(encoding="utf-8"))
    marks: dict[str, dict[str, list[float]]] = {}
    for number, letters in key.items():
        path = to / "packs" / number / "marks.json"
        given = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        for letter, by in given.items():
            for name, mark in by.items():
                if isinstance(mark, int | float):
                    marks.setdefault(name, {}).setdefault(letters[letter], []).append(mark)
    lines = [f"{'mean marks':16}  {'ours':>12}  {'real':>12}"]
    for name, of in marks.items():
        lines.append(f"{name:16}  {_mean(of.get('ours', ())):>12}  {_mean(of.get('real', ())):>12}")
    return "\n".join(lines)


def _mean(values: Iterable[float]) -> str:
    some = list(values)
    return f"{sum(some) / len(some):.2f} of {len(some)}" if some else "–"
