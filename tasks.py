"""What one does with this project, with nothing but Python: `python3 tasks.py <task> [arguments]`.

Tasks make `.venv` by themselves and know when it is up to date. uv is used where it is on the PATH
and never needed. Arguments after the tests, `demo`, `bench` and `evals` are passed on.
"""

import hashlib
import importlib.util
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - an old Python shall hear it in words
    found = ".".join(map(str, sys.version_info[:3]))
    sys.exit(f"tasks.py: Python 3.11 or newer is needed, this is {found}; try python3.12 tasks.py")

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
RUN, DEV = "requirements.txt", "requirements-dev.txt"
EXPORTS: Mapping[str, str] = {RUN: "--no-dev", DEV: "--group=dev"}
PARALLEL = ("-n", "2", "--dist", "worksteal")
QUICK = "not slow and not timing"
"""The markers of the tests that take less than a second each."""
PROOF = "tests/doors"
"""The tests of each requirement by what users have; the first thing that a newcomer runs."""
EXPORT_HEAD = "# Exported from uv.lock: change pyproject.toml, then run `make lock`.\n"
CACHES = (".venv", "__pycache__", "build", "dist", "site", ".mypy_cache", ".pytest_cache",
          ".ruff_cache", ".import_linter_cache", ".hypothesis", ".coverage")  # fmt: skip


class TaskError(Exception):
    """A task cannot go on; its text is the one line a person needs."""


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"-- {text}", flush=True)


# --- the environment ------------------------------------------------------------------------------


def digest(requirements: str) -> str:
    """Identify what an environment was made from."""
    content = b"\0".join((ROOT / name).read_bytes() for name in ("pyproject.toml", requirements))
    return hashlib.sha256(content).hexdigest()


def ready(requirements: str) -> bool:
    """Tell whether `.venv` holds what the requirements file and pyproject.toml ask for."""
    stamp = VENV / f"{requirements}.stamp"
    return PYTHON.exists() and stamp.exists() and stamp.read_text() == digest(requirements)


def environment(requirements: str) -> None:
    """Make or refresh `.venv`; at once when nothing changed (the dev set includes the other)."""
    if ready(requirements) or ready(DEV):
        return
    say(f"preparing .venv from {requirements} (once)")
    for stamp in VENV.glob("*.stamp"):
        stamp.unlink()
    if not with_uv(requirements):
        with_pip(requirements)
    (VENV / f"{requirements}.stamp").write_text(digest(requirements))


def with_uv(requirements: str) -> bool:
    """Fill `.venv` with uv where there is one; False where there is none, or it could not."""
    if not (uv := shutil.which("uv")):
        return False
    steps: list[list[str | Path]] = [
        [uv, "pip", "install", "--quiet", "--python", PYTHON, *what]
        for what in wanted(requirements)
    ]
    if not PYTHON.exists():
        steps.insert(0, [uv, "venv", "--quiet", "--clear", "--python", sys.executable, VENV])
    if any(execute(step, check=False) for step in steps):
        say("uv could not (see above); trying pip")
        return False
    return True


def with_pip(requirements: str) -> None:
    """Fill `.venv` with what every Python brings along."""
    if not all(map(importlib.util.find_spec, ("venv", "ensurepip"))):
        raise TaskError("this Python has no venv module; on Debian: apt-get install python3-venv")
    clear = [] if PYTHON.exists() else ["--clear"]
    if execute([sys.executable, "-m", "venv", *clear, VENV], check=False):
        raise TaskError("python -m venv failed (see above); remove .venv and try again")
    for what in wanted(requirements):
        if execute([PYTHON, "-m", "pip", "install", "--quiet", "--no-compile", *what], check=False):
            raise TaskError(f"installing {what[-1]} failed (see above); is the network there?")


def wanted(requirements: str) -> list[list[str]]:
    """What to install: the locked dependencies, their hashes checked, then the project itself.

    The lock is complete, so nothing is resolved again: pip would look for newer releases of what is
    asked for with an extra, and refuse them.
    """
    return [["--no-deps", "--require-hashes", "-r", requirements], ["--no-deps", "-e", "."]]


