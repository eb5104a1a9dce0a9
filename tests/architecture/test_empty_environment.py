"""What is released installs where nothing is, and does its main job (K-1, K-14)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tasks
from tests.sizes import at_night

PROGRAM = """
from compact import ContextManager, MemoryManager, compress
said = [
    {"role": "user", "content": f"Berth {n} is free, its depth is {n} metres. " * 40}
    for n in range(60)
]
print(len(compress(said, max_tokens=4_000)) < len(said))
with ContextManager(window=4_096, store="chat.db", session_id="s") as ctx:
    ctx.add_messages(said)
    print(ctx.get_context_for_model() != [] and ctx.compressions > 0)
with MemoryManager("chat.db") as memory:
    print(memory.search("berth 41").hits[0].text != "")
"""
HINTS = {
    "openai": "ask('openai:gpt-4o')",
    "anthropic": "ask('anthropic:claude-sonnet-4-5')",
    "ollama": "ask('ollama:qwen3:8b')",
    "transformers": "ask('transformers:.')",
    "tokenizers": "ContextManager(window=4_096, tokenizer='tokenizer.json')",
    "embeddings": "embedder('minilm').embed(['berth'])",
    "chat": "import sys; from compact.cli.main import main; sys.stderr = sys.stdout; "
    "main(['chat'])",
    "agents": "from compact.integrations import openai_agents",
    "mcp": "main(['mcp'])",
    "otlp": "CompactManager(CompactConfig(otlp_endpoint='http://[::1]:9')).preflight('s', [SAID])",
    "s3": "print(MemoryManager('chat.db', archive_folder='s3://b/x').archive(['s']).failed)",
}
"""Extra → what needs it."""
ASKING = """
from compact import *
SAID = {"role": "user", "content": "Is berth 41 free?"}
with ContextManager(window=4_096, store="chat.db", session_id="s") as ctx:
    ctx.add_message(SAID)
def ask(model):
    with ContextManager(model, window=8_192) as ctx:
        ctx.add_message(SAID)
        ctx.send()
"""


def run(*command: str | Path, cwd: Path) -> str:
    """The output of a command that must succeed, in an environment without ours."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=kept, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The folder with the sdist, and the wheel that was built from it."""
    out: Path = tmp_path_factory.mktemp("dist")
    copy = tmp_path_factory.mktemp("tree") / "compact"
    run("git", "clone", "--quiet", tasks.ROOT, copy, cwd=out)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, copy, cwd=out)
    return out


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """The Python of an environment with the wheel alone."""
    folder: Path = tmp_path_factory.mktemp("empty")
    (wheel,) = built.glob("*.whl")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return python


@pytest.mark.slow
def test_the_wheel_does_its_main_job_with_nothing_else(installed, tmp_path):
    assert run(installed, "-c", PROGRAM, cwd=tmp_path).split() == ["True"] * 3
    tool = installed.with_name("compactctl")
    run(tool, "demo", "--save", "harbour.jsonl", cwd=tmp_path)
    run(tool, "compact", "harbour.jsonl", "--max-tokens", "8000", "-o", "out.jsonl", cwd=tmp_path)
    assert (tmp_path / "out.jsonl").stat().st_size > 0
    assert run(tool, "--version", cwd=tmp_path).split()[-1] in (
        run(installed, "-c", "import compact; print(compact.__version__)", cwd=tmp_path)
    )


@pytest.mark.slow
def test_what_an_extra_is_for_says_how_to_get_it(installed, tmp_path):
    """One Python tries them all."""
    tries = "".join(
        f"try:\n    {code}\nexcept (Exception, SystemExit) as e:\n    print(e)\nprint('·')\n"
        for code in HINTS.values()
    )
    said = run(installed, "-c", f"{ASKING}{tries}", cwd=tmp_path).split("·")
    for extra, text in zip(HINTS, said, strict=False):
        assert "pip install" in text, (extra, text)
        assert extra in text, text


@pytest.mark.slow
@at_night
def test_the_source_distribution_installs(built, installed, tmp_path):
    """Last: it takes the wheel's place."""
    (source,) = built.glob("*.tar.gz")
    again = ("--quiet", "--no-deps", "--force-reinstall")
    run(installed, "-m", "pip", "install", *again, source, cwd=tmp_path)
    assert run(installed, "-c", PROGRAM, cwd=tmp_path).split() == ["True"] * 3
