"""Sessions in PostgreSQL, for several machines."""
