"""The fixes that can be tried, by the code of the finding that proposes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from warplens_run.base.errors import UsageError
from warplens_run.trying.fixes.autocast import Bf16Autocast, WeightsCastOnce
from warplens_run.trying.fixes.compiled import CompiledModules
from warplens_run.trying.fixes.items import DeferredItems
from warplens_run.trying.fixes.layout import ChannelsLast
from warplens_run.trying.fixes.loaders import PinnedLoaders
from warplens_run.trying.fixes.optimizers import FOREACH, FUSED, OptimizerStep
from warplens_run.trying.fixes.protocol import Fix
from warplens_run.trying.fixes.switches import ATTENTION, TF32, Switches, attention_switches

Make = Callable[[Any, str], Fix]
"""From PyTorch and the variant."""


@dataclass(frozen=True)
class KnownFix:
    """How to make each variant; the first is meant where none is named."""

    variants: Mapping[str, Make]
    any_variant: Make | None = None
    """Where variants are names of the program's own."""


def _precision(torch: Any, variant: str) -> Fix:
    return Switches(f"matmul precision {variant!r}", torch, [{"get_float32_matmul_precision": variant}])


ATTENTIONS: Final = KnownFix(dict.fromkeys(ATTENTION, attention_switches))
KNOWN: Final[Mapping[str, KnownFix]] = {
    "WL202": KnownFix(
        {
            "tf32": lambda torch, _: Switches("TF32", torch, TF32),
            "bf16": lambda torch, _: Bf16Autocast(torch),
            "high": _precision,
            "medium": _precision,
        }
    ),
    "WL203": KnownFix(
        {
            "cudnn": lambda torch, _: Switches("cuDNN benchmark", torch, [{"backends.cudnn.benchmark": True}]),
            "cublaslt": lambda torch, _: Switches(
                "cuBLASLt", torch, [{"backends.cuda.preferred_blas_library": "cublaslt"}]
            ),
        }
    ),
    "WL204": ATTENTIONS,
    "WL205": KnownFix({"": CompiledModules}, any_variant=CompiledModules),
    "WL206": KnownFix({"once": lambda torch, _: WeightsCastOnce(torch), "bf16": lambda torch, _: Bf16Autocast(torch)}),
    "WL207": KnownFix({"channels_last": lambda torch, _: ChannelsLast(torch)}),
    "WL208": KnownFix({FUSED: OptimizerStep, FOREACH: OptimizerStep}),
    "WL213": ATTENTIONS,
    "WL301": KnownFix({"later": lambda torch, _: DeferredItems(torch)}),
    "WL302": KnownFix({"pinned": lambda torch, _: PinnedLoaders(torch)}),
}
REFUSED: Final[Mapping[str, str]] = {
    "WL101": "a graph needs inputs that stay where they are, which is part of the program",
    "WL104": "a graph needs inputs that stay where they are, which is part of the program",
    "WL107": "what the host does in its stalls is part of the program",
    "WL201": "sizes are part of the program",
    "WL202=fp16": "fp16 needs gradients that are scaled (GradScaler), which is part of the program",
    "WL206=fp16": "fp16 needs gradients that are scaled (GradScaler), which is part of the program",
    "WL212": "what is recomputed is part of the program",
    "WL303": "how data are prepared is part of the program",
    "WL306": "what the host computes is part of the program",
}


@dataclass(frozen=True)
class FixName:
    """`WL208=foreach`: a code, and the variant that is meant."""

    code: str
    variant: str = ""

    def __str__(self) -> str:
        return f"{self.code}={self.variant}" if self.variant else self.code


def check(name: FixName) -> None:
    """Refused with the reason where it is known before anything runs."""
    known = KNOWN.get(name.code)
    if known is None or str(name) in REFUSED:
        reason = REFUSED.get(str(name)) or REFUSED.get(name.code, "it cannot be switched while a program runs")
        raise UsageError(f"{name} cannot be tried: {reason}", hint=f"can be: {', '.join(KNOWN)}")
    if name.variant and name.variant not in known.variants and known.any_variant is None:
        raise UsageError(f"{name.code} has no variant {name.variant!r}", hint=f"one of: {', '.join(known.variants)}")


def fixes_for(names: Sequence[FixName], torch: Any) -> list[Fix]:
    """Made before the program runs."""
    fixes = []
    for name in dict.fromkeys(names):
        check(name)
        known = KNOWN[name.code]
        variant = name.variant or next(iter(known.variants))
        make = known.variants.get(variant) or known.any_variant
        assert make is not None
        fixes.append(make(torch, variant))
    return fixes
