"""How things are remembered: what a search of all that was ever said finds, and in which order.

Pure: which messages there are and which words they hold comes in from a store, and what was found
goes out. Stores keep the index (`storage/`); the public API is `managers.memory_manager`.
"""
