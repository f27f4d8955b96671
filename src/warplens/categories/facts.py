"""What a kernel's name says besides its category: number type, architecture, direction."""

from __future__ import annotations

from warplens.categories.kernel_name import KernelName, any_in
from warplens.lazy_patterns import LazyPattern

_DTYPE_SPELLINGS = {
    "bf16": ("bfloat16", "bf16", "df16b"),
    "fp16": ("float16", "half2", "half", "fp16", "f16"),
    "fp32": ("float32", "float", "fp32", "f32"),
    "fp64": ("float64", "double", "fp64", "f64"),
    "tf32": ("tf32", "xf32"),
    "fp8": ("float8", "bfloat8", "fp8", "e4m3", "e5m2", "f8"),
    "fp4": ("mxfp4", "nvfp4", "fp4", "e2m1"),
    "int8": ("int8", "i8", "s8"),
}
_DTYPE_OF = {spelling: dtype for dtype, spellings in _DTYPE_SPELLINGS.items() for spelling in spellings}
# After a type may follow another one (f16f16) or a shape (bf16xbf16), not more letters (floats, f160).
_DTYPE = LazyPattern(
    "(?:" + "|".join(sorted(_DTYPE_OF, key=len, reverse=True)) + r")(?![0-9]|[a-eg-wyz](?![0-9])|f[^0-9p])"
)
_WHOLE_NUMBERS = {
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
}
# Whole-number types also name index types, so they count only as what a functor works on.
_FUNCTOR_TYPE = LazyPattern(r"(?:functor\w{0,80}<|lambda\()(" + "|".join(_WHOLE_NUMBERS) + r")\b")

# The launch table of a multi-tensor kernel: a type among its arguments is that of the numbers (betas, step counts) that
# are listed beside the tensors. What the functor after it begins with is the tensors' type.
_TENSOR_TABLE = LazyPattern(r"tensorlist\w{0,80}metadata<[^<>]*>")

# The types a ck_tile attention kernel works on, up to the first argument with arguments of its own.
_FMHA_TYPES = LazyPattern(r"fmha\w{0,80}problem<([^<]*)")
_CK_NAMESPACES = ("ck::", "ck_tile::", "ck_fused_attn::")
_CK_TYPES = {"unsigned short": "bf16", "_bitint(8)": "fp8", "unsigned _bitint(8)": "fp8"}

_LAMBDA = LazyPattern(r"lambda\(([^)]{1,400})\)")

# The letter before gemm in BLAS names.
# Before a tensor-core shape (s1688gemm) an s is only the accumulator's type.
_BLAS_LETTER = LazyPattern(r"(?<![a-z0-9])(?:(h)\d*|([sdczi]))(?:gemm|gemv|gemvx|cudnn)(?![a-z])")
_BLAS_FAMILIES = ("gemm", "gemv", "cudnn")
_BLAS_LETTERS = {"s": "fp32", "d": "fp64", "h": "fp16", "c": "complex64", "z": "complex128", "i": "int8"}

# nvjet's three letters are A, accumulator and C types; only h and t were seen in traces of known types.
_NVJET = LazyPattern(r"nvjet_(?:sm\d+\w?_)?([a-z]{3})_")
_NVJET_TYPES = {"h": "fp16", "t": "bf16"}

# Tensile: the token after the two index orders, e.g. Cijk_Alik_Bljk_BBS_BH: bf16 in, bf16 out, fp32 sum.
_TENSILE = LazyPattern(r"^cijk_a\w{3,4}_b\w{3,4}_(\w{1,6}?)(?:_|$)")
_TENSILE_TYPES = (
    ("f8", "fp8"),
    ("b8", "fp8"),
    ("f4", "fp4"),
    ("b", "bf16"),
    ("h", "fp16"),
    ("s", "fp32"),
    ("d", "fp64"),
    ("i8", "int8"),
    ("4xi8", "int8"),
    ("c", "complex64"),
    ("z", "complex128"),
)

_ARCH = LazyPattern(
    r"sm_?(?P<sm>1[0-2]\d|\d\d)[af]?(?![0-9])|cutlass_(?P<cutlass>1[0-2]\d|\d\d)_"
    r"|isa(?P<isa>\d{2,3}[0-9a]?)_|gfx(?P<gfx>\d[0-9a-f]{2,3})"
)
_ARCH_WORDS = {
    "kepler": "sm35",
    "maxwell": "sm50",
    "pascal": "sm60",
    "volta": "sm70",
    "turing": "sm75",
    "ampere": "sm80",
}

