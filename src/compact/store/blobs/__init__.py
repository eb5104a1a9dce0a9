"""Keep files under names in a folder or a bucket. With a key, files are encrypted."""
