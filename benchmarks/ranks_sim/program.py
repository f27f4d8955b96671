"""What a rank does in a step: blocks of ops, collectives, and the waits between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ranks_sim.base import Base, Block
from ranks_sim.spec import MICROSECOND, JobSpec


@dataclass(frozen=True)
class CollectiveKind:
    """How PyTorch 2.11 and NCCL 2.28 name a collective, and the bytes that pass a link for each byte of the array."""

    name: str
    op: str
    annotation: str
    kernel: str
    link_share: float


_ARGS = "(ncclDevKernelArgsStorage<4096ul>)"
COLLECTIVE_KINDS = {
    "all_reduce": CollectiveKind(
        "allreduce", "c10d::allreduce_", "nccl:all_reduce", f"ncclDevKernel_AllReduce_Sum_f32_RING_LL{_ARGS}", 2.0
    ),
    "all_gather": CollectiveKind(
        "_allgather_base",
        "c10d::_allgather_base_",
        "nccl:_all_gather_base",
        f"ncclDevKernel_AllGather_RING_LL{_ARGS}",
        1.0,
    ),
    "reduce_scatter": CollectiveKind(
        "_reduce_scatter_base",
        "c10d::_reduce_scatter_base_",
        "nccl:_reduce_scatter_base",
        f"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL{_ARGS}",
        1.0,
    ),
    "all_to_all": CollectiveKind(
        "all_to_allv", "c10d::alltoall_base_", "nccl:all_to_all", f"ncclDevKernel_SendRecv{_ARGS}", 1.0
    ),
    "send": CollectiveKind("send", "c10d::send", "nccl:send", f"ncclDevKernel_SendRecv{_ARGS}", 1.0),
    "recv": CollectiveKind("recv", "c10d::recv_", "nccl:recv", f"ncclDevKernel_SendRecv{_ARGS}", 1.0),
}
# Of a collective's call on the host, as recorded on real ranks: until its kernel is launched, and until the next op.
LAUNCH_AFTER_NS = 42 * MICROSECOND
CALL_NS = 75 * MICROSECOND
WAIT_CALL_NS = 8 * MICROSECOND


@dataclass(frozen=True)
class Run:
    """A block of ops. `slot` picks its noise, so that the same block has the same noise in every simulation."""

    block: Block
    phase: str
    slot: int
    module: str
    is_expert: bool = False
    pair: int = -1  # a forward block and its backward have the same


@dataclass(frozen=True)
class Communicate:
    """A collective, or a send or receive (`towards`: the other stage, −1 or 1)."""

    kind: str
    axis: str
    elements: int
    slot: int
    phase: str
    module: str
    handle: str = ""  # where set, the call is asynchronous: it has a stream of its own, and a `Wait` ends it
    towards: int = 0
    is_data: bool = False  # whether its size follows that of the data

    @property
    def stream(self) -> str:
        return f"{self.axis}{self.towards:+d}" if self.handle else "compute"


@dataclass(frozen=True)
class Wait:
    """The compute stream waits for a collective."""

    handle: str
    phase: str


@dataclass(frozen=True)
class Load:
    """The next batch is taken from the data loader."""


@dataclass(frozen=True)
class Item:
    """The host waits for the loss."""


Instruction = Run | Communicate | Wait | Load | Item


class StepProgram:
    """The instructions of a step on one stage of the grid."""

    def __init__(self, spec: JobSpec, base: Base, stage: int) -> None:
        self.spec = spec
        self.base = base
        self.stage = stage
        self.layers = spec.layers + sum(
            int(fault["layers"]) for fault in spec.faults if fault.kind == "uneven_stage" and fault["stage"] == stage
        )
        per_step = spec.events / spec.steps
        self.optimizer_events = max(1, round(0.06 * per_step))
        per_layer = 0.94 * per_step / (spec.layers * spec.batches)
        parts = 4.5 if spec.grid.ep > 1 else 3.0  # forward 1, backward 2, experts half as much again
        self.forward_events = max(1, round(per_layer / parts))

    def instructions(self) -> list[Instruction]:
        return list(self._step())

    def _step(self) -> Iterator[Instruction]:
        spec = self.spec
        if spec.loader:
            yield Load()
        for phase, batch in self._schedule():
            yield from self._forward(batch) if phase == "forward" else self._backward(batch)
        if spec.grid.dp * spec.grid.ep > 1:
            yield from (Wait(f"gradient{layer}", "backward") for layer in reversed(range(self.layers)))
        if spec.grid.world > 1:  # the norm of all gradients
            yield Communicate("all_reduce", "world", 1, 7, "optimizer", "")
        yield Run(self.base.block("optimizer", 0, self.optimizer_events), "optimizer", 5, "")
        if spec.sync:
            yield Item()

    def _schedule(self) -> Iterator[tuple[str, int]]:
        """One forward, one backward; as many forwards ahead as there are later stages."""
        batches = self.spec.batches
        ahead = min(self.spec.grid.pp - self.stage - 1, batches)
        yield from (("forward", batch) for batch in range(ahead))
        for batch in range(batches - ahead):
            yield "forward", ahead + batch
            yield "backward", batch
        yield from (("backward", batch) for batch in range(batches - ahead, batches))

    def _forward(self, batch: int) -> Iterator[Instruction]:
        yield from self._receive("pp_forward", -1, "forward", batch)
        for layer in range(self.layers):
            yield from self._gathered(layer, layer + 1, "forward", batch)
            yield from self._layer("forward", batch, layer)
        yield from self._send("pp_forward", 1, "forward", batch)

    def _backward(self, batch: int) -> Iterator[Instruction]:
        yield from self._receive("pp_backward", 1, "backward", batch)
        is_last = batch == self.spec.batches - 1
        for layer in reversed(range(self.layers)):
            yield from self._gathered(layer, layer - 1, "backward", batch)
            yield from self._layer("backward", batch, layer)
            if is_last and self.spec.grid.dp * self.spec.grid.ep > 1:
                kind = "reduce_scatter" if self.spec.sharded else "all_reduce"
                elements = self.spec.layer_elements // self.spec.grid.tp
                slot = self._slot("backward", batch, layer, 6)
                yield Communicate(kind, "dp", elements, slot, "backward", f"Layer_{layer}", f"gradient{layer}")
        yield from self._send("pp_backward", -1, "backward", batch)

    def _layer(self, phase: str, batch: int, layer: int) -> Iterator[Instruction]:
        module = f"Layer_{layer}"
        grid, events = self.spec.grid, self.forward_events * (1 if phase == "forward" else 2)
        elements = self.spec.activation_elements // self.spec.batches
        pair = self._slot("forward", batch, layer, 0)
        slot = self._slot(phase, batch, layer, 0)
        yield Run(self.base.block(phase, layer, events), phase, slot, module, pair=pair)
        if grid.ep > 1:
            for part in (1, 3):
                slot = self._slot(phase, batch, layer, part)
                yield Communicate("all_to_all", "ep", elements, slot, phase, module, is_data=True)
                if part == 1:
                    block = self.base.block(phase, layer + 1, max(1, events // 2))
                    slot = self._slot(phase, batch, layer, 2)
                    yield Run(block, phase, slot, module, is_expert=True, pair=pair + 2)
        if grid.tp > 1:
            slot = self._slot(phase, batch, layer, 4)
            yield Communicate("all_reduce", "tp", elements, slot, phase, module, is_data=True)

    def _gathered(self, layer: int, following: int, phase: str, batch: int) -> Iterator[Instruction]:
        """Sharded parameters: those of the next layer are gathered while this one runs."""
        if not self.spec.sharded or self.spec.grid.dp * self.spec.grid.ep < 2:
            return
        first = 0 if phase == "forward" else self.layers - 1
        wanted = [layer, following] if layer == first else [following]
        for each in wanted:
            if 0 <= each < self.layers:
                elements = self.spec.layer_elements // self.spec.grid.tp
                slot = self._slot(phase, batch, each, 5)
                yield Communicate("all_gather", "dp", elements, slot, phase, f"Layer_{each}", f"weights{each}")
        yield Wait(f"weights{layer}", phase)

    def _receive(self, axis: str, towards: int, phase: str, batch: int) -> Iterator[Instruction]:
        if 0 <= self.stage + towards < self.spec.grid.pp:
            yield self._message("recv", axis, towards, phase, batch)
            yield Wait(f"recv{axis}", phase)

    def _send(self, axis: str, towards: int, phase: str, batch: int) -> Iterator[Instruction]:
        if 0 <= self.stage + towards < self.spec.grid.pp:
            yield self._message("send", axis, towards, phase, batch)

    def _message(self, kind: str, axis: str, towards: int, phase: str, batch: int) -> Communicate:
        elements = self.spec.activation_elements // self.spec.batches
        slot = self._slot(phase, batch, 0, 7)
        return Communicate(kind, axis, elements, slot, phase, "", f"{kind}{axis}", towards, is_data=True)

    def _slot(self, phase: str, batch: int, layer: int, part: int) -> int:
        return (((batch * 2 + (phase == "backward")) * 64) + layer) * 8 + part + 8


def kernel_stretch(spec: JobSpec, instructions: list[Instruction]) -> float:
    """By how much kernels have to be longer for the host to stay ahead of the GPU."""
    host = sum(_host_ns(each) for each in instructions)
    gpu = sum(float(each.block.gpu_ns.sum()) for each in instructions if isinstance(each, Run))
    return max(1.0, host / (spec.host_share * gpu))


def _host_ns(instruction: Instruction) -> float:
    if isinstance(instruction, Run):
        return float(instruction.block.pitch.sum())
    return CALL_NS if isinstance(instruction, Communicate) else 0.0
