"""`python -m bench [NAME…] [--quick] [--no-peers] [--check] [--json FILE]`: measure speed and
structure, print tables.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import peers
from bench.measuring import CannotMeasure, Setting, Table

MEASUREMENTS = {
    "cold-plan": "bench.cold_plan",
    "session": "bench.session",
    "turns": "bench.turns",
    "resent": "bench.resent",
    "whole": "bench.whole",
    "startup": "bench.startup",
    "hooks": "bench.hooks",
    "summarizer": "bench.summarizer",
    "stores": "bench.stores",
    "sessions": "bench.sessions",
    "vectors": "bench.vectors",
    "memory": "bench.memory",
    "cache": "bench.cache",
    "agents": "bench.agents",
    "hosts": "bench.hosts",
    "proxy": "bench.proxy",
    "structure": "bench.structure",
}
BESIDE_PEERS = ("cold-plan", "startup", "cache")
"""The measurements that run the peers of `.venv-peers`."""
OURS = ("compactctl", "pydantic", "rs-bpe", "bpe-openai", "orjson", "apsw", "numpy")


def environment(with_peers: bool) -> dict[str, Any]:
    """Where and with what was measured."""
    found: dict[str, str] = {}
    for name in OURS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    beside: dict[str, str] = {}
    if with_peers:
        try:
            beside = peers.versions()
        except peers.NoPeers as reason:
            print(f"-- peers left out: {reason}", file=sys.stderr)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "versions": found,
        "peers": beside,
    }


def heading(about: dict[str, Any], arguments: list[str]) -> str:
    """The lines above the tables."""
    versions = ", ".join(f"{k} {v}" for k, v in {**about["versions"], **about["peers"]}.items())
    return (
        f"`python -m bench {' '.join(arguments)}`".replace(" `", "`")
        + f", {about['date']}, Python {about['python']}, {about['system']}, {about['cpus']} CPUs, "
        f"load {about['load']}. {versions}.\n\nFigures: median (smallest–largest) of five "
        "runs or more; fewer are marked [n].\n"
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASUREMENTS))
    parser.add_argument("--quick", action="store_true", help="smaller histories, fewer runs")
    parser.add_argument("--no-peers", action="store_true", help="measure compact alone")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a limit is passed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there as well")
    given = parser.parse_args(arguments)
    for name in given.names:
        if name not in MEASUREMENTS:
            parser.error(f"no measurement {name!r}; there are {', '.join(MEASUREMENTS)}")
    setting = Setting(quick=given.quick, peers=not given.no_peers)
    names = given.names or list(MEASUREMENTS)
    about = environment(setting.peers and not set(BESIDE_PEERS).isdisjoint(names))
    print(heading(about, arguments))
    tables: list[Table] = []
    for name in names:
        try:
            found = importlib.import_module(MEASUREMENTS[name]).measure(setting)
        except CannotMeasure as reason:
            print(f"bench: {name}: {reason}", file=sys.stderr)
            return 2
        for table in found:
            print(table.markdown(), flush=True)
        tables += found
    if given.json:
        record = {"environment": about, "tables": [table.record() for table in tables]}
        given.json.write_text(json.dumps(record, indent=2, ensure_ascii=False), encoding="utf-8")
    over = [check for table in tables for check in table.checks if not check.ok]
    print(f"{sum(len(t.checks) for t in tables)} limits, {len(over)} passed over")
    return 1 if over and given.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
