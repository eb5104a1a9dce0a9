"""What of a session is in view for a window; how that is compressed, drafted ahead and undone.
Start at `view`.
"""
