"""The paths of 0.1 to the command line, for one release: it is `compact.cli` now."""
