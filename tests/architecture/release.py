"""Checks of a release that need a registry, so that no test runs them.

`python -m tests.architecture.release wheels` asks the registry whether there is a wheel for each
default dependency, on each system and Python.
`python -m tests.architecture.release pythons [PYTHON ...]` builds the wheel and the source
distribution, and runs the command from each in an empty environment of each Python that is given,
else of each that is found.

The exit code is 0 if all is well, 1 if not, 77 if there is no registry: then nothing was checked.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import tasks

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = {
    "Linux": "x86_64-unknown-linux-gnu",
    "Linux on ARM": "aarch64-unknown-linux-gnu",
    "macOS": "aarch64-apple-darwin",
    "macOS on Intel": "x86_64-apple-darwin",
    "Windows": "x86_64-pc-windows-msvc",
}
KNOWN = {("macOS on Intel", "3.14"): "bpe-openai has no wheel there; pip compiles it by Rust"}
"""What is known to be missing, and why it is borne."""
NOTHING_CHECKED = 77
TRANSCRIPT = "session.jsonl"
COMMANDS: dict[tuple[str, ...], str] = {
    ("--help",): "look",
    ("--version",): "compactctl",
    ("demo",): "511",
    ("demo", "--save", "sample.jsonl"): "sample.jsonl",
    ("look", TRANSCRIPT, "--json"): '"compactions": 1,',
}
"""What is run → what it must print. `look` reads a transcript of Claude Code in which a
conversation was compacted once."""


def uv(*arguments: str | Path, folder: Path = tasks.ROOT) -> subprocess.CompletedProcess[str]:
    """Run uv with the registry that this machine is set to."""
    command = [shutil.which("uv") or tasks.tool("uv"), *map(str, arguments)]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)


def resolved(requirement: str | Path, python: str, system: str) -> list[str] | str:
    """Return what is installed for a requirement, by wheels alone; or why that cannot be."""
    options = ("--quiet", "--no-header", "--no-annotate", "--only-binary", ":all:")
    where = ("--python-platform", SYSTEMS[system], "--python-version", python)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(requirement)
        if not file.exists():
            file = Path(folder, "requirements.in")
            file.write_text(f"{requirement}\n", encoding="utf-8")
        done = uv("pip", "compile", *options, *where, file)
    return done.stderr if done.returncode else done.stdout.split()


def wheels() -> int:
    """Ask for every system and Python, and print a table."""
    if isinstance(said := resolved("typer", "3.12", "Linux"), str):
        print(f"skipped, nothing was checked: the registry does not answer\n{said}")
        return NOTHING_CHECKED
    if not isinstance(resolved("rs-bpe==0.1.0", "3.14", "Linux"), str):
        print("the check itself is broken: rs-bpe 0.1.0 has no wheel for 3.14")
        return 1
    print(f"{'wheels for all of':20}" + "".join(f"{python:>8}" for python in PYTHONS))
    without = list[str]()
    for system in SYSTEMS:
        row = [resolved(tasks.ROOT / "pyproject.toml", python, system) for python in PYTHONS]
        cells = ["none" if isinstance(cell, str) else str(len(cell)) for cell in row]
        print(f"{system:20}" + "".join(f"{cell:>8}" for cell in cells))
        for python, cell in zip(PYTHONS, row, strict=True):
            if isinstance(cell, str):
                why = KNOWN.get((system, python))
                without += [] if why else [system]
                print(f"{system}, {python}: {why or cell}")
    return 1 if without else 0


def transcript() -> str:
    """Return a session of Claude Code in which a conversation was compacted."""
    said = {"role": "user", "content": "Never touch the file lamp-41.csv of the harbour."}
    summary = {"role": "user", "content": "This session continues. The summary: lamps were mended."}
    metadata = {"trigger": "auto", "preTokens": 160_000}
    row = {"sessionId": "harbour", "cwd": "/harbour", "version": "2.1.0", "isSidechain": False}
    rows: tuple[dict[str, object], ...] = (
        {"type": "user", "message": said},
        {"type": "system", "subtype": "compact_boundary", "compactMetadata": metadata},
        {"type": "user", "isCompactSummary": True, "message": summary},
    )
    times = (f"2026-11-01T10:0{number}:00.000Z" for number in range(len(rows)))
    keyed: Iterator[dict[str, object]] = (
        {**row, "uuid": f"u{n}", "timestamp": time} for n, time in enumerate(times)
    )
    return "".join(json.dumps(a | b) + "\n" for a, b in zip(keyed, rows, strict=True))


def tried(what: Path, python: str) -> Iterator[str]:
    """Run the command from a distribution in an empty environment. Yield what went wrong."""
    for arguments, printed in COMMANDS.items():
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, TRANSCRIPT).write_text(transcript(), encoding="utf-8")
            tool = ("tool", "run", "--isolated", "--python", python, "--from", what, "compactctl")
            done = uv(*tool, *arguments, folder=Path(folder))
        if done.returncode or printed not in done.stdout + done.stderr:
            yield f"{what.name}, {python}: compactctl {' '.join(arguments)}\n{done.stderr}"


def pythons(given: Sequence[str]) -> int:
    """Build, and try each distribution with each Python."""
    found = [path for name in PYTHONS if (path := shutil.which(f"python{name}"))]
    wrong = list[str]()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "tree")  # building leaves things behind
        subprocess.run(["git", "clone", "--quiet", str(tasks.ROOT), str(copy)], check=True)
        built = uv("build", "--quiet", "--out-dir", folder, folder=copy)
        if built.returncode:
            print(f"skipped, nothing was checked: it cannot be built here\n{built.stderr}")
            return NOTHING_CHECKED
        for python in given or found:
            version = subprocess.run([python, "--version"], capture_output=True, text=True)
            for what in sorted(Path(folder).glob("compactctl-*")):
                if re.search(r"\.(whl|tar\.gz)$", what.name):
                    failed = list(tried(what, python))
                    wrong += failed
                    print(f"{version.stdout.strip()}: {what.name}: {len(failed)} failed")
    print(*wrong, sep="\n")
    return 1 if wrong or not (given or found) else 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["wheels"]:
            sys.exit(wheels())
        case ["pythons", *rest]:
            sys.exit(pythons(rest))
        case _:
            sys.exit(__doc__)
