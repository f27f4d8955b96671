"""A verb that runs twice with a collection of its own, and counts what it found out for itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support import SAMPLES


def counted_runs(collection: str, counting: str, folder: Path) -> tuple[int, int]:
    """What `counting` has added to `count` in the first run and in the second.

    The collection is none that other processes have: those of other tests write the usual one meanwhile.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["WARPLENS_CACHE"] = str(folder)
    program = (
        "import os, pathlib, sys, warplens.__main__ as command\n"
        "from warplens.collected import collected\n"
        f"collected().{collection}.kept.path = pathlib.Path({str(folder)!r}, 'kept')\n"
        "count, leave = [], os._exit\n"
        f"{counting}\n"
        "os._exit = lambda code: (print(len(count), file=sys.stderr), leave(code))\n"
        f"sys.argv[1:] = ['show', {str(SAMPLES[0])!r}, 'kernels', '--no-cache']\n"
        "command.main()"
    )
    first, second = (
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment)
        for _ in range(2)
    )
    return int(first.stderr), int(second.stderr)
