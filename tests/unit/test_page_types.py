"""The page's TypeScript types are those of the records that Python writes."""

from __future__ import annotations

import sys
from pathlib import Path

WEB = Path(__file__).parents[2] / "web"


def test_the_generated_types_are_those_of_the_records() -> None:
    sys.path.insert(0, str(WEB))
    try:
        import make_types
    finally:
        sys.path.remove(str(WEB))
    kept = make_types.PLACE.read_text("utf-8")
    assert kept == make_types.typescript(), "run `make web` and commit what it writes"
