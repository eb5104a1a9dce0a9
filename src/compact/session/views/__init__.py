"""Decides which part of a session a prompt shows for a window. Compresses, drafts ahead, and
undoes. Start at `view`.
"""
