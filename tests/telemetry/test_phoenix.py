"""A real backend, Arize Phoenix, gets every span. It is no dependency: install it in an environment
of its own (`pip install arize-phoenix`, 620 MB), and name its program in PHOENIX_PROGRAM.
"""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections import Counter
from typing import Any
from urllib.error import URLError

import pytest

from tests.telemetry.talking import talked

PROGRAM = os.environ.get("PHOENIX_PROGRAM") or shutil.which("phoenix")
STARTS = 180.0
"""Seconds that it may take to start."""


def asked(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.loads(answer.read() or b"null")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def phoenix(tmp_path):
    if PROGRAM is None:
        pytest.skip("Phoenix is not installed: name its program in PHOENIX_PROGRAM")
    port = free_port()
    variables = {
        "PHOENIX_WORKING_DIR": str(tmp_path),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [PROGRAM, "serve"], env=os.environ | variables, stdout=log, stderr=log
        )
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + STARTS
    try:
        while True:
            assert server.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < until, (tmp_path / "log").read_text()
            try:
                asked(f"{url}/v1/projects")
                break
            except (URLError, OSError):
                time.sleep(0.5)
        yield url
    finally:
        server.terminate()
        server.wait()


@pytest.mark.slow
def test_phoenix_gets_every_span(phoenix):
    """K-8: "OTLP arrives complete at a real collector"."""
    heard = talked(otlp_endpoint=phoenix)
    events = Counter(event.name for event in heard)
    stages = events.pop("compact.stage_started")
    names: Counter[str] = Counter()
    until = time.monotonic() + 60
    while names.total() < events.total() + stages + 1 and time.monotonic() < until:
        found = asked(f"{phoenix}/v1/projects/default/spans?limit=1000")["data"]
        names = Counter(span["name"] for span in found)
        time.sleep(0.5)
    assert names - Counter({n: k for n, k in names.items() if ".stage." in n}) == events + Counter(
        ["compact.compression"]
    )
    whole = next(span for span in found if span["name"] == "compact.compression")
    within = [s for s in found if s["parent_id"] == whole["context"]["span_id"]]
    assert sum(span["name"].startswith("compact.stage.") for span in within) == stages
    assert whole["attributes"]["gen_ai.conversation.id"] == "s-1"
