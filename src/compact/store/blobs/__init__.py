"""Files under names, in a folder or a bucket, sealed where there is a key."""
