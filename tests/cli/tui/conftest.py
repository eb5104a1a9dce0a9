"""What the tests of the chat program share."""

from pathlib import Path

import pytest

from compact.tui.opening import ChatSetup
from tests.cli.tui.driving import MODEL, setup


@pytest.fixture
def echo(tmp_path: Path) -> ChatSetup:
    """A session that is not there yet, and the model that echoes."""
    return setup(tmp_path, model=MODEL)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The echo takes no breath."""
    monkeypatch.setattr("compact.models.providers.echo_chat.PAUSE", 0.0)
