"""Evaluations on real conversations: what a compressed context still holds, and how true the counts
are.

    python -m evals [NAME…] [--data DIR] [--json FILE]

`coverage` is future-reference coverage, `instructions` whether a person's rules survive word for
word, `usage` token counts against recorded usage. The conversations are not in this repository: see
`data`.
"""
