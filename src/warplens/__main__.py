"""`python -m warplens`, the same as `warplens`."""

import sys


def main() -> None:
    """What the `warplens` command runs; Ctrl-C ends it with one word, also while modules are being loaded."""
    try:
        from warplens.cli import entry

        entry()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
