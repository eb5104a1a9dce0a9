"""What the tests of telemetry share."""

import pytest

from compact.telemetry import bus


@pytest.fixture(autouse=True)
def _patient_close(monkeypatch):
    """On a busy machine the end of a bus may take longer than a user would wait."""
    monkeypatch.setattr(bus, "CLOSE_SECONDS", 60.0)
