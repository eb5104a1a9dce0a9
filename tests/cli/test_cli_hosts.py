"""Where a conversation and a key may go, by the command line (US-3, K-10).

A folder's `.env` names nobody elsewhere; whom a person names is said; no key is shown.
"""

import pytest

from tests.cli.conftest import refused

PLAN = ("dry-run", "--max-tokens", "8000")
ELSEWHERE = (
    "https://models.example/v1#m",
    "http://192.0.2.7/v1#m",
    "anthropic+https://models.example#m",
    "openai:gpt-4o",
    "gpt-4o-mini",
    "transformers:evil/model",
)
HERE = ("extractive", "ollama:qwen3:8b", "http://localhost:1/v1#m", "http://127.0.0.1:1/v1#m")


@pytest.fixture(autouse=True)
def _ollama_is_here(monkeypatch):
    monkeypatch.delenv("OLLAMA_HOST", raising=False)


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        *(("COMPACT_SUMMARIZER", key) for key in ELSEWHERE),
        *(("COMPACT_SUMMARIZER_FALLBACKS", key) for key in ELSEWHERE),
        ("COMPACT_MODEL", ELSEWHERE[0]),
    ],
)
def test_the_folder_names_nobody_elsewhere(run, tmp_path, sample, setting, key):
    """A cloned repository would have the conversation, and with it a key."""
    (tmp_path / ".env").write_text(f"{setting}={key}\n")
    line = refused(run(*PLAN, sample))
    assert ".env" in line
    assert setting in line
    assert "another machine" in line


@pytest.mark.parametrize(
    ("setting", "there", "here"),
    [
        ("COMPACT_ARIADNE_URL", "https://reports.example/v1", "http://127.0.0.1:9"),
        ("COMPACT_OTLP_ENDPOINT", "https://reports.example/v1", "http://127.0.0.1:9"),
        ("COMPACT_ARCHIVE", "s3://beams/a", "archive"),
        ("COMPACT_MEMORY_ARCHIVE", "s3://beams/a", "archive"),
    ],
)
def test_the_folder_sends_nothing_elsewhere(
    run, tmp_path, sample, monkeypatch, setting, there, here
):
    """Else whoever made it would have reports of what is compressed, or what is archived."""
    (tmp_path / ".env").write_text(f"{setting}={there}\n")
    line = refused(run(*PLAN, sample))
    assert ".env" in line
    assert "another machine" in line
    (tmp_path / ".env").write_text(f"{setting}={here}\n")
    assert run("validate-config").code == 0
    monkeypatch.setenv(setting, there)
    assert run("validate-config").code == 0


@pytest.mark.parametrize("key", HERE)
def test_the_folder_may_say_what_stays_here(run, tmp_path, sample, key):
    (tmp_path / ".env").write_text(f"COMPACT_SUMMARIZER={key}\nCOMPACT_MODEL=gpt-4o\n")
    done = run("validate-config")
    assert done.code == 0
    assert ".env" not in done.err


KEYS = (
    ("OPENAI_API_KEY", "COMPACT_SUMMARIZER", "openai+http://localhost:9/v1#m"),
    ("OPENAI_API_KEY", "COMPACT_SUMMARIZER_FALLBACKS", "http://127.0.0.1:9/v1#m"),
    ("OPENAI_API_KEY", "COMPACT_MODEL", "http://127.0.0.1:9/v1#m"),
    ("ANTHROPIC_API_KEY", "COMPACT_SUMMARIZER", "anthropic+http://[::1]:9#m"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "COMPACT_OTLP_ENDPOINT", "http://127.0.0.1:9"),
)


@pytest.mark.parametrize(("variable", "setting", "value"), KEYS)
def test_the_folder_sends_no_key_to_a_port_of_this_machine(
    run, tmp_path, sample, monkeypatch, variable, setting, value
):
    """Whatever listens there would have it."""
    monkeypatch.setenv(variable, "authorization=made-up-key")
    monkeypatch.setenv("COMPACT_TOKENIZER", "o200k")
    monkeypatch.setenv("COMPACT_MAX_CONTEXT_TOKENS", "8000")
    (tmp_path / ".env").write_text(f"{setting}={value}\n")
    line = refused(run(*PLAN, sample))
    assert (".env" in line, setting in line) == (True, True)
    monkeypatch.setenv(setting, value)
    assert run("validate-config").code == 0


@pytest.mark.parametrize(
    "line",
    [
        "COMPACT_REDACT=false",
        "COMPACT_REDACT_KINDS=phone",
        "COMPACT_TELEMETRY_CONTENT=true",
        "COMPACT_ARCHIVE_KMS_KEY=alias/theirs",
        "COMPACT_MODELS_FILE=theirs.yaml",
        "COMPACT_EMBEDDER=openai:text-embedding-3-small",
        "COMPACT_EMBEDDER=sentence-transformers:evil/model",
    ],
)
def test_the_folder_weakens_no_protection(run, tmp_path, sample, line):
    """Neither what is taken out of copies, nor what seals them, nor who reads texts."""
    (tmp_path / "theirs.yaml").write_text("{}\n")
    (tmp_path / "own.yaml").write_text("redact_kinds: [email]\n")
    (tmp_path / ".env").write_text(f"{line}\n")
    told = refused(run(*PLAN, sample, "--config", "own.yaml"))
    assert (".env" in told, line.partition("=")[0] in told) == (True, True)


def test_a_model_of_a_folder_here_stays_here(run, tmp_path):
    (tmp_path / "models" / "own").mkdir(parents=True)
    (tmp_path / ".env").write_text("COMPACT_SUMMARIZER=transformers:models/own\n")
    assert run("validate-config").code == 0


def test_ollama_elsewhere_is_elsewhere(run, tmp_path, sample, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", "https://models.example")
    (tmp_path / ".env").write_text("COMPACT_SUMMARIZER=ollama:qwen3:8b\n")
    assert "another machine" in refused(run(*PLAN, sample))


def test_a_person_may_name_whom_they_like(run, tmp_path, sample, monkeypatch):
    """What a person says outranks the folder, and where it leads is said, once."""
    (tmp_path / ".env").write_text("COMPACT_SUMMARIZER=https://other.example/v1#m\n")
    monkeypatch.setenv("COMPACT_SUMMARIZER", "https://models.example/v1#m")
    done = run("dry-run", sample, "--max-tokens", "200000")
    assert done.code == 0
    assert done.err.count("models.example") == 1
    assert "other.example" not in done.err
    done = run("dry-run", sample, "--max-tokens", "200000", "--summarizer", "extractive")
    assert (done.code, done.err) == (0, "")


SECRETS = (
    "https://me:hunter2pass@models.example/v1#m",
    "https://models.example/v1?api_key=hunter2pass#m",
    "openai:https://me:hunter2pass@models.example/v1#m",
    "https://me:hunter2pass@models.example/v1",
    "https://me:hunter2pass@models.example /v1#m",
    "me:hunter2pass@models.example",
)


@pytest.mark.parametrize("key", SECRETS)
def test_no_error_shows_a_key(run, tmp_path, sample, monkeypatch, key):
    for arguments in (
        [*PLAN, sample, "--summarizer", key],
        [*PLAN, sample, "--model", key],
        ["doctor", "--server", key],
        ["validate-config", "own.yaml"],
    ):
        (tmp_path / "own.yaml").write_text(f"summarizer_fallbacks: ['{key}']\nmodel: '{key}'\n")
        done = run(*arguments)
        assert done.code == 2, arguments
        assert "hunter2pass" not in done.out + done.err
