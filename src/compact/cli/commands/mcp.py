"""`compactctl mcp`: sessions, or a transcript, as tools for programs that speak MCP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from compact import wiring
from compact.cli.errors import Stop, say
from compact.cli.options import command, number_option, text_option
from compact.cli.render import Report
from compact.cli.settings import settings_of
from compact.cli.stores import SessionCatalog, StoreOptions, catalog_of_file, opened
from compact.config import CompactConfig
from compact.errors import InvalidInput
from compact.messages.sessions import DEFAULT_SCOPE


@command
def mcp(
    options: StoreOptions,
    *,
    transcript: Annotated[
        str | None,
        text_option(
            "FILE", "Only read this file of Claude Code or others; of a folder, its newest."
        ),
    ] = None,
    port: Annotated[
        int | None, number_option("Serve HTTP at http://127.0.0.1:N/mcp, not stdin and stdout.")
    ] = None,
) -> Report:
    """Serve sessions to an agent by MCP: recall, expand, search, timeline, checkpoints, pin, goals.

    An agent's host starts this command and speaks to it on stdin and stdout. Over a transcript
    there are no tools that write, and a file that grows is read again. HTTP is for programs of this
    machine only. Needs the extra mcp.

    Examples:
      compactctl mcp --transcript ~/.claude/projects/-home-me-harbour
      compactctl mcp --store chat.db --port 8765
      claude mcp add compact -- compactctl mcp --transcript ~/.claude/projects/-home-me-harbour
    """
    if find_spec("mcp") is None:
        raise Stop(f"the command mcp needs the package mcp: {wiring.how_to_install('mcp')}")
    if options.json:
        raise Stop("--json: the protocol has its own form; leave it out")
    sources = _stored(options) if transcript is None else _read(options, transcript)
    with sources as catalog:
        from compact.cli.mcp_server import SessionTools, server

        made = server(SessionTools(catalog, is_transcript=transcript is not None))
        if port is None:
            made.run("stdio")
        else:
            say(f"serving MCP at http://127.0.0.1:{port}/mcp; Ctrl-C ends it")
            made.run("streamable-http", host="127.0.0.1", port=port)
    yield None


@contextmanager
def _stored(options: StoreOptions) -> Iterator[Callable[[], SessionCatalog]]:
    with opened(options) as catalog:
        own = replace(catalog, scope=catalog.scope or DEFAULT_SCOPE)  # errors show no other scopes
        yield lambda: own


def _read(options: StoreOptions, name: str) -> nullcontext[Callable[[], SessionCatalog]]:
    if options.store is not None:
        raise Stop("--store and --transcript: give one of them")
    if not Path(name).exists():
        raise Stop(f"--transcript: there is no {name}")
    file = TranscriptFile(Path(name), settings_of(options, summarizer="extractive"))
    # Large files take seconds. The host gets its answer first. A tool waits for the file, or
    # reports its error.
    ThreadPoolExecutor(1).submit(file.catalog)
    return nullcontext(file.catalog)


@dataclass
class TranscriptFile:
    """A transcript as a store in memory. Of a folder, the newest transcript is taken. The file is
    read again after it has changed.
    """

    path: Path
    settings: CompactConfig

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: tuple[int, int, Path] | None = None
        self._catalog: SessionCatalog | None = None

    def catalog(self) -> SessionCatalog:
        """Return the conversations that the file contains now.

        Raises:
            InvalidInput: the file holds no conversation that can be read.
        """
        with self._lock:
            try:
                files = self.path.glob("*.json*") if self.path.is_dir() else [self.path]
                stats = [(each.stat(), each) for each in files]
            except OSError as error:
                why = error.strerror or str(error)
                raise InvalidInput(f"{self.path}: cannot be read: {why}") from None
            if not stats:
                raise InvalidInput(f"{self.path}: a folder without a transcript (*.json, *.jsonl)")
            now = max((found.st_mtime_ns, found.st_size, path) for found, path in stats)
            if self._catalog is None or now != self._seen:
                masks = self.settings.redact
                self._catalog = catalog_of_file(now[-1], self.settings, masks=masks)
                self._seen = now
            return self._catalog
