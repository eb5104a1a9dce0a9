"""What is kept from compression to compression is what would be made anew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from compact.engine.chronology.names import THRIFT, for_their_tokens
from compact.engine.chronology.notes import Notes, notes_of
from compact.engine.forms import Forms, GroupForms, forms_of
from compact.engine.history import History
from compact.engine.visible import VisiblePart, VisibleText, names_in
from compact.messages.formats.known import format_named
from tests import strategies
from tests.engine.saying import COUNTER, said
from tests.strategies import Generated

WORDS = ("sent", " ", "\n", "src/app/mail.py", "the mail is never sent twice", "MAX_SENT", "—", "x")


def told(forms: GroupForms) -> list[object]:
    """Everything that a compression asks of a group."""
    shapes = [forms.whole, forms.masked(reasoning=True), forms.masked(reasoning=False)]
    said = [(list(x.messages), x.tokens, x.sent(COUNTER), x.visible.text) for x in shapes]
    return [forms.group, forms.pairs, said]


@given(strategies.wild() | strategies.ordinary(), st.lists(st.sampled_from("aafl"), min_size=40))
def test_kept_forms_are_those_of_a_history_that_is_read_for_the_first_time(
    drawn: Generated, steps: list[str]
) -> None:
    """After messages came, were read ahead, looked at and forgotten, in any order (NFR-1)."""
    history, since = History([], format_named(drawn.wire), COUNTER), 0
    for message, step in zip(drawn.messages, steps * 20, strict=False):
        history.extend([message])
        notes_of(history)
        if step == "a":
            list(forms_of(history).ahead(since, len(history)))
        elif step == "f":
            since = max(since, len(history) - 5)
            forms_of(history).forget(since, {0})
        else:
            list(forms_of(history).from_end())
    if not drawn.messages:
        return
    kept, anew = forms_of(history), Forms(history)
    for one, other in zip(kept.from_end(), anew.from_end(), strict=True):
        assert told(one) == told(other)


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map("".join), max_size=5),
    st.lists(st.sampled_from(WORDS), max_size=8).map("".join),
)
def test_what_a_reader_sees_is_what_stands_in_one_of_the_texts(
    texts: list[str], words: str
) -> None:
    parts = [VisiblePart((text,)) for text in texts]
    for line in (words.replace("\n", ""), *(text.strip("\n") for text in texts)):
        if "\n" not in line:
            for seen in (VisibleText(texts), VisibleText(texts[:1], beside=VisibleText(parts[1:]))):
                assert (line in seen) == (line in "\n".join(texts))
    names = names_in("\n".join(texts))
    assert all(map(VisibleText(parts).has_name, names))
    assert not any(map(VisibleText(parts).has_name, names_in(words) - names))


@given(st.dictionaries(st.text("ab_", min_size=1), st.sampled_from((0.5, 1.0, 1.5, 4.0))))
def test_names_come_by_their_weight_for_their_room(weights: dict[str, float]) -> None:
    def value(name: str) -> tuple[float, str]:
        return -weights[name] / (COUNTER.text(" " + name) + 1) ** THRIFT, name

    likeliest = sorted([(weight, name) for name, weight in weights.items()], reverse=True)
    assert list(for_their_tokens(likeliest, COUNTER)) == sorted(weights, key=value)


def test_what_is_forgotten_is_made_again() -> None:
    history = History(
        [said("user", "Go on.") for _ in range(9)], format_named("anthropic"), COUNTER
    )
    kept = forms_of(history)
    first = {forms.group: forms for forms in kept.from_end()}
    kept.forget(5, {2})
    again = {forms.group: forms for forms in kept.from_end()}
    assert [g.start for g in first if first[g] is again[g]] == [8, 7, 6, 5, 2]
    assert isinstance(notes_of(history), Notes)
