"""A collective's call as PyTorch 2.11 records it: host op, `record_param_comms`, annotations, launch and kernel."""

from __future__ import annotations

from typing import Any

from ranks_sim.program import COLLECTIVE_KINDS, LAUNCH_AFTER_NS
from ranks_sim.simulate import Called
from ranks_sim.spec import MICROSECOND
from ranks_sim.texts import AUTOGRAD, COMPUTE_STREAM, MAIN, arguments, gpu_event, host_event, kernel_ids

# PyTorch cuts the list of a group's ranks.
LISTED_RANKS = 30
STREAMS = {"dp+0": 16, "pp_forward-1": 20, "pp_forward+1": 24, "pp_backward+1": 28, "pp_backward-1": 32}
_KERNEL_ARGS = {
    "queued": 0,
    "registers per thread": 96,
    "shared memory": 103808,
    "blocks per SM": 0.121212,
    "warps per SM": 2.424242,
    "grid": [16, 1, 1],
    "block": [640, 1, 1],
    "est. achieved occupancy %": 0,
}
# Host events of a call by begin and end, in µs from its start: how much of the op, and how many ids each takes.
_PARTS: list[tuple[str, str, float, float]] = [
    ("cpu_op", "op", 1, 70),
    ("cpu_op", "record_param_comms", 5, 66),
    ("cuda_runtime", "cudaEventRecordWithFlags", 9, 10),
    ("cuda_runtime", "cudaStreamWaitEvent", 12, 13),
    ("user_annotation", "annotation", 15, 60),
    ("cuda_runtime", "cudaEventRecord", 29, 30),
    ("cuda_runtime", "cudaStreamWaitEvent", 32, 33),
    ("cuda_driver", "cuLaunchKernelEx", 35, LAUNCH_AFTER_NS / MICROSECOND),
    ("cuda_runtime", "cudaEventRecord", 46, 47),
]
_CBIDS = {
    "cudaEventRecordWithFlags": 449,
    "cudaStreamWaitEvent": 147,
    "cudaEventRecord": 135,
    "cuLaunchKernelEx": 652,
}
IDS_PER_CALL = 3
CORRELATIONS_PER_CALL = 6


def stream_number(stream: str) -> int:
    return STREAMS.get(stream, COMPUTE_STREAM)


class CallTexts:
    """The texts of one rank's calls."""

    def __init__(self, rank: int, *, metadata: bool, seq: bool) -> None:
        self.rank = rank
        self.metadata = metadata
        self.seq = seq
        self._made: dict[tuple[Any, ...], tuple[str, str]] = {}

    def events(self, called: Called) -> tuple[str, str]:
        """Format strings of the host events and of the kernel with its annotation."""
        call, group = called.call, called.meeting.group
        number = called.meeting.number if self.seq else 0
        key = (
            call.kind,
            group.name,
            call.towards,
            call.phase,
            call.stream,
            called.elements,
            str(called.splits),
            number,
        )
        if key not in self._made:
            self._made[key] = self._make(called)
        return self._made[key]

    def _make(self, called: Called) -> tuple[str, str]:
        call = called.call
        kind = COLLECTIVE_KINDS[call.kind]
        thread = AUTOGRAD if call.phase == "backward" else MAIN
        comms, of_kernel = self._arguments(called)
        shapes = {"Input Dims": [[called.elements]], "Input type": ["float"]}
        rests = {
            "op": ("cpu_op", kind.op, arguments({"Input Dims": [[[called.elements]]], "Input type": ["TensorList"]})),
            "record_param_comms": ("cpu_op", "record_param_comms", arguments(comms)),
            "annotation": ("user_annotation", self._annotation(called), arguments(shapes)),
        }
        host = []
        for category, name, _begin, _end in _PARTS:
            if name in rests:
                category, label, rest = rests[name]
                host.append(host_event(category, label, thread, '"External id":%d', rest))
            else:
                rest = arguments({"cbid": _CBIDS[name]})
                host.append(host_event(category, name, thread, '"External id":%d,"correlation":%d', rest))
        stream = stream_number(call.stream)
        kernel = gpu_event("kernel", kind.kernel, stream, kernel_ids(stream), arguments(_KERNEL_ARGS | of_kernel))
        mark = gpu_event("gpu_user_annotation", self._annotation(called), stream, '"External id":%d')
        return "".join(host), kernel + mark

    def _annotation(self, called: Called) -> str:
        call, ranks = called.call, called.meeting.group.ranks
        name = COLLECTIVE_KINDS[call.kind].annotation
        if not call.towards:
            return name
        mine = ranks.index(self.rank)
        return f"{name} {mine}{'->' if call.kind == 'send' else '<-'}{mine + call.towards}"

    def _arguments(self, called: Called) -> tuple[dict[str, Any], dict[str, Any]]:
        """Of `record_param_comms`, and of the kernel."""
        call, group = called.call, called.meeting.group
        shapes: dict[str, Any] = {"Input Dims": [[[called.elements]]], "Input type": ["TensorList"]}
        if not self.metadata:
            return shapes, {}
        ranks = group.ranks
        cut = ", ".join(str(rank) for rank in ranks[:LISTED_RANKS]) + (", ..." if len(ranks) > LISTED_RANKS else "")
        sent, received = called.splits or ([], [])
        elements_in, elements_out = _message_elements(called)
        shared = {
            "Collective name": COLLECTIVE_KINDS[call.kind].name,
            "In msg nelems": elements_in,
            "Out msg nelems": elements_out,
            "Group size": len(ranks),
            "dtype": "Float",
            "In split size": f"[{', '.join(map(str, sent))}]",
            "Out split size": f"[{', '.join(map(str, received))}]",
            "Process Group Name": group.name,
            "Process Group Description": "default_pg" if group.axis == "world" else f"mesh_{group.axis}",
            "Process Group Ranks": f"[{cut}]",
        }
        position = ranks.index(self.rank)
        if call.towards:
            shared["Dst Rank" if call.kind == "send" else "Src Rank"] = ranks[position + call.towards]
        if self.seq and not call.towards:
            shared["Seq"] = called.meeting.number + 1
        whole = {"Rank": position + call.towards, "Global rank start": ranks[0], "Global rank stride": 1}
        return shared | whole | shapes, shared


def _message_elements(called: Called) -> tuple[int, int]:
    size = len(called.meeting.group.ranks)
    if called.splits:
        return sum(called.splits[0]), sum(called.splits[1])
    if called.call.kind == "all_gather":
        return called.elements // size, called.elements
    if called.call.kind == "reduce_scatter":
        return called.elements, called.elements // size
    return called.elements, called.elements


def call_times(called: Called) -> list[tuple[float, float]]:
    """Begin and end of a call's host events, in ns."""
    unit = called.scale * MICROSECOND
    return [(called.start + begin * unit, called.start + end * unit) for _category, _name, begin, end in _PARTS]


def call_numbers(ext: int, corr: int) -> list[tuple[int, ...]]:
    """The ids of a call's host events, as in `_PARTS`; launches belong to `record_param_comms`."""
    inner = ext + 1
    return [
        (ext,),
        (inner,),
        (inner, corr),
        (inner, corr + 1),
        (ext + 2,),
        (inner, corr + 2),
        (inner, corr + 3),
        (inner, corr + 4),
        (inner, corr + 5),
    ]


LAUNCH_CORRELATION = 4  # of a call's correlations, the one that launches its kernel
