"""Lists that a client sends whole at every turn: what in them is new. Start at `last_list`."""
