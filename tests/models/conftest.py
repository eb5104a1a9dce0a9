"""The tiny model and its servers, shared by all tests of a run."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.models import tiny_llama


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> tiny_llama.Model:
    """The model's files, made once a run; skips where the packages for it are missing."""
    for package in ("xllamacpp", "gguf", "tokenizers", "numpy"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed: no llama.cpp server to test with")
    return tiny_llama.build(Path(tmp_path_factory.mktemp("tiny_llama")))


@pytest.fixture(scope="session")
def llama(tiny_model: tiny_llama.Model) -> Iterator[Callable[..., str]]:
    """`llama(n_ctx, template)` is the URL of a llama.cpp server with that window and one of
    `tiny_llama.TEMPLATES`; one for each.
    """
    folder = tiny_model.weights.parent
    with ExitStack() as running:
        serving = tiny_llama.serving
        yield cache(lambda *given: running.enter_context(serving(folder, *given)))
