"""Writes all of `warplens_run` into one file: `python warplens-run.pyz profile train.py` with any Python from 3.10 on.

python tools/make_runner.py TARGET
"""

from __future__ import annotations

import sys
import zipapp
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def main(target: str) -> None:
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    zipapp.create_archive(
        SOURCE,
        target,
        interpreter="/usr/bin/env python3",
        main="warplens_run.__main__:start",
        filter=_is_source,
        compressed=True,
    )


def _is_source(path: Path) -> bool:
    return path.parts[0] == "warplens_run" and path.name != "__pycache__" and path.suffix in ("", ".py")


if __name__ == "__main__":
    main(sys.argv[1])
