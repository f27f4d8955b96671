"""Kernels whose name has the words of an op's: `sqrt_kernel_cuda` was probably launched by `aten::sqrt`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
SAYS_NOTHING: Final = frozenset({"native", "forward", "backward", "out", "default", "impl"})


def name_words(text: str) -> frozenset[str]:
    """Words of an op's or a kernel's name, whatever the spelling.

    >>> sorted(name_words("BinaryFunctor<float, MulFunctor>"))
    ['binary', 'float', 'functor', 'mul']
    >>> sorted(name_words("layer_norm_kernel"))
    ['kernel', 'layer', 'norm']
    """
    return frozenset(word.lower() for word in WORD.findall(text))


def is_likely(op: str, kernel_words: frozenset[str]) -> bool:
    """Whether all words of the op's own name are in the kernel's.

    >>> is_likely("aten::addcdiv_", name_words("addcdiv_cuda_kernel"))
    True
    >>> is_likely("aten::add_", name_words("addcdiv_cuda_kernel"))
    False
    """
    own = name_words(op.rpartition("::")[2]) - SAYS_NOTHING
    return bool(own) and own <= kernel_words


def likely_pairs(ops: Sequence[str], kernels: Sequence[str]) -> npt.NDArray[np.bool_]:
    """For each op and each kernel, by their names."""
    words = [name_words(kernel) for kernel in kernels]
    rows = {op: [is_likely(op, own) for own in words] for op in set(ops)}
    return np.array([rows[op] for op in ops], bool).reshape(len(ops), len(kernels))
