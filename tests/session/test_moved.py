"""Names of 0.1 that are elsewhere now."""

from __future__ import annotations

import copy
import pickle
from operator import attrgetter

import pytest

from compact import ContextManager
from compact.session.moved import METHODS, MovedName


@pytest.mark.parametrize(("name", "now"), METHODS.items())
def test_a_name_of_0_1_works_and_says_the_new_one(name: str, now: str) -> None:
    with ContextManager() as ctx:
        with pytest.warns(
            MovedName, match=rf"ContextManager\.{name} is now {now}; the old name goes"
        ) as seen:
            found = getattr(ctx, name)
        assert found.__func__ is attrgetter(now)(ctx).__func__
        assert seen[0].filename == __file__


def test_a_copy_of_the_goals_is_a_tuple() -> None:
    with ContextManager() as ctx:
        goals = ctx.goals.set(["Get the roof done."])
        assert copy.deepcopy(goals) == pickle.loads(pickle.dumps(goals)) == tuple(goals)


def test_an_error_within_a_property_is_told_as_it_is() -> None:
    class Mine(ContextManager):
        @property
        def mine(self) -> str:
            return str(self.nothing)  # type: ignore[attr-defined]

    with Mine() as ctx, pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ctx.mine  # type: ignore[attr-defined]  # noqa: B018


def test_a_name_that_never_was_is_an_error() -> None:
    with ContextManager() as ctx, pytest.raises(AttributeError, match="has no attribute 'unddo'"):
        ctx.unddo  # type: ignore[attr-defined]  # noqa: B018
