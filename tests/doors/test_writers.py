"""Whatever is written keeps what was there before, and what a killed writer left is removed."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compact import (
    CompactConfig,
    ContextManager,
    MemoryManager,
    SQLiteManager,
    migrate,
)
from compact.cli.main import main
from compact.errors import CompactError, InvalidConfig, StoreFailed

ROOT = Path(__file__).resolve().parents[2]
KILLED = """
import os, sys
from compact import MemoryManager, SQLiteManager
dies = lambda *_: os.kill(os.getpid(), 9)
if sys.argv[1] == "backup":
    MemoryManager(sys.argv[2]).backup(sys.argv[3], progress=dies)
elif sys.argv[1] == "copy":
    SQLiteManager(sys.argv[2]).copy_into(sys.argv[3], sys.argv[3] + "-archive", progress=dies)
else:
    MemoryManager.restore_backup(sys.argv[2], sys.argv[3], progress=dies)
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    file = tmp_path / "home" / "chat.db"
    file.parent.mkdir()
    with ContextManager(window=8_192, store=str(file), session_id="s") as ctx:
        ctx.add_message(role="user", content="The valve is red.")
    return file


@pytest.mark.parametrize("taken", ["new.db", "new.db-wal", "archive"])
def test_a_copy_of_a_store_overwrites_nothing(store: Path, tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("mine")
    with (
        SQLiteManager(store) as kept,
        pytest.raises(StoreFailed, match=f"{taken} is there already, and stays as it is"),
    ):
        kept.copy_into(tmp_path / "new.db", tmp_path / "archive")
    assert (tmp_path / taken).read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"home", taken}


def test_a_copy_of_a_store_is_a_store_for_its_owner(store: Path, tmp_path: Path) -> None:
    with SQLiteManager(store) as kept:
        counts = kept.copy_into(tmp_path / "new.db", tmp_path / "archive")
    assert (counts.sessions, counts.messages) == (1, 1)
    assert (tmp_path / "new.db").stat().st_mode & 0o777 == 0o600
    with SQLiteManager(tmp_path / "new.db") as copy:
        assert copy.get_conversation("s").messages[0].text == "The valve is red."


@pytest.mark.slow
@pytest.mark.parametrize("way", ["backup", "copy", "restore"])
def test_what_a_killed_writer_left_is_removed_by_the_next_of_any_name(
    store: Path, tmp_path: Path, way: str
) -> None:
    """Backups have the day in their names: the next one has another."""
    (tmp_path / "kept").mkdir()
    source = store
    with MemoryManager(store) as memory:
        if way == "restore":
            source = tmp_path / "backup"
            memory.backup(source)
        first = tmp_path / "kept" / "monday"
        command = [sys.executable, "-c", KILLED, way, str(source), str(first)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        assert subprocess.run(command, env=environment, check=False).returncode == -9
        assert list((tmp_path / "kept").iterdir()), "nothing was left behind"
        memory.backup(tmp_path / "kept" / "tuesday")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["tuesday"]


def test_a_store_is_for_its_owner_only_whoever_makes_it(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with ContextManager(window=8_192, store=str(tmp_path / "chat.db")) as ctx:
            ctx.add_message(role="user", content="The valve is red.")
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("chat.db", "chat.db-wal", "chat.db-shm"), 0o600)


@pytest.fixture(params=["pipe", "socket", "folder", "device", "endless"])
def no_file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    place = tmp_path / "odd"
    with socket.socket(socket.AF_UNIX) as listening:
        if request.param == "pipe":
            os.mkfifo(place)
        elif request.param == "socket":
            listening.bind(str(place))
        elif request.param == "folder":
            place.mkdir()
        yield {"device": "/dev/null", "endless": "/dev/full"}.get(request.param, str(place))


def test_what_is_no_file_is_no_store(no_file: str) -> None:
    """A pipe made whoever opened it wait for ever."""
    for opens in (SQLiteManager, MemoryManager, lambda store: ContextManager(store=store)):
        with pytest.raises(StoreFailed, match="not a store; give the name of a file"):
            opens(no_file)


@pytest.mark.parametrize("no_file", ["pipe", "device", "endless"], indirect=True)
def test_what_is_no_file_holds_no_settings_and_no_conversation(
    no_file: str, tmp_path: Path
) -> None:
    """A pipe was waited for, and a device without end filled the memory."""
    with pytest.raises(InvalidConfig, match="a pipe or a device, not a file"):
        CompactConfig.load(no_file)
    with pytest.raises(InvalidConfig, match="a pipe or a device, not a file"):
        ContextManager(window=8_192, user_mode=no_file)
    with pytest.raises(InvalidConfig, match="a pipe or a device, not a file"):
        CompactConfig(models_file=no_file).book()
    (found,) = migrate(no_file, store=str(tmp_path / "a.db")).conversations
    assert "no file but a pipe or device" in str(found)


@pytest.mark.parametrize("name", ["a" * 5_000, "b" * 300, "~nobody-by-that-name/x"])
def test_a_name_that_no_file_can_have_is_told(name: str, tmp_path: Path) -> None:
    """Other errors than ours came through."""
    migrate([name], store=str(tmp_path / "a.db"), dry_run=True)
    for opens in (SQLiteManager, MemoryManager, lambda store: ContextManager(store=store)):
        with pytest.raises(StoreFailed):
            opens(f"/{name}/x/y")
    with MemoryManager(str(tmp_path / "a.db")) as memory, pytest.raises(CompactError):
        memory.backup(f"/proc/{name}")


@pytest.mark.parametrize("command", ["sessions list", "chat --model echo", "search roof"])
def test_what_is_no_file_is_no_store_of_a_command(
    no_file: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--store", no_file]) == 2
    assert "not a store; give the name of a file" in capsys.readouterr().err