def execute(command: Sequence[str | Path], *, check: bool = True) -> int:
    """Run a command in the project's folder, its output shown, and return its exit code."""
    env = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    code = subprocess.run(list(map(str, command)), cwd=ROOT, env=env, check=False).returncode
    if check and code:
        raise SystemExit(code)
    return code


def tool(name: str) -> Path:
    """Find a command of the environment."""
    return BIN / (f"{name}.exe" if os.name == "nt" else name)


# --- the lock -------------------------------------------------------------------------------------


def run_uv(uv: str | Path, *arguments: str) -> str:
    """Run uv as on any machine: no local configuration, index or folder of wheels."""
    local = ("INDEX", "FIND_LINKS", "EXCLUDE_NEWER", "CONFIG_FILE")
    env = {
        name: value
        for name, value in os.environ.items()
        if not (name.startswith("UV_") and any(word in name for word in local))
    }
    command = [str(uv), "--no-config", "--quiet", *arguments]
    result = subprocess.run(
        command, cwd=ROOT, env=env, check=False, text=True, encoding="utf-8", capture_output=True
    )
    if result.returncode:
        raise TaskError(f"uv {arguments[0]} failed: {result.stderr.strip()}")
    return result.stdout


def exported(name: str, uv: str | Path) -> str:
    """Return the requirements file that uv.lock stands for, as it should be committed."""
    options = ("--frozen", "--offline", "--no-emit-project", "--no-header", EXPORTS[name])
    return EXPORT_HEAD + run_uv(uv, "export", *options)


# --- the tasks ------------------------------------------------------------------------------------


def check(*arguments: str) -> None:
    """All checks and the tests; what `make` does."""
    failed = failing_lints()
    if not passes(QUICK, *arguments):
        failed.append("pytest")
    report(failed)


def lint() -> None:
    """Format, style, types and import contracts."""
    report(failing_lints())


def failing_lints() -> list[str]:
    """Run every static check, the later ones even when an earlier one failed."""
    environment(DEV)
    steps: Mapping[str, Sequence[str]] = {
        "format": ["ruff", "format", "--check", "."],
        "style": ["ruff", "check", "."],
        "types": ["mypy"],
        "imports": ["lint-imports"],
    }
    failed = []
    for name, (command, *options) in steps.items():
        say(f"{name}: {' '.join([command, *options])}")
        if execute([tool(command), *options], check=False):
            failed.append(name)
    return failed


def report(failed: Sequence[str]) -> None:
    """Close a run of checks."""
    if failed:
        raise TaskError(f"failed: {', '.join(failed)}")
    say("all checks passed")


def test(*arguments: str) -> None:
    """Each requirement tried through the public names, in a minute; arguments go to pytest."""
    environment(DEV)
    say("each requirement is tried by what users have; `make test-all` runs every test")
    named = any((ROOT / argument.partition("::")[0]).exists() for argument in arguments)
    if not passes(QUICK, *([] if named else [PROOF]), *arguments):
        raise SystemExit(1)


def test_all(*arguments: str) -> None:
    """Every test that compares no seconds, at the sizes of the day."""
    environment(DEV)
    if not passes("not timing", *arguments):
        raise SystemExit(1)


def nightly(*arguments: str) -> None:
    """Every test at its full size, drawn from a new seed (or from $NIGHTLY), which is printed; what
    they cover is counted.
    """
    seed = os.environ.setdefault("NIGHTLY", str(secrets.randbelow(2**31)))
    say(f"the seed of this night is {seed}; again: NIGHTLY={seed} python3 tasks.py nightly")
    covered = ("--cov", "--cov-report=term", "--cov-fail-under=85")
    drawn = f"--hypothesis-seed={seed}"
    environment(DEV)
    passed = passes("not timing", drawn, *covered, *arguments)
    if not (passes("timing", drawn, *arguments, processes=()) and passed):
        raise SystemExit(1)


