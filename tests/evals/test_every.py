"""Every evaluation can be started; what they measure of the product is held by `test_floors`."""

import importlib
import pkgutil

import pytest

import evals

NAMES = [
    each.name
    for each in pkgutil.walk_packages(evals.__path__, "evals.")
    if not each.name.endswith("__main__")
]


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_imported(name: str) -> None:
    """But for what another package is compared by, where that is not installed."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] in ("compact", "evals", "tests"):
            raise
        pytest.skip(str(error))
