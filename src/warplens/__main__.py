"""`python -m warplens`, the same as `warplens`."""

import os
import sys

from warplens.interrupts import ending_at_once


def main() -> None:
    """What the `warplens` command runs; Ctrl-C ends it with one word, also while modules are being loaded."""
    with ending_at_once():
        from warplens.cli import entry
    try:
        entry()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.stderr.flush()
        os._exit(130)  # an interrupt inside `exec`, as dataclasses use it, would make Python end itself by the signal


if __name__ == "__main__":
    main()