def timing(*arguments: str) -> None:
    """The tests that compare seconds, one after the other: let nothing else run meanwhile."""
    environment(DEV)
    if not passes("timing", *arguments, processes=()):
        raise SystemExit(1)


def passes(which: str, *arguments: str, processes: Sequence[str] = PARALLEL) -> bool:
    """Run the tests of an expression of markers in two processes, or in as many as are said.

    A `-m` among the arguments stands for itself: one process runs what it selects.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of tests start a Python of their own
    selected = () if "-m" in arguments else (*processes, "-m", which)
    return not execute([PYTHON, "-m", "pytest", *selected, *arguments], check=False)


def demo(*arguments: str) -> None:
    """Install the product and show what it does."""
    environment(RUN)
    execute([tool("compactctl"), "demo", *arguments])
    say(f"the tool is {tool('compactctl').relative_to(ROOT)}; try it with --help")


def fix() -> None:
    """Format, and repair what ruff can repair."""
    environment(DEV)
    execute([tool("ruff"), "check", "--fix", "."], check=False)
    execute([tool("ruff"), "format", "."])


def lock(*arguments: str) -> None:
    """Lock the dependencies anew (`--upgrade` for newer ones) and export the requirements files."""
    uv = shutil.which("uv")
    if not uv:
        environment(DEV)
        uv = str(tool("uv"))
    run_uv(uv, "lock", *arguments)
    for name in EXPORTS:
        (ROOT / name).write_text(exported(name, uv), encoding="utf-8", newline="\n")
    say("wrote uv.lock, " + ", ".join(EXPORTS))


def bench(*arguments: str) -> None:
    """Measure speed."""
    run_folder("bench", *arguments)


def evals(*arguments: str) -> None:
    """Measure quality."""
    run_folder("evals", *arguments)


def run_folder(name: str, *arguments: str) -> None:
    """Run the package of that name beside this file."""
    if not (ROOT / name / "__main__.py").exists():
        raise TaskError(f"{name}/ has no __main__.py yet: nothing to run")
    environment(DEV)
    execute([PYTHON, "-m", name, *arguments])


def docs() -> None:
    """Build the documentation as a site, in site/; a link that leads nowhere fails."""
    environment(DEV)
    os.environ["NO_MKDOCS_2_WARNING"] = "1"  # its theme's advertisement
    execute([tool("mkdocs"), "build", "--strict", "--quiet"])
    say("open site/index.html")


def clean() -> None:
    """Remove the environment, builds and caches; never `.compact/`, which is somebody's data."""
    folders = [ROOT / name for name in CACHES]
    folders += [*ROOT.glob("src/*.egg-info")]
    folders += [
        cache
        for top in ("src", "tests", "bench", "evals")
        for cache in ROOT.glob(f"{top}/**/__pycache__")
    ]
    for path in folders:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    say("clean")


TASKS: Mapping[str, Callable[..., None]] = {
    task.__name__.replace("_", "-"): task
    for task in (
        check,
        lint,
        test,
        test_all,
        timing,
        nightly,
        demo,
        fix,
        lock,
        docs,
        bench,
        evals,
        clean,
    )
}


def main(arguments: Sequence[str]) -> int:
    """Run the named task (`check` without a name) and return the exit code."""
    name, *rest = arguments or ["check"]
    if name not in TASKS:
        width = max(map(len, TASKS))
        print("usage: python3 tasks.py <task> [arguments]\n")
        for title, task in TASKS.items():
            print(f"  {title:{width}}  {(task.__doc__ or '').splitlines()[0]}")
        return 0 if name in {"-h", "--help", "help"} else 2
    if rest and name in {"lint", "fix", "docs", "clean"}:
        print(f"tasks.py: {name} takes no arguments", file=sys.stderr)
        return 2
    try:
        TASKS[name](*rest)
    except TaskError as error:
        print(f"tasks.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
