"""Ops of serving engines and kernel libraries: vLLM, SGLang, aiter, FlashAttention, Transformer Engine and others.

Loaded when a trace names one of their ops. `streams` and `gemms` are tables over the families that PyTorch's ops have
too; `attention`, `experts` and `products` are families of their own, `attentions` and `moes` their tables.
"""

from __future__ import annotations

import re
from typing import Final

from warplens.costs.family import Family
from warplens.costs.serving.attention import LatentAttention, ServedAttention
from warplens.costs.serving.attentions import ATTENTIONS
from warplens.costs.serving.experts import ExpertLayer
from warplens.costs.serving.gemms import GEMMS
from warplens.costs.serving.moes import MOES
from warplens.costs.serving.streams import CACHE_WRITES, STREAMS

NUMBERED: Final = re.compile(r"^(sglang_profiler::\w{1,200}?)_\d{1,9}$", re.ASCII)
"""SGLang's wrappers end with a number of the run."""

SERVING_OPS: Final[dict[str, Family]] = {**STREAMS, **GEMMS, **MOES, **ATTENTIONS}


def serving_family(name: str) -> Family | None:
    numbered = NUMBERED.match(name)
    return SERVING_OPS.get(numbered[1] if numbered else name)


def reads_lengths(name: str) -> bool:
    """Whether the cost of an op depends on the iteration around it."""
    return isinstance(serving_family(name), ServedAttention | LatentAttention)


def reads_inner_calls(name: str) -> bool:
    return isinstance(serving_family(name), ExpertLayer)


def cache_argument(name: str) -> int | None:
    """Which argument of an op that writes the cache is the cache."""
    family = CACHE_WRITES.get(name)
    return family.caches[0] if family is not None and family.caches else None
