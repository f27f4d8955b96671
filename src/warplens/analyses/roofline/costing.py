"""What the GPU work of a trace had to do: each GPU event joined to the op call that has a cost.

An event's cost is that of the nearest op around its launch that the op table knows; all events of one call share it.
Copies over the host link, and copies, memsets and collectives outside such ops, carry their sizes themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import numpy as np
import polars as pl

from warplens.analyses.roofline.contexts import CallContext, call_contexts
from warplens.analyses.shared import shared
from warplens.analyses.work.call_times import call_times
from warplens.analyses.work.comm import described_collectives
from warplens.analyses.workspace import COMMUNICATION, Workspace
from warplens.costs import Cost, assumed_pointwise, cost_or_reason, has_model, parse_call
from warplens.costs.cost import BETWEEN_GPUS, INNER_OPS, NO_LENGTHS, NO_WEIGHTS, OTHER_ARGUMENTS
from warplens.costs.tensors import ITEM_BYTES, Call
from warplens.costs.triton import is_of_program, program_cost
from warplens.model.copies import HOST, PEER, copy_ends, is_host_copy
from warplens.model.kinds import CODE, NONE
from warplens.model.records import records
from warplens.model.trace import Bools, Ints
from warplens.passes.climb import climb
from warplens.passes.survey import is_graph_launch

if TYPE_CHECKING:
    from warplens.model.tree import Floats

MOST_BLOCKS: Final = 1 << 40
"""Of one launch, as far as sums go: millions of launches of so many are still numbers of 64 bits."""
ELEMENTWISE: Final = "Elementwise"
ATTENTION: Final = re.compile("Attention")
MEMSET: Final = re.compile("memset|fill_?buffer", re.IGNORECASE)
PAGEABLE: Final = re.compile(r"pageable|memory\(unknown\)", re.IGNORECASE)
MOST_BYTES: Final = 1 << 42
"""Of one copy: sums of two million of them are still numbers of 64 bits."""
OPAQUE_SIZE: Final = re.compile(r"OpaqueType<(\d{1,2})u?>")

OFF_CHIP: Final = ("transfer", "collective")
"""Families whose bytes cross a link, not the GPU's memory alone."""
WIDTHS: Final = {
    **dict.fromkeys(("fp8", "int8", "uint8", "fp4"), 8),
    **dict.fromkeys(("fp16", "bf16"), 16),
    **dict.fromkeys(("fp32", "tf32"), 32),
    "fp64": 64,
}
Assumed: TypeAlias = dict[int, Callable[[Call], Cost | None]]
"""By name code, how the cost of an op that is not in the table is computed from what it launches."""

COSTED: Final = "costed"
NO_SHAPES: Final = "no shapes"
REASONS: Final = {
    COSTED: "FLOPs and bytes are known",
    "no model": "the op is not in the op table",
    NO_SHAPES: "the shapes of the op's inputs are not recorded",
    "in a graph": "launched by a CUDA or HIP graph, inside which no ops are recorded",
    "no op": "launched outside any op, or without a recorded launch",
    NO_LENGTHS: "attention over requests whose lengths no mark of the iteration and no argument has",
    NO_WEIGHTS: "a layer of experts whose weights, or experts per token, no recorded call has",
    INNER_OPS: "a layer whose products are costed on the ops inside it; what else it launches is not known",
    OTHER_ARGUMENTS: "the recorded arguments are not those of a known version of the op",
}


class Costing(msgspec.Struct, frozen=True):
    """`groups` has one row per op, inputs and context; `event_group` says for each GPU event which row it belongs to.

    Columns: op (name code, -1 for none), spec (of the inputs), own (kernel name code, for events that carry their size
    themselves), count (calls), total_ns (Σ durations), union_ns (Σ over calls of the union of their intervals), kernel
    (name code that takes most of the time), cost (place in `costs`, -1 for none), reason (one of `REASONS`).
    `event_call` says which events belong to one call.
    """

    groups: pl.DataFrame
    costs: list[Cost]
    event_group: Ints
    event_call: Ints


