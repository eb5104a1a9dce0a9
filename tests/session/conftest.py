"""What sessions are kept in: most of what a session promises holds in either store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compact.messages.protocols import SessionStore
from tests.session.asking import STORES, opened


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    """A new store of each kind; a test file may have one of its own."""
    with opened(request.param, tmp_path) as made:
        yield made
