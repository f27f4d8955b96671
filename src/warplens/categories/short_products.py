"""Short names of matrix products, convolutions and fused attention: type, tile, transposes, architecture."""

from __future__ import annotations

import re

from warplens.categories.facts import find_arch, find_direction, find_dtype
from warplens.categories.kernel_name import KernelName
from warplens.lazy_patterns import LazyPattern

_TILE = LazyPattern(r"(?<![a-z0-9])(?:tilesize|tile|mt|bt)?(\d{1,4}x\d{1,4}(?:x\d{1,4})?)(?![0-9x])")
_TRANSPOSES = LazyPattern(r"_([tn]{2,3})(?=_|$)")
_ALIGNMENT = LazyPattern(r"_(align\d+)")
_CUTE_SIZE = r"(?:cute::)?(?:c<|_)(\d+)>?"
_CUTE_SHAPE = LazyPattern(rf"(?:tuple|shape)<{_CUTE_SIZE}, ?{_CUTE_SIZE}, ?{_CUTE_SIZE}")
_SCHEDULE = LazyPattern(r"warpspecialized_?(pingpong|cooperative)")
_TENSILE = LazyPattern(r"^cijk_a(?P<a>\w{3,4}?)_b(?P<b>\w{3,4}?)_.*?(?P<tile>mt\d+x\d+x\d+)")
_NVJET = LazyPattern(
    r"nvjet_(?:sm\d+\w?_)?[a-z]+_(?P<tile>\d+x\d+)_(?P<stages>\d+x\d+)_(?P<cluster>\d+x\d+)_(?P<rest>\w{1,200})$"
)
_HEAD_DIM = LazyPattern(
    r"hd(?:im)?_?(\d{2,3})|kernel_traits<(\d{2,3})|_h(?:qk)?(\d{2,3})(?:_|$)|_d(\d{2,3})(?:_|$)"
    r"|attend_\w{0,80}ker<(\d{2,3})\b|attn_\w{0,80}template<(\d{2,3})\b"
)
_ATTENTION_PARTS = (
    "splitkv_combine", "bwd_combined", "combine", "splitkv", "lean_reduction", "dot_do_o", "convert_dq", "preprocess",
    "postprocess", "attend_prep", "dq_shuffle",
)  # fmt: skip
_ONLY_BACKWARD = ("attend_prep", "dq_shuffle")
"""Parts of the backward kernels of ThunderKittens, whose names do not all say so."""
_ATTENTION_BACKWARD_PARTS = ("dq_dk_dv", "dk_dv", "dkdv", "dkv", "dq")
_LAYOUT = LazyPattern(r"(?<![a-z])(nhwc|nchw|ndhwc|ncdhw)")
_CONVOLUTION_KIND = LazyPattern(r"fprop|dgrad|wgrad|wrw|bwd_weight|bwd_data|bwd|fwd")
# CK lists its block size and its M, N and K tiles after an enumerator.
_CK_TILE = LazyPattern(r"\)\d+, (?:\d, )?(?:64|128|256|512), (\d+), (\d+), (\d+), \d+")
_LIBRARIES = (
    "nvjet", "xmma", "cublaslt", "cublas", "cudnn", "cutlass", "wmma", "xdl", "gtcx2", "gtcx3", "igemm",
    "marlin", "deep_gemm",
)  # fmt: skip


def display_dtype(dtype: str) -> str:
    """Short spelling of a float type: f32, f16; the narrow ones keep their usual names."""
    return dtype.replace("fp", "f") if dtype in ("fp16", "fp32", "fp64") else dtype


def join(*parts: str) -> str:
    """The parts that are not empty, one blank between them."""
    return " ".join(part for part in parts if part)


def short_tensile(name: KernelName) -> str:
    """`gemm bf16 MT256x192x64 tn gfx942` from a Tensile name."""
    match = _TENSILE.match(name.lower_text)
    if not match:
        return ""
    # A is stored as it is used where its free index comes first (Ailk), B where its summed one does (Bljk).
    transposes = ("t" if match["a"].startswith("l") else "n") + ("n" if match["b"].startswith("l") else "t")
    tile = match["tile"].replace("mt", "MT")
    return join("gemm", display_dtype(find_dtype(name)), tile, transposes, find_arch(name))


