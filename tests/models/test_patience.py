"""What may be said of how long a model is waited for (K-5); tests of served models wait."""

import pytest
from pydantic import ValidationError

from compact import Patience


@pytest.mark.parametrize(
    "wrong",
    [{"each": -3}, {"each": "x"}, {"together": float("nan")}, {"attempts": 0}],
)
def test_what_is_no_time_is_refused(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        Patience(**wrong)


def test_help_explains_each_field():
    for name, value in Patience.__dataclass_fields__.items():
        assert f"{name} (" in str(Patience.__doc__), value
