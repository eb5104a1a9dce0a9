"""The examples run: each as a program of its own, against a server on loopback (K-12)."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.scripted import Call, Calls, ScriptedServer
from tests.telemetry.ariadne_server import AriadneServer

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run an example with these lines typed; what it printed."""

    def ran(name: str, *lines: str, url: str = "", **variables: str) -> str:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("COMPACT_")}
        environment = {
            **kept,
            "PYTHONPATH": str(ROOT / "src"),
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "none",
            "OLLAMA_HOST": url,
            **variables,
        }
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / f"{name}.py")],
            input="".join(f"{line}\n" for line in lines),
            text=True,
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return ran


needs_sdk = pytest.mark.skipif(
    importlib.util.find_spec("agents") is None, reason="the Agents SDK is not installed"
)


def code(name: str) -> list[str]:
    """The lines of an example that are code."""
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    body = re.sub(r'^""".*?"""\n', "", text, flags=re.DOTALL)
    return [line for line in body.splitlines() if line.strip()]


def test_every_example_is_run() -> None:
    """Here, each by its own test."""
    tested = Path(__file__).read_text(encoding="utf-8")
    for path in EXAMPLES.glob("*.py"):
        assert re.search(rf'run\(\s*"{path.stem}"', tested), f"no test runs {path.name}"


def test_one_call(run: Run) -> None:
    out = run("one_call")
    before, after = map(int, re.findall(r"\d+", out)[:2])
    assert before > 5 * after
    assert out.endswith("Which lamp was it last night?\n")


@pytest.mark.parametrize(
    ("flags", "rule", "point"),
    [
        ((), "gone", "old"),
        (("COMPRESSION",), "there", "old"),
        (("CONTEXT",), "gone", "old"),
        (("CONTEXT", "COMPRESSION", "CHECKPOINTS"), "there", "sn-"),
    ],
)
def test_changing_over(run: Run, flags: tuple[str, ...], rule: str, point: str) -> None:
    """MIG: one flag after another; the old names count too."""
    prefix = "OLLM_NEW_" if len(flags) == 1 else "COMPACT_NEW_"
    out = run("changing_over", **{prefix + flag: "true" for flag in flags})
    assert f"the rule is {rule}" in out
    assert f"recovery point: {point}" in out
    assert ("brought along: roof, 2 messages" in out) is ("CONTEXT" in flags)


@pytest.mark.slow
def test_chat_loop(run: Run) -> None:
    """Four lines are compact's; the conversation goes on far beyond the window."""
    lines = code("chat_loop")
    assert len(lines) <= 30
    assert sum(line.endswith("# +") for line in lines) == 3
    answer = "The lamp is lit. " * 60
    with ScriptedServer(answer, window=9_000) as server:
        said = [f"{i}: " + "And the next lamp? " * 30 for i in range(60)]
        out = run("chat_loop", *said, url=server.url, CHAT_MODEL="gpt-4")
        assert out.count("The lamp is lit.") == 60 * 60
        prompts = [p for p in server.prompts if p.messages[-1]["content"].strip().endswith("lamp?")]
        assert len(prompts) == 60, "the others ask for a summary"
        assert len(prompts[-1].messages) < 60


