"""`warplens prove` and its verbs: plan, run, show, all."""

from __future__ import annotations

from typing import ClassVar

from warplens_run.cli.verb import Place, VerbGroup
from warplens_run.cli.verbs import PROVE_RUN, PROVE_SHOW


class ProveVerb(VerbGroup):
    """Put findings to the test on a GPU: the ops before and after the change, their time, energy and outputs.

    warplens prove TRACE -o proof.json             all of it, on a host with the trace and a GPU
    warplens prove plan TRACE -o proof.plan.json   what to run for each finding, as data (no GPU needed)
    warplens prove run proof.plan.json             runs it on a GPU (needs PyTorch and the plan only)
    warplens prove show proof.json                 what was measured; report and advise --proof join it to the findings
    """

    name = "prove"
    places: ClassVar = {
        "plan": Place(
            "warplens.cli.proving.plan:PlanProofVerb",
            "Plan experiments for the findings of a trace: what to run before and after each change",
        ),
        "run": PROVE_RUN,
        "show": PROVE_SHOW,
        "all": Place(
            "warplens.cli.proving.all_at_once:ProveAllVerb",
            "Plan and run the experiments for a trace's findings, and advise with what was measured",
        ),
    }
    implied = "all"
