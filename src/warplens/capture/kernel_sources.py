"""The sources of the kernels that a trace names: files that Inductor generated, copied into the bundle."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Final

from warplens import bundle_files
from warplens.capture.bundle import Staging

KERNEL_FILE: Final = re.compile(rb'"kernel_file":\s*("(?:[^"\\]|\\.)*")')
LARGEST_BYTES: Final = 4 << 20


def copy_inductor_sources(staging: Staging) -> int:
    """Copy every source file that the recorded trace names; how many there were."""
    trace = staging.folder / bundle_files.TRACE
    if not trace.exists():
        return 0
    copied = 0
    for name in sorted(_named(trace)):
        source = Path(name)
        try:
            if source.suffix != ".py" or source.stat().st_size > LARGEST_BYTES:
                continue
            text = source.read_bytes()
        except (OSError, ValueError):
            continue
        staging.path(f"{bundle_files.KERNELS}/inductor/{source.name}").write_bytes(text)
        copied += 1
    return copied


def _named(trace: Path) -> set[str]:
    quoted_names: set[bytes] = set()
    with gzip.open(trace, "rb") as stream:
        tail = b""
        while block := stream.read(1 << 22):
            text = tail + block
            quoted_names.update(KERNEL_FILE.findall(text))
            tail = text[-4096:]
    return {json.loads(quoted) for quoted in quoted_names}
