"""`compactctl mcp` by the official client: in this process, over stdio and over HTTP."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import jsonschema  # type: ignore[import-untyped]  # brought along by mcp, without types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from compact import ContextManager
from compact.cli.commands.mcp import TranscriptFile
from compact.cli.mcp_server import READ, WRITE, SessionTools, server
from compact.cli.stores import SessionCatalog
from compact.config import CompactConfig
from compact.errors import CompactError
from compact.store.sqlite.store import SQLiteManager

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = sorted((ROOT / "tests/fixtures/transcripts").iterdir())
KEY = "sk-ant-api03-" + "Zq7Lm2Vx9Tb4Rk8Wd3Nc6Hy1Pf5Gs0Ju" * 2
PASSWORD = "quiet-harbour-lantern"
"""No secret by its form: it is known by the name before it alone."""
SECRET = f"export ANTHROPIC_API_KEY={KEY}\nMAIL_PASSWORD={PASSWORD}"


@pytest.fixture
def file(tmp_path):
    """A store with two sessions."""
    store = tmp_path / "two.db"
    for name, word in (("harbour-1", "berths"), ("garden-1", "ferns")):
        with ContextManager(window=2_000, store=store, session_id=name, title=name) as ctx:
            for number in range(40):
                role = "assistant" if number % 2 else "user"
                words = f"turn {number}: the {word} are counted, {'and again ' * 20}{word}-{number}"
                ctx.add_message(role=role, content=words)
            ctx.add_message(role="user", content=SECRET)
            ctx.compress_conversation()
    return store


@contextmanager
def tools_of(file, **settings):
    """The tools over a store."""
    with SQLiteManager(file) as store:
        catalog = SessionCatalog(store, str(file), CompactConfig(**settings), "default")
        yield SessionTools(lambda: catalog)


def over(transcript, **settings):
    """The tools over a transcript."""
    return SessionTools(
        TranscriptFile(Path(transcript), CompactConfig(**settings)).catalog, is_transcript=True
    )


def asked(tools, *calls):
    """What the client gets for calls in this process: texts, and whether they are errors."""

    async def run():
        async with Client(server(tools)) as client:
            return [await told(client, name, **arguments) for name, arguments in calls]

    return asyncio.run(run())


async def told(client, name, **arguments):
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert content.type == "text"
    return content.text, result.is_error


# --- over both transports -------------------------------------------------------------------------


def command(*arguments):
    return [sys.executable, "-m", "compact", "mcp", *map(str, arguments)]


ENV = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


@asynccontextmanager
async def on_stdio(*arguments):
    name, *rest = command(*arguments)
    params = StdioServerParameters(command=name, args=rest, env=ENV)
    async with Client(stdio_client(params)) as client:
        yield client


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def on_http(*arguments):
    """The address of a server in a process of its own."""
    port = free_port()
    with subprocess.Popen(
        command(*arguments, "--port", port), env=ENV, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            for _ in range(600):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert process.poll() is None
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


async def conformed(client):
    """What the inspector checks of a server with tools, as far as it can be had here."""
    assert client.server_info.name == "compact"
    assert client.instructions
    tools = (await client.list_tools()).tools
    for tool in tools:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["type"] == "object"
        assert re.fullmatch(r"[a-z]{3,64}", tool.name)
        assert "Call it" in tool.description
        assert tool.annotations.read_only_hint is (tool.name in READ)
        assert tool.annotations.destructive_hint is False
        assert tool.annotations.open_world_hint is False
        assert tool.output_schema is None  # answers are text
    return [tool.name for tool in tools]


async def used(client):
    """Two sessions, at the same time, with an error between."""
    calls = [
        told(client, "recall", session=name, query=f"{word}-{number}")
        for number in (3, 4)
        for name, word in (("harb", "berths"), ("garden", "ferns"))
    ]
    *answers, (why, is_error) = await asyncio.gather(
        *calls * 3, told(client, "recall", session="attic", query="trunk")
    )
    for (text, wrong), word in zip(answers, ["berths", "ferns"] * 6, strict=True):
        assert not wrong
        assert f"the {word} are counted" in text
    assert is_error
    assert "no session 'attic'" in why
    assert "harbour-1 ·" in why  # the list is offered
    assert "garden-1 ·" in why
    text, wrong = await told(client, "pin", session="harb", message="3")
    assert (wrong, text[:20]) == (False, "message 3 is pinned:")
    text, _ = await told(client, "goals", session="garden", add=["Count every fern."])
    assert "Count every fern." in text


@pytest.mark.slow
def test_over_stdio_the_tools_conform_and_serve_two_sessions_at_once(file):
    async def run():
        async with on_stdio("--store", file) as client:
            assert await conformed(client) == [*READ, *WRITE]
            await used(client)

    asyncio.run(run())
    with ContextManager(store=file, session_id="harbour-1") as ctx:
        assert 3 in ctx.history.fixed


@pytest.mark.slow
def test_over_http_the_tools_conform_and_serve_two_clients_at_once(file):
    async def one(address):
        async with Client(address) as client:
            assert await conformed(client) == [*READ, *WRITE]
            await used(client)

    async def two(address):
        await asyncio.gather(one(address), one(address))

    with on_http("--store", file) as address:
        asyncio.run(two(address))
        # A page in a browser that was led here by a foreign name is refused.
        strange = {"Host": "evil.example", "Accept": "application/json, text/event-stream"}
        assert httpx.post(address, json={}, headers=strange).status_code == 421
        port = int(address.rsplit(":", 1)[1].partition("/")[0])
        with socket.socket() as other, pytest.raises(OSError, match="refused"):
            other.connect(("127.0.0.2", port))  # another address of this machine


@pytest.mark.slow
def test_nothing_but_the_protocol_is_on_stdout(tmp_path):
    transcript = tmp_path / "half.jsonl"
    transcript.write_bytes((ROOT / "tests/fixtures/transcripts/claude_code.jsonl").read_bytes())
    about: dict[str, object] = {"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    sent: list[dict] = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", **about}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "timeline", "arguments": {}}},
        {"id": 3, "method": "tools/call", "params": {"name": "pin", "arguments": {}}},
        {"id": 4, "method": "no/such"},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in sent)
    done = subprocess.Popen(
        command("--transcript", transcript),
        env={**ENV, "COMPACT_REDACT": "off"},  # which is said, on stderr
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.stdin is not None
    assert done.stdout is not None
    done.stdin.write(lines)
    done.stdin.flush()
    got: dict[int, dict] = {}
    while len(got) < 4:
        row = json.loads(done.stdout.readline())
        got[row["id"]] = row
    out, err = done.communicate(timeout=60)
    assert out == ""
    assert "Traceback" not in err
    assert "redact" in err
    assert not got[2]["result"].get("isError")
    assert got[3]["result"]["isError"]  # a transcript is not written to
    assert got[4]["error"]["code"] == -32601


# --- each tool ------------------------------------------------------------------------------------


def test_each_tool_answers_within_its_tokens(file):
    count = len  # a token has at least a character: a lower bound would be no check
    with tools_of(file) as tools:
        for name, more in (
            ("recall", {"query": "berths counted"}),
            ("search", {"query": "berths counted"}),
            ("expand", {"id": "0"}),
            ("checkpoints", {}),
            ("timeline", {}),
            ("goals", {}),
        ):
            sizes = []
            for room in (200, 600, 3_000):
                given = {**more, "max_tokens": room, "session": "harbour-1"}
                ((text, is_error),) = asked(tools, (name, given))
                assert not is_error, text
                with ContextManager(window=2_000, tokenizer="o200k") as ctx:
                    assert ctx.estimate_tokens(text) <= room, (name, room, text)
                sizes.append(count(text))
            assert sizes == sorted(sizes), name


def test_what_was_compacted_away_is_read_back_by_the_ids_that_are_shown(file):
    with tools_of(file) as tools:
        ((shown, _),) = asked(tools, ("checkpoints", {"session": "harbour-1"}))
        (first, *_) = re.findall(r"ck-[0-9a-f]{12}", shown)
        ((text, is_error),) = asked(
            tools, ("expand", {"session": "harbour-1", "id": first, "max_tokens": 5_000})
        )
        assert not is_error
        assert "and again and again" in text
        ((days, _), (said, _)) = asked(
            tools, ("timeline", {}), ("timeline", {"session": "garden", "until": "2001"})
        )
        assert "harbour-1" in days
        assert "garden-1" in days
        assert said.startswith("0 user messages")


def test_errors_say_what_to_do(file):
    calls: tuple[tuple[tuple[str, dict], str], ...] = (
        (("recall", {"query": "berths"}), "which session? Give its id"),
        (("expand", {"session": "garden", "id": "zz"}), "search with recall"),
        (("expand", {"session": "garden", "id": "ck-9"}), "no checkpoint 'ck-9'"),
        (("timeline", {"since": "flurb"}), "since"),
        (("search", {"query": "x", "since": "2026-05-02", "until": "2026-05-01"}), "after until"),
        (("pin", {"session": "garden", "message": "999"}), "999"),
        (("goals", {"session": "garden", "end": ["zz"]}), "no goal 'zz'"),
        (("recall", {"session": "garden", "query": "x", "max_tokens": 3}), "200"),
        (("dance", {}), "dance"),
    )
    with tools_of(file) as tools:
        for call, reason in calls:
            ((text, is_error),) = asked(tools, call)
            assert is_error, call
            assert reason in text
            assert "Traceback" not in text
            assert "bug in compact" not in text


def test_nothing_to_show_is_told_as_what_it_is(tmp_path):
    """A session without a checkpoint is not an empty one, and a blank goal is none."""
    with ContextManager(window=2_000, store=tmp_path / "a.db", session_id="a") as ctx:
        ctx.add_message(role="user", content="the crane costs 5")
    with tools_of(tmp_path / "a.db") as tools:
        told = asked(tools, ("checkpoints", {}), ("goals", {"add": [" "]}))
    assert told == [
        ("0 checkpoints of a: 1 message, none of them compacted", False),
        ("0 goals of a", False),
    ]


def test_sessions_of_another_scope_are_neither_found_nor_listed(file):
    with ContextManager(window=2_000, store=file, session_id="attic-1", scope="other") as ctx:
        ctx.add_message(role="user", content="the berths of somebody else")
    with tools_of(file) as tools:
        answers = asked(
            tools,
            ("recall", {"session": "attic-1", "query": "berths"}),
            ("search", {"query": "somebody else"}),
            ("timeline", {}),
        )
    assert answers[0][1]
    for text, _ in answers:
        assert "attic-1 ·" not in text
        assert "of somebody else" not in text


def test_secrets_are_masked_in_every_answer_unless_the_setting_is_off(file):
    calls = (
        ("recall", {"session": "garden", "query": "ANTHROPIC_API_KEY"}),
        ("search", {"session": "garden", "query": "ANTHROPIC_API_KEY"}),
        ("expand", {"session": "garden", "id": "40"}),
        ("expand", {"session": "garden", "id": "40", "start": len(SECRET) - 15}),  # in it
        ("timeline", {"session": "garden"}),
        ("pin", {"session": "garden", "message": "40"}),
    )
    with tools_of(file) as tools:
        for text, is_error in asked(tools, *calls):
            assert not is_error
            assert KEY[20:32] not in text
            assert PASSWORD[-12:] not in text
    with tools_of(file, redact=False) as tools:
        assert KEY in asked(tools, calls[0])[0][0]


def test_a_bug_becomes_an_error_without_a_traceback(file, monkeypatch, capfd):
    monkeypatch.setattr("compact.cli.mcp_server.time_of", lambda _: 1 / 0)
    with tools_of(file) as tools:
        ((text, is_error),) = asked(tools, ("timeline", {"session": "garden"}))
    assert is_error
    assert "a bug in compact" in text
    assert "ZeroDivisionError" in text
    assert "Traceback" not in capfd.readouterr().err


# --- transcripts ----------------------------------------------------------------------------------


def read_through(path):
    """Read a transcript by each tool; return the answers."""
    tools = over(path)
    (session, *_) = tools.catalog().sessions()
    of = {"session": session.id}
    calls = (
        ("timeline", of),
        ("recall", {**of, "query": "the file"}),
        ("search", {"query": "the file"}),
        ("expand", {**of, "id": "0"}),
        ("checkpoints", of),
    )
    answers = asked(tools, *calls)
    for (name, _), (text, is_error) in zip(calls, answers, strict=True):
        # a few small files are smaller than a checkpoint
        assert not is_error or "fit" in text, (path.name, name, text)
    return answers


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_a_transcript_of_each_format_is_served(path):
    read_through(path)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif("COMPACT_DATA" not in os.environ, reason="needs COMPACT_DATA")
@pytest.mark.parametrize(
    "folder",
    [
        *("claude_code_sessions", "claude_code_others", "codex_rollouts", "copilot_cli_sessions"),
        *("gemini_cli_sessions", "opencode_sessions", "pi_sessions", "specstory_sessions"),
        *("mini_swe_agent_gemini3", "swe_agent"),
    ],
)
def test_a_real_transcript_of_each_shape_is_served(folder):
    files = Path(os.environ["COMPACT_DATA"], folder).rglob("*.*")
    by_size = sorted(
        (path for path in files if path.is_file()), key=lambda each: each.stat().st_size
    )
    path = next(path for path in by_size if holds_a_conversation(path))
    answers = read_through(path)
    assert " message" in answers[0][0]


def holds_a_conversation(path):
    try:
        return any(each.branch.messages > 9 for each in over(path).catalog().sessions())
    except CompactError:
        return False


def test_a_transcript_offers_only_what_reads(tmp_path):
    async def names():
        async with Client(server(over(FIXTURES[0]))) as client:
            return await conformed(client)

    assert asyncio.run(names()) == [*READ]


def test_a_transcript_that_grows_is_read_again(tmp_path):
    path = tmp_path / "growing.jsonl"
    path.write_text('{"role": "user", "content": "Count the berths."}\n')
    tools = over(path)
    ((before, _),) = asked(tools, ("recall", {"query": "berths ferns"}))
    with path.open("a") as more:
        more.write('{"role": "assistant", "content": "There are 12 ferns too."}\n')
    ((after, _),) = asked(tools, ("recall", {"query": "berths ferns"}))
    assert "ferns too" not in before
    assert "12 ferns too" in after
    path.unlink()
    ((gone, is_error),) = asked(tools, ("recall", {"query": "berths"}))
    assert is_error
    assert "cannot be read" in gone


def test_of_a_folder_the_newest_transcript_is_served(tmp_path):
    tools = over(tmp_path)
    ((none, is_error),) = asked(tools, ("timeline", {}))
    assert is_error
    assert "without a transcript" in none
    for age, word in ((50, "ferns"), (0, "berths")):
        path = tmp_path / f"{word}.jsonl"
        path.write_text(json.dumps({"role": "user", "content": f"Count the {word}."}) + "\n")
        os.utime(path, (1e9 - age, 1e9 - age))
    ((text, _),) = asked(tools, ("timeline", {}))
    assert "berths" in text
    assert "ferns" not in text


def test_damaged_transcripts_are_read_as_far_as_they_go_or_refused_in_a_sentence(tmp_path):
    whole = (ROOT / "tests/fixtures/transcripts/claude_code.jsonl").read_bytes()
    cuts = [whole[: len(whole) * at // 12] for at in range(12)]
    flipped = [whole.replace(b'"', b"'", at) for at in (1, 50)]
    others = [b"\0" * 99, b"[" * 5_000, b"{}", b"null\n" * 9, b"SQLite format 3\0" + whole[:200]]
    for number, data in enumerate([*cuts, *flipped, *others]):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(data)
        ((text, is_error),) = asked(over(path), ("timeline", {}))
        assert text
        assert "bug in compact" not in text, (number, text)
        if is_error:
            with pytest.raises(CompactError):
                over(path).catalog()
