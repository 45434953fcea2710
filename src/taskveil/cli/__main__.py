"""Where the command starts: an interrupt while it is still being loaded ends it like any other, with one line."""

import sys


def run() -> None:
    """`taskveil` on the command line."""
    try:
        from taskveil.cli.main import run as command

        command()
    except KeyboardInterrupt:
        print("taskveil: stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    run()
