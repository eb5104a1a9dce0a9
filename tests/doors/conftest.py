"""What the tests at the doors share: the command line as its own tests run it, and silence."""

import pytest

from tests.cli.conftest import _clean, process, run, sample

__all__ = ["_clean", "process", "run", "sample"]


@pytest.fixture(autouse=True, scope="session")
def _clients():
    """The clients are there before a test counts seconds."""
    for name in ("openai", "anthropic", "ollama"):
        pytest.importorskip(name)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    """No key of the machine, and no server but those that a test starts."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
