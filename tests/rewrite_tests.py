"""Writes the bytecode that pytest makes of the tests, so that no worker makes it for itself: 15 s of CPU each.

Collecting the tests does the same, but imports all that they use (12 s more), which has to be installed by then. What
this calls is no interface of pytest: with a release that differs it fails, and the tests are collected instead.
"""

from __future__ import annotations

import compileall
import os
from pathlib import Path
from types import SimpleNamespace

from _pytest.assertion import rewrite

TESTS = Path(__file__).parent


def is_rewritten(path: Path) -> bool:
    return path.name.startswith("test_") or path.name == "conftest.py"


def write_bytecode(path: Path) -> None:
    folder = rewrite.get_cache_dir(path)
    folder.mkdir(exist_ok=True)
    source, code = rewrite._rewrite_test(path, None)
    target = folder / (path.stem + rewrite.PYC_TAIL)
    if not rewrite._write_pyc(SimpleNamespace(trace=print), code, source, target):
        raise OSError(f"{target} was not written")


def main() -> None:
    for path in sorted(TESTS.rglob("*.py")):
        if is_rewritten(path):
            write_bytecode(path)
        elif path.parent == TESTS:
            compileall.compile_file(os.fspath(path), quiet=1)


if __name__ == "__main__":
    main()
