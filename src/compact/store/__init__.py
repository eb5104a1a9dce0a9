"""Where sessions are kept: SQLite, memory, folders, buckets, archives.

It knows nothing of compression, nor of its callers.
"""
