"""What each finding's experiment runs after the change: a table of functions by the finding's code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from warplens.advice.thresholds import ALIGNMENT, GOOD_MULTIPLE
from warplens.proof.experiments.attention import fused_attention, unmasked_attention
from warplens.proof.experiments.captured_step import capture_step
from warplens.proof.experiments.chains import compile_chains, leave_out_casts
from warplens.proof.experiments.changed_units import MOST_UNITS, ChangedUnits, calls_of
from warplens.proof.experiments.finding_units import FindingUnits, UnitInStep, longest_first
from warplens.proof.experiments.layouts import read_as_it_was
from warplens.proof.experiments.optimizer_step import optimizer_at_once
from warplens.proof.experiments.own_kernels import change_grids
from warplens.proof.experiments.unit_edits import (
    CHANNELS_LAST,
    PRODUCTS,
    casts_of,
    padded,
    retyped,
    rounded_up,
    tensors_of,
    with_channels_last,
    with_pinned_memory,
)
from warplens_run.formats.proof_plan import Settings, Swap, Variant
from warplens_run.formats.replay_plan import TensorView, Unit

DTYPE_NAMES: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "int8": "int8"}
MATRIX_WORK: Final = re.compile(rf"{PRODUCTS.pattern}|aten::.*conv")
MOST_PADDING: Final = 1.125
"""A multiple of 64 is not tried where it makes a size larger than this."""
TF32: Final[Settings] = {
    "backends.cuda.matmul.allow_tf32": True,
    "backends.cudnn.allow_tf32": True,
    "get_float32_matmul_precision": "high",
}
FEW_CHANNELS: Final = 8
"""An image's own channels are not padded."""
NARROWED: Final = {"float32": "bfloat16"}


def renamed(name: str) -> Callable[[Unit], Unit]:
    """The same unit under another name: it runs under other settings."""
    return lambda unit: replace(unit, id=f"{unit.id}.{name}")


def pad_sizes(about: FindingUnits, changed: ChangedUnits) -> None:
    """WL201: unaligned sizes as the next multiple that kernels load at once, and of 64."""
    for name, multiple in (("padded", 0), (f"padded{GOOD_MULTIPLE}", GOOD_MULTIPLE)):
        _pad(about, changed, name, multiple)


def _pad(about: FindingUnits, changed: ChangedUnits, name: str, multiple: int) -> None:
    matrix_work = [member for member in about.units if MATRIX_WORK.match(member.unit.op)]
    sizes = {member.unit.id: dict(_paddings(member.unit, multiple)) for member in matrix_work}
    pairs = sorted({pair for own in sizes.values() for pair in own.items()})
    title = "padded " + ", ".join(f"{old} to {new}" for old, new in pairs)
    if pairs and title not in [variant.name for variant in changed.variants]:
        members = [member for member in matrix_work if sizes[member.unit.id]]
        changed.swap_each(title, members, lambda unit: padded(unit, name, sizes[unit.id]))


def _paddings(unit: Unit, multiple: int) -> Iterator[tuple[int, int]]:
    """The unaligned sizes of a product, and what each is padded to."""
    for size, dtype in unaligned_sides(unit):
        need = ALIGNMENT.get(DTYPE_NAMES.get(dtype, ""), 1)
        target = rounded_up(size, multiple or need)
        if target <= MOST_PADDING * size or not multiple:
            yield size, target


def unaligned_sides(unit: Unit) -> Iterator[tuple[int, str]]:
    """The sides along which memory is contiguous, of the operands and of the result, that 16 bytes do not divide."""
    matrices = [tensor for tensor in tensors_of(unit) if len(tensor.shape) >= 2]
    if not matrices:
        return
    dtype = matrices[0].dtype
    need = ALIGNMENT.get(DTYPE_NAMES.get(dtype, ""), 1)
    if PRODUCTS.match(unit.op):
        sides = {side for tensor in matrices for side in _contiguous_sides(tensor)}
        last = matrices[-1]
        sides.add(last.shape[0] if unit.op == "aten::linear" else last.shape[-1])
    else:
        sides = _channels(matrices)
    yield from ((side, dtype) for side in sorted(sides) if side > 1 and side % need)


def _channels(images: Sequence[TensorView]) -> set[int]:
    """The channels of what a convolution is given; not those that are as many as an image has rows or columns."""
    sides = {side for image in images if len(image.shape) > 2 for side in image.shape[2:]}
    return {image.shape[1] for image in images if len(image.shape) > 2 and image.shape[1] > FEW_CHANNELS} - sides


def _contiguous_sides(tensor: TensorView) -> Iterator[int]:
    for side, stride in zip(tensor.shape, tensor.stride, strict=True):
        if stride == 1 and side > 1:
            yield side


def use_matrix_units(about: FindingUnits, changed: ChangedUnits) -> None:
    """WL202: TF32, and bf16 with the casts of what the products read."""
    changed.swap_each("TF32", about.units, renamed("tf32"), settings=TF32)
    changed.swap_each(
        "bf16, with its casts",
        about.units,
        lambda unit: retyped(unit, "bf16", NARROWED),
        with_units=lambda unit: casts_of(unit, "bf16", NARROWED),
    )


def choose_kernels_anew(about: FindingUnits, changed: ChangedUnits) -> None:
    """WL203: the same call with what libraries choose today."""
    products = [member for member in about.units if PRODUCTS.match(member.unit.op)]
    others = [member for member in about.units if member not in products]
    changed.swap_each(
        "cuBLASLt", products, renamed("cublaslt"), settings={"backends.cuda.preferred_blas_library": "cublaslt"}
    )
    changed.swap_each("cuDNN benchmark", others, renamed("benchmark"), settings={"backends.cudnn.benchmark": True})


