"""How context shrinks: six stages from the history to a smaller view.

Start at `pipeline`. A module has the name of its stage: `identify`, `prepare`, `summarize`,
`checkpoint`, `update`, `validate`. Without a model `chronology` writes what stands for the past;
with one, `stories` asks for it and `gate` judges the answer.
"""
