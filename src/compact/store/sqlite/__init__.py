"""Sessions in one SQLite file. Start at `store`, for damaged files at `repair`; SQL lives in this
folder and nowhere else.
"""
