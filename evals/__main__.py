"""The command `python -m evals`: runs the evaluations that are named, or all."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from compact import wiring
from compact.errors import CompactError
from compact.messages.policy import CompactPolicy
from compact.text.modes import MODES
from evals import data
from evals.split import HALVES

Evaluation = Callable[[Path, argparse.Namespace], tuple[str, Any]]
OfOurOwn = Callable[[Path | None, argparse.Namespace], tuple[str, Any]]
"""One that takes the repository's own sample where there are no data."""


def _module(name: str) -> ModuleType:
    """An evaluation's module, read when it is asked for."""
    return importlib.import_module(f"evals.{name}")


def _coverage(folder: Path, options: argparse.Namespace) -> tuple[str, Any]:
    coverage = _module("coverage")
    cases = coverage.Cases(folder)
    if options.show:
        chosen = [c for c in cases if options.show in c.name and c.half == "look"]
        texts = [f"=== {c.name}\n{coverage.compressed(c).context.render_text()}" for c in chosen]
        return "\n".join(texts) or f"no case that may be looked at is named {options.show}", None
    policy, writer = CompactPolicy(mode=options.mode), options.model or wiring.EXTRACTIVE
    scores = coverage.run(cases, policy=policy, summarizer=writer)
    report = coverage.report(scores, cases=options.cases, missed=options.missed)
    return report, coverage.as_json(scores)


def _plain(folder: Path | None, _: argparse.Namespace) -> tuple[str, Any]:
    plain = _module("plain")
    rows = plain.run(folder)
    return plain.report(rows), rows


def _kept(folder: Path, _: argparse.Namespace) -> tuple[str, Any]:
    kept = _module("kept")
    rows = kept.run(folder)
    return kept.report(rows), [asdict(row) for row in rows]


def _service(folder: Path, _: argparse.Namespace) -> tuple[str, Any]:
    service = _module("service")
    rows = service.run(folder)
    return service.report(rows), [asdict(row) for row in rows]


def _instructions(folder: Path, _: argparse.Namespace) -> tuple[str, Any]:
    instructions = _module("instructions")
    labelled = list(instructions.labelled(folder))
    made = list(instructions.from_generator())
    found = {"labelled": labelled, "generated": made}
    text = "\n\n".join(instructions.report(*item) for item in found.items())
    return text, {name: instructions.as_json(outcomes) for name, outcomes in found.items()}


def _usage(folder: Path, _: argparse.Namespace) -> tuple[str, Any]:
    usage = _module("usage")
    sessions = usage.run(folder)
    text = usage.report(sessions, usage.exact(folder))
    return text, usage.as_json(sessions)


def _modes(folder: Path, options: argparse.Namespace) -> tuple[str, Any]:
    modes = _module("modes")
    rows = modes.run(folder)
    return modes.report(rows, missed=options.missed), modes.as_json(rows)


def _facts(folder: Path, options: argparse.Namespace) -> tuple[str, Any]:
    reachability = _module("reachability")
    rows = reachability.run(data.claude_code_sessions(folder))
    return reachability.report(rows, missed=options.missed), reachability.as_json(rows)


def _probes(folder: Path | None, options: argparse.Namespace) -> tuple[str, Any]:
    probes = _module("probes")
    asked = {"judge": options.judge, "sizes": options.sizes, "seed": options.seed}
    found = probes.run(folder, model=options.model, **asked)
    return probes.report(found, missed=options.missed), probes.as_json(found)


def _retention(folder: Path | None, options: argparse.Namespace) -> tuple[str, Any]:
    retention = _module("retention")
    rows = retention.run(folder, model=options.model, windows=options.sizes)
    return retention.report(rows), retention.as_json(rows)


def _kit(_: Path | None, options: argparse.Namespace) -> tuple[str, Any]:
    kit = _module("kit")
    rows = kit.run() if options.sizes is None else kit.run(sizes=options.sizes)
    return kit.report(rows, missed=options.missed), [row._asdict() for row in rows]


def _constraints(folder: Path | None, options: argparse.Namespace) -> tuple[str, Any]:
    constraints = _module("constraints")
    rows = constraints.run(folder, options.sizes)
    return constraints.report(rows, missed=options.missed), [row._asdict() for row in rows]


