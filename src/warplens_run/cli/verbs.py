"""The verbs that run programs and plans, for both command lines."""

from __future__ import annotations

from typing import Final

from warplens_run.cli.verb import Place

PROGRAMS: Final = {
    "profile": Place(
        "warplens_run.cli.profile:ProfileVerb",
        "Run a program and record it as a capture bundle, which every other verb opens",
    ),
    "workload": Place(
        "warplens_run.cli.workload:WorkloadVerb", "Run a reference model to profile, by default with random weights"
    ),
    "try": Place(
        "warplens_run.cli.try_fixes:TryVerb",
        "Run a program and switch fixes on and off in turns of some steps: what they win in it",
    ),
    "energy": Place(
        "warplens_run.cli.energy:EnergyVerb", "Run a command and report the energy that the GPUs use meanwhile"
    ),
}
REPLAY_RUN: Final = Place(
    "warplens_run.cli.replay_run:RunVerb",
    "Run a plan on a GPU: whether the same kernels run, their time and their energy",
)
PROVE_RUN: Final = Place(
    "warplens_run.cli.prove_run:RunProofVerb",
    "Run a proof plan on a GPU: time, energy and outputs before and after each change",
)
PROVE_SHOW: Final = Place("warplens_run.cli.prove_show:ShowProofVerb", "Show what was measured of each finding")
