"""Where sessions are kept: SQLite, memory, folders, buckets, archives.

This room knows nothing of compression, nor of the code that calls it.
"""