@pytest.mark.parametrize("name", ["chat_loop", "coding_session"])
def test_a_missing_client_is_told_in_one_line(name: str) -> None:
    program = f"""if True:
        import runpy, sys
        sys.modules["openai"] = None
        runpy.run_path({str(EXAMPLES / f"{name}.py")!r}, run_name="__main__")
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"{name} needs the package openai: pip install '.[openai]'\n"


@pytest.mark.slow
def test_ollama_chat(run: Run) -> None:
    """Twice: the second time it goes on."""
    with ScriptedServer("A light breeze.", model="qwen3:8b") as server:
        assert "A light breeze." in run("ollama_chat", "How is it?", url=server.url)
        out = run("ollama_chat", "And now?", url=server.url)
        assert "2 messages so far" in out
        assert len(server.prompts[-1].messages) == 3


@pytest.mark.slow
def test_long_research(run: Run) -> None:
    """K-12: over 128,000 tokens, several rounds, and the first page is still found."""
    out = run("long_research")
    read, rounds, view = (int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", out)[:3])
    assert read > 128_000
    assert rounds >= 5
    assert view < 16_000
    assert "still found: Noted: " in out


@pytest.mark.slow
def test_coding_session(run: Run, tmp_path: Path) -> None:
    """K-12: a tool, protected words, `/compact` that frees at least 40 % (K-16), `/find`."""
    (tmp_path / "lamp.py").write_text("NORTHERN_LAMP = 7\n" * 40, encoding="utf-8")
    read = Calls([Call("read_file", {"path": "lamp.py"})])
    script: list[Any] = [read, "It is lamp 7. " * 40] * 12 + ["Done."]
    with ScriptedServer(*script) as server, closing(AriadneServer()) as ariadne:
        asked = [f"{i}: what is the northern lamp?" for i in range(12)]
        out = run(
            "coding_session", "/protect Keep port 8443.", *asked, "/compact keep the lamps",
            "Ready?", "/find northern lamp", "/quit", url=server.url,
            COMPACT_ARIADNE_URL=ariadne.url,
        )  # fmt: skip
        assert "compact.compression" in {span["name"] for span in ariadne.spans()}
        asked_of = [prompt for prompt in server.prompts if prompt.body.get("tools")]
        *_, before, after = (prompt.tokens for prompt in asked_of)  # the others are for a summary
        assert after < 0.6 * before
        kept = ("Keep port 8443.", "Change nothing outside of this folder.")
        assert all(words in request.prompt for words in kept for request in asked_of)
        assert "Done." in out
        assert "- " in out.rpartition("Done.")[2]


@pytest.mark.slow
@needs_sdk
def test_agents_sdk_minimal(run: Run) -> None:
    """K-12: at most ten lines, events on the console, archives in a folder."""
    assert len(code("agents_sdk_minimal")) <= 10
    with ScriptedServer("The northern one.") as server:
        assert (
            run("agents_sdk_minimal", url=server.url, OPENAI_AGENTS_DISABLE_TRACING="1")
            == "The northern one.\n"
        )
        assert (
            run("agents_sdk_minimal", url=server.url, OPENAI_AGENTS_DISABLE_TRACING="1")
            == "The northern one.\n"
        )
        assert [each.path for each in server.prompts] == ["/v1/responses"] * 2
        assert len(server.prompts[-1].messages) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "package"), [("pydantic_ai", "pydantic_ai"), ("google_adk", "google.adk")]
)
def test_frameworks_minimal(run: Run, name: str, package: str) -> None:
    """What is asked comes to the model, and the answer back."""
    if importlib.util.find_spec(package.partition(".")[0]) is None:
        pytest.skip(f"{package} is not installed")
    with ScriptedServer("The northern one.") as server:
        if name == "google_adk":
            out = run("google_adk_minimal", url=server.url)
        else:
            out = run("pydantic_ai_minimal", url=server.url)
        assert out == "The northern one.\n"
        assert "Which lamp is next?" in server.prompts[-1].prompt


@pytest.mark.slow
def test_langchain_agent(run: Run) -> None:
    """`tests/integrations/test_langchain.py` runs it with another model, without the client."""
    for package in ("langchain", "langchain_openai"):
        pytest.importorskip(package)
    with ScriptedServer("The northern one.") as server:
        assert run("langchain_agent", url=server.url) == "The northern one.\n"


@pytest.mark.slow
def test_strands(run: Run) -> None:
    """`tests/integrations/test_strands.py` holds the plugin's promises."""
    if importlib.util.find_spec("strands") is None:
        pytest.skip("Strands needs an environment of its own: see test_strands.py")
    with ScriptedServer("The lamp of pier 4.") as server:
        assert "pier 4" in run("strands_minimal", url=server.url)


def test_hermes_plugin(run: Run) -> None:
    """`tests/integrations/test_hermes.py` holds the engine's promises."""
    if importlib.util.find_spec("agent") is None:
        pytest.skip("Hermes needs an environment of its own: see test_hermes.py")
    run("hermes_plugin")


def test_litellm_guard(run: Run) -> None:
    """It is made; `tests/integrations/test_litellm_guard.py` talks through it."""
    if importlib.util.find_spec("litellm") is None:
        pytest.skip("litellm needs an environment of its own: see test_litellm_guard.py")
    run("litellm_guard", COMPACT_MAX_CONTEXT_TOKENS="4096")


@pytest.mark.slow
@needs_sdk
def test_coding_assistant(run: Run, tmp_path: Path) -> None:
    """K-9: session, filter, protected words, a handoff, spans, `/compact`."""
    (tmp_path / "lamp.py").write_text("NORTHERN_LAMP = 7\n" * 200, encoding="utf-8")
    read = Calls([Call("read_file", {"path": "lamp.py"})])
    over = Calls([Call("transfer_to_reviewer", {})])
    script: list[Any] = [read, "It is lamp 7."] * 12 + [over, "A clean change.", "Ready."]
    with ScriptedServer(*script) as server:
        asked = [f"{i}: what is the northern lamp?" for i in range(12)]
        out = run(
            "coding_assistant", "/protect Keep port 8443.", *asked, "Review it.", "/compact",
            "Ready?", "/quit", url=server.url, COMPACT_MAX_CONTEXT_TOKENS="6000",
        )  # fmt: skip
        assert out.count("It is lamp 7.") == 12
        assert "A clean change." in out
        assert "Ready." in out
        assert all("Keep port 8443." in request.prompt for request in server.prompts)
        assert "Review the change" in server.prompts[-1].instructions
        assert server.prompts[-1].tokens < 6_000
