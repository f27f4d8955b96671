"""What is known of a compiled kernel, as frozen records that JSON can hold."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from warplens_lab.compiling.remarks import Remark


@dataclass(frozen=True, order=True)
class SourcePlace:
    """A line of the user's source."""

    file: str
    line: int
    column: int = 0


@dataclass(frozen=True)
class Access:
    """A load, store, copy or atomic of global memory of the source, with the width the compiler gave it."""

    place: SourcePlace
    kind: str
    """load, store, async copy, tma copy, tma store, atomic."""
    argument: str
    """The pointer argument that it goes through; several are joined by "|", "" where none was found."""
    element: str
    element_bits: int
    shape: tuple[int, ...]
    is_masked: bool
    is_indirect: bool
    """The address depends on values that were loaded."""
    in_loop: bool
    width_bits: int
    """Bits per thread and instruction, most of them; 0 where no instruction was found."""
    narrowest_bits: int
    best_bits: int
    """What the tile would allow: up to 128 bits, or all that a thread has of it."""
    instructions: int
    depends_on: tuple[str, ...]
    """Arguments that the address or the mask is computed from."""
    undivided: tuple[str, ...]
    """Those of them that are not known to be divisible by 16."""
    undivided_address: tuple[str, ...]
    """Those of these that the address itself depends on, not only the mask."""
    callers: tuple[SourcePlace, ...] = ()
    """The calls that lead to a helper's access, innermost first; empty for one of the kernel itself."""
    by_strides: bool = False
    """Through a descriptor of the host's that became a pointer with strides, because the target has no TMA."""
    sectors: int | None = None
    """CUDA C++: sectors of 32 bytes that one access of a warp touches, the most of any; None where not known."""
    sectors_needed: int | None = None
    """The sectors that the same bytes would fill side by side."""

    @property
    def is_vectorised(self) -> bool:
        return self.is_tma or self.width_bits >= self.best_bits

    @property
    def is_tma(self) -> bool:
        """A whole box is moved by one instruction, so that no thread has a width."""
        return self.kind.startswith("tma")

    def is_same(self, other: Access) -> bool:
        """The same access of the source, in another compilation."""
        return (self.place, self.callers, self.argument) == (other.place, other.callers, other.argument)

    @property
    def is_tile(self) -> bool:
        return bool(self.shape)


@dataclass(frozen=True)
class Dot:
    """A matrix product of the source and the instruction that does it."""

    place: SourcePlace
    shape: tuple[int, int, int]
    """M, N, K of the tile."""
    element: str
    precision: str
    instruction: str
    """wgmma, mma.sync, tcgen05.mma, v_mfma … or "" where ordinary arithmetic does it."""
    instruction_shape: str
    in_loop: bool

    @property
    def uses_matrix_unit(self) -> bool:
        return bool(self.instruction)


@dataclass(frozen=True)
class KernelLoop:
    """A loop of the source that loads from global memory."""

    place: SourcePlace
    has_dot: bool
    loads: int
    loads_ahead: int
    """Loads that are begun before the loop is entered: what pipelining does."""
    buffers: int
    """The most copies of one tile that are held in shared memory."""

    @property
    def is_pipelined(self) -> bool:
        return self.loads_ahead > 0


@dataclass(frozen=True)
class ScheduleStep:
    """One operation of a loop's body in the compiler's order: a copy, a product, a wait, a signal."""

    place: SourcePlace
    partition: str
    """Of a warp-specialised loop, or a group of warps; empty where all warps do it."""
    order: int
    kind: str
    operation: str
    """As TTGIR or PTX names it."""
    ahead: int
    """Iterations before the one whose result it serves; in a partition at most so many."""
    stage: int | None
    """0 is issued first; None in a partition, which runs at its own pace."""
    buffer: str = ""
    copies: int = 0
    """Of the buffer."""
    waits_for: str = ""
    signals: str = ""
    detail: str = ""


@dataclass(frozen=True)
class SchedulePartition:
    name: str
    role: str
    warps: int
    registers: int


@dataclass(frozen=True)
class LoopSchedule:
    """How the compiler arranged a loop's iterations over time and warps, or a CUDA C++ kernel its work over warps."""

    place: SourcePlace
    pattern: str
    """producer/consumer, ping-pong, hand-over, pipelined or sequential."""
    stages: int
    sentence: str
    partitions: tuple[SchedulePartition, ...] = ()
    steps: tuple[ScheduleStep, ...] = ()
    refusal: str = ""
    """That the compiler did not do what the source asks for; it ends the sentence."""


@dataclass(frozen=True)
class Conversion:
    """A change of the layout of a tensor, from threads to threads."""

    place: SourcePlace
    source: str
    destination: str
    shape: tuple[int, ...]
    element_bits: int
    in_loop: bool
    through: str
    """registers, lanes (within a warp), warps (through shared memory), or unknown."""
    in_every_turn: bool = False
    """In an innermost loop and unconditional: not once per iteration of an outer loop."""


@dataclass(frozen=True)
class SharedAccess:
    """A tile that is written to or read from shared memory in a known layout."""

    place: SourcePlace
    kind: str
    """store, load, load matrix, async copy."""
    layout: str
    """The layout in the compiler's words."""
    shape: tuple[int, ...]
    element_bits: int
    vector_bits: int
    conflicts: int | None
    """Extra passes per wavefront; None where the access is not modelled."""
    conflicts_unswizzled: int | None
    conflicts_padded: int | None
    padding: int
    """Elements after each row that `conflicts_padded` counts with; 0 where none helps."""
    conflicts_swizzled: int | None
    in_loop: bool
    allocated: tuple[int, ...] = ()
    """The tile in memory that this access takes a slice of, or all; its other accesses use the same layout."""
    registers: str = ""
    """The layout of the tensor in registers that is written or read."""
    wavefronts: int | None = None
    """Passes that all warps of a block take for it, with each loop's body once; None where they are not known."""
    wavefronts_needed: int | None = None
    """The same without conflicts."""


