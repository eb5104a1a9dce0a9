"""How answers of plain talk are looked for: in lines that are about them, not anywhere."""

from evals import plain

TURN = plain.Said("person", "Ida", "My cousin Oskar repairs violins in Cremona.")


def test_an_answer_counts_by_its_words_that_the_turn_holds():
    question = plain.asked("in Cremona, Italy", [TURN])
    assert question is not None
    assert question.answer == {"cremona"}
    assert plain.asked("no idea", [TURN]) is None


def test_a_word_counts_beside_only_where_the_line_is_about_its_turn():
    question = plain.asked("Cremona", [TURN])
    assert question is not None
    assert plain.found("Oskar repairs violins in Cremona", question) == (1.0, 1.0)
    assert plain.found("Oskar repairs violins\nCremona is a town", question) == (1.0, 0.0)
    assert plain.found("Oskar is well", question) == (0.0, 0.0)


def test_the_chosen_and_the_newest_keep_to_their_size():
    chat = plain.Chat("x", "look", [TURN, plain.Said("assistant", "Bo", "Good to know, thanks!")])
    assert plain.newest(chat, 8, lambda text: len(text.split())) == "Bo: Good to know, thanks!"
    assert plain.chosen(chat, 20, lambda text: len(text.split())).startswith("Ida: My cousin")


def test_without_the_files_there_are_no_rows(tmp_path):
    assert plain.run(tmp_path) == []
