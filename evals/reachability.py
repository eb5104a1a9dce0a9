"""How many planted facts stay reachable: in the active context itself, or on the first page of
`recall` for a question that does not contain the answer.

Two hundred facts (`evals/facts`) are planted evenly over 500,000 tokens of real turns; the session
goes on until its 50th compression where it has not seen that by then. Right after the 5th, 10th and
50th compression, and where the 500,000 tokens end, each fact that was said so far counts as kept
where all of its values stand word for word.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compact import ContextManager, wiring
from compact.engine.history import History
from compact.messages.boundaries import may_cut_before
from compact.messages.formats.known import format_named
from compact.messages.messages import Message, ToolCall, ToolResult

FACTS = Path(__file__).parent / "facts" / "facts.jsonl"
SESSION_TOKENS = 500_000
WINDOWS = (8_192, 32_768)
COMPRESSIONS = (5, 10, 50)


@dataclass(frozen=True)
class Fact:
    """One fact, who says it, and how it is asked for."""

    id: str
    kind: str
    speaker: str
    text: str
    value: tuple[str, ...]
    question: str

    def stands_in(self, text: str) -> bool:
        """Whether all of its values stand there word for word."""
        return all(value in text for value in self.value)

    def messages(self) -> list[Message]:
        """The fact as it is said."""
        if self.speaker == "tool":
            call = ToolCall(f"call_{self.id}", "run", json.dumps({"step": self.id[1:]}))
            result = ToolResult(call.id, self.text)
            return [
                Message(role="assistant", content=(call,)),
                Message(role="tool", content=(result,)),
            ]
        return [Message.of({"role": self.speaker, "content": self.text})]


@dataclass(frozen=True)
class Reached:
    """How many of the facts said so far were reachable at one moment."""

    window: int
    compressions: int
    tokens: int
    """Of the active context."""
    said: int
    in_context: tuple[str, ...]
    recalled: tuple[str, ...]
    """Those on the first page of recall, in context or not."""

    @property
    def share_in_context(self) -> float:
        """Of the facts said so far."""
        return len(self.in_context) / max(1, self.said)

    @property
    def share_reachable(self) -> float:
        """In the context, or on the first page of recall."""
        return len({*self.in_context, *self.recalled}) / max(1, self.said)


def facts() -> list[Fact]:
    """The two hundred."""
    rows = [json.loads(line) for line in FACTS.read_text(encoding="utf-8").splitlines()]
    fields = ("id", "kind", "speaker", "text", "question")
    return [Fact(**{k: row[k] for k in fields}, value=tuple(row["value"])) for row in rows]


def real_turns(paths: Iterable[Path]) -> Iterator[tuple[Message, int, bool]]:
    """Messages of real sessions one after the other, their tokens, and whether something may be
    said before each.
    """
    counter = wiring.token_counter("anthropic", tokenizer="o200k")
    for path in paths:
        transcript = wiring.read_transcript(path)
        said = [m for m in transcript.messages if m.role not in ("system", "developer")]
        history = History(said, format_named("anthropic"), counter)
        for position in range(len(history)):
            free = may_cut_before(history, position)
            yield history[position], history.tokens(position), free


def planted(
    paths: Iterable[Path], tokens: int = SESSION_TOKENS
) -> Iterator[tuple[Message, Fact | None]]:
    """The session: real turns with the facts evenly among them; a fact comes with the last of its
    messages.
    """
    waiting = facts()
    counter = wiring.token_counter("anthropic", tokenizer="o200k")
    step, total, said = tokens / (len(waiting) + 1), 0, 0
    number = 0
    for message, size, free in real_turns(paths):
        while free and said < len(waiting) and total >= step * (said + 1):
            parts = waiting[said].messages()
            for each in parts:
                named = each.model_copy(update={"id": f"m{number}"})
                yield named, waiting[said] if each is parts[-1] else None
                number += 1
                total += counter.message(named)
            said += 1
        total += size
        yield message.model_copy(update={"id": f"m{number}"}), None
        number += 1


def run(
    paths: Sequence[Path], *, windows: Sequence[int] = WINDOWS, store: str | None = ":memory:"
) -> list[Reached]:
    """The session once for each window, its turns from these Claude Code sessions."""
    return [row for window in windows for row in _followed(paths, window, store)]


def _followed(paths: Sequence[Path], window: int, store: str | None) -> Iterator[Reached]:
    with ContextManager(window=window, store=store, format="anthropic", tokenizer="o200k") as ctx:
        said: list[Fact] = []
        number = tokens = 0
        ended = False
        for message, fact in planted(paths):
            ctx.add_message(message)
            if fact is not None:
                said.append(fact)
            ctx.get_context_for_model()
            tokens += ctx.history.tokens(len(ctx.history) - 1)
            if ctx.compressions > number:
                number = ctx.compressions
                if number in COMPRESSIONS:
                    yield _reached(ctx, said, number)
            if not ended and tokens >= SESSION_TOKENS:
                ended = True
                yield _reached(ctx, said, number)
            if ended and number >= max(COMPRESSIONS):
                return


def _reached(ctx: ContextManager, said: Sequence[Fact], number: int) -> Reached:
    context = ctx.active_context()
    text = context.render_text()
    pages = {f.id: "\n".join(hit.text for hit in ctx.recall(f.question)) for f in said}
    return Reached(
        window=ctx.window.size,
        compressions=number,
        tokens=context.tokens,
        said=len(said),
        in_context=tuple(f.id for f in said if f.stands_in(text)),
        recalled=tuple(f.id for f in said if f.stands_in(pages[f.id])),
    )


def report(rows: Sequence[Reached], *, missed: bool = False) -> str:
    """The shares in words and numbers."""
    known = {f.id: f for f in facts()}
    lines = ["window  compressions  context  said  in context  recalled  reachable"]
    for row in rows:
        lines.append(
            f"{row.window:>6,}  {row.compressions:>12}  {row.tokens:>7,}  {row.said:>4}  "
            f"{row.share_in_context:>10.1%}  {len(row.recalled) / max(1, row.said):>8.1%}  "
            f"{row.share_reachable:>9.1%}"
        )
        kinds = Counter(known[i].kind for i in row.in_context)
        of = Counter(f.kind for f in list(known.values())[: row.said])
        lines.append("        " + ", ".join(f"{k} {kinds[k]}/{of[k]}" for k in sorted(of)))
        if missed:
            gone = [f for f in list(known.values())[: row.said] if f.id not in row.in_context]
            lines += [f"        - {f.id} {f.speaker} {f.kind}: {f.text[:90]}" for f in gone]
            lost = [f for f in gone if f.id not in row.recalled]
            lines += [f"        ! {f.id} not recalled: {f.question}" for f in lost]
    return "\n".join(lines)


def as_json(rows: Sequence[Reached]) -> list[dict[str, Any]]:
    """The numbers as plain values."""
    return [
        {
            "window": r.window,
            "compressions": r.compressions,
            "context_tokens": r.tokens,
            "said": r.said,
            "in_context": round(r.share_in_context, 4),
            "reachable": round(r.share_reachable, 4),
        }
        for r in rows
    ]
