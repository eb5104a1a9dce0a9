"""A llama.cpp server for the SDK's own clients, and a trace that stays here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.models.conftest import llama as llama
from tests.models.conftest import tiny_model as tiny_model

agents = pytest.importorskip("agents")


@pytest.fixture(autouse=True)
def no_network() -> Iterator[None]:
    """The SDK sends its traces to OpenAI unless it is told otherwise."""
    agents.set_trace_processors([])
    yield
    agents.set_trace_processors([])
