"""What a call was about and what came of it: a table of real tools' shapes (K-4)."""

import json

import pytest

from compact.messages.messages import ToolCall, ToolResult
from compact.text.commands import checks_in
from compact.text.outcomes import (
    Outcome,
    checks_came_to,
    command_of,
    outcome_of,
    target_of,
    verdict_of_check,
)
from tests.pace import is_linear

REFUSED = "The user doesn't want to proceed with this tool use. STOP what you are doing."


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("a", name, json.dumps(arguments))


def ran(command: object) -> ToolCall:
    return call("Bash", command=command)


TARGETS = [
    (ran("cd /garden/shed && pytest -q\nls"), "pytest -q"),
    (ran("  cd src; make  "), "make"),
    (ran("\\\n git clone shed"), "git clone shed"),
    (call("shell", command=["bash", "-lc", "ls shed"]), "ls shed"),
    (call("exec", workdir="/garden", cmd="ls"), "ls"),
    (call("Edit", replace_all=False, file_path="/garden/bed.py", new_string="x"), "/garden/bed.py"),
    (call("Grep", path="/garden", pattern="def \\w+"), "def \\w+"),
    (
        call("WebFetch", prompt="What grows?", url="https://garden.example"),
        "https://garden.example",
    ),
    (call("Think", thought="x" * 400), ""),
    (call("Wait", seconds=3), ""),
    (ToolCall("a", "apply_patch", "*** Begin"), "*** Begin"),
]


@pytest.mark.parametrize(("asked", "target"), TARGETS, ids=[t[0].name for t in TARGETS])
def test_what_a_call_is_about(asked, target):
    assert target_of(asked) == target


def test_the_command_of_a_call():
    assert command_of(ran("cd x\nmake")) == "cd x\nmake"
    assert command_of(call("Read", file_path="make")) == ""


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q",
        "cd src && FLAG=1 go test ./... 2>&1 | tail -5",
        "npm run build",
        "git stash; npx tsc --noEmit",
        "python3 - <<'PY'\nprint('x')\nPY\nmise run lint",
    ],
)
def test_checks(command):
    assert bool(checks_in(command))


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m 'Add a test'",
        "cat build/log.txt | grep test",
        "cd web/build",
        "ls tests",
        "git commit -F - <<EOF\npytest is green\nEOF",
        "gh pr checks",
        "",
    ],
)
def test_what_is_no_check(command):
    assert not bool(checks_in(command))


OUTCOMES = [
    ("refused", ran("rm x"), True, REFUSED, "refused"),
    (
        "an exit code",
        ran("ls x"),
        True,
        "Exit code 2\nls: x: No such file",
        "failed: ls: x: No such file",
    ),
    (
        "an exit code of a wrapper",
        ran("x"),
        False,
        "Chunk 1\nProcess exited with code 1\nOutput:\nrake not found",
        "failed: rake not found",
    ),
    (
        "an error of any tool",
        call("Read", file_path="x"),
        True,
        "File does not exist.",
        "failed: File does not exist.",
    ),
    (
        "go passes",
        ran("go test ./... | tail -5"),
        False,
        "ok  \tbed\t0.3s\nok  \tshed\t(cached)",
        "passed",
    ),
    (
        "go fails",
        ran("go test ./... | tail -5"),
        False,
        "--- FAIL: TestBed (0.01s)\n    bed_test.go:39: got 1, want 2\nFAIL\nFAIL\tbed\t0.3s",
        "failed: TestBed (0.01s) bed_test.go:39: got 1, want 2",
    ),
    (
        "go cannot build",
        ran("go vet ./..."),
        False,
        '# bed\nbed/a.go:2:1: "os" imported and not used',
        'failed: bed/a.go:2:1: "os" imported and not used',
    ),
    ("nothing but a verdict", ran("go test | grep FAIL"), False, "FAIL", "failed: FAIL"),
    (
        "pytest passes",
        ran("pytest -q"),
        False,
        ".... [100%]\n=== 56 passed, 1 skipped in 3.20s ===",
        "passed: 56 passed",
    ),
    (
        "pytest fails",
        ran("pytest -q | tail"),
        False,
        "E       assert 1 == 2\nFAILED tests/test_bed.py::test_rows - assert 1 == 2\n"
        "1 failed, 3 passed in 0.1s",
        "failed: tests/test_bed.py::test_rows - assert 1 == 2",
    ),
    (
        "pytest stops at an error",
        ran("pytest -q"),
        False,
        "E   ImportError: no bed\n=== 1 error in 0.1s ===",
        "failed: E   ImportError: no bed",
    ),
    (
        "jest passes",
        ran("npx jest"),
        False,
        "PASS bed.test.ts\nTests:       3 passed, 3 total",
        "passed: 3 passed",
    ),
    (
        "jest fails",
        ran("npx jest"),
        False,
        "FAIL bed.test.ts\n  ● rows > are even\nTests:       1 failed, 2 passed, 3 total",
        "failed: rows > are even",
    ),
    (
        "cargo passes",
        ran("cargo test"),
        False,
        "running 2 tests\ntest result: ok. 2 passed; 0 failed",
        "passed",
    ),
    (
        "a linter finds nothing",
        ran("make lint"),
        False,
        "[lint:go] 0 issues.\n[lint] Finished",
        "passed: 0 issues",
    ),
    (
        "a linter finds one",
        ran("make lint | tail"),
        False,
        "bed.go:3:1: unused (deadcode)\n1 issues:\n[lint] ERROR task failed",
        "failed: bed.go:3:1: unused (deadcode)",
    ),
    ("a linter counts none", ran("ruff check"), False, "All checks passed!", "passed"),
    (
        "a type checker",
        ran("npx tsc"),
        False,
        "bed.ts(3,5): error TS2304: Cannot find name 'x'.",
        "failed: bed.ts(3,5): error TS2304: Cannot find name 'x'.",
    ),
    (
        "it ended well",
        ran("make build"),
        False,
        "Process exited with code 0\nOutput:\ncc bed.c",
        "passed",
    ),
    ("nobody knows", ran("make build | tail -3"), False, "cc bed.c", ""),
    ("not a check", ran("cat ci.log"), False, "FAIL\nerror: x", ""),
    ("a file", call("Read", file_path="bed.py"), False, "def bed(): ...", ""),
    ("no call", None, False, "FAIL", ""),
]


