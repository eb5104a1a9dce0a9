"""Does a session keep what one call over the same messages keeps?

Whole sessions are fed turn by turn: the bundled one, generated ones, all real ones of Claude Code.
At the end, and after fifty compressions (where a session has seen fewer, chatter follows until
then), the rules of its person are looked for in the prompt, and all the statements; beside it
stands one call over the same messages to the same tokens. At 32,768 tokens the planted facts of
`evals.reachability` are looked for, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from compact import ContextManager, plan
from compact.errors import CompactError
from compact.messages.messages import Message
from compact.wiring import read_transcript, token_counter
from evals import data, generated, person, reachability
from evals.contexts import squeezed
from evals.labels import check
from evals.split import Cell, Half, columns, half_of, table

WINDOWS = (8_192, 32_768)
COMPRESSIONS = 50
ROOM = 0.12
"""Share of the usable window that a standing record may have."""
SEEDS = (1, 2, 3, 4)
LONG = (10, 100, 1_000)
BUNDLED = (
    "never write to the production database.",
    "Everything goes through the staging copy first, /var/lib/harbour/staging.db, and only I "
    "promote to production.",
    "Keep the dependencies at fastapi, uvicorn and httpx, plus pytest for the tests. Anything else "
    "gets asked first.",
    "lengths are metres in the database, two decimals.",
    "Commit messages start with the ticket, like HRB-12: and then an imperative sentence.",
    "Nobody gets C12, it doesn't even show up as free.",
    "Always run the whole suite before you call something done, not only the files you touched.",
    "Talk English to me even when I paste German; only texts that end up in front of him get "
    "written in German, and formally, with Sie.",
    "amounts are integers in cents. No floats anywhere near money.",
    "never put guest names or phone numbers in logs.",
    "One concern per commit please",
    "Deploys happen Tuesday to Thursday, before 15:00.",
    "Please keep that token out of the repository and out of anything you print.",
    "Migrations go forward only, a new number each time; what staging has applied is frozen.",
    "From now on there's one door into the database: db.connect.",
)
"""The standing rules of the bundled session's person."""


@dataclass(frozen=True)
class Subject:
    """A session to live through, its rules, and all that its person stated."""

    name: str
    half: Half
    messages: tuple[Message, ...]
    rules: tuple[str, ...]
    statements: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lived:
    """What a prompt holds at one moment, and what one call to the same tokens would."""

    half: Half
    session: str
    window: int
    moment: str
    compressions: int
    tokens: int
    usable: int
    rules: int
    rule_tokens: int
    lived: int
    """Rules word for word in the prompt."""
    once: int
    """Rules word for word in one call's context."""
    statements: int
    lived_statements: int
    once_statements: int
    refused: int
    """Turns at which no prompt could be made."""

    @property
    def fits(self) -> bool:
        """Whether the rules fit into the room of the standing record."""
        return self.rule_tokens <= ROOM * self.usable


def subjects(folder: Path | None, only: str = "") -> Iterator[Subject]:
    """The sessions, those of our own first; `only` picks those whose name holds it."""
    for each in (_bundled(), *map(_generated, SEEDS)):
        if only in each.name:
            yield each
    for path in data.every_claude_code_session(folder) if folder else ():
        if folder and only in path.stem:
            yield _real(folder, path)


def _bundled() -> Subject:
    messages = read_transcript(data.SAMPLE).messages
    return Subject("harbour", "look", messages, BUNDLED)


def _generated(seed: int) -> Subject:
    made = generated.scattered(seed)
    rules = tuple(rule.text for rule in made.rules)
    return Subject(made.name, "look", made.messages, rules)


def _real(folder: Path, path: Path) -> Subject:
    half = half_of(path.stem, folder=path.parent.name)
    file = path.relative_to(folder).as_posix()
    rules = [check.resolve(x, folder) for x in check.load() if x.file == file]
    statements = []
    for each in person.said(person.rows_of(path)):
        if not each.pasted:
            statements += each.statements()
            rules += [] if each.source == "typed" else each.statements()
    messages = read_transcript(path).messages
    return Subject(path.stem, half, messages, _once(rules), _once(statements))


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(squeezed, texts)))


def live(subject: Subject, window: int) -> Iterator[Lived]:
    """The session at its end and after fifty compressions."""
    wire = subject.messages[0].wire_format or "chat_completions"
    with ContextManager(window=window, store=":memory:", format=wire, tokenizer="o200k") as ctx:
        refused = _fed(ctx, subject.messages)
        yield _held(ctx, subject, subject.messages, "at the end", refused)
        more: list[Message] = []
        turns = generated.chatter(1)
        while ctx.compressions < COMPRESSIONS and refused < len(subject.messages):
            turn = [next(turns) for _ in range(20)]
            refused += _fed(ctx, turn)
            more += turn
        moment = f"after {COMPRESSIONS} compressions"
        yield _held(ctx, subject, (*subject.messages, *more), moment, refused)


def _fed(ctx: ContextManager, messages: Sequence[Message]) -> int:
    """Add messages and ask for a prompt before each reply; how often there was none."""
    refused = 0
    for one, other in pairwise((*messages, None)):
        assert one is not None
        ctx.add_message(one)
        if other is None or (other.role == "assistant" != one.role):
            try:
                ctx.get_context_for_model()
            except CompactError:
                refused += 1
    return refused


