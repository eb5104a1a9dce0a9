"""`python -m compact` is `compactctl`."""

from compact.cli.entry import run

if __name__ == "__main__":
    run()