def short_nvjet(name: KernelName) -> str:
    """`gemm bf16 320x128 tnt nvjet 64x3 1x2 h coopB` from an nvjet name."""
    match = _NVJET.search(name.text)
    if not match:
        return ""
    *options, transposes = match["rest"].split("_")
    shown_options = [option for option in options if option not in ("bz", "h", "v")]
    head = join("gemm", display_dtype(find_dtype(name)), match["tile"], transposes.lower(), find_arch(name))
    return join(head, "nvjet", match["stages"], match["cluster"], *shown_options)


def short_gemm(name: KernelName) -> str:
    """`gemm bf16 128x128 tn align1 sm75`: whatever of these the name says."""
    kind = "gemm"
    if "splitkreduce" in name.lower_text:
        kind = "gemm splitk reduce"
    elif "gemv" in name.lower_function or "gevm" in name.lower_function:
        kind = "gemv"
    elif "grouped" in name.lower_text:
        kind = "grouped gemm"
    text = _inner_name(name.lower_text)
    transposes, alignment = _TRANSPOSES.search(text), _ALIGNMENT.search(text)
    return join(
        kind,
        display_dtype(find_dtype(name)),
        *_tiles(text)[:2],
        transposes.group(1) if transposes else "",
        alignment.group(1) if alignment else "",
        find_arch(name),
        _library(name.lower_text),
        # As nvjet's names abbreviate it.
        *("coop" if word == "cooperative" else word for word in _SCHEDULE.findall(name.lower_text)[:1]),
    )


def _inner_name(text: str) -> str:
    """Only the generated name inside `cutlass::Kernel2<…>`: the text around it has no tile."""
    match = re.search(r"cutlass_\d+_\w+", text)
    return match.group() if match else text


def _tiles(text: str) -> list[str]:
    tiles = _TILE.findall(text)
    shape = _CUTE_SHAPE.search(text)
    if not tiles and shape:
        tiles = ["x".join(shape.groups())]
    return tiles


def _library(text: str) -> str:
    # cutlass_NN_ names already say so by their shape; the word would only make every name longer.
    library_name = next((library for library in _LIBRARIES if library in text), "")
    return "" if library_name == "cutlass" and "cutlass_" in text else library_name


def short_convolution(name: KernelName) -> str:
    """`conv fprop f16 nhwc 128x128x64 sm90`."""
    text = name.lower_text
    kind, layout = _CONVOLUTION_KIND.search(text), _LAYOUT.search(text)
    tiles = _tiles(text)[:1] or _ck_tile(text)
    if not kind or not tiles:
        return ""
    splits_k = "split_k" in text or "segment_k_on" in text
    variant = "strided" if "_strided_" in text else "splitk" if splits_k else ""
    return join(
        "conv",
        kind.group(),
        display_dtype(find_dtype(name)),
        layout.group(1) if layout else "",
        *tiles,
        variant,
        find_arch(name),
        _library(text),
    )


def _ck_tile(text: str) -> list[str]:
    match = _CK_TILE.search(text)
    return ["x".join(match.groups())] if match else []


def short_attention(name: KernelName) -> str:
    """`flash attn bwd bf16 hd128 dot_do_o sm90`."""
    text = name.lower_text
    backward = find_direction(name) == "backward" or any(part in text for part in _ONLY_BACKWARD)
    parts = _ATTENTION_PARTS + (_ATTENTION_BACKWARD_PARTS if backward else ())
    part = next((part for part in parts if part in text), "")
    head_dim = _HEAD_DIM.search(text)
    dimension = next((group for group in head_dim.groups() if group), "") if head_dim else ""
    return join(
        "flash attn",
        "bwd" if backward else "fwd",
        display_dtype(find_dtype(name)),
        f"hd{dimension}" if dimension else "",
        part.removeprefix("attend_").removeprefix("bwd_"),
        *_tiles(text)[:1],
        find_arch(name),
        "cudnn" if "cudnn" in text else "",
    )
