"""Our tables beside TraceLens' references of its own test traces, figure by figure.

The references are numbers in this repository; the traces are not: `WARPLENS_PEERS` is a folder with a checkout of
`TraceLens/`. A figure is equal within a thousandth, or differs for one of the `REASONS`; where a reason says what
TraceLens has counted instead, that is counted too and has to be equal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import pytest

import warplens
from figures_of_profiles import OwnFigures
from tracelens_references import CASES, Figure, files_of, read_figures

TOLERANCE: Final = 1e-3
ROUNDED_MS: Final = 1e-6
"""Times in float µs are off by as much, which is more than a thousandth of an idle time of some ns."""
EQUAL: Final = "equal"
UNEXPLAINED: Final = "unexplained"


class Reason(NamedTuple):
    """Why figures of some tables, columns and ops differ."""

    why: str
    figures: str
    """A pattern for the table, the column and the op, with a space between them."""
    counted: Callable[[OwnFigures, Figure], Iterable[float | None]] | None = None
    """Numbers that TraceLens may have counted instead, of which it has to have one."""
    is_absent: bool = False
    """Our table has no such figure."""


REASONS: Final = {
    "op around": Reason(
        "the cost of an op is that of an op around it, which launches nothing itself",
        r"op_shapes (flop|bytes) .*",
        lambda own, figure: own.costs_inside.get(figure, ()),
        is_absent=True,
    ),
    "subtree": Reason(
        "a subtree has no calls of the op that launch nothing themselves",
        r"ops subtree_kernel_us .*",
        lambda own, figure: (own.of_linked_work.get(figure), own.without_memsets.get(figure)),
    ),
    "unlinked": Reason(
        "GPU work without a launch that it finds is left out",
        r"timeline .*",
        lambda own, figure: (own.of_linked_work.get(figure),),
    ),
    "memsets": Reason(
        "memsets are left out, on ROCm",
        r"(timeline|ops|op_shapes) (time_ms|kernel_us\w*) .*",
        lambda own, figure: (own.without_memsets.get(figure),),
    ),
    "outside": Reason(
        "launches outside any op are rows of ops here, not of op_shapes", r"op_shapes \w+ hip\w+Kernel", is_absent=True
    ),
    "pseudo op": Reason(
        "parts of a layer of experts have rows of their own", r"op_shapes (flop|bytes) pseudo_op::\w+", is_absent=True
    ),
    "transfer": Reason(
        "a copy from or to the host reads and writes the GPU's memory; here it is a transfer, and none of the op's bytes",
        r"op_shapes bytes aten::copy_",
        is_absent=True,
    ),
    "copy": Reason("a copy computes something for each element", r"op_shapes flop aten::copy_"),
    "one result": Reason(
        "a reduction writes one element, along whichever dimension, and so does the smaller of two tensors",
        r"op_shapes bytes aten::(mean|sum|max|min|linalg_norm)",
    ),
    "elements": Reason(
        "activations, norms and interpolation have other numbers of operations per element",
        r"op_shapes flop (aten::(silu|sigmoid|upsample_\w+|\w*norm\w*)|aiter::(rmsnorm|_groupnorm_run)|\w+::silu_and_mul)",
    ),
    "statistics": Reason(
        "a norm's weights, mean and variance are counted where there are none, or not where there are",
        r"op_shapes bytes (aten::\w*norm\w*|aiter::_groupnorm_run)",
    ),
    "products": Reason(
        "the backward pass of a convolution reads the gradient for each of two products, also where one is wanted; "
        "in the forward pass no bias is added",
        r"op_shapes (flop|bytes) aten::convolution(_backward)?",
    ),
    "broadcast": Reason(
        "inputs that are broadcast, or of another type than the first, count with the size and the type of the result",
        r"op_shapes bytes aten::(mul|add_|copy_|div)",
    ),
    "diagonal": Reason(
        "causal attention has half of all pairs; here those of a token with itself count in full",
        r"op_shapes flop vllm::unified_attention_with_output",
    ),
    "fused": Reason(
        "the work of a compiler's kernel is estimated in another way", r"op_shapes (flop|bytes) triton_\w+"
    ),
}
"""What TraceLens does; the first that fits counts."""


def is_equal(ours: float | None, reference: float, column: str) -> bool:
    if ours is None:
        return False
    off = abs(ours - reference)
    return off <= TOLERANCE * max(abs(ours), abs(reference)) or (column == "time_ms" and off <= ROUNDED_MS)


def outcome(own: OwnFigures, figure: Figure, reference: float) -> str:
    """That a figure is equal, or why it is not."""
    ours = own.of_tables.get(figure)
    if is_equal(ours, reference, figure.column):
        return EQUAL
    words = f"{figure.table} {figure.column} {figure.key.partition('|')[0]}"
    for name, reason in REASONS.items():
        if re.fullmatch(reason.figures, words) and not (reason.is_absent and ours is not None):
            if reason.counted is None:
                return name
            if any(is_equal(counted, reference, figure.column) for counted in reason.counted(own, figure)):
                return name
    return UNEXPLAINED


COUNTS: Final[dict[str, dict[str, int]]] = {
    "h100 falconsai": {"equal": 129, "op around": 5, "elements": 1},
    "h100 qwen": {"equal": 335, "copy": 6, "unlinked": 4, "op around": 2, "elements": 1},
    "h100 timesformer": {"equal": 309, "copy": 11, "elements": 4, "statistics": 3, "transfer": 2, "op around": 2,
        "one result": 1, "broadcast": 1},
    "h100 bert": {"equal": 138, "op around": 2, "elements": 1, "statistics": 1},
    "h100 owlv2": {"equal": 674, "copy": 24, "transfer": 14, "elements": 10, "statistics": 4, "op around": 4,
        "broadcast": 3, "subtree": 1, "one result": 1},
    "mi300 falconsai": {"equal": 133, "op around": 5, "elements": 1},
    "mi300 qwen": {"equal": 350, "copy": 6, "unlinked": 4, "op around": 2, "elements": 1},
    "mi300 timesformer": {"equal": 321, "copy": 11, "elements": 4, "statistics": 3, "transfer": 2, "op around": 2,
        "one result": 1, "broadcast": 1},
    "mi300 bert": {"equal": 138, "op around": 2, "elements": 1, "statistics": 1},
    "mi300 owlv2": {"equal": 674, "copy": 24, "transfer": 14, "elements": 10, "statistics": 4, "op around": 4,
        "broadcast": 3, "subtree": 1, "one result": 1},
    "mi300 resnet": {"equal": 557, "memsets": 26, "op around": 26, "copy": 22, "products": 12, "elements": 10,
        "subtree": 3, "statistics": 2, "one result": 2, "broadcast": 1},
    "mi210 gpu only": {"equal": 98},
    "mi300 compiled": {"equal": 84, "fused": 4, "op around": 2},
    "normalization": {"equal": 264, "elements": 18, "memsets": 12, "statistics": 8, "op around": 6, "subtree": 5,
        "one result": 1},
    "jax convolution": {"equal": 16},
    "sglang decode": {"equal": 189, "outside": 8, "op around": 8, "copy": 6, "elements": 3},
    "sglang prefill": {"equal": 236, "outside": 8, "op around": 8, "copy": 8, "elements": 3, "one result": 1,
        "transfer": 1, "broadcast": 1},
    "vllm decode": {"equal": 172, "op around": 8, "copy": 7, "pseudo op": 4, "fused": 2},
    "vllm piecewise": {"equal": 174, "op around": 8, "copy": 8, "pseudo op": 4, "fused": 2, "transfer": 2,
        "diagonal": 1},
    "flux": {"equal": 1281, "fused": 49, "copy": 29, "op around": 27, "elements": 16, "transfer": 6,
        "statistics": 4, "products": 2, "broadcast": 1, "one result": 1},
    "stable diffusion": {"equal": 1228, "fused": 31, "op around": 33, "copy": 22, "elements": 17, "memsets": 4,
        "transfer": 4, "products": 2, "statistics": 2, "subtree": 1, "broadcast": 1, "one result": 1},
}  # fmt: skip
"""Figures by outcome. Fewer that are equal, or a reason more, is a change of what a table means."""


@pytest.mark.parametrize("name", CASES)
def test_figures_are_those_of_tracelens_or_differ_for_a_reason(name: str) -> None:
    files = files_of(CASES[name])
    if files is None:
        pytest.skip("neither a checkout of TraceLens (WARPLENS_PEERS) nor the shared traces are at hand")
    own = OwnFigures(warplens.open(files[0], graph_captures=files[1], cache=False))
    outcomes = {figure: outcome(own, figure, value) for figure, value in read_figures()[name].items()}
    assert [figure for figure, found in outcomes.items() if found == UNEXPLAINED] == []
    assert Counter(outcomes.values()) == COUNTS[name]


def test_every_figure_and_every_reason_counts() -> None:
    """What is kept of the references is what is compared; no reason is left without a figure."""
    figures = read_figures()
    assert {name: len(own) for name, own in figures.items()} == {
        name: sum(own.values()) for name, own in COUNTS.items()
    }
    total = sum((Counter(own) for own in COUNTS.values()), Counter[str]())
    assert set(total) == {EQUAL, *REASONS}
    assert (total.total(), total[EQUAL]) == (8230, 7500)
