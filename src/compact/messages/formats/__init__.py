"""Wire formats: how providers write messages, each read and written without loss."""
