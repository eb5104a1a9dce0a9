"""Files that hold conversations whose messages left the database: packed, named, kept, read."""
