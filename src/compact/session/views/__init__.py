"""Decides which part of a session a prompt shows for a window, and compresses, drafts ahead and
undoes. Start at `view`.
"""
