"""A cached property without a lock.

`functools.cached_property` of Python 3.11 has one lock for all instances and holds it during the
computation. Other threads wait for it, and a child process that was forked meanwhile waits forever.
Here two threads may both compute the value; their results are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """Computes a value once, and keeps it in the instance's dictionary."""

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work = work
        self.__doc__ = work.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        found = instance.__dict__[self._name] = self._work(instance)
        return found
