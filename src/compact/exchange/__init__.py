"""Moves sessions between stores and files: export, import, and migration of whole folders."""
