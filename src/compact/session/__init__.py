"""A session that never overflows (`context_manager`), and one call (`one_call`).

`compact_manager` is the middleware for programs that keep their own list of messages.
"""
