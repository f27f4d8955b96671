"""What each code of a suggestion means, why it costs time, and what helps: for `warplens explain`."""

from __future__ import annotations

from typing import Final

EXPLANATIONS: Final = {
    "WK101": "A thread has at most 255 registers; what does not fit is spilled to memory and loaded again, inside "
    "loops each time. Smaller tiles, or more warps for the same tile, leave each thread less to hold.",
    "WK102": "A thread can move 128 bits with one instruction. It does where the compiler knows that addresses are "
    "aligned: arguments that are multiples of 16 (Triton specialises a kernel for those), or a factor that "
    "the code shows, as `n // 8 * 8`. Narrow accesses take more instructions, and keep loops from loading "
    "ahead.",
    "WK103": "Matrix units multiply 8- and 16-bit numbers, tf32 and some fp8, in tiles of a least size. A product in "
    "full fp32, a tile that is too small or operands of a type the GPU lacks fall back to slower instructions "
    "or to plain ones.",
    "WK104": "A loop that loads the next tiles while it multiplies the present ones hides the memory's latency. It "
    "needs num_stages of 2 or more, loads of 32 bits or more per thread, and addresses that do not depend on "
    "loaded values.",
    "WK105": "Values that change from one layout to another go through shared memory, with a barrier, in every turn of "
    "the loop. Casting or reducing outside the loop, or in the order in which a product takes its operands, "
    "avoids it.",
    "WK106": "Shared memory has 32 banks; lanes that touch different rows of one bank wait for each other. The counts "
    "are of extra passes per access, for the present layout, for padded rows and for the best swizzle.",
    "WK107": "A mask is a condition per element. Where it can change within 128 bits, elements are moved one by one. A "
    "bound that is a multiple of the width, or a loop whose full turns need no mask, keeps accesses wide.",
    "WK108": "Warps that wait are hidden by others that can run. Registers, shared memory and the size of a block "
    "bound how many fit; the limiter says which. Products of matrices do with few, kernels bound by memory do "
    "not.",
    "WK109": "Blocks run in waves of as many as fit. A last wave that is nearly empty takes as long as a full one, and "
    "a grid of fewer blocks than multiprocessors leaves some without work.",
    "WK110": "A tile of fewer elements than threads leaves threads idle or makes them repeat work; one that is too "
    "large does not fit into shared memory or registers.",
}
