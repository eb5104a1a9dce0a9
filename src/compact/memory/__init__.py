"""The sessions of a scope as one memory: search, ageing, archives, backups.

Start at `memory_manager`. The tables of its index and its vectors are in `store/sqlite`.
"""
