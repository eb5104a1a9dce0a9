"""x."""

from compact.apps.cli.options import FileOptions, taking


@taking(FileOptions)
def validate_config(options: FileOptions) -> None:
    """X."""
