"""What has to be said beside every table of iterations."""

from __future__ import annotations

from typing import Final

from warplens.analyses.serving.iterations import held_until, served
from warplens.analyses.serving.plain_times import recording_note
from warplens.analyses.serving.rates import iteration_work
from warplens.analyses.serving.served import INFERRED
from warplens.analyses.serving.steady import steady_state
from warplens.analyses.shared import shared
from warplens.analyses.workspace import Workspace
from warplens_run.base.units import format_ns, plural

MUCH_APPROXIMATE_PERCENT: Final = 10.0
LOW_COVER_PERCENT: Final = 50.0
"""Below this, what has no cost may be most of the work."""


@shared
def notes(work: Workspace) -> tuple[str, ...]:
    found = served(work)
    assert found is not None
    texts = [steady_state(work).text, recording_note(work)]
    if found.source == INFERRED:
        texts.insert(0, f"no engine marked its iterations: they are inferred from {found.reason}")
    own = found.event_iteration
    if outside := int((own < 0).sum()):
        share = 100 * float(work.gpu["dur_ns"].to_numpy()[own < 0].sum()) / max(1, work.gpu_total_ns)
        texts.append(
            f"{plural(outside, 'GPU event')} ({share:.1f} % of GPU time) launched outside iterations, in none of them"
        )
    if any((span.mark.generation.query_tokens or 0) > (span.mark.generation.requests or 0) for span in found.spans):
        texts.append(
            "speculative decoding: how many drafts were accepted is not recorded; one token per request is counted"
        )
    elif any(span.mark.generation.requests and span.mark.generation.query_tokens is None for span in found.spans):
        texts.append("the marks do not count generated tokens: one per request is taken")
    if (free_ns := held_until(work)) >= 0:
        waited = format_ns(free_ns - int(work.gpu["start_ns"].to_numpy().min()))
        texts.append(f"work from before the recording holds up the first iteration: {waited} are not counted in it")
    if found.ranks > 1:
        texts.append(f"{found.ranks} threads mark the same iterations: they count once, with the GPU work of all")
    costs = iteration_work(work)
    covered = 100 * float(costs.costed_ns.sum()) / max(1.0, float(costs.kernel_ns.sum()))
    if 0 < covered < LOW_COVER_PERCENT:
        texts.append(f"costs are known for {covered:.0f} % of the GPU time: MFU and MBU are lower bounds")
    approximate = 100 * float(costs.approximate_bytes.sum()) / max(1.0, float(costs.bytes.sum()))
    if approximate >= MUCH_APPROXIMATE_PERCENT:
        texts.append(
            f"{approximate:.0f} % of the bytes are approximate, so MBU is: column approximate of the table roofline"
        )
    return tuple(texts)
