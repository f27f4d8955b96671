"""`warplens prove` and its verbs: plan, run, show, all."""

from __future__ import annotations

from warplens.cli.proving.all_at_once import ProveAllVerb
from warplens.cli.proving.plan import PlanProofVerb
from warplens_run.cli.prove_run import RunProofVerb
from warplens_run.cli.prove_show import ShowProofVerb
from warplens_run.cli.verb import VerbGroup


class ProveVerb(VerbGroup):
    """Put findings to the test on a GPU: the ops before and after the change, their time, energy and outputs.

    warplens prove TRACE -o proof.json             all of it, on a host with the trace and a GPU
    warplens prove plan TRACE -o proof.plan.json   what to run for each finding, as data (no GPU needed)
    warplens prove run proof.plan.json             runs it on a GPU (needs PyTorch and the plan only)
    warplens prove show proof.json                 what was measured; report and advise --proof join it to the findings
    """

    name = "prove"
    verbs = (PlanProofVerb(), RunProofVerb(), ShowProofVerb(), ProveAllVerb())
    implied = "all"
