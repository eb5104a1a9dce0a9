"""What the measurement of the gate itself promises."""

import json

from evals import gate


def test_the_sample_s_summary_is_kept_and_attacks_on_it_are_caught():
    """Without data the repository's own session is measured (FR-6)."""
    found = gate.run(None)
    whole, full = found.kept
    assert (whole.kind, whole.accepted, whole.lost) == ("in other words", True, ())
    assert (full.kind, full.accepted) == (f"in other words{gate.FULL}", True)
    assert {row.kind for row in found.caught} > {"order", "secret", "loop", "lines of other code"}
    assert {row.kind for row in found.caught if row.caught < row.tried} <= {gate.GAPS}
    assert json.loads(json.dumps(gate.as_json(found)))["caught"][0]["missed"] == []


def test_what_was_missed_is_named():
    """A refused good summary always, a missed attack where that is asked for."""
    kept = gate.Kept("one", "by a model", False, ("cap",), ("- a line",), 9_000, 0.08)
    found = gate.Found((kept,), (gate.Caught("order", 1, 2, ("Go.",)),))
    assert gate.report(found).splitlines() == [
        "good, by a model: 0 of 1 accepted, 1 lines changed or taken out, 80 ms of the processor "
        "each (median)",
        "  one: refused, cap",
        "bad, order: 1 of 2 caught",
    ]
    assert "  Go." in gate.report(found, missed=True)
