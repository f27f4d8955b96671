"""`warplens kernel` and its verbs: check, trace, diff, layout, puzzles."""

from __future__ import annotations

from typing import ClassVar

from warplens_run.cli.verb import Place, VerbGroup


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
    places: ClassVar = {
        "check": Place("warplens_lab.cli.check:CheckVerb", "Compile for GPUs that are not here: facts and suggestions"),
        "trace": Place(
            "warplens_lab.cli.trace:TraceVerb", "Run a script's kernels in the interpreter: what each program does"
        ),
        "diff": Place("warplens_lab.cli.diff:DiffFactsVerb", "Compare the facts of two compilations"),
        "layout": Place(
            "warplens_lab.cli.layout:LayoutVerb",
            "Show which thread holds which element of a tile, and which bank serves it",
        ),
        "puzzles": Place(
            "warplens_lab.cli.puzzles:PuzzlesVerb",
            "Learn Triton: exercises from a vector sum to attention, each with a checker that explains what is wrong",
        ),
    }
