"""The README and the guides tell the truth: examples run, commands work, output is real (K-14)."""

import importlib.util
import re
import shlex
from pathlib import Path

import agents
import pytest

from compact import ContextManager, wiring
from tests.scripted import ScriptedServer

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = (ROOT / "docs/guides/files.md").read_text(encoding="utf-8")
SAMPLE = ROOT / "src/compact/cli/sample/harbour.jsonl"
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*/*.md")))
    if path.parent.name in (ROOT.name, "start", "guides", "integrations")
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def blocks(page, language):
    return [text for kind, text in BLOCK.findall(PAGES[page]) if kind == language]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_the_python_examples_run_one_after_the_other(page, capsys, monkeypatch, tmp_path):
    """C-5 and the front doors, as the page shows them; a store is a file beside the program."""
    monkeypatch.chdir(tmp_path)
    agents.set_trace_processors([])  # the SDK would send its traces to its makers
    namespace: dict[str, object] = {}
    with ScriptedServer("Shade, and less water.") as server:
        for name, url in (
            ("OLLAMA_HOST", server.url),
            ("OPENAI_BASE_URL", f"{server.url}/v1"),
            ("ANTHROPIC_BASE_URL", server.url),
        ):
            monkeypatch.setenv(name, url)
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.setenv(name, "none")
        for source in blocks(page, "python"):
            if "from strands" in source and importlib.util.find_spec("strands") is None:
                continue  # it needs an environment of its own, where test_examples runs it
            exec(compile(source, page, "exec"), namespace)
        if "reply" in namespace:
            assert server.requests, "an answer came from somewhere else"
    printed = capsys.readouterr().out
    assert not printed or printed in blocks(page, "text"), "what was printed stands below"
    for ctx in namespace.values():
        if isinstance(ctx, ContextManager):
            ctx.close()


def commands(block):
    """The command lines of a block, each with the output shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if "$ compactctl" in PAGES[page]])
def test_the_commands_work_and_the_output_is_theirs(page, capsys, monkeypatch, tmp_path):
    """K-11: one after the other; shown lines are lines of the real output, to the number."""
    from compact.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    (tmp_path / "harbour.jsonl").write_bytes(SAMPLE.read_bytes())
    for block in blocks(page, "console"):
        for command, output in commands(block):
            if not command.startswith("compactctl"):
                continue
            assert main(shlex.split(command)[1:]) == 0, command
            real = {unpadded(line) for line in capsys.readouterr().out.splitlines()}
            shown = [line for line in output.splitlines() if line != "…"]
            missing = [line for line in shown if unpadded(line) not in real]
            assert not missing, "\n".join([f"not printed by {command}:", *missing])


def unpadded(line):
    """The line with every width alike."""
    return " ".join(line.split())


def test_the_page_opens_with_the_tasks_that_exist():
    """K-1: the two commands for a fresh machine."""
    import tasks

    wanted = re.findall(r"^\$ make (\w+)$", README, flags=re.MULTILINE)
    assert wanted == ["demo", "test"]
    assert set(wanted) <= set(tasks.TASKS)
    assert README.index("$ make demo") < README.index("## Three doors")


def test_every_format_that_is_read_is_in_the_table():
    named = re.findall(r"^\| [^|]+ \| ((?:`\w+`(?:, )?)+) \|", FILES, flags=re.MULTILINE)
    names = [name for row in named for name in re.findall(r"\w+", row)]
    assert sorted(names) == sorted(wiring.file_formats())


def test_the_threat_model_says_what_is_protected_and_what_is_not():
    """Issue 13: "threat model with what is not protected"; nothing is told to be missing."""
    security = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    model = security.partition("## Threat model\n")[2]
    protected, _, left = model.partition("### What is not protected\n")
    assert protected.partition("### What is protected\n")[2].count("\n| ") > 8
    assert left.count("\n- ") > 8
    assert "Not built yet" not in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_the_numbers_of_a_window_are_those_of_the_code():
    """What is usable of it, and from when on a session is compressed."""
    settings = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    window = ContextManager(window=8_192).window
    for told in (PAGES["docs/guides/sessions.md"], settings):
        said = " ".join(told.split())
        assert f"of {window.size:,} tokens {window.usable:,} are usable" in said
        assert f"compressed from {window.trigger:,} on" in said
    assert f"to {window.target:,}." in settings
    assert f"`gpt-4o` is compressed from {ContextManager('gpt-4o').window.trigger:,} on" in settings
