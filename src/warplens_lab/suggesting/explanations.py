"""What `warplens explain CODE` prints for a suggestion: what it means, why it costs time, and what helps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warplens.model.rule import Explanation

EXPLANATIONS: Final[Mapping[str, Explanation]] = {
    "WK101": Explanation(
        "registers are spilled to memory",
        "A thread has at most 255 registers; values that do not fit are spilled to memory and loaded again, inside "
        "loops in every iteration. Smaller tiles, or more warps for the same tile, leave fewer values per thread. "
        "Reported from {spill_bytes:g} bytes per thread.",
    ),
    "WK102": Explanation(
        "an access is narrower than its tile allows",
        "A thread can move 128 bits with one instruction, if the compiler knows that addresses are aligned: arguments "
        "that are multiples of 16 (Triton specialises a kernel for those), or a factor visible in the code, such as "
        "`n // 8 * 8`. Narrow accesses take more instructions and prevent loops from prefetching. Reported when "
        "{width_ratio:g} × the width would fit.",
    ),
    "WK103": Explanation(
        "a matrix product does not use the matrix unit as it could",
        "Matrix units multiply 8- and 16-bit numbers, tf32 and some fp8 types, in tiles of a minimum size. A product "
        "in full fp32, a tile that is too small, or operands of a type that the GPU does not support fall back to "
        "slower instructions or to ordinary arithmetic. wgmma and tcgen05 need {matrix_rows:g} rows and "
        "{matrix_warps:g} warps.",
    ),
    "WK104": Explanation(
        "a loop with a matrix product does not prefetch",
        "A loop that loads the next tiles while it multiplies the current ones hides the latency of memory. It needs "
        "num_stages of 2 or more, loads of {narrow_bits:g} bits or more per thread, and addresses that do not depend "
        "on loaded values.",
    ),
    "WK105": Explanation(
        "a layout changes through shared memory inside a loop",
        "Values that change from one layout to another go through shared memory, with a barrier, in every iteration of "
        "the loop. Casting or reducing outside the loop, or in the order in which a product takes its operands, "
        "avoids it.",
    ),
    "WK106": Explanation(
        "shared memory is accessed with bank conflicts",
        "Shared memory has 32 banks; lanes that access different rows of one bank are served one after the other. The "
        "counts are extra passes per access, for the current layout, for padded rows and for the best swizzle. "
        "Reported when another layout takes {conflict_ratio:g} × fewer passes.",
    ),
    "WK107": Explanation(
        "a mask makes an access narrower",
        "A mask is a condition per element. Where it can change within 128 bits, elements are moved one by one. A "
        "bound that is a multiple of the width, or a loop whose full iterations need no mask, keeps accesses wide. "
        "Reported when {width_ratio:g} × the width would fit.",
    ),
    "WK108": Explanation(
        "few warps fit on a multiprocessor",
        "While some warps wait, others can run. Registers, shared memory and the size of a block limit how many fit; "
        "the limiter names which. Matrix products do well with few warps, memory-bound kernels do not. Reported below "
        "{occupancy_percent:g} % occupancy, for kernels without matrix products.",
    ),
    "WK109": Explanation(
        "the last wave of blocks leaves much of the GPU idle",
        "Blocks run in waves of as many as fit. A nearly empty last wave takes as long as a full one, and a grid of "
        "fewer blocks than multiprocessors leaves some of them without work. Reported when {idle_wave_percent:g} % of "
        "the GPU is idle over the launch, up to {many_waves:g} waves.",
    ),
    "WK110": Explanation(
        "the tile is too small or too large",
        "A tile with fewer elements than threads leaves threads idle or makes them repeat work; a tile that is too "
        "large does not fit into shared memory or registers. In a matrix product, a side below "
        "{smallest_dot_side:g} loads too much for each multiplication.",
    ),
    "WK121": Explanation(
        "lanes of a warp take different branches",
        "The 32 lanes of a warp share one program counter: where a condition differs between them, both ways are run, "
        "each with the other lanes idle. A condition on the number of the warp, `threadIdx.x / 32`, parts none; short "
        "branches become predicated instructions, and nothing diverges. Reported of CUDA C++ where the thread's number "
        "decides and lanes differ in {parted_warps_percent:g} % of a block's warps or more, or in an unknown number; "
        "where loaded values decide, of a loop, a function that is not inlined or a body of {parted_body:g} PTX "
        "instructions or more. A comparison of an index with a bound parts one warp of the grid at most and is not "
        "reported, nor lanes that only end.",
    ),
    "WK122": Explanation(
        "a warp's access is scattered over memory",
        "Memory moves in sectors of 32 bytes. A warp whose lanes access neighbouring elements needs four of them for "
        "32 floats; with a stride between lanes each has a sector of its own, and most of what is moved is not used. "
        "Let threadIdx.x be the fastest index, or move a tile through shared memory. Reported of CUDA C++ from "
        "{sector_ratio:g} × the sectors that the bytes would fill.",
    ),
    "WK123": Explanation(
        "a barrier may not be reached by all lanes of a warp",
        "`__syncthreads()` and named barriers that wait must be reached by all threads that they wait for. In a "
        "branch that lanes of a warp do not take together the kernel hangs, or goes on with data that is not there "
        "yet. Move the barrier out of the branch. Reported of CUDA C++; lanes that have ended are not waited for.",
    ),
    "WK124": Explanation(
        "fault: a named barrier cannot be met",
        "`bar.sync a, n` waits until n threads have come to barrier a, counted by warps: those that wait and those "
        "that only arrive (`bar.arrive`). Where fewer come, the kernel hangs. Where more come, some of them meet and "
        "the others later or never; which of them is left to chance. n must be a multiple of 32, and the same for all. "
        "Each warp is followed from barrier to barrier with large numbers in place of the kernel's arguments, so that "
        "numbers such as `1 + stage` are known; nothing is reported where loaded values decide. A fault: `kernel "
        "check` ends with status 1. Reported of CUDA C++.",
    ),
}
