"""No secret leaves: one of every kind is planted wherever text comes from, and every byte that an
exporter, an archive, a log or an export wrote is searched for it (NFR-2, K-7, K-8).
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boto3
import pytest

from compact import CompactConfig, CompactManager, ContextManager, Redactor
from compact.cli.main import main
from compact.messages.checkpoints import Summary, SummaryRequest
from compact.messages.events import ErrorRaised, Event
from compact.messages.goals import Goal
from compact.store.archives.files import S3Storage
from compact.testing.fakes import ScriptedSummarizer
from tests.telemetry.ariadne_server import AriadneServer
from tests.telemetry.collector import Collector
from tests.telemetry.planted import (
    ALL,
    PLANTED,
    SETTINGS,
    VARIABLES,
    WORDS,
    Kept,
    conversation,
    found_in,
)

moto_server = pytest.importorskip("moto.server")


class Asked(ScriptedSummarizer):
    """A summarizer that writes down what it is shown."""

    text = ""

    async def summarize(self, request: SummaryRequest) -> Summary:
        self.text += f"{list(request.messages)!r} {request!r}"
        return await super().summarize(request)


class Broken:
    """An exporter, and an archive, that fails and says all that it knows."""

    def export(self, events: Sequence[Event]) -> None:
        raise RuntimeError(ALL)

    def save_transcript(self, session_id: str, messages: object) -> str:
        raise OSError(ALL)

    save_summary = save_event = save_transcript

    def close(self) -> None: ...


@pytest.fixture
def servers() -> Iterator[tuple[AriadneServer, Collector, dict[str, str]]]:
    """Ariadne, a collector, and the arguments of clients of a server that speaks S3."""
    ariadne, collector = AriadneServer(), Collector()
    s3 = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    s3.start()
    host, port = s3.get_host_and_port()
    yield ariadne, collector, {"endpoint_url": f"http://{host}:{port}", "region_name": "us-east-1"}
    for server in (ariadne, collector):
        server.close()
    s3.stop()


@pytest.fixture
def written(tmp_path: Path, capfd, caplog, monkeypatch, servers) -> dict[str, str]:
    """What was written where, of sessions into which secrets of every kind were planted."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "tests")
    caplog.set_level(logging.INFO)
    (ariadne, collector, client), kept = servers, Kept()
    boto3.client("s3", **client).create_bucket(Bucket="lamps")
    config = CompactConfig(
        max_context_tokens=8_000,
        telemetry_content=True,
        console_events=True,
        ariadne_url=ariadne.url,
        otlp_endpoint=collector.url,
        guidance=ALL,
        **SETTINGS,
    )
    archives = (tmp_path / "archive", S3Storage("lamps", "a", **client), Broken())
    said = Asked("## Goal\n" + ALL)
    failing = Asked(RuntimeError(ALL))
    for number, (archive, summarizer) in enumerate(
        zip(archives, (said, failing, "extractive"), strict=True)
    ):
        file = tmp_path / "kept.db"
        options: dict[str, Any] = {"store": file, "archive": archive, "summarizer": summarizer}
        with CompactManager(config, **options) as manager:
            manager._bus.export_to(kept)
            manager._bus.export_to(Broken())
            ctx = manager.session(f"s{number}")
            ctx.goals.set([Goal(text=words) for words in list(WORDS.values())[:3]])
            manager.preflight(f"s{number}", conversation())
            assert ctx.compressions
            kept.text += "\n".join(each.summary for each in ctx.checkpoints)
    objects = boto3.resource("s3", **client).Bucket("lamps").objects.all()
    files = [path.read_text() for path in (tmp_path / "archive").rglob("*") if path.is_file()]
    return {
        "ariadne": b"\n".join(ariadne.bodies).decode(),
        "OTLP": b"\n".join(collector.bytes).decode("latin-1"),
        "exporter": kept.text,
        "files": "\n".join(files),
        "S3": "\n".join(each.get()["Body"].read().decode() for each in objects),
        "console and logs": "".join(capfd.readouterr()) + caplog.text,
        "summarizer": said.text + failing.text,
    }


def test_no_planted_secret_leaves(written):
    """Zero hits in every byte; each place was written to, and says what was taken out."""
    assert {place: found_in(text) for place, text in written.items() if found_in(text)} == {}
    for place in ("ariadne", "OTLP", "exporter", "files", "S3", "console and logs", "summarizer"):
        assert "REDACTED" in written[place], place
    assert "staff_id" in written["files"]


def test_an_export_holds_no_planted_secret(capsys, tmp_path, monkeypatch):
    """What the command line writes of a session, unless it is asked for verbatim."""
    file = tmp_path / "kept.db"
    with ContextManager(window=8_000, store=file, session_id="s") as ctx:
        ctx.sync(conversation())
        ctx.goals.set([Goal(text=words) for words in list(WORDS.values())[:3]])
        ctx.get_context_for_model()

    def exported(*options: str) -> str:
        assert main(["sessions", "export", "s", "--store", str(file), *options]) == 0
        out, err = capsys.readouterr()
        assert ("secrets in " in err) == ("--format" in options), "what was taken out is said"
        return str(out)

    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    for kind in ("json", "md"):
        told = exported("--format", kind)
        assert found_in(told) == set()
        assert "REDACTED" in told
    whole = exported("--verbatim")
    assert len(found_in(whole)) > len(PLANTED) - 3
    monkeypatch.setenv("COMPACT_REDACT", "false")
    assert exported() == whole


# --- settings -------------------------------------------------------------------------------------


def test_a_validator_says_what_counts_and_cannot_block():
    """What it fails at is taken out; the failure is told of once."""

    def checked(matched: str) -> bool:
        if matched.endswith("9"):
            raise KeyError(matched)
        return matched.endswith("1")

    heard: list[Event] = []
    redactor = Redactor(patterns={"ticket": r"T-(?P<value>\d+)"}, validators={"ticket": checked})
    config = CompactConfig(max_context_tokens=8_000, telemetry_content=True)
    kept = Kept()
    with CompactManager(config, redactor=redactor, on_event=heard.append) as manager:
        manager._bus.export_to(kept)
        for text in ("T-441 and T-442 and T-449", "T-459"):
            manager._bus.emit(ErrorRaised.of(ValueError(text), "sync"))
    assert "T-<REDACTED:ticket> and T-442 and T-<REDACTED:ticket>" in kept.text
    failed = [
        event for event in heard if isinstance(event, ErrorRaised) and event.stage == "redact"
    ]
    assert len(failed) == 1
