"""What `warplens explain CODE` prints of the findings on many ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warplens.model.rule import Explanation

_GAIN: Final = (
    "The gain is that of the job's step since then, simulated: this part of the rank's time becomes as long as that of "
    "its peers, and every collective begins when its last rank arrives (table stragglers). Measured gains of real jobs "
    "differed from it by up to 15 %. Where it may be nothing, it is a bound (≤). Reported from {min_gain_percent:g} % "
    "of the step on; less is hidden by other work. "
)
EXPLANATIONS: Final[Mapping[str, Explanation]] = {
    "WL402": Explanation(
        "A rank whose GPU is slower",
        "The kernels of one rank take longer than those of the ranks that do the same, although they have no more "
        "elements; all others wait for it. " + _GAIN + "Causes: lower clocks (power, heat), another process on the "
        "GPU, work that only this rank does. The place is the op that grew most.",
    ),
    "WL403": Explanation(
        "A rank or machine whose host is slower",
        "The host of one rank, or of all ranks of a machine, launches its work later than those of its peers, so that "
        "the others wait in collectives. " + _GAIN + "The place is the Python line or host event that takes longer "
        "there; 'between ops' is time in which no op ran: Python itself, garbage collection, a sleeping process.",
    ),
    "WL404": Explanation(
        "A rank whose data come late",
        "The data loader of one rank takes longer than those of the others: most of what its host takes longer is "
        "inside the loader. " + _GAIN,
    ),
    "WL405": Explanation(
        "A slow link",
        "Collectives of one rank transfer slower than collectives of the same kind, size and number of ranks elsewhere "
        "or before; waits for late ranks are not part of a transfer. The gain is that of the job's step with the usual "
        "transfers, simulated. Reported from {min_gain_percent:g} % of the step on.",
    ),
    "WL406": Explanation(
        "Uneven data",
        "One rank computes longer because most of its ops have more elements than on the other ranks: longer "
        "sequences, a larger batch. " + _GAIN + "It is what even data would win if the others kept theirs.",
    ),
    "WL407": Explanation(
        "Uneven pipeline stages",
        "One stage of the pipeline computes longer than the others, which wait for it in receives. " + _GAIN + "Layers "
        "that are moved make other stages longer: an even split wins less than this where few stages share them. The "
        "evidence has the computation of every stage.",
    ),
    "WL408": Explanation(
        "A hot expert",
        "All-to-alls bring one rank at least {uneven_receive:g} × the mean bytes, and it computes longer than the "
        "others: its experts get more than their share of tokens (table all_to_all). " + _GAIN,
    ),
    "WL409": Explanation(
        "Transfers that nothing hides",
        "Collectives run while the GPU computes nothing. Waits for late ranks are not counted: those belong to the "
        "rank that is late. The gain is a bound: the job's step, simulated, with the exposed part of all transfers "
        "gone, as if computation hid it. The evidence names the modules that issue them, each with its part of that "
        "gain by its exposed time; the title also has the transfers of the rank whose step is shown. Reported from "
        "{exposed_transfer_percent:g} % of the step on.",
    ),
    "WL410": Explanation(
        "Many small collectives in a job",
        "Collectives below {small_kib:g} KiB take their latency, not their bandwidth. The gain is a bound: the job's "
        "step, simulated, with the exposed part of their transfers gone. It is part of that of WL409 where both are "
        "reported. Reported from {small_per_step:g} of them per step and rank.",
    ),
    "WL411": Explanation(
        "A rank that starts late",
        "The recording has one step or two, and one rank begins the first of them later than the others. What made it "
        "late ran before the recording: the end of its previous step, data, a checkpoint. The gain is that of the "
        "first step if the rank began with the others, simulated. Reported from {min_gain_percent:g} % of the step on.",
    ),
    "WL412": Explanation(
        "A slow rank without a clear cause",
        "One rank takes longer than its peers, but neither its host nor its GPU explains 80 % of that. The gain is a "
        "bound: the job's step if all of the difference were gone, simulated. Reported from {min_gain_percent:g} % of "
        "the step on.",
    ),
}
