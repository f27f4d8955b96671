"""The start of a process of a trial: until the program runs, Ctrl-C ends it without a word.

`python -m warplens_run.trying.start CHANNEL`. Loading PyTorch takes seconds; an interrupt in them is not the
program's, and the command says that the trial was interrupted.
"""

from __future__ import annotations

import signal
import sys


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from warplens_run.trying.child import main as run

    return run(int(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(main())
