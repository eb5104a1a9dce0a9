"""How calls run: in threads off the event loop, one at a time, and only so long."""
