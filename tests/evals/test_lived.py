"""What a session keeps is counted beside what one call keeps."""

from dataclasses import replace

import pytest

from evals import generated, lived


@pytest.mark.slow
def test_the_rules_of_the_bundled_session_are_what_its_person_said():
    [subject] = lived.subjects(None, "harbour")
    words = [" ".join(m.text.split()) for m in subject.messages if m.role == "user"]
    assert [rule for rule in subject.rules if not any(rule in each for each in words)] == []


@pytest.mark.slow
def test_a_session_is_lived_to_its_end_and_on_until_it_was_compressed_often(monkeypatch):
    monkeypatch.setattr(lived, "COMPRESSIONS", 3)
    [whole] = lived.subjects(None, "harbour")
    rules = (whole.rules[0], "Words that nobody ever said.")
    subject = replace(whole, messages=whole.messages[:80], rules=rules, statements=rules)
    end, later = lived.live(subject, 8_192)
    assert (end.moment, end.rules, end.refused) == ("at the end", 2, 0)
    assert end.once == end.lived == end.once_statements == 1
    assert later.compressions >= 3 > end.compressions
    assert later.lived <= 1
    assert 0 < later.tokens <= later.usable
    cells = lived.measured([end, later])["8,192 tokens, at the end"]
    assert cells["rules that fit, lived"] == {"look": "0.500 of 2", "score": None}


def test_rules_that_are_larger_than_the_record_do_not_fit():
    [subject] = lived.subjects(None, "harbour")
    short = replace(subject, messages=subject.messages[:10])
    many = replace(short, rules=tuple(f"{rule} {n}" for rule in short.rules for n in range(5)))
    assert next(lived.live(short, 8_192)).fits
    assert not next(lived.live(many, 8_192)).fits


def test_chatter_goes_on_and_says_no_rule():
    turns = generated.chatter(1)
    some = [next(turns) for _ in range(200)]
    assert len({message.id for message in some}) == 200
    assert {m.role for m in some} == {"user", "assistant", "tool"}
