"""How context shrinks: six stages from the history to a smaller prompt. Start at `pipeline`.

A module has the name of its stage: `identify`, `prepare`, `summarize`, `checkpoint`, `update`,
`validate`. Without a model, `chronology` writes the summaries; with one, `stories` asks for them
and `gate` judges the answers.
"""
