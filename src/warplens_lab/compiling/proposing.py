"""A signature for a kernel that nobody launches here: proposed from names, defaults, annotations and how they are used.

A proposal is a guess, and says what each entry rests on: it is shown to be corrected, never compiled by itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from warplens_lab.compiling.kernel_uses import KernelUses
from warplens_lab.compiling.kernels_in_text import kernels_in
from warplens_lab.compiling.loading import LoadedKernel
from warplens_lab.compiling.records import Parameter
from warplens_lab.compiling.values import ELEMENT_BITS, literal, value_text

POINTER: Final = "*fp16:16"
INDEX: Final = "*i64:16"
FLAT: Final = "1024"
SQUARE: Final = "64"


def _any(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(words), re.IGNORECASE)


POINTER_NAMES: Final = (
    # Names of pointers, by what they mostly hold.
    (_any("mask", "flag"), "*i1"),
    (
        _any("idx", "index", "indices", "offset", "cu_seq", "seqlen", "lens?$", "_ids?$", "table", "label", "target",
             "slot", "perm", "rout", "expert"),
        "*i32:16",
    ),
    (
        _any("lse", "mean", "rstd", "rsigma", "_var", "delta", "loss", "_max", "_sum", "scale", "lock", "logsumexp"),
        "*fp32:16",
    ),
)  # fmt: skip
IS_POINTER_NAME: Final = re.compile(r"(_ptrs?|_pointers?|ptr|Ptr|_p)$")
IS_DESCRIPTOR_NAME: Final = _any("^desc_", "_desc$", "_descriptor$", "_desc_")
SCALAR_NAMES: Final = (
    (_any("stride", "^n_", "num_", "_size", "_dim"), "i32:16"),
    (
        _any("eps", "scale", "alpha", "beta", "gamma", "^p$", "prob", "drop", "lr$", "momentum", "decay", "softcap",
             "slope", "smooth", "temp", "factor", "value", "inv_", "clip", "limit", "threshold"),
        "fp32",
    ),
    (_any("seed"), "i32"),
    (_any(""), "i32:16"),
)  # fmt: skip
SWITCHES: Final = (
    "is", "has", "use", "do", "with", "store", "save", "return", "enable", "even", "need", "apply", "add", "allow",
    "causal", "output", "reverse", "transpose", "interleaved", "head_first", "fuse", "skip", "accum", "inplace",
    "write", "load",
)  # fmt: skip
"""First words of constexprs that are True or False."""
CONSTANT_NAMES: Final = (
    # What a constexpr of this name mostly is; the first that matches.
    (_any("dtype", "_type$"), "fp16"),
    (_any("activation", "act(_fn)?$", "mode", "reduction", "kind", "precision"), "''"),
    (_any(f"^({'|'.join(SWITCHES)})(_|$)", "_(mask|causal|contiguous|inplace|varlen)$", "^even"), "False"),
    (_any("num_stages", "num_consumer", "unroll"), "2"),
    (_any("num_warps"), "4"),
    (_any("group", "split", "num_ctas", "ratio", "_per_"), "1"),
    (_any("num_sms?$"), "132"),
    (re.compile(r"BLOCK_?(SIZE_?)?K|^BK$|^BV$|TILE_?K"), "32"),
    (re.compile(r"BLOCK_?(SIZE_?)?[A-Z]\d?$|^B[A-Z0-9]{1,2}$|TILE_?[A-Z]$"), "64"),
    (_any("block", "tile", "size"), "1024"),
    (re.compile(r"HEAD_?DIM|^D\w?$|^D_?HEAD|HIDDEN|DIM|^[KV]$", re.IGNORECASE), "64"),
    (_any("eps", "scale"), "1e-6"),
    (_any(""), "16"),
)  # fmt: skip
ANNOTATIONS: Final = {"int": "i32:16", "float": "fp32", "bool": "u1"}


@dataclass(frozen=True)
class ProposedEntry:
    """A parameter with its entry and what the entry rests on."""

    parameter: Parameter
    entry: str
    reason: str


def proposed(kernel: LoadedKernel) -> tuple[ProposedEntry, ...]:
    written = kernels_in(kernel.file).get(kernel.name)
    uses = KernelUses(written) if written is not None else None
    tuned = dict(kernel.configs[0].constants) if kernel.configs else {}
    entries = []
    for parameter in kernel.parameters:
        if parameter.name in tuned:
            entry = (value_text(tuned[parameter.name]), "first config of its autotune")
        else:
            entry = _entry(parameter, uses)
        entries.append(ProposedEntry(parameter, *entry))
    return tuple(entries)


def signature_text(entries: tuple[ProposedEntry, ...]) -> str:
    """By name; what is a default anyway is omitted."""
    given = [entry for entry in entries if not (entry.parameter.is_constexpr and entry.reason == "default")]
    return ", ".join(f"{entry.parameter.name}={entry.entry}" for entry in given)


def _entry(parameter: Parameter, uses: KernelUses | None) -> tuple[str, str]:
    name = parameter.name
    use = uses.arguments.get(name, "") if uses else ""
    if parameter.is_constexpr:
        return _constant(parameter, uses)
    annotated = _annotated(parameter.annotation)
    if annotated:
        return annotated, "annotation"
    if use == "descriptor" or IS_DESCRIPTOR_NAME.search(name):
        return "tensordesc<fp16[64,64]>", "used as a descriptor" if use else "name"
    if use == "index":
        return INDEX, "what it holds is used in addresses"
    if use == "pointer" or IS_POINTER_NAME.search(name):
        element = next((kind for pattern, kind in POINTER_NAMES if pattern.search(name)), POINTER)
        return element, "used as an address" if use else "name"
    if parameter.has_default and parameter.default is None:
        return "None", "default"
    return next((kind, "name") for pattern, kind in SCALAR_NAMES if pattern.search(name))


def _constant(parameter: Parameter, uses: KernelUses | None) -> tuple[str, str]:
    if parameter.has_default:
        return value_text(parameter.default), "default"
    if uses and parameter.name in uses.constants:
        return uses.constants[parameter.name], "used in a condition"
    value = next(value for pattern, value in CONSTANT_NAMES if pattern.search(parameter.name))
    # A square of the largest tile would take the compiler minutes.
    return (SQUARE if value == FLAT and uses and uses.has_square_tiles else value), "name"


def _annotated(annotation: str) -> str:
    """
    >>> _annotated("tl.int64"), _annotated("tl.pointer_type(tl.bfloat16)"), _annotated("'*fp32'"), _annotated("Any")
    ('i64', '*bf16:16', '*fp32:16', '')
    """
    plain = annotation.strip("'\"")
    pointed = re.fullmatch(r"(?:tl\.)?pointer_type\((.+)\)|\*(\w+)", plain)
    if pointed:
        element = literal((pointed[1] or pointed[2]).strip())
        return f"*{element}:16" if str(element) in ELEMENT_BITS else POINTER
    if plain in ANNOTATIONS:
        return ANNOTATIONS[plain]
    value = literal(plain)
    return str(value) if plain and str(value) in ELEMENT_BITS else ""
