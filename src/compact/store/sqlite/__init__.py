"""Sessions in one SQLite file. Start at `store`, or at `repair` for damaged files. All SQL of
compact is in this folder.
"""
