"""Turning knobs: everything is put back, and a session left out has no say."""

from compact.core import anchors
from evals import sweep
from evals.coverage import Case


def case(name: str) -> Case:
    return Case(name, {"name": name, "max_tokens": 1, "needed": ["x_y"]}, (), 0, 0)


def test_knobs_are_turned_and_put_back():
    fade, weights = anchors.FADE, anchors.ORIGIN_WEIGHT
    with sweep.turned({"FADE": 7, "ORIGIN_WEIGHT.person": 9, "checkpoint_share": 0.3}) as policy:
        assert anchors.FADE == 7
        assert anchors.ORIGIN_WEIGHT["person"] == 9
        assert anchors.ORIGIN_WEIGHT["result"] == weights["result"]
        assert policy.checkpoint_share == 0.3
    assert fade == anchors.FADE
    assert anchors.ORIGIN_WEIGHT is weights


class Known(sweep.Sweep):
    """Scores that are known: one case likes a high FADE, the other a low one."""

    def __init__(self):
        pass

    def scores(self, setting):
        fade = setting.get("FADE", 60)
        return {"high": fade / 1000, "low": 1 - fade / 1000}


def test_a_setting_is_chosen_on_the_given_cases_alone():
    assert Known().choose([case("high")]) == {"FADE": 150}
    assert Known().choose([case("low")]) == {"FADE": 30}
    assert Known().choose([case("low"), case("high")]) == {}
