"""How context shrinks: six stages from the history to a smaller view.

Start at `pipeline`. Without a model `chronology` writes what stands for the past; with one
`stories` asks for it and `gate` judges what comes.
"""
