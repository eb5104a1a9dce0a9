"""The Compaction Conformance Kit (MIT): facts planted in sessions that it generates, some of them
restated with a new value, looked for after one compaction by its own probe.

Its sessions have one to two thousand tokens: they are measured as they are, at 20 % and 30 % of
their tokens, and with generated work between the turns, of which 2k, 4k and 8k are 20 % or 30 %.

- `survive`: the kit's count: every required token stands anywhere in the text;
- `outside`: the same without lists of names, where a value stands without its sentence;
- of the facts that are restated: `newest`, the new value is there; `resolved`, the kit's count: and
  the old one nowhere; `in order`: outside lists, and no old one stands behind the new one, so that
  a record in order shows the old one as superseded.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from compact.messages.messages import Message
from evals import generated, published

PINNED = "compaction-conformance-kit==0.8.0"
RATIOS = (0.2, 0.3)
SIZES = (0, 2_000, 4_000, 8_000)
"""Tokens of the contexts; 0 is the session as it is, at its own size's share."""
SEEDS = range(1, 5)
"""Those of the kit's own benchmark."""
COUNTED = ("survive", "outside", "newest", "resolved", "in order")


class Planted(NamedTuple):
    """One planted fact in one context."""

    corpus: str
    session: int
    size: int
    ratio: float
    way: str
    fact: str
    found: Mapping[str, bool]


def run(seeds: Sequence[int] = SEEDS, sizes: Sequence[int] = SIZES) -> list[Planted]:
    """Every session at every size and ratio.

    Raises:
        NoData: the package is not installed.
    """
    published.module("compaction_kit", "versioning", PINNED)
    semantic = import_module("compaction_kit.semantic_corpus")
    corpora = {
        "generated": import_module("compaction_kit.generated").build_generated_session,
        "random": import_module("compaction_kit.corpus").build_random_session,
        "paraphrased": semantic.build_semantic_session,
        "held out": semantic.build_semantic_heldout_session,
    }
    return [
        Planted(corpus, seed, size, ratio, context.way, fact.id, scored(fact, context))
        for corpus, seed, size, ratio in itertools.product(corpora, seeds, sizes, RATIOS)
        for session, facts, *_ in [corpora[corpus](seed)]
        for context in of_session(session, seed, size, ratio)
        for fact in facts
    ]


def of_session(session: Any, seed: int, size: int, ratio: float) -> Iterator[published.Context]:  # noqa: ANN401 - the kit's
    """The contexts of so many tokens, or of the session's own share."""
    turns = [Message(role=turn.role, content=turn.text) for turn in session.turns]
    messages = stretched(turns, int(size / ratio), seed) if size else turns
    own = int(sum(map(published.COUNTER.message, turns)) * ratio)
    yield from published.shown(messages, size or own)


def stretched(turns: Sequence[Message], tokens: int, seed: int) -> list[Message]:
    """The turns with work between them, evenly, until there are so many tokens."""
    count = published.COUNTER.message
    pairs = [list(turns[:1]), *(list(turns[at : at + 2]) for at in range(1, len(turns), 2))]
    each = (tokens - sum(map(count, turns))) / len(pairs)
    work, out, added = generated.chatter(seed), list[Message](), 0
    waiting = next(work)
    for number, pair in enumerate(pairs, 1):
        out += pair
        while waiting.role != "user" or added < each * number:
            out.append(waiting)
            added += count(waiting)
            waiting = next(work)
    return out


def scored(fact: Any, context: published.Context) -> dict[str, bool]:  # noqa: ANN401 - the kit's
    """What one context holds of one fact, by the kit's probe."""
    probe = import_module("compaction_kit.probes").BehaviorProbe().probe
    text, told = context.text.lower(), context.told.lower()
    new, old = ([x.lower() for x in xs] for xs in (fact.required_tokens, fact.superseded_tokens))
    survive, outside = probe(fact, text).survived, probe(fact, told).survived
    found = {"survive": survive, "outside": outside}
    if not old:
        return found
    newest, last = all(x in text for x in new), min(told.rfind(x) for x in new)
    late = any(told.rfind(x) > last for x in old)
    resolved = newest and not any(x in text for x in old)
    return found | {"newest": newest, "resolved": resolved, "in order": outside and not late}


def report(rows: Sequence[Planted], *, missed: bool = False) -> str:
    """The shares of each corpus, size, ratio and way; ours that are lost."""
    kinds = dict.fromkeys((r.corpus, r.size, r.ratio, r.way) for r in rows)
    lines = ["corpus         size  ratio  way           " + "  ".join(f"{x:>8}" for x in COUNTED)]
    for kind in sorted(kinds, key=lambda kind: kind[:3]):
        some = [r for r in rows if (r.corpus, r.size, r.ratio, r.way) == kind]
        lines.append("{:<12} {:>6,}  {:.0%}    {:<12}".format(*kind) + _cells(some))
    lost = [r for r in rows if missed and r.way == "ours" and not r.found["outside"]]
    return "\n".join([*lines, *("{} {}, {} at {:.0%}, {}: {}".format(*r[:6]) for r in lost)])


def _cells(rows: Sequence[Planted]) -> str:
    columns = ([row.found[x] for row in rows if x in row.found] for x in COUNTED)
    return "".join(f"  {sum(column) / max(1, len(column)):>8.3f}" for column in columns)
