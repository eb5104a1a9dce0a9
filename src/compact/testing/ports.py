"""Conformance suites for tokenizers, summarizers, exporters, storage adapters and blob stores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.events import Event, TokenEstimate
from compact.messages.messages import Message
from compact.messages.protocols import (
    BlobStore,
    Exporter,
    StorageAdapter,
    Summarizer,
    TokenEstimator,
)

LARGE = 9_000_000
"""Size of a large file in bytes. Some services do not accept that much in one request."""
SAMPLES: Sequence[str] = (
    "hello world",
    "Größe & Maße – naïve café",
    "用户反馈：登录页面在移动端加载很慢",
    "<|im_start|>system<|endoftext|>",
    "a lone \ud800 surrogate",
    "x" * 10_000,
    "\n\t \r\n",
)


def check_token_estimator(estimator: TokenEstimator) -> None:
    """Test a tokenizer: its counts are positive, repeatable, and nearly add up."""
    assert isinstance(estimator, TokenEstimator), "it lacks a method of the protocol"
    assert estimator.name, "it needs a name"
    assert isinstance(estimator.exact, bool), "`exact` says whether counts are the real ones"
    assert estimator.count("") == 0, "the empty text has no tokens"
    for sample in SAMPLES:
        first, again = estimator.count(sample), estimator.count(sample)
        assert first == again, f"{sample[:20]!r} has {first} tokens, then {again}"
        assert first > 0, f"{sample[:20]!r} has {first} tokens"
        both = estimator.count(sample + sample)
        assert both <= 2 * first + 2, "a text twice has at most twice the tokens, and a seam"


def check_summarizer(make: Callable[[], Summarizer], count: Callable[[str], int]) -> None:
    """Test a summarizer: it keeps the cap, is never empty, and continues its last summary."""
    messages = [Message(role="user", content=f"Rule {i}: keep part {i} small.") for i in range(40)]
    summarizer = make()
    assert isinstance(summarizer, Summarizer), "it lacks a method of the protocol"
    previous = None
    for cap in (60, 200, 800):
        request = SummaryRequest(messages=messages, max_tokens=cap, previous=previous)
        previous = asyncio.run(_summarized(summarizer, request))
        assert previous.text.strip(), "a summary is never empty"
        assert count(previous.text) <= cap, f"{count(previous.text)} tokens, {cap} were allowed"
        assert previous.made_by, "a summary names its maker"


async def _summarized(summarizer: Summarizer, request: SummaryRequest) -> Summary:
    return await summarizer.summarize(request)  # `asyncio.run` takes only coroutines


def check_exporter(exporter: Exporter) -> None:
    """Test an exporter: it takes events and can be closed, both more than once."""
    assert isinstance(exporter, Exporter), "it lacks a method of the protocol"
    event: Event = TokenEstimate(tokens=1, limit=2, messages=3, tokenizer="none", exact=False)
    for events in ([event], [event, event], []):
        lost = exporter.export(events)
        assert lost is None or 0 <= lost <= len(events), f"{lost} of {len(events)} events lost"
    exporter.close()
    exporter.close()


def check_storage_adapter(adapter: StorageAdapter) -> None:
    """Test a storage adapter: each call stores at a place of its own and replaces no transcript."""
    messages = [Message(role="user", content="Is the beam sound?")]
    event: Event = TokenEstimate(tokens=1, limit=2, messages=3, tokenizer="none", exact=False)
    places = [adapter.save_transcript("one", messages) for _ in range(2)]
    places.append(adapter.save_transcript("two", messages))
    places += [adapter.save_summary("one", step, "The beam is sound.") for step in (1, 2)]
    assert len(set(places)) == len(places), "each is kept at a place of its own"
    assert all(places), "a place is named"
    assert adapter.save_event("one", event), "an event's place is named"
    again = adapter.save_summary("one", 1, "The beam is rotten.")
    assert again == places[3], "a step's summary has one place"


def check_blob_store(make: Callable[[], BlobStore]) -> None:
    """Test a blob store. Each call of `make` opens the same place, which must be empty."""
    blobs, other = make(), make()
    assert isinstance(blobs, BlobStore), "it lacks a method of the protocol"
    name, large = "2026/05/roof-1.json", "2026/05/roof-1.originals.zst"
    assert _read_back(blobs, name) is None, "what was never put is not found"
    blobs.delete(name)
    for data in (b"", bytes(range(256)), b"x" * LARGE):
        blobs.put(large, data, replaces=True)
        assert _read_back(other, large) == data, f"{len(data)} bytes are not kept as they are"
    blobs.put(name, b"first")
    assert not _puts(other, name, b"second"), "nothing is replaced unless it is told"
    assert not _puts(other, name, b"first"), "nor by what is the same"
    assert _read_back(blobs, name) == b"first", "what was refused has not replaced the other one"
    assert blobs.address(name) == other.address(name), "a name has one address"
    assert blobs.address(name) != blobs.address(large), "each name has its own"
    other.delete(name)
    assert _read_back(blobs, name) is None, "what was removed is gone"
    assert _read_back(blobs, large) is not None, "and nothing else is"
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda i: _puts(make(), name, b"%d" % i * 99), range(4)))
    assert sum(done) == 1, f"{sum(done)} of four that put at once were told that they did"
    assert _read_back(blobs, name) == b"%d" % done.index(True) * 99, "the one that did is kept"
    blobs.delete(name)
    blobs.delete(large)


def _read_back(blobs: BlobStore, name: str) -> bytes | None:
    try:
        return blobs.get(name)
    except FileNotFoundError:
        return None


def _puts(blobs: BlobStore, name: str, data: bytes) -> bool:
    try:
        blobs.put(name, data)
    except FileExistsError:
        return False
    return True