_BACKWARD = (
    "backward", "bwd", "bprop", "dgrad", "wgrad", "bwtr", "bn_bw", "wrw", "_bw_", "gradinput", "grad_input",
    "gradweight", "grad_weight", "gradgamma", "grad_gamma", "gammabeta", "dq_dk_dv", "dkdv", "dk_dv",
    "dot_do_o", "convert_dq", "fmha_cutlassb", "internalgradients", "_grad_", "accgrad", "bias_grad", "bias_diff",
    "biasgrad",
)  # fmt: skip
_FORWARD = ("forward", "fwd", "fprop", "fwtr", "bn_fw", "_fw_")


def known_dtype(text: str) -> str:
    """The one spelling used here for a number type, or empty."""
    return _spelled_float(text.lower())


def find_dtype(name: KernelName) -> str:
    """The type of the kernel's inputs, where the name says it."""
    text = name.lower_text
    if text.startswith("cijk_"):
        return _tensile_dtype(text)
    if "nvjet_" in text:
        return _nvjet_dtype(text)
    return _spelled_dtype(text) or (_blas_dtype(text) if any_in(_BLAS_FAMILIES, text) else "")


def _spelled_dtype(text: str) -> str:
    if "elementwise_kernel" in text and "functor" not in text:  # its lambda, not its maker's parameters
        arguments = _LAMBDA.search(text)
        if arguments:
            first = arguments.group(1).split(",")[0]
            return _spelled_float(arguments.group(1)) or _WHOLE_NUMBERS.get(first, "")
    fmha_types = _FMHA_TYPES.search(text) if "ck_tile::" in text else None
    if fmha_types:
        return _fmha_dtype(fmha_types[1])
    if "unsigned short" in text and any_in(_CK_NAMESPACES, text):  # CK's bf16 is a plain 16-bit integer
        return "bf16"
    if "splitkreduce" in text:  # the partial sums are fp32 whatever the product's type is
        text = text.replace("float,", "")
    if "multi_tensor_apply" in text:
        text = _TENSOR_TABLE.sub("", text)
    dtype = _spelled_float(text)
    if dtype:
        return dtype
    functor = _FUNCTOR_TYPE.search(text)
    return _WHOLE_NUMBERS[functor.group(1)] if functor else ""


def _fmha_dtype(types: str) -> str:
    """The first type narrower than fp32: some kernels list their accumulator first."""
    spelled = [_CK_TYPES.get(name, "") or _spelled_float(name) for name in types.split(", ")]
    return next((dtype for dtype in spelled if dtype not in ("", "fp32")), "fp32" if "fp32" in spelled else "")


def _spelled_float(text: str) -> str:
    for match in _DTYPE.finditer(text):
        start = match.start()
        before = text[start - 1] if start else "_"
        # `f16` ends `bf16`, but `e4m3` may follow its width (`128e4m3`) and `f32` another type (`f16f32`).
        if not before.isalnum() or (before.isdigit() and start > 1 and text[start - 2] in "61238"):
            return _DTYPE_OF[match.group()]
    return ""


def _blas_dtype(text: str) -> str:
    match = _BLAS_LETTER.search(text)
    return _BLAS_LETTERS[match.group(1) or match.group(2)] if match else ""


def _nvjet_dtype(text: str) -> str:
    match = _NVJET.search(text)
    return _NVJET_TYPES.get(match.group(1)[0], "") if match else ""


def _tensile_dtype(text: str) -> str:
    match = _TENSILE.match(text)
    if not match:
        return ""
    return next((dtype for start, dtype in _TENSILE_TYPES if match.group(1).startswith(start)), "")


def find_arch(name: KernelName) -> str:
    """The architecture the kernel was built for, as `sm90` or `gfx942`."""
    match = _ARCH.search(name.lower_text)
    if match and match.lastgroup:
        number = match.group(match.lastgroup)
        return f"gfx{number}" if match.lastgroup in ("isa", "gfx") else f"sm{number}"
    return next((arch for word, arch in _ARCH_WORDS.items() if f"{word}_" in name.lower_function), "")


def find_direction(name: KernelName) -> str:
    """`backward` or `forward` where the name says so; a name with both is of the backward pass."""
    text = name.lower_text
    if any_in(_BACKWARD, text) or name.lower_function.endswith(("_grad", "_grad_kernel")):
        return "backward"
    return "forward" if any_in(_FORWARD, text) else ""
