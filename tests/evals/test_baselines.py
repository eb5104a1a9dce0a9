"""The dumb checkpoints that a measure is held beside."""

from compact.messages.messages import Message
from evals.baselines import names_alone, thirty_lines


def words(text: str) -> int:
    return len(text.split())


SAID = [
    Message(role="user", content="Mend src/kiln/heat.py, please."),
    Message(role="assistant", content="It reads `peak_of` now. " + "It was long and dull. " * 60),
    Message(role="user", content="Then src/kiln/clay.py."),
    Message(role="assistant", content="Done."),
]


def test_names_alone_are_names_within_the_tokens():
    assert set(names_alone(SAID, 50, words).split(", ")) >= {"src/kiln/heat.py", "src/kiln/clay.py"}
    assert words(names_alone(SAID, 1, words)) == 1


def test_thirty_lines_are_the_newest_and_longest_and_names():
    told = thirty_lines(SAID, 800, words)
    lines = told.split("\n")
    assert lines[-2] == "Done."
    assert any(line.startswith("It reads `peak_of` now.") for line in lines)
    assert words(told) <= 800
    assert "peak_of" in lines[-1]
