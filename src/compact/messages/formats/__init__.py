"""Wire formats: how providers write messages. Each format is read and written without loss."""
