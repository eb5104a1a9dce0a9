"""A disk that fails: from the n-th write on there is no room, or the n-th write or sync goes wrong.

Writes fail where SQLite calls the operating system, so that all of SQLite and of apsw is the real
one. Syncs are not called through SQLite's table of system calls; a VFS makes them fail.
"""

import ctypes
import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw

_libc = ctypes.CDLL(None, use_errno=True)
_PWRITE = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int64,
    use_errno=True,
)
_FTRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int64, use_errno=True)
_CALLS: dict[str, tuple[Any, str]] = {
    "pwrite64": (_PWRITE, "pwrite64"),
    "pwrite": (_PWRITE, "pwrite"),
    "ftruncate": (_FTRUNCATE, "ftruncate64"),
}


class Fault:
    """What goes wrong, and when: nothing until it is armed."""

    def __init__(self, *, lasts: bool) -> None:
        self._lasts = lasts
        self._left: int | None = None
        self.struck = False
        """Whether it has happened since it was armed."""

    def arm(self, after: int) -> None:
        """Let so many calls pass, and strike."""
        self._left, self.struck = after, False

    def disarm(self) -> None:
        self._left = None

    def strikes(self) -> bool:
        """Whether this call is to fail."""
        if self._left is None or (self.struck and not self._lasts):
            return False
        self._left -= 1
        self.struck = self.struck or self._left < 0
        return self._left < 0


@contextmanager
def full_disk() -> Iterator[Fault]:
    """From some write on, there is no room until it is disarmed."""
    with _failing(Fault(lasts=True), errno.ENOSPC) as fault:
        yield fault


@contextmanager
def failing_write() -> Iterator[Fault]:
    """One write or truncation goes wrong."""
    with _failing(Fault(lasts=False), errno.EIO) as fault:
        yield fault


@contextmanager
def _failing(fault: Fault, number: int) -> Iterator[Fault]:
    unix = apsw.VFS("failing", "unix")
    replaced = {}
    for name, (kind, function) in _CALLS.items():
        real = getattr(_libc, function)
        real.restype, real.argtypes = kind._restype_, kind._argtypes_
        call = kind(_failing_call(fault, number, real))
        if unix.xGetSystemCall(name):
            unix.xSetSystemCall(name, ctypes.cast(call, ctypes.c_void_p).value or 0)
            replaced[name] = call  # whoever drops it drops the function
    try:
        yield fault
    finally:
        for name in replaced:
            unix.xSetSystemCall(name, 0)
        unix.unregister()


def _failing_call(fault: Fault, number: int, real: Any) -> Callable[..., int]:
    def call(*arguments: Any) -> int:
        if fault.strikes():
            ctypes.set_errno(number)
            return -1
        return int(real(*arguments))

    return call


@contextmanager
def failing_sync() -> Iterator[Fault]:
    """One sync goes wrong."""
    fault = Fault(lasts=False)
    vfs = _Syncing(fault)
    try:
        yield fault
    finally:
        vfs.unregister()


class _Syncing(apsw.VFS):
    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        super().__init__("syncing", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _SyncedFile(self._fault, name, flags)


class _SyncedFile(apsw.VFSFile):
    def __init__(self, fault: Fault, name: Any, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._fault = fault

    def xSync(self, flags: int) -> None:
        if self._fault.strikes():
            raise apsw.IOError("the disk did not take it")
        super().xSync(flags)
