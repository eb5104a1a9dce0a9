"""The command, by its path of 0.1."""

from compact.cli.entry import run as run