@dataclass(frozen=True)
class Branch:
    """A condition of a CUDA C++ kernel that decides a jump."""

    place: SourcePlace
    difference: str
    """Why lanes of a warp may decide differently: "" (they do not), edge, lanes, data."""
    lanes: int | None
    """Lanes of a warp that jump, where this is known and differs: of the first such warp."""
    warps: int | None
    """Warps of the block in which lanes differ; None where it is not known."""
    in_loop: bool
    jumps: int
    """Conditional jumps of the machine code on the line; 0 where instructions are predicated instead."""
    regions: int
    """Regions on the line after which the machine code brings the lanes of a warp together again."""
    is_predicated: bool = False
    """Lanes may decide differently, but the machine code does not jump: all lanes do both ways, each as it decided."""
    body_instructions: int = 0
    """PTX statements that only some of the lanes do; 0 where the others end there."""
    has_loop: bool = False
    """Among them is a loop, or it decides how often one turns."""
    has_call: bool = False
    """Among them is a function that is not inlined."""
    turns: bool = False
    """It decides whether a loop turns again."""

    @property
    def is_divergent(self) -> bool:
        """An edge parts one warp of the grid at most, and does not count."""
        return self.difference in ("lanes", "data") and self.jumps > 0


@dataclass(frozen=True)
class BarrierUse:
    """A barrier of the threads of a block: `__syncthreads()` is barrier 0, the others are named by their number."""

    place: SourcePlace
    """In the kernel: of a helper that holds the barrier, the call."""
    kind: str
    """sync (arrive and wait), arrive, or reduce."""
    first: int | None
    """The barrier's number; None where it is not known."""
    last: int | None
    """The highest number where it is computed."""
    threads: int | None
    """Threads that it waits for; None for all of the block, or where it is not known."""
    warps: tuple[int, ...]
    """Warps of the block that get there, by number."""
    in_loop: bool
    parted_by: SourcePlace | None = None
    """The condition that may keep some lanes of a warp from getting there with the others."""
    numbers: str = ""
    """All numbers that these warps come with: `1, 4`, or the argument that they are, `id+1`."""
    fault: str = ""
    """Why it cannot be met."""

    @property
    def is_named(self) -> bool:
        return self.first != 0

    @property
    def number(self) -> str:
        if self.numbers:
            return self.numbers
        if self.first is None:
            return "?"
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


@dataclass(frozen=True)
class Line:
    """The machine instructions of one line of the source, by class."""

    place: SourcePlace
    source: str
    instructions: int
    in_loops: int
    classes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Occupancy:
    """How many blocks one SM or CU holds, and what keeps it from holding more."""

    blocks: int
    warps: int
    warp_slots: int
    limiter: str
    limits: tuple[tuple[str, int], ...]
    """Blocks that each resource alone would allow."""

    @property
    def percent(self) -> float:
        return 100.0 * self.warps / self.warp_slots

    @property
    def block_warps(self) -> int:
        """Warps of a block, those of its partitions included; 0 where no block fits."""
        return self.warps // self.blocks if self.blocks else 0


@dataclass(frozen=True)
class KernelFacts:
    """Everything that compiling says about a kernel; `failure` where it did not compile."""

    kernel: str
    file: str
    target: str
    triton_version: str
    signature: str
    config: str
    num_warps: int
    num_stages: int
    num_ctas: int
    constants: tuple[tuple[str, int], ...] = ()
    """The constexprs that are whole numbers."""
    failure: str = ""
    failure_place: SourcePlace | None = None
    registers: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    stack_bytes: int = 0
    shared_bytes: int = 0
    tensor_memory_columns: int = 0
    occupancy: Occupancy | None = None
    matrix_instructions: tuple[str, ...] = ()
    async_copies: int = 0
    tma_copies: int = 0
    instructions: int = 0
    accesses: tuple[Access, ...] = ()
    dots: tuple[Dot, ...] = ()
    loops: tuple[KernelLoop, ...] = ()
    conversions: tuple[Conversion, ...] = ()
    shared: tuple[SharedAccess, ...] = ()
    schedule: tuple[LoopSchedule, ...] = ()
    lines: tuple[Line, ...] = ()
    remarks: tuple[Remark, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be found out, and why."""
    language: str = "triton"
    """triton or cuda."""
    compiler: str = ""
    """With its version, where it is not Triton."""
    block: tuple[int, ...] = ()
    """CUDA C++: threads of a block, by dimension."""
    branches: tuple[Branch, ...] = ()
    barriers: tuple[BarrierUse, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def is_compiled(self) -> bool:
        return not self.failure

    @property
    def is_cuda(self) -> bool:
        return self.language == "cuda"

    @property
    def compiler_text(self) -> str:
        return self.compiler or f"Triton {self.triton_version}"

    @property
    def divergent_branches(self) -> int:
        return sum(branch.is_divergent for branch in self.branches)

    @property
    def spill_bytes(self) -> int:
        return self.spill_store_bytes + self.spill_load_bytes

    @property
    def buffers(self) -> int:
        return max((loop.buffers for loop in self.loops), default=0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
