"""Sessions in one SQLite file. Start at `store`; SQL lives in this folder and nowhere else."""
