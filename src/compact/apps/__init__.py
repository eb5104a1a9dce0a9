"""People: the programs that show compact to a person. Each is a folder of its own."""
