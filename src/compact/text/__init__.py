"""What a text says: who speaks, sentences, names, instructions, outcomes, goals.

Pure. Start at `speakers` and `passages`.
"""
