"""Memory snapshots of PyTorch's caching allocator: `reader` reads a file, `unpickling` its pickle without running it.

What decides whether a file is one is here, since every file is asked.
"""

from __future__ import annotations

import re
from typing import Final

PICKLE: Final = re.compile(rb"\A(?:\x80[\x02-\x05]|\(dp?\d|\(lp?\d|[}\]]q\x00)")
"""How pickles begin, of all protocols."""
JSON: Final = re.compile(rb'\A\{\s*"(?:segments|device_traces|allocator_settings|external_annotations)"\s*:')


def is_snapshot(head: bytes) -> bool:
    """Whether the first bytes of a content are a pickle's or those of a snapshot as JSON."""
    return PICKLE.match(head) is not None or JSON.match(head) is not None
