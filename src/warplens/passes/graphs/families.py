"""Families of kernels and ops, for launches whose kernels are not named: which ops can launch which kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

GEMM, ATTENTION, CONVOLUTION, COMMUNICATION, OTHER = (1 << place for place in range(5))

OF_KERNEL: Final = {
    # Families of kernels that only some ops launch. All others say nothing: any op may copy, fill, reduce and add.
    "GEMM": GEMM,
    "Attention": ATTENTION,
    "Convolution": CONVOLUTION,
    "Communication": COMMUNICATION,
}
OF_OP: Final = {
    # Family of an op: the families of kernels that it can launch, besides those that any op launches.
    "GEMM": GEMM,
    "Attention": ATTENTION | GEMM,
    "Convolution": CONVOLUTION | GEMM,
    "Communication": COMMUNICATION,
    **dict.fromkeys(
        ("Elementwise", "Memory", "Embedding/Index", "Normalization", "Softmax", "Reduction", "Loss", "Random", "Sort",
         "Pooling", "RoPE"), OTHER,
    ),
}  # fmt: skip


class FamilyWords(msgspec.Struct, frozen=True):
    """The families of names; what knows the names of kernels is given, as passes do not."""

    of_kernels: Callable[[Sequence[str]], list[str]]
    of_op: Callable[[str], str]

    def kernel_bits(self, names: Sequence[str]) -> list[int]:
        return [OF_KERNEL.get(family, 0) for family in self.of_kernels(names)]

    def op_bits(self, name: str) -> int:
        """0 for an op of no known family, which may launch anything."""
        return OF_OP.get(self.of_op(name), 0)