def use_channels_last(about: FindingUnits, changed: ChangedUnits) -> None:
    """WL207: images and weights in the layout that convolutions run in, and what else works on such images: the layout
    spreads to it, and may cost time there."""
    names = {member.unit.id for member in about.units}
    shapes = {shape for member in about.units for shape in _image_shapes(member.unit)}
    others = [
        UnitInStep(unit, calls)
        for unit, calls in about.recorded.in_step()
        if unit.id not in names and shapes.intersection(_image_shapes(unit))
    ]
    members = longest_first([*about.units, *others])
    changed.swap_each("channels_last", members, lambda unit: with_channels_last(unit, "channelsLast"))


def _image_shapes(unit: Unit) -> set[tuple[int, ...]]:
    return {tensor.shape for tensor in tensors_of(unit) if len(tensor.shape) in CHANNELS_LAST}


def use_whole_optimizer(about: FindingUnits, changed: ChangedUnits) -> None:
    """WL208: all parameters at once, in one fused call or in one call for each operation."""
    changed.add(*optimizer_at_once(about.units))


def fuse_attention(about: FindingUnits, changed: ChangedUnits) -> None:
    """WL204: one call per softmax, with each kernel that takes it."""
    changed.add(*fused_attention(about.units))


def say_causal(about: FindingUnits, changed: ChangedUnits) -> None:
    """WL213: a flag instead of a mask."""
    changed.add(*unmasked_attention(about.units))


def store_activations(about: FindingUnits, changed: ChangedUnits) -> None:
    """WL212: what is recomputed does not run at all."""
    swaps = tuple(Swap((calls_of(member.unit, member.calls),)) for member in about.units[:MOST_UNITS])
    changed.variants.append(Variant("without recomputation", swaps))


def pin_memory(about: FindingUnits, changed: ChangedUnits) -> None:
    """WL302: pinned memory, and copies that do not block."""
    changed.swap_each("pinned memory", about.units, lambda unit: with_pinned_memory(unit, "pinned"))


MAKE_VARIANTS: Final[Mapping[str, Callable[[FindingUnits, ChangedUnits], None]]] = {
    "WL101": capture_step,
    "WL104": capture_step,
    "WL201": pad_sizes,
    "WL202": use_matrix_units,
    "WL203": choose_kernels_anew,
    "WL204": fuse_attention,
    "WL205": compile_chains,
    "WL206": leave_out_casts,
    "WL207": use_channels_last,
    "WL208": use_whole_optimizer,
    "WL209": change_grids,
    "WL210": change_grids,
    "WL211": read_as_it_was,
    "WL212": store_activations,
    "WL213": say_causal,
    "WL302": pin_memory,
}
OF_WHOLE_STEPS: Final = ("WL101", "WL104")
"""Findings that are about gaps: what is run is the step around them."""
ESTIMATED: Final = "its gain stays an estimate"
NO_EXPERIMENT: Final = "it has no experiment; " + ESTIMATED
OTHER_RANKS: Final = "communication needs the other ranks; " + ESTIMATED
OF_MEMORY: Final = ("WL501", "WL502", "WL503", "WL504", "WL505", "WL506")
OF_JOBS: Final = ("WL402", "WL403", "WL404", "WL405", "WL406", "WL407", "WL408", "WL409", "WL410", "WL411", "WL412")
NOT_RUN: Final[Mapping[str, str]] = {
    **dict.fromkeys(OF_JOBS, "it is about several ranks, and a replay runs one GPU; " + ESTIMATED),
    **dict.fromkeys(OF_MEMORY, "its gain is memory, and a replay measures time; " + ESTIMATED),
    # why nothing is run for other findings
    "WL102": "it is about what the trace does not show, not about time",
    "WL103": "it is about what the trace does not show, not about time",
    "WL105": OTHER_RANKS,
    "WL106": "whether a copy is hidden depends on what the program does meanwhile; " + ESTIMATED,
    "WL107": "its gaps are long stalls of the host (a compilation, a blocking call): a replay has none, and a graph "
    "does not end them; " + ESTIMATED,
    "WL108": "a replay allocates memory and loads kernels before it measures; " + ESTIMATED,
    "WL109": "its gaps are waits for other streams, or have no recorded launch, and a replay has neither; " + ESTIMATED,
    "WL214": "sparse gradients change the optimizer, which is the program's; " + ESTIMATED,
    "WL215": "one call for all cells is another module of the program's; " + ESTIMATED,
    "WL216": "passes in one batch are the program's to join; " + ESTIMATED,
    "WL301": "removing a synchronisation changes what the program knows; " + ESTIMATED,
    "WL303": "the data loader is not part of the trace; " + ESTIMATED,
    "WL304": "what the host does between two graphs is not part of a replay; " + ESTIMATED,
    "WL305": "what made one step slow does not happen in a replay; " + ESTIMATED,
    "WL306": "a replay runs no code of the program; " + ESTIMATED,
    "WL401": OTHER_RANKS,
    "WL601": "what the host does between two passes is not part of a replay; " + ESTIMATED,
    "WL602": "a graph of another batch size is not in the trace; " + ESTIMATED,
    "WL603": "the engine decides when prompts are processed, and a replay has no requests; " + ESTIMATED,
    "WL604": "other attention kernels are chosen by the engine's options and are not in the trace; " + ESTIMATED,
    "WL605": "other ways to choose tokens are options of the engine and are not in the trace; " + ESTIMATED,
    "WL606": OTHER_RANKS,
    "WL607": "the fused kernel belongs to the engine and is not in the trace; " + ESTIMATED,
    "WL901": "it is about the trace, not about the program",
}