@shared
def costing(work: Workspace) -> Costing:
    """What each group of calls costs, or why that is not known."""
    owner, borrowed = _owners(work)
    assumed = _elementwise_ops(work, owner) | _program_kernels(work, owner)
    events, contexts = _event_keys(work, owner, borrowed, assumed)
    keys, event_group = np.unique(events.keys(work), return_inverse=True)
    if len(contexts) > 1:
        keys, event_group = np.unique(event_group * len(contexts) + events.context, return_inverse=True)
    groups = _groups(work, events, event_group.astype(np.int64), len(keys))
    results = [_group_cost(work, group, assumed, contexts) for group in records(groups, CallGroup)]
    is_cost = np.array([isinstance(result, Cost) for result in results], bool)
    groups = groups.with_columns(
        pl.Series("cost", np.where(is_cost, np.cumsum(is_cost) - 1, NONE), dtype=pl.Int64),
        pl.Series("reason", [COSTED if isinstance(result, Cost) else result for result in results], dtype=pl.String),
    )
    costs = [result for result in results if isinstance(result, Cost)]
    return Costing(groups, costs, event_group.astype(np.int64), events.call)


def work_of_events(work: Workspace) -> dict[str, Floats]:
    """FLOPs by the width of their numbers, and bytes of the GPU's memory: each event has its call's by time.

    The names are Proton's: flops8, flops16 …, flops where the width is not known.
    """
    found, duration = costing(work), work.gpu["dur_ns"].to_numpy().astype(np.float64)
    _, call = np.unique(found.event_call, return_inverse=True)
    together = np.bincount(call, weights=duration, minlength=1)[call] if len(call) else duration
    share = np.divide(duration, together, out=1 / np.bincount(call)[call].astype(np.float64), where=together > 0)
    counted = [cost if not cost.is_loose and cost.family not in OFF_CHIP else None for cost in found.costs]
    event_cost = found.groups["cost"].to_numpy()[found.event_group]
    sums: dict[str, Floats] = {}
    for number, cost in enumerate(counted):
        for name, amount in ((f"flops{WIDTHS.get(cost.dtype, '')}", cost.flop), ("bytes", cost.bytes)) if cost else ():
            if amount:
                mine = event_cost == number
                sums.setdefault(name, np.zeros(len(share)))[mine] += amount * share[mine]
    return sums


def kernel_dtype(work: Workspace, kernel: int) -> str:
    """The number type that a kernel computes in, by its name."""
    # A TF32 kernel's name spells fp32 first: that is what it reads and writes.
    is_tf32 = "tf32" in work.trace.names[kernel].lower()
    return "tf32" if is_tf32 else work.kernel_classes[kernel].dtype


class CallGroup(msgspec.Struct, frozen=True):
    """What the cost of a group of calls is computed from; numbers of names and specs are -1 where there are none."""

    op: int
    spec: int
    own: int
    in_graph: bool
    is_op: bool
    kernel: int
    blocks: int
    bytes: float
    context: int


class EventKeys(msgspec.Struct, frozen=True):
    """One entry per GPU event, in the order of `work.gpu`: what identifies its group, and the call it belongs to."""

    op: Ints
    spec: Ints
    own: Ints
    call: Ints
    context: Ints
    """What the cost needs besides the inputs, 0 for nothing."""

    def keys(self, work: Workspace) -> Ints:
        """Events with equal keys and contexts share a cost."""
        names, specs = len(work.trace.names) + 1, len(work.trace.specs) + 1
        return ((self.op + 1) * specs + self.spec + 1) * names + self.own + 1


