"""x."""

from compact.apps.cli.options import FileOptions, taking


@taking(FileOptions)
def tokens(options: FileOptions) -> None:
    """X."""
