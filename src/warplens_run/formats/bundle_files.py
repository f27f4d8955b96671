"""What a capture bundle holds and what its files are called: known to `capture`, which writes it, and to `readers`."""

from __future__ import annotations

import re
from typing import Final

from warplens_run.base.temporary import OWNER

FORMAT: Final = "warplens-bundle"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
ENVIRONMENT: Final = "environment.json"
TRACE: Final = "trace.json.gz"
TREE: Final = "tree.hatchet.gz"
XPLANE: Final = "profile.xplane.pb"
PROTON_TRACE: Final = "proton.chrome_trace.gz"
PROFILES: Final = (TRACE, TREE, XPLANE, PROTON_TRACE)
"""What a bundle's profile may be called."""
EXECUTION_TRACE: Final = "execution_trace.json.gz"
EXECUTION_STEP: Final = "execution_step.json.gz"
"""The trace of the step that the ExecutionTrace is of, where it is not the profile itself."""
KERNELS: Final = "kernels"
LAUNCHED: Final = "launched"
"""The folder in `KERNELS` with the sources of Triton kernels that the program launches itself."""
SAMPLED_LINES: Final = "kernels/sampled_lines.json"
"""The texts of the source lines that instruction samples name, by file and number."""
LAUNCHES: Final = "triton_launches.json"
"""Those launches: grids, arguments, configurations, and the order in which they were made."""
LAUNCHES_VERSION: Final = 1
TIMING: Final = "timing.json"
"""Times of unrecorded steps, and the marks of the light pass."""
TIMING_VERSION: Final = 1
LIGHT_TRACE: Final = "light.json.gz"
"""Further steps with the GPU's activity only, which slows the host far less."""
GRAPH_CAPTURES: Final = "graph_captures/"
"""The folder with the traces of captures of CUDA and HIP graphs, which run at any time of the program."""
GRAPH_CAPTURE_INDEX: Final = GRAPH_CAPTURES + "captures.json"
"""What is known of each capture, and which graph each replay of the recorded window launched."""
GRAPH_CAPTURES_VERSION: Final = 1
MEMORY_SNAPSHOT: Final = "memory_snapshot.pickle.gz"
"""The snapshot of PyTorch's CUDA allocator at the end of the recorded window, with its history."""
MEMORY_SNAPSHOT_OOM: Final = "memory_snapshot_oom.pickle.gz"
"""The same when the program first ran out of memory."""
MEMORY_FACTS: Final = "memory.json"
"""The allocator's statistics, and the addresses of parameters, gradients, optimizer states and buffers by name."""
MEMORY_VERSION: Final = 1
COUNTERS: Final = "counters.json"
"""Power, clocks and other readings of the GPUs while steps were recorded or timed."""
COUNTERS_VERSION: Final = 1
STEPS_FOUND_BY: Final = {
    "program": "warplens.step()",
    "optimizer": "the optimizer's step",
    "forward": "the outermost module's forward",
}
"""What marks the steps of a run, by its name in the manifest."""
PARTIAL: Final = re.compile(rf"\.partial-(?:{OWNER}-)?\d+$")
"""What a bundle's folder is called while it is being written: whose it is, and a number."""


def is_incomplete(name: str) -> bool:
    """Whether a folder of this name is what a run left that was killed.

    >>> is_incomplete("run.partial-12ab34cd-4711-1"), is_incomplete("run")
    (True, False)
    """
    return PARTIAL.search(name) is not None
