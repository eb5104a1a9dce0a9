"""The page of commands is what the commands say of themselves (K-11, K-14)."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


def generator():
    spec = importlib.util.spec_from_file_location("generate_cli", DOCS / "generate_cli.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_page_is_current():
    """Else run `python docs/generate_cli.py`."""
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == generator().page()
