"""Where sessions are kept: SQLite, memory, folders, S3 buckets, archives.

The modules of this room do not import the engine or any code that uses the store.
"""
