"""The commands, one module for each or for a few that belong together: `history` has `recall` and
`expand` too, `compact` has `dry-run`, `snapshots` has `snapshot`, `restore`, `undo`, `redo` and
`branch`, `sessions` has what is neither import nor export. The table in `main` says it of each.

A module is imported when one of its commands is called, so that all import at their heads.
"""
