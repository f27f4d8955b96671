"""`python -m warplens_run`, and the one file that `make runner` writes."""

import os
import sys


def start() -> None:
    try:
        from warplens_run.cli.main import main

        code = main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.stderr.flush()
        os._exit(130)
    sys.exit(code)


if __name__ == "__main__":
    start()
