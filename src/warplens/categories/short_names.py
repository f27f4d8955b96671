"""A short readable name for a kernel: a table of (which names, how to say them), and a plain fallback."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from warplens.categories.facts import find_dtype, known_dtype
from warplens.categories.kernel_name import MAX_CHARS, KernelName, parse_kernel_name, template_arguments
from warplens.categories.short_products import (
    display_dtype,
    join,
    short_attention,
    short_convolution,
    short_gemm,
    short_nvjet,
    short_tensile,
)
from warplens.categories.short_torch import (
    short_cat,
    short_elementwise,
    short_foreach,
    short_inductor,
    short_reduce,
    short_softmax,
)
from warplens.lazy_patterns import LazyPattern

MAX_SHORT_CHARS = 60

_MEMCPY = LazyPattern(
    r"^\W*(?:CUDA |HIP )?(mem(?:cpy|set))\s*([DHPM])?(?:2|to|(?:ost|evice|eer) -> )?([DHPM])?", re.IGNORECASE
)
_HOST_MEMORY = LazyPattern(r"\b(pageable|pinned|managed|memory\(unknown\))", re.IGNORECASE)
_NCCL = LazyPattern(r"^(?:nccl|rccl|msccl)\w*?kernel(?:debug)?_(\w+)", re.IGNORECASE)
_NCCL_OPERATIONS = ("sum", "prod", "min", "max", "minmax", "premulsum", "sumpostdiv")
_NCCL_ALGORITHMS = ("RING", "TREE", "NVLS", "COLLNET", "PAT", "LL", "LL128", "SIMPLE", "DIRECT", "CHAIN")
# Kernels that only call what their template arguments name.
_CALLERS = ("kentry", "kernel", "kernel2", "device_kernel", "_kernel_agent")
_CALLER = LazyPattern(r"(?:kentry|kernel2?|device_kernel|_kernel_agent)<", re.IGNORECASE)
# Names that only their namespace makes clear: `gemvx::kernel`, `internode::dispatch`.
_BARE = ("kernel", "dispatch", "combine", "barrier")
_NAME = LazyPattern(r"(?:\w+::)*([A-Za-z_]\w*)")
# Arguments that say nothing of it: plain types, architectures, and helpers such as std::enable_if.
_HELPER = LazyPattern(
    r"(?:cuda::)?std::.*|(?:\w+::)*(?:gfx\w*|config|globals)|enable_if\w*|true|false|void|bool|char|short|int|long|float|double|__half"
)
_KITTENS_TEMPLATE = LazyPattern(r"(?<!\w)(\w{1,200})_template(?:<([\w, ]*)>)?")
_KITTENS_FUNCTION = LazyPattern(r"[&( ]*((?:\w+::)*\w+)")
_TAIL = LazyPattern(r"_?kernel(?:functor)?$", re.IGNORECASE)


def _short_memcpy(name: KernelName) -> str:
    match = _MEMCPY.match(name.raw)
    if not match:
        return ""
    # Level Zero's M is memory that it did not allocate: pageable memory of the host.
    memories = {"d": "D", "h": "H", "p": "P", "m": "H"}
    source, target = (memories.get((match.group(group) or "").lower(), "") for group in (2, 3))
    host = _HOST_MEMORY.search(name.raw[:200])
    direction = f"{source}to{target}" if source and target else ""
    kind = host.group(1).lower().replace("memory(unknown)", "pageable") if host else ""
    return join(match.group(1).lower(), direction, kind)


def _short_nccl(name: KernelName) -> str:
    match = _NCCL.match(name.function)
    if not match:
        return ""
    tokens = match.group(1).split("_")
    operation = next((token.lower() for token in tokens if token.lower() in _NCCL_OPERATIONS), "")
    algorithm = "_".join(token for token in tokens if token.upper() in _NCCL_ALGORITHMS)
    dtype = next((dtype for dtype in map(known_dtype, tokens) if dtype), "")
    if not dtype:
        dtype = next((token for token in tokens if re.fullmatch(r"u?int\d+|[ui]\d+", token)), "")
    library = "msccl" if name.lower_function.startswith("msccl") else "nccl"
    collective = "" if tokens[0].lower() in _NCCL_OPERATIONS else tokens[0]
    return join(library, collective, operation, display_dtype(dtype), algorithm)


def _short_whole_graph(name: KernelName) -> str:
    return name.text


def _short_rocclr(name: KernelName) -> str:
    return join("rocclr", name.function.removeprefix("__amd_rocclr_"))


def _short_kittens(name: KernelName) -> str:
    """`kittens matmul 2,4,8`, `kittens all_reduce`: the template or the function that the kernel is given."""
    template = _KITTENS_TEMPLATE.search(name.text)
    if template is not None:
        return join("kittens", template[1], (template[2] or "").replace(" ", ""))
    functions = [given[1] for argument in template_arguments(name.text, name.text.find("<") + 1)
                 if (given := _KITTENS_FUNCTION.match(argument))]  # fmt: skip
    if not functions:
        return ""
    outer, _, leaf = functions[-1].rpartition("::")
    return join("kittens", outer.rpartition("::")[2] if outer and leaf == "kernel" else _TAIL.sub("", leaf))


# Tried in turn on the lower-case text; a formatter that finds too little answers with nothing.
_TABLE: tuple[tuple[LazyPattern, Callable[[KernelName], str]], ...] = (
    (LazyPattern(r"^\W*(?:cuda |hip )?mem(?:cpy|set)(?!_)"), _short_memcpy),
    (LazyPattern(r"^cuda graph \d+$"), _short_whole_graph),
    (LazyPattern(r"^__amd_rocclr_"), _short_rocclr),
    (LazyPattern(r"^(?:nccl|rccl|msccl)"), _short_nccl),
    (LazyPattern(r"^triton_[a-z]{2,4}_fused"), short_inductor),
    (LazyPattern(r"^cijk_"), short_tensile),
    (LazyPattern(r"nvjet_"), short_nvjet),
    (LazyPattern(r"^(?!.{0,80}(?:index|gather)_elem)[\w:]{0,200}elementwise_kernel"), short_elementwise),
    (LazyPattern(r"^at::native::xpu::\w{0,80}elementwise(?:\w{0,80}range)?kernel<"), short_elementwise),
    (LazyPattern(r"^[\w:]{0,200}multi_?tensor_?apply"), short_foreach),
    (LazyPattern(r"^at::(?:native::)?(?:reduce_kernel|xpu::reducekernel)"), short_reduce),
    (LazyPattern(r"softmax_warp_|cunn_softmax(?:forward|backward)"), short_softmax),
    (LazyPattern(r"catarraybatchedcopy"), short_cat),
    (
        LazyPattern(
            r"flash_(?:fwd|bwd|fprop|bprop)|flashattn(?:fwd|bwd)|fmha|cudnn::fusion::"
            r"|\battend_\w*?ker\b|\b(?:fwd|bwd)_attend_\w*ker\b|^kittens::.*attn_(?:fwd|bwd)_template"
        ),
        short_attention,
    ),
    (LazyPattern(r"^kittens::"), _short_kittens),
    (LazyPattern(r"implicit_gemm|xmma_[fdw](?:prop|grad)|^igemm_|scudnn|conv_fwd"), short_convolution),
    (LazyPattern(r"cutlass_\d{1,4}_\w{0,200}gemm|splitkreduce|gemv|gemm_\w{0,60}?\d+x\d+|gemmuniversal"), short_gemm),
)  # fmt: skip


@lru_cache(maxsize=8192)
def _short(raw: str) -> str:
    name = parse_kernel_name(raw)
    for pattern, formatter in _TABLE:
        if pattern.search(name.lower_text):
            text = formatter(name)
            if text:
                return _clip(text)
    return _clip(_plain(name))


def _plain(name: KernelName) -> str:
    """The function's own name and its number type."""
    leaf = name.function.rsplit("::", 1)[-1]
    called = _called(name.text) if leaf.lower() in _CALLERS else ""
    if called:
        leaf = called
    elif leaf.lower() in _BARE:
        leaf = "::".join(name.function.split("::")[-2:])
    leaf = _TAIL.sub("", leaf).strip("_: ") or leaf.strip()
    if name.text == name.function:  # no template arguments: the name already holds its type
        return " ".join(leaf.split()) or name.raw.strip() or "(no name)"
    return join(leaf, display_dtype(find_dtype(name)))


def _called(text: str) -> str:
    """What a kernel such as `kentry<256, 2, ck_tile::Rmsnorm2dFwd<…>>` calls: its first argument that is a name."""
    caller = _CALLER.search(text)
    for argument in template_arguments(text, caller.end()) if caller else ():
        name = _NAME.fullmatch(argument)
        if name and not _HELPER.fullmatch(argument):
            return name[1]
    return ""


def _clip(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * MAX_SHORT_CHARS])
    text = " ".join(printable.split()) or "(no name)"
    return text if len(text) <= MAX_SHORT_CHARS else text[: MAX_SHORT_CHARS - 1] + "…"


def short_name(name: str) -> str:
    """A readable name of at most 60 characters: `gemm bf16 128x128 tn align1 sm75`; never empty."""
    return _short(name[:MAX_CHARS])


def short_names(families: Sequence[str]) -> list[str]:
    """The short forms of many names, given by their families (`families_of`)."""
    shorts = {family: short_name(family) for family in dict.fromkeys(families)}
    return [shorts[family] for family in families]
