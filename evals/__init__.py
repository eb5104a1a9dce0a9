"""Evaluations on real conversations: what a compressed context still holds, and how true the counts
are.

    python -m evals [NAME…] [--data DIR] [--json FILE]

`coverage` is future-reference coverage, `words` what a person said, `open` the work as it stands,
`lived` sessions beside one call, `chats` and `locomo` facts of plain talk, `usage` token counts
against recorded usage; `reading` and `lines` write packs for readers. Where numbers come in two
columns, the second one is of sessions that are never looked at (`split`). The conversations are not
in this repository: see `data`.
"""
