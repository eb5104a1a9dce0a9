"""The command line, by its path of 0.1."""

from compact.cli.main import main as main

if __name__ == "__main__":
    raise SystemExit(main())
