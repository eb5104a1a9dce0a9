"""What a session keeps is counted beside what one call keeps."""

from dataclasses import replace

import pytest

from evals import lived


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