def _event_keys(work: Workspace, owner: Ints, borrowed: Ints, assumed: Assumed) -> tuple[EventKeys, list[CallContext]]:
    trace, gpu = work.trace, work.gpu
    names, kernel = trace.ints("name").astype(np.int64), gpu["name"].to_numpy().astype(np.int64)
    is_modelled = np.zeros(len(trace.names), bool)
    is_modelled[trace.host_names] = [has_model(trace.names[code]) for code in trace.host_names.tolist()]
    is_modelled[list(assumed)] = True
    op_row = climb(owner, trace.ints("parent"), (trace.ints("kind") == CODE["op"]) & is_modelled[names])
    row = np.maximum(op_row, 0)
    spec = trace.ints("spec").astype(np.int64)[row]
    has_shapes = np.append((trace.specs["input_dims"].fill_null("") != "").to_numpy(), False)[spec]
    # An op without shapes has no cost that its copies could share.
    alone = _host_copies(work) | ((recorded_bytes(work) > 0) & ~has_shapes)
    sized = np.isin(gpu["kind"].to_numpy(), [CODE["memcpy"], CODE["memset"]])
    sized |= (gpu["kernel_category"] == COMMUNICATION).to_numpy()
    modelled = (op_row >= 0) & ~alone
    caller = np.where(owner >= 0, names[np.maximum(owner, 0)], NONE)
    contexts = call_contexts(work, np.where(modelled, op_row, NONE))
    keys = EventKeys(
        op=np.where(modelled, names[row], caller),
        spec=np.where(modelled, spec, NONE),
        own=np.where(alone | (sized & ~modelled), kernel, NONE),
        call=np.where(modelled, op_row + borrowed * len(trace), 2 * len(trace) + np.arange(len(gpu), dtype=np.int64)),
        context=contexts.code,
    )
    return keys, contexts.contexts


def _groups(work: Workspace, events: EventKeys, group: Ints, count: int) -> pl.DataFrame:
    gpu = work.gpu
    duration = gpu["dur_ns"].to_numpy()
    calls = call_times(events.call, gpu["start_ns"].to_numpy(), duration)
    of_call = group[calls.first]
    number = np.bincount(of_call, minlength=count)
    first = np.full(count, len(group), np.int64)
    np.minimum.at(first, group, np.arange(len(group)))
    owner = gpu["owner"].to_numpy()[first]
    blocks = np.append(grid_blocks(work), 0)[gpu["geometry"].to_numpy()]
    return pl.DataFrame(
        {
            "group": np.arange(count),
            "op": events.op[first],
            "spec": events.spec[first],
            "own": events.own[first],
            "count": number,
            "total_ns": _summed(duration, group, count),
            "union_ns": _summed(calls.union_ns, of_call, count),
            "step_ns": _summed(np.where(gpu["step"].to_numpy() >= 0, duration, 0), group, count),
            "in_graph": is_graph_launch(work.trace, owner),
            "is_op": (work.trace.ints("kind")[owner] == CODE["op"]) & (owner >= 0),
            "kernel": _main_kernels(group, gpu["name"].to_numpy().astype(np.int64), duration, count),
            "blocks": _summed(blocks, group, count) // np.maximum(number, 1),
            "bytes": _mean_bytes(work, group, count),
            "context": events.context[first],
        }
    )


def _summed(values: Ints, group: Ints, count: int) -> Ints:
    """Sums per group; exact, as they stay below 2^53."""
    return np.bincount(group, weights=values, minlength=count).astype(np.int64)