@pytest.mark.parametrize(
    ("asked", "is_error", "text", "told"), [c[1:] for c in OUTCOMES], ids=[c[0] for c in OUTCOMES]
)
def test_what_came_of_a_call(asked, is_error, text, told):
    found = outcome_of(ToolResult("a", text, is_error=is_error), asked)
    assert str(found or "") == told


def test_an_outcome_tells_its_kind_apart_from_its_words():
    found = outcome_of(ToolResult("a", "=== 2 passed in 1s ==="), ran("pytest"))
    assert found == Outcome("passed", "2 passed")


@pytest.mark.timing
@pytest.mark.parametrize(
    "text",
    [
        "a/" * 60_000,
        "Found " * 30_000,
        "1 x, " * 30_000,
        " " * 150_000,
        "[a" * 60_000,
        ":1" * 60_000,
    ],
)
def test_long_lines_are_read_in_linear_time(text):
    assert is_linear(lambda read: outcome_of(ToolResult("a", read), ran("pytest <<" + read)), text)
    assert is_linear(
        lambda read: outcome_of(ToolResult("a", read, is_error=True), ran("pytest")), text
    )


@pytest.mark.parametrize("line", ["15:10 lunch", "16:00: call Ann", "10:30:15: started"])
def test_a_time_of_day_is_no_place_of_an_error(line):
    """K-4: `file:line` is, where the file has a name."""
    call = ToolCall(id="a", name="bash", arguments='{"command": "make test"}')
    found = outcome_of(ToolResult(call_id="a", text=f"{line}\n"), call)
    assert found is None


JOINED = [
    ("pytest -q && git push", "3 passed in 1s\nerror: failed to push", {"pytest": None}),
    ("pytest -q && git push", "1 failed, 2 passed in 1s", {"pytest": "x"}),
    ("git pull && pytest -q", "fatal: not a git repository", {}),
    ("git pull && pytest -q", "error: cannot pull", {}),
    ("git pull && pytest -q", "Up to date\n2 failed in 1s", {"pytest": "x"}),
    (
        "ruff check . && pytest -q",
        "All checks passed!\n1 failed in 1s",
        {"ruff": None, "pytest": "x"},
    ),
    ("ruff check . && pytest -q", "Found 3 errors.", {"ruff": "x"}),
    ("cd app && pytest -q", "something broke", {"pytest": "x"}),
    ("pytest -q; git push", "3 passed\nerror: failed to push", {"pytest": "x"}),
]


@pytest.mark.parametrize(("command", "text", "came_to"), JOINED)
def test_a_failure_belongs_to_the_step_that_failed(command, text, came_to):
    """C-8: what printed that it passed has passed; what printed nothing may not have run."""
    found = checks_came_to(command, text, "x")
    assert {kind: failed for kind, (_, failed) in found.items()} == came_to


def test_what_says_which_file_a_checker_is_runs_no_check():
    assert checks_in("file $(which golangci-lint)") == {}


@pytest.mark.parametrize(
    ("step", "verdict"),
    [
        ("pytest -q", "4 passed"),
        ("mise run test", "4 passed"),
        ("golangci-lint run", "0 issues."),
        ("go build ./...", "0 issues."),
        ("make check", "0 issues."),
    ],
)
def test_each_check_of_a_command_has_the_counts_of_its_kind(step: str, verdict: str):
    assert verdict_of_check(step, "4 passed\n0 issues.", None) == verdict
    assert verdict_of_check("pytest -q", "0 issues.", None) == "passed"
    assert verdict_of_check("ruff check", "4 passed", None) == "passed"


SAID = [
    (ran("ls shed"), "Command failed with exit code 2", True),
    (ran("ls shed"), "[The command completed with exit code 1.]", True),
    (ran("ls shed"), "[The command completed with exit code 0.]", False),
    (ran("ls shed"), '{"output": "gone", "metadata": {"exit_code": 1}}', True),
    (ran("ls shed"), '{"output": "", "metadata": {"exit_code": 0}}', False),
    (ran("cat bed.json"), '{"error": "what a file holds"}', False),
    (call("book", bed="B7"), '{"error": "bed B7 is taken"}', True),
    (call("book", bed="B7"), '{"isError": true, "content": [{"text": "taken"}]}', True),
    (call("book", bed="B7"), '{"success": false, "reason": "taken"}', True),
    (call("book", bed="B7"), '{"success": true, "error": null, "errors": []}', False),
    (call("book", bed="B7"), "Error: bed B7 is taken", True),
    (call("book", bed="B7"), "Errors are rare in bed B7", False),
]


@pytest.mark.parametrize(("asked", "text", "failed"), SAID)
def test_a_failure_is_known_in_the_words_of_many_hosts(asked, text, failed):
    found = outcome_of(ToolResult("a", text, name=asked.name), asked)
    assert (found is not None and found.status == "failed") == failed
    assert found is None or found.detail in text
