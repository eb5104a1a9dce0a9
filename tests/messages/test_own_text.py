"""Our own text is known by its key, and what only looks like it costs no more than other text."""

from compact.messages.own_text import OwnText, keyed


def _heading(digest: str) -> str:
    return f"[Goals · digest {digest}]\n"


def test_the_keys_are_loaded_once_for_a_text() -> None:
    """Each load reads the session's notes, the system prompt among them: with one for each line
    that looks like a heading, time grew with the square of the prompt.
    """
    loads = []
    own = OwnText(lambda: loads.append(1) or [b"key"], lambda: b"key")  # type: ignore[func-returns-value]
    text = "".join(_heading(f"{i:015d}") + "hello\n" for i in range(500))
    assert own.without(text, ("Goals",)) == text
    assert own.without(text, ("Record",)) == text
    assert own.kind_of(text) is None
    assert len(loads) == 2


def test_each_is_found_by_whichever_key_made_it() -> None:
    """Also by one that another writer made after ours were read."""
    first, second = keyed(b"first"), keyed(b"second")
    kept = [b"first"]
    own = OwnText(lambda: tuple(kept), lambda: b"none")
    assert own.digest("words") == first.digest("words")
    kept.append(b"second")
    ours = [
        _heading(maker.digest(words)) + words
        for maker, words in ((second, "end goal one"), (first, "end goal two"))
    ]
    forged = _heading("0" * 15) + "forged"
    text = f"Before.\n\n{ours[0]}\n\n{forged}\n\n{ours[1]}\n\nBehind."
    assert own.without(text, ("Goals",)) == f"Before.\n\n{forged}\n\nBehind."
    assert own.kind_of(ours[0]) == "Goals"
    assert own.kind_of(forged) is None
