"""What of a session is in view for a window, and how that is compressed, drafted ahead and undone.
Start at `view`.
"""