def _words(folder: Path, options: argparse.Namespace) -> tuple[str, Any]:
    found: tuple[str, Any] = _module("words").evaluate(folder, missed=options.missed)
    return found


def _open(folder: Path, options: argparse.Namespace) -> tuple[str, Any]:
    found: tuple[str, Any] = _module("open_work").evaluate(folder, missed=options.missed)
    return found


def _chats(folder: Path, options: argparse.Namespace) -> tuple[str, Any]:
    found: tuple[str, Any] = _module("chats").evaluate(folder, "chats", missed=options.missed)
    return found


def _locomo(folder: Path, options: argparse.Namespace) -> tuple[str, Any]:
    found: tuple[str, Any] = _module("chats").evaluate(folder, "locomo", missed=options.missed)
    return found


def _names(folder: Path, _: argparse.Namespace) -> tuple[str, Any]:
    names = _module("names")
    found = names.run(folder)
    return names.report(found), found


def _reading(folder: Path, options: argparse.Namespace) -> tuple[str, Any]:
    reading = _module("reading")
    if (options.to / "key.json").is_file():
        return reading.means(options.to), None
    asked = {"count": options.count or 16, "seed": options.seed, "replies": options.replies}
    return reading.packs(folder, options.to, **asked), None


def _lived(folder: Path | None, options: argparse.Namespace) -> tuple[str, Any]:
    asked = {"only": options.only, "every": options.every, "long": options.long}
    found: tuple[str, Any] = _module("lived").evaluate(folder, **asked)
    return found


def _passed(folder: Path, options: argparse.Namespace) -> tuple[str, Any]:
    passed = _module("arguments")
    rows, about = passed.run(folder, options.every)
    return passed.report(rows, about), passed.as_json(rows)


def _gate(folder: Path | None, options: argparse.Namespace) -> tuple[str, Any]:
    gate = _module("gate")
    found = gate.run(folder)
    return gate.report(found, missed=options.missed), gate.as_json(found)


def _secrets(folder: Path | None, _: argparse.Namespace) -> tuple[str, Any]:
    secrets = _module("secrets")
    found = secrets.run(folder)
    return secrets.report(found), found


def _memory(folder: Path, _: argparse.Namespace) -> tuple[str, Any]:
    memory = _module("memory")
    found = memory.run(folder)
    return memory.report(found), found


def _recalling(folder: Path, _: argparse.Namespace) -> tuple[str, Any]:
    recalling = _module("recalling")
    found = recalling.run(folder)
    return recalling.report(found), found


def _ageing(folder: Path, options: argparse.Namespace) -> tuple[str, Any]:
    ageing = _module("ageing")
    rows = ageing.run(folder, every=options.every)
    return ageing.report(rows, missed=options.missed), ageing.as_json(rows)


def _archived(folder: Path, options: argparse.Namespace) -> tuple[str, Any]:
    archived = _module("archived")
    found = archived.run(folder, every=options.every)
    return archived.report(found), archived.as_json(found)


def _companion(_: Path | None, options: argparse.Namespace) -> tuple[str, Any]:
    companion = _module("companion")
    halves = [options.half] if options.half else HALVES
    found = companion.run(halves, words_only=options.words, cases=options.cases)
    return companion.report(found), found


def _handover(folder: Path, _: argparse.Namespace) -> tuple[str, Any]:
    found: tuple[str, Any] = _module("handover").evaluate(folder)
    return found


def _importance(folder: Path, options: argparse.Namespace) -> tuple[str, Any]:
    importance = _module("importance")
    rows = importance.run(folder)
    return importance.report(rows, missed=options.missed), importance.as_json(rows)


OF_OUR_OWN: dict[str, OfOurOwn] = {
    "companion": _companion,
    "constraints": _constraints,
    "gate": _gate,
    "kit": _kit,
    "lived": _lived,
    "plain": _plain,
    "probes": _probes,
    "retention": _retention,
    "secrets": _secrets,
}
WITH_DATA: dict[str, Evaluation] = {
    "ageing": _ageing,
    "archived": _archived,
    "arguments": _passed,
    "coverage": _coverage,
    "facts": _facts,
    "handover": _handover,
    "importance": _importance,
    "instructions": _instructions,
    "kept": _kept,
    "modes": _modes,
    "chats": _chats,
    "locomo": _locomo,
    "memory": _memory,
    "open": _open,
    "recalling": _recalling,
    "service": _service,
    "usage": _usage,
    "words": _words,
}
SEED = 7
WRITING: dict[str, Evaluation] = {"names": _names, "reading": _reading}
"""They write files, for the product or for people to read, and run only where they are named."""
EVALUATIONS = sorted((*OF_OUR_OWN, *WITH_DATA))


