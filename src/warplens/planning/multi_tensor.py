"""How PyTorch launches an op over lists of tensors: `multi_tensor_apply`, whose grids say how long the lists are.

Each tensor is cut into chunks, each chunk has a block, and a launch ends where its table of blocks or of
tensors is full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from warplens.costs.lists import CHUNK
from warplens.planning.recorded import DTYPES
from warplens_run.formats.replay_plan import Kernel

MOST_BLOCKS: Final = 320
MOST_LAUNCHES: Final = 1 << 20
MOST_TENSORS: Final = {
    # name of a launch's table: how many tensors it holds, by the number of lists (PyTorch's MultiTensorApply.cuh)
    "TensorListMetadata": (110, 64, 48, 36, 30),
    "TensorListScalarListMetadata": (96, 64, 48, 36, 30),
    "FusedOptimizerTensorListMetadata": (110, 64, 48, 36, 30),
}
TABLE: Final = re.compile(
    r"multi_tensor_apply_kernel<.{0,1000}?(?P<table>(?:FusedOptimizer)?TensorList(?:ScalarList)?Metadata)<"
    r"(?:[\w:]{1,40}, )?(?P<lists>[1-5])>"
)
ELEMENTS: Final = re.compile(
    r"multi_tensor_apply_kernel<.{0,1000}?Functor<(?P<first>[\w:]{1,40})(?:, (?P<second>[A-Za-z][\w:]{1,40}))?[,>]"
)
"""The element type, and that of what is copied from."""


def list_dtypes(kernel: str) -> tuple[str, ...]:
    """The dtype of the lists that a kernel walks: of all of them, or of the first and of the others.

    >>> list_dtypes("multi_tensor_apply_kernel<TensorListMetadata<2>, CopyFunctor<float, c10::BFloat16, 2, 1, 1>, Copy")
    ('float32', 'bfloat16')
    """
    match = ELEMENTS.search(kernel)
    return tuple(DTYPES[name] for name in match.groups() if name in DTYPES) if match is not None else ()


@dataclass(frozen=True)
class ListLaunches:
    """What the kernels of one call show of its lists."""

    lists: int
    """How many are walked at once, those that are returned included."""
    most_tensors: int
    grids: tuple[int, ...]
    """Blocks of each launch."""
    dtypes: tuple[str, ...] = ("float32",)
    """As `list_dtypes` has them."""

    @classmethod
    def of(cls, kernels: Iterable[Kernel]) -> ListLaunches | None:
        """None where no kernel is one of `multi_tensor_apply`, or one that is not understood."""
        launched = [kernel for kernel in kernels if TABLE.search(kernel.name) and kernel.grid]
        match = TABLE.search(launched[0].name) if launched else None
        dtypes = list_dtypes(launched[0].name) if launched else ()
        if match is None or match["table"] not in MOST_TENSORS or not dtypes:
            return None
        lists = int(match["lists"])  # bounded: one digit
        most_tensors = MOST_TENSORS[match["table"]][lists - 1]
        return cls(lists, most_tensors, tuple(kernel.grid[0] for kernel in launched), dtypes)

    def grids_of(self, elements: Sequence[int], most: int = MOST_LAUNCHES) -> tuple[int, ...]:
        """The launches that tensors with so many elements would have, the first `most` of them.

        >>> ListLaunches(1, 2, ()).grids_of([CHUNK + 1, 1, 1])
        (3, 1)
        """
        grids: list[int] = []
        blocks = tensors = 0
        for count in filter(None, elements):
            tensors += 1
            chunks = -(-count // CHUNK)
            while chunks:
                taken = min(chunks, MOST_BLOCKS - blocks)
                blocks, chunks = blocks + taken, chunks - taken
                if blocks == MOST_BLOCKS or (not chunks and tensors == self.most_tensors):
                    grids.append(blocks)
                    blocks, tensors = 0, 1 if chunks else 0
                if len(grids) == most:
                    return tuple(grids)
        return (*grids, blocks) if blocks else tuple(grids)

    def agree(self, elements: Sequence[int]) -> bool:
        return self.grids_of(elements, len(self.grids) + 1) == self.grids

    def agree_in_sum(self, elements: Sequence[int]) -> bool:
        """As many launches and blocks: the same tensors in another order."""
        grids = self.grids_of(elements, len(self.grids) + 1)
        return (len(grids), sum(grids)) == (len(self.grids), sum(self.grids))