def _main_kernels(group: Ints, name: Ints, duration: Ints, count: int) -> Ints:
    """Per group the name of the kernel that takes most of its time."""
    width = int(name.max(initial=0)) + 1
    pairs, pair_of_event = np.unique(group * width + name, return_inverse=True)
    spent = np.bincount(pair_of_event, weights=duration, minlength=len(pairs))
    order = np.lexsort((-pairs, spent, pairs // width))  # the longest of each group comes last, the first of equals
    last = np.append(np.flatnonzero(np.diff(pairs[order] // width)), len(pairs) - 1) if len(pairs) else order
    main = np.zeros(count, np.int64)
    main[pairs[order][last] // width] = pairs[order][last] % width
    return main


def _mean_bytes(work: Workspace, group: Ints, count: int) -> Floats:
    """Bytes that the copies and memsets of a group record, per event; 0 where there are none."""
    sizes = recorded_bytes(work)
    moved = np.bincount(group, weights=sizes, minlength=count)
    return moved / np.maximum(np.bincount(group, weights=sizes > 0, minlength=count), 1)


@shared
def recorded_bytes(work: Workspace) -> Ints:
    """For each GPU event the bytes that it records as a copy or memset, 0 for none and for what no memory holds."""
    copies = work.trace.copies.unique("id", keep="first").filter(pl.col("bytes").is_between(0, MOST_BYTES))
    sizes = np.zeros(len(work.trace), np.int64)
    sizes[copies["id"].to_numpy()] = copies["bytes"].to_numpy()
    of_event: Ints = sizes[work.gpu["id"].to_numpy()]
    return of_event


def _owners(work: Workspace) -> tuple[Ints, Ints]:
    """The op or launch of each GPU event, and 1 where it is borrowed from a twin.

    A profile often begins while kernels of the step before still run: their launches are not recorded. Where such a
    stretch has the same names in the same order as the end of what its stream runs later, each kernel is taken to do
    the work of its twin.
    """
    gpu = work.gpu
    owner = gpu["owner"].to_numpy().astype(np.int64).copy()
    borrowed = np.zeros(len(owner), np.int64)
    lane = work.trace.ints("lane")[gpu["id"].to_numpy()]
    start, names = gpu["start_ns"].to_numpy(), gpu["name"].to_numpy()
    for stream in np.unique(lane[owner < 0]).tolist():
        rows = np.flatnonzero(lane == stream)
        rows = rows[np.argsort(start[rows], kind="stable")]
        count = int(np.argmax(owner[rows] >= 0))
        first, last = rows[:count], rows[len(rows) - count :]
        if 0 < count <= len(rows) // 2 and (owner[last] >= 0).all() and (names[first] == names[last]).all():
            owner[first], borrowed[first] = owner[last], 1
    return owner, borrowed


def _elementwise_ops(work: Workspace, owner: Ints) -> Assumed:
    """PyTorch's ops that launch nothing but elementwise kernels: those need no entry in the table."""
    trace = work.trace
    code = np.where(owner >= 0, trace.ints("name").astype(np.int64)[np.maximum(owner, 0)], NONE)
    frame = pl.DataFrame({"code": code, "only": work.gpu["kernel_category"] == ELEMENTWISE})
    codes = frame.group_by("code").agg(pl.col("only").all()).filter(pl.col("only") & (pl.col("code") >= 0))["code"]
    names = {code: trace.names[code] for code in codes.to_list()}
    own = (code for code, name in names.items() if name.startswith("aten::") and not has_model(name))
    return dict.fromkeys(own, assumed_pointwise)


def _program_kernels(work: Workspace, owner: Ints) -> Assumed:
    """Ops that are the launch of one Triton kernel of the program, by Inductor."""
    trace = work.trace
    found: Assumed = {}
    code = np.where(owner >= 0, trace.ints("name").astype(np.int64)[np.maximum(owner, 0)], NONE)
    pairs = pl.DataFrame({"op": code, "kernel": work.gpu["name"]}).filter(pl.col("op") >= 0).unique()
    for op, kernel in pairs.rows():
        if is_of_program(trace.names[op], trace.names[kernel]) and not has_model(trace.names[op]):
            is_attention = ATTENTION.search(work.kernel_classes[kernel].category) is not None
            found[op] = partial(program_cost, is_attention=is_attention)
    return found


def _host_copies(work: Workspace) -> Bools:
    """Which GPU events copy between host and GPU."""
    names = work.gpu["name"].to_numpy()
    copies = np.unique(names[(work.gpu["kind"] == CODE["memcpy"]).to_numpy()])
    return np.isin(names, [code for code in copies.tolist() if is_host_copy(work.trace.names[code])])


@shared
def grid_blocks(work: Workspace) -> Ints:
    """Thread blocks per row of `geometries`, 0 where the grid is not recorded."""
    grids = work.trace.geometries["grid"].str.extract_all(r"\d{1,12}").list.head(3).to_list()
    return np.array([min(prod(map(int, grid or ["0"])), MOST_BLOCKS) for grid in grids], np.int64)


def _group_cost(work: Workspace, group: CallGroup, assumed: Assumed, contexts: list[CallContext]) -> Cost | str:
    """The cost of one call of a group, or the reason why there is none."""
    trace = work.trace
    if group.own >= 0:
        return _own_cost(work, group) or NO_SHAPES
    if group.op < 0:
        return "no op"
    if group.in_graph:
        return "in a graph"
    op = trace.names[group.op]
    if not has_model(op) and group.op not in assumed:
        return "no model" if group.spec >= 0 or "::" in op else NO_SHAPES if group.is_op else "no op"
    dims, types, strides, concrete = trace.specs.row(group.spec) if group.spec >= 0 else ("",) * 4
    item_bytes, kernel = _list_item_bytes(work, group.kernel), trace.names[group.kernel]
    list_dtype = work.kernel_classes[group.kernel].dtype
    list_dtype = list_dtype if ITEM_BYTES.get(list_dtype) == item_bytes else ""
    call = parse_call(op, dims, types, strides, concrete, item_bytes, kernel, list_dtype)
    if group.context:
        call = msgspec.structs.replace(call, **contexts[group.context]._asdict())
    cost = assumed[group.op](call) if group.op in assumed else cost_or_reason(call, group.blocks)
    return cost or NO_SHAPES


def _own_cost(work: Workspace, group: CallGroup) -> Cost | None:
    """Copies, memsets and collectives by what they record themselves."""
    if work.kernel_classes[group.own].category == COMMUNICATION:
        return _collective_cost(work, group.own)
    return copy_cost(work.trace.names[group.own], group.bytes) if group.bytes else None


def copy_cost(name: str, moved: float) -> Cost | None:
    """A copy or a memset by the bytes that it records; None for a copy from or to an unknown place.

    >>> [copy_cost(name, 100).bytes for name in ("Memcpy DtoD (Device -> Device)", "Memcpy HtoD", "Memset (Device)")]
    [200.0, 100.0, 100.0]
    """
    if MEMSET.search(name):
        return Cost("fill", 0.0, float(moved), "", unit="", params=(("way", "memset"),))
    ends = copy_ends(name)
    if ends in ("", HOST * 2):
        return None
    if HOST in ends:
        params = (("way", "to host" if ends[1] == HOST else "to GPU"),
                  ("memory", "pageable" if PAGEABLE.search(name) else "pinned"))  # fmt: skip
        return Cost("transfer", 0.0, float(moved), "", unit="", params=params)
    if PEER in ends:
        return Cost("transfer", 0.0, float(moved), "", unit="", params=(("way", BETWEEN_GPUS),))
    return Cost("copy", 0.0, 2.0 * moved, "", unit="", params=(("way", "on the GPU"),))


def _collective_cost(work: Workspace, code: int) -> Cost | None:
    sized = described_collectives(work).filter((pl.col("name") == code) & (pl.col("message_bytes") > 0))
    if not len(sized):
        return None
    mean = float(sized["message_bytes"].sum()) / len(sized)
    why = "" if sized["message_bytes"].n_unique() == 1 else "the mean of messages of several sizes"
    params = (("collective", str(sized["collective"][0])), ("ranks", int(sized["group_size"][0] or 0)))
    return Cost("collective", 0.0, mean, "", unit="", params=params, approximate=why)


def _list_item_bytes(work: Workspace, kernel: int) -> float:
    """The element size of tensor lists from the kernel's name: PyTorch's profiler does not record their dtypes."""
    opaque = OPAQUE_SIZE.search(work.trace.names[kernel])
    if opaque:
        return float(min(int(opaque[1]), 16))
    return ITEM_BYTES.get(work.kernel_classes[kernel].dtype, 0.0)