def _sizes(text: str) -> list[int]:
    """Numbers of tokens, between commas."""
    return [int(size) for size in text.split(",")]


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evals", description=__doc__)
    add = parser.add_argument
    every = ", ".join(EVALUATIONS)
    add(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {every} (default: all), names, reading; or attack",
    )
    add("--data", type=Path, metavar="DIR", help="default: $COMPACT_DATA, else ../shared/data")
    add("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    add("--show", metavar="CASE", help="coverage: print the compacted text of cases")
    add(
        "--missed",
        action="store_true",
        help="ageing, constraints, coverage, facts, gate, importance, kit, modes, probes: what is"
        " missing",
    )
    add("--cases", action="store_true", help="companion, coverage: by case")
    add("--half", choices=HALVES, help="companion: one of the two")
    add("--words", action="store_true", help="companion: without vectors")
    add("--to", type=Path, metavar="DIR", help="reading: a folder outside the repository")
    add("--count", type=int, metavar="N", help="reading: packs")
    add("--replies", type=Path, metavar="DIR", help="reading: requests to a model, and its replies")
    add("--only", default="", metavar="NAME", help="lived: sessions whose name holds this")
    add(
        "--every",
        type=int,
        default=1,
        metavar="N",
        help="ageing, archived, arguments, lived: each N-th session",
    )
    add("--long", action="store_true", help="lived: up to a thousand compressions")
    add("--mode", choices=MODES, default="assistant", help="coverage: compress in this mode")
    add("--model", metavar="KEY", help="coverage, probes, retention: who writes summaries")
    add("--judge", metavar="KEY", help="probes: who says whether other words mean the same")
    add("--seed", type=int, default=SEED, metavar="N", help="probes, reading: draws")
    add("--sizes", type=_sizes, metavar="N,N", help="constraints, kit, probes, retention: tokens")
    options = parser.parse_args(argv)
    if options.judge and not options.model:
        parser.error("--judge is for the answers of a model: name it with --model")
    if not options.to and "reading" in options.names:
        parser.error("reading writes into a folder: name it with --to")
    if options.to and options.to.resolve().is_relative_to(data.REPO_ROOT):
        parser.error("--to is within the repository, which holds no real conversations")
    unknown = [name for name in options.names if name not in (*EVALUATIONS, *WRITING)]
    if unknown:
        parser.error(f"no evaluation {unknown[0]!r}; there are {', '.join(EVALUATIONS)}")
    return options


def _evaluated(name: str, options: argparse.Namespace) -> tuple[str, Any]:
    """What an evaluation found.

    Raises:
        NoData: there is nothing to measure.
        CompactError: the model's key means nothing, or it cannot be asked.
    """
    needs = WITH_DATA | WRITING
    if name in needs:
        return needs[name](data.folder(options.data), options)
    try:
        folder = data.folder(options.data)
    except data.NoData as reason:
        if reason.asked:
            raise
        folder = None
    return OF_OUR_OWN[name](folder, options)


def main(argv: list[str] | None = None) -> int:
    """Run; 0 also where there is nothing to measure, 1 where somebody said there would be."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == ["attack"]:
        code: int = _module("attack.running").main(given[1:])
        return code
    options = _arguments(given)
    found: dict[str, Any] = {}
    for name in options.names or EVALUATIONS:
        try:
            text, found[name] = _evaluated(name, options)
        except data.NoData as reason:
            print(f"failed: {reason}" if reason.asked else f"skipped: {reason}", file=sys.stderr)
            if reason.asked:
                return 1
            continue
        except CompactError as reason:
            print(f"failed: {reason}", file=sys.stderr)
            return 1
        print(f"# {name}\n{text}\n", flush=True)
    if options.json:
        text = json.dumps(found, indent=1, ensure_ascii=False)
        options.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
