"""x."""

from compact.apps.cli.options import FileOptions, taking


@taking(FileOptions)
def diff(options: FileOptions) -> None:
    """X."""
