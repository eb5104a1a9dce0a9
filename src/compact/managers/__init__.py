"""The front doors: one call (`compress`, `plan`) and the session that never overflows
(`ContextManager`).
"""
