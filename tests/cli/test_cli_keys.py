"""The command line's own key: made once, whole, and again where a crash left less than a key."""

import multiprocessing

import pytest

from compact.cli.jobs import own_key


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    """Where the key is kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "compact" / "key"


def test_the_key_is_made_once(file):
    key = own_key()
    assert key is not None
    assert len(key) == 64
    assert own_key() == key == file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["key"]


@pytest.mark.parametrize("left", [b"", b"0123"])
def test_what_a_crash_left_is_no_key(file, left):
    file.parent.mkdir()
    file.write_bytes(left)
    key = own_key()
    assert key is not None
    assert len(key) == 64
    assert own_key() == key


def _own_key(_):
    return own_key()


def test_all_who_begin_together_have_one_key():
    with multiprocessing.get_context("fork").Pool(8) as pool:
        assert len({*pool.map(_own_key, range(64), chunksize=1)}) == 1
