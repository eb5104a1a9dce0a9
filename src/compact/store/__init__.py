"""Where sessions are kept: SQLite, files, buckets, archives.

Knows nothing of how context shrinks or who calls it.
"""
