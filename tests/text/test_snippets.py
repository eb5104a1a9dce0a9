"""Which part of a long text a search shows: the one that the question is about."""

from compact.text.snippets import AROUND, Sought

FINDINGS = "".join(
    f"**{n}. Finding**\nIt opens the file again, and nobody reads it.\n\n" for n in range(9)
)
REVIEW = f"""## Review

### Critical findings (P1)

{FINDINGS}
### Important findings (P2)

Two stores are opened where one would do.

{FINDINGS}
### Other findings (P3)

Extract a helper for the list of items.

{FINDINGS}
The P2 items should be mended but block nothing. The P3 items are welcome."""


def test_a_question_about_a_heading_shows_what_stands_below_it():
    shown = Sought("P2 items").around(REVIEW)
    assert shown.startswith("… ### Important findings (P2)")
    assert "Two stores are opened" in shown


def test_a_bold_line_is_a_heading_too():
    text = REVIEW.replace("### Important findings (P2)", "**Important findings (P2)**")
    assert "Two stores are opened" in Sought("P2 items").around(text)


def test_a_sentence_with_the_words_is_shown_with_what_surrounds_it():
    text = f"{FINDINGS * 3}The lighthouse keeper counts gulls. {FINDINGS * 3}"
    start, stop = Sought("gulls of the keeper").span(text)
    at = text.index("gulls")
    assert (start, stop) == (at - AROUND, at + 2 * AROUND)


def test_a_word_within_another_is_no_hit_where_it_stands_alone_elsewhere():
    other = "http2 p2p p20 " * 5 + "block items"
    text = f"{other}{' so' * 400} P2 dues are late. {'so ' * 400}"
    assert "P2 dues" in Sought("P2 block dues").around(text)


def test_a_heading_far_from_its_lines_end_is_a_line_like_any_other():
    text = "# " + "word " * 400 + "gulls " + "word " * 400
    shown = Sought("gulls").around(text)
    assert "gulls" in shown
    assert len(shown) <= 3 * AROUND + 4


def test_the_part_ends_with_the_text():
    text = f"{FINDINGS * 3}# Gulls"
    assert Sought("gulls").around(text).endswith("# Gulls")
