"""`warplens kernel` and its verbs: check, trace, diff, layout, puzzles."""

from __future__ import annotations

from warplens_lab.cli.check import CheckVerb
from warplens_lab.cli.diff import DiffFactsVerb
from warplens_lab.cli.layout import LayoutVerb
from warplens_lab.cli.puzzles import PuzzlesVerb
from warplens_lab.cli.trace import TraceVerb
from warplens_run.cli.verb import VerbGroup


class KernelVerb(VerbGroup):
    """Look inside a Triton kernel without a GPU: what the compiler makes of it, what each program does.

      warplens kernel check FILE.py::kernel --signature "*fp16:16, i32, 1024"   facts and suggestions
      warplens kernel check script.py [args]        of every launch of a script
      warplens kernel check … --profile x.hatchet   together with measured times
      warplens kernel trace script.py [args]        bytes, FLOPs, faults, a page
      warplens kernel diff before.json after.json   facts of two compilations
      warplens kernel layout "float[32][32]"        threads, banks and conflicts of a tile, a page
      warplens kernel puzzles                       exercises in Triton

    Files and scripts are your own code: they are imported and run. Needs `pip install 'warplens[triton]'`.
    """

    name = "kernel"
    verbs = (CheckVerb(), TraceVerb(), DiffFactsVerb(), LayoutVerb(), PuzzlesVerb())