def _held(
    ctx: ContextManager, subject: Subject, messages: Sequence[Message], moment: str, refused: int
) -> Lived:
    try:
        context = ctx.active_context()
        text, tokens = squeezed(context.render_text()), context.tokens
    except CompactError:
        text, tokens = "", 0
    once = _in_one_call(messages, tokens)
    count = token_counter("chat_completions", tokenizer="o200k").text

    def held(texts: Sequence[str], where: str) -> int:
        return sum(squeezed(each) in where for each in texts)

    return Lived(
        subject.half,
        subject.name,
        ctx.window.size,
        moment,
        ctx.compressions,
        tokens,
        ctx.window.usable,
        len(subject.rules),
        sum(map(count, subject.rules)),
        held(subject.rules, text),
        held(subject.rules, once),
        len(subject.statements),
        held(subject.statements, text),
        held(subject.statements, once),
        refused,
    )


def _in_one_call(messages: Sequence[Message], tokens: int) -> str:
    try:
        done = plan(messages, max_tokens=max(1, tokens), tokenizer="o200k")
    except CompactError:
        return ""
    return squeezed(done.context.render_text())


def run(folder: Path | None, *, only: str = "", every: int = 1) -> list[Lived]:
    """Every session at both windows; of the real ones, each so many-th."""
    chosen = list(subjects(folder, only))
    own = 1 + len(SEEDS)
    some = chosen[:own] + chosen[own::every] if not only else chosen
    return [row for each in some for window in WINDOWS for row in live(each, window)]


def _of(what: str, total: str) -> Callable[[Sequence[Lived]], Cell]:
    def share(rows: Sequence[Lived]) -> Cell:
        of = sum(getattr(row, total) for row in rows)
        return f"{sum(getattr(row, what) for row in rows) / of:.3f} of {of}" if of else None

    return share


def _fitting(what: str) -> Callable[[Sequence[Lived]], Cell]:
    share = _of(what, "rules")
    return lambda rows: share([row for row in rows if row.fits])


def measured(rows: Sequence[Lived]) -> dict[str, dict[str, dict[Half, Cell]]]:
    """By window and moment, what is published of both halves."""
    found = {}
    for window in WINDOWS:
        for moment in dict.fromkeys(row.moment for row in rows):
            some = [r for r in rows if r.window == window and r.moment == moment]
            found[f"{window:,} tokens, {moment}"] = columns(
                some,
                {
                    "sessions": len,
                    "compressions, mean": lambda x: mean(r.compressions for r in x),
                    "prompt, share of usable": lambda x: mean(r.tokens / r.usable for r in x),
                    "turns without a prompt": lambda x: sum(r.refused for r in x),
                    "rules that fit, lived": _fitting("lived"),
                    "rules that fit, one call": _fitting("once"),
                    "all rules, lived": _of("lived", "rules"),
                    "all rules, one call": _of("once", "rules"),
                    "statements, lived": _of("lived_statements", "statements"),
                    "statements, one call": _of("once_statements", "statements"),
                },
            )
    return found


@dataclass(frozen=True)
class Facts:
    """Planted facts after fifty compressions."""

    half: Half
    said: int
    in_context: float
    reachable: float


def facts(folder: Path) -> list[Facts]:
    """The planted facts at 32,768 tokens, in real turns of each half."""
    found = []
    for half in ("look", "score"):
        paths = data.every_claude_code_session(folder)
        some = [p for p in paths if half_of(p.stem, folder=p.parent.name) == half]
        rows = reachability.run(some, windows=WINDOWS[1:])
        last = max(rows, key=lambda row: row.compressions)
        if last.compressions >= COMPRESSIONS:
            shares = last.share_in_context, last.share_reachable
            found.append(Facts("look" if half == "look" else "score", last.said, *shares))
    return found


def bounded(window: int = WINDOWS[0]) -> str:
    """Prompt tokens after ten, a hundred and a thousand compressions of endless chatter."""
    tokens = {}
    first, turns = generated.scattered(1), generated.chatter(2)
    with ContextManager(window=window, store=":memory:", tokenizer="o200k") as ctx:
        _fed(ctx, first.messages)
        for number in LONG:
            while ctx.compressions < number:
                _fed(ctx, [next(turns) for _ in range(20)])
            tokens[number] = ctx.active_context().tokens
    shown = ", ".join(f"{size:,} after {number:,}" for number, size in tokens.items())
    return f"prompt tokens at {window:,} by compressions: {shown}"


def evaluate(
    folder: Path | None, *, only: str = "", every: int = 1, long: bool = False
) -> tuple[str, Any]:
    """The tables by window and moment, then facts and growth."""
    rows = run(folder, only=only, every=every)
    found: dict[str, Any] = dict(measured(rows))
    if folder and not only:
        shares: dict[str, Callable[[Sequence[Facts]], Cell]] = {
            "said": lambda x: x[0].said,
            "in the context": lambda x: x[0].in_context,
            "in the context or recalled": lambda x: x[0].reachable,
        }
        name = f"planted facts, {WINDOWS[1]:,} tokens, after {COMPRESSIONS} compressions"
        found[name] = columns(facts(folder), shares)
    text = [table(title, cells) for title, cells in found.items()]
    if only:
        text += [str(asdict(row)) for row in rows]
    if long:
        text.append(bounded())
    return "\n\n".join(text), {"measured": found, "sessions": [asdict(row) for row in rows]}
