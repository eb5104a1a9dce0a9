"""Counting by a model's own `tokenizer.json` (K-3); the vocabulary is trained here, on nothing."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from compact import ContextManager
from compact.errors import UnknownModel
from compact.messages.messages import Message
from compact.messages.tokens import Framing
from compact.models.providers import tokenizers
from compact.models.providers.tokenizers import CHATML_FRAMING, HuggingFaceEstimator
from compact.testing import check_token_estimator
from compact.wiring import token_counter

package = pytest.importorskip("tokenizers")
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "Read a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
}


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level vocabulary, with all that may stand in such a file beside it."""
    trained = package.Tokenizer(package.models.BPE())
    trained.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = package.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|im_start|>", "<s>"],
        initial_alphabet=package.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(["hello world, hello words"] * 50, trainer)
    trained.enable_truncation(8)
    trained.enable_padding(length=6)
    trained.post_processor = package.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    path = tmp_path_factory.mktemp("vocabulary") / "tokenizer.json"
    trained.save(str(path))
    return path


def test_it_keeps_the_promises_of_an_estimator(vocabulary: Path) -> None:
    estimator = HuggingFaceEstimator(vocabulary)
    check_token_estimator(estimator)
    assert estimator.exact


def test_only_the_texts_tokens_are_counted(vocabulary: Path) -> None:
    """Neither cut nor padded, and no marks; control tokens are the plain text that is sent of
    them."""
    estimator = HuggingFaceEstimator(vocabulary)
    assert estimator.count("hello") == 1
    assert estimator.count("q" * 100) == 100
    assert estimator.count("<|im_start|>") == len("< |im_start|>")
    assert estimator.count("\ud800") == estimator.count("\ufffd") == 3


def test_a_path_is_a_tokenizers_name(vocabulary: Path) -> None:
    name = str(vocabulary)
    counter = token_counter("chat_completions", tokenizer=name)
    assert counter is token_counter("chat_completions", tokenizer=name)
    assert counter.exact
    assert counter.estimator.name == name
    assert counter.framing is CHATML_FRAMING


def test_a_tokenizer_brings_its_framing(vocabulary: Path) -> None:
    framing = Framing("this test", per_message=50, priming=1, schemas="json", per_schemas=7)
    counter = token_counter(
        "anthropic", tokenizer=HuggingFaceEstimator(vocabulary, framing=framing)
    )
    assert counter.message(Message(role="user", content="hello")) == 51
    assert counter.tools([]) == 0
    written = counter.text(json.dumps(TOOL))
    assert counter.tools([TOOL]) == 7 + 1 + written
    assert counter.tools([TOOL, TOOL]) == 7 + 2 + 2 * written


def test_a_session_is_kept_in_its_tokens(vocabulary: Path, tmp_path: Path) -> None:
    """The manager counts by the file, and goes on with it when the session is opened again."""
    opened: dict[str, Any] = {"window": 600, "store": tmp_path / "s.db", "session_id": "s"}
    with ContextManager(**opened, tokenizer=str(vocabulary)) as ctx:
        for number in range(120):
            ctx.add_message(role="user", content=f"hello world {number}")
        context = ctx.active_context()
        assert ctx.compressions > 0
        counter = token_counter("chat_completions", tokenizer=str(vocabulary))
        assert context.tokens == counter.messages(context.messages) <= 600
    with ContextManager(**opened, tokenizer=str(vocabulary)) as ctx:
        assert ctx.active_context().tokens == context.tokens


def test_what_cannot_be_read_is_said(vocabulary: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match="no such file"):
        tokenizers.tokenizer(str(tmp_path / "none.json"))
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(UnknownModel, match="is no tokenizer"):
        tokenizers.tokenizer(str(other))


def test_a_missing_package_is_named(vocabulary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UnknownModel, match="pip install tokenizers"):
        HuggingFaceEstimator(vocabulary)
