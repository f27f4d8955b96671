"""Short names of PyTorch's template kernels: what the functor does, on which type."""

from __future__ import annotations

import re

from warplens.categories.facts import find_direction, find_dtype
from warplens.categories.fusions import inductor_parts
from warplens.categories.kernel_name import KernelName
from warplens.categories.short_products import display_dtype, join
from warplens.lazy_patterns import LazyPattern
from warplens_run.base import bounded

# How the functor is spelled, tried in turn; the group is what it computes.
_FUNCTORS = (
    LazyPattern(r"CUDAFunctor(?:OnSelf|OnOther)?_(\w+)"),
    LazyPattern(r"native::xpu::(\w{1,80}?)(?:Scalar)?Func(?:tor)?(?![A-Za-z])"),
    LazyPattern(r"(?:binary_internal::)(\w{1,80}?)Functor"),
    LazyPattern(
        r"(Compare\w{0,60}?|Bitwise\w{1,60}?|Logical\w{1,60}?|[A-Z][a-z]{1,60}?|LeakyRelu|Lerp)Functor(?![A-Za-z])"
    ),
    LazyPattern(r"(?<!\w)(\w{1,80}?)CUDAKernelImpl"),
    LazyPattern(r"(?:native::|templates::|^)launch_(\w{1,80}?)(?:_scalar|_kernel)?\("),
    LazyPattern(r"(?<![a-z_])(\w{1,80}?)_cuda_out"),
    LazyPattern(r"(?<![A-Za-z_])(?!gpu_|elementwise|vectorized|unrolled)(\w{1,80}?)(?:_cuda)?_kernel(?![a-z])"),
    LazyPattern(r"native::(\w+)\("),
)
_CAMEL = LazyPattern(r"(?<=[a-z0-9])(?=[A-Z])")
_WRAPPERS = ("Binary", "AUnary", "BUnary", "Unary")
_WIDTH = LazyPattern(r"vectorized_?(?:templated_)?elementwise_?kernel<(\d+)")
_TYPED_COPY = LazyPattern(r"(bfloat16|float16|float8\w{0,20}?)_copy_kernel_cuda.{0,400}?lambda\(([\w:]{1,80})\)")
_COPY_TYPES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float": "f32",
    "c10::Half": "f16",
    "c10::BFloat16": "bf16",
}

_REDUCTIONS = (
    ("argmax", "ArgMax"), ("argmin", "ArgMin"), ("mean", "MeanOps"), ("var", "Welford"), ("norm", "Norm"),
    ("sum", "sum_functor"), ("sum", "SumFunctor"), ("prod", "prod"), ("max", "MaxNan"), ("min", "MinNan"),
    ("max", "max_"), ("min", "min_"), ("all", "and_kernel"), ("any", "or_kernel"), ("sum", "nansum"),
)  # fmt: skip
_FOREACH = (
    ("fused adam", "FusedAdam"), ("fused sgd", "FusedSgd"), ("fused adagrad", "FusedAdagrad"),
    ("adam", "Adam"), ("sgd", "SGD"), ("lamb", "LAMB"), ("norm", "Norm"), ("copy", "Copy"), ("zero", "Zero"),
    ("lerp", "Lerp"), ("sqrt", "Sqrt"), ("neg", "std::negate"), ("mul", "std::multiplies"),
    ("add", "std::plus"), ("sub", "std::minus"), ("div", "std::divides"), ("unscale", "NonFinite"),
    ("scale", "ScaleFunctor"),
)  # fmt: skip


def functor_of(name: KernelName) -> str:
    """What the functor of an elementwise kernel computes: `add`, `mul`, `gelu`, `fill`; empty if unclear."""
    # The wrappers say only how many arguments there are.
    text = re.sub(r"(?:A|B)?(?:Unary|Binary)Functor<", "<", name.text[:1500])
    for pattern in _FUNCTORS:
        match = pattern.search(text)
        if match and match.group(1) not in _WRAPPERS:
            return _CAMEL.sub("_", match.group(1).strip("_")).lower()
    return ""


def short_elementwise(name: KernelName) -> str:
    """`elementwise add bf16 vec4`, `fill f32 vec4`, `copy f32→bf16`."""
    functor, dtype = functor_of(name), display_dtype(find_dtype(name))
    width = _WIDTH.search(name.lower_text)
    vector = f"vec{width.group(1)}" if width else _loop_kind(name.lower_function)
    if "copy" in functor:
        return join("copy", _copied_types(name, dtype), vector)
    if functor == "fill":
        return join("fill", dtype, vector)
    scalar = "scalar" if re.search(r"[AB]UnaryFunctor|OnSelf|OnOther", name.text) else ""
    return join("elementwise", functor, scalar, dtype, vector)


def _loop_kind(function: str) -> str:
    return "unrolled" if "unroll" in function else "indexed" if "index" in function else "strided"


def _copied_types(name: KernelName, dtype: str) -> str:
    typed = _TYPED_COPY.search(name.text)
    if typed:
        return f"{_COPY_TYPES.get(typed[2], typed[2])}→{_COPY_TYPES.get(typed[1], typed[1])}"
    # With LoadWithCast the source's type is known only at run time.
    return f"cast→{dtype}" if "LoadWithCast" in name.text else dtype


def short_reduce(name: KernelName) -> str:
    """`reduce sum f32`."""
    reduction = next((reduction for reduction, spelling in _REDUCTIONS if spelling in name.text), "")
    return join("reduce", reduction, display_dtype(find_dtype(name)))


def short_foreach(name: KernelName) -> str:
    """`foreach mul f32`, `foreach addcdiv f32`, `foreach fused adam f32`."""
    operation = next((operation for operation, spelling in _FOREACH if spelling in name.text), "")
    if "PointwiseOp" in name.text:
        operation = f"addc{operation}"
    shape = "list" if "ScalarList" in name.text else "scalar" if "OpScalarFunctor" in name.text else ""
    return join("foreach", operation, shape, display_dtype(find_dtype(name)))


# Op names of several words; anything else in an Inductor name is one word.
_OPS = LazyPattern(
    r"_?log_softmax_backward_data|_?softmax_backward_data|_?log_softmax|_?softmax|prepare_softmax_online"
    r"|native_layer_norm_backward|native_layer_norm|native_group_norm(?:_backward)?|_?native_batch_norm_legit"
    r"|native_batch_norm_backward|_?fused_rms_norm(?:_backward)?|native_dropout_backward|native_dropout"
    r"|embedding_dense_backward|nll_loss_(?:forward|backward)|threshold_backward|tanh_backward|gelu_backward"
    r"|silu_backward|sigmoid_backward|constant_pad_nd|index_(?:put|select|add)|slice_(?:scatter|backward)"
    r"|select_(?:scatter|backward)|max_pool2d\w{0,20}?_with_indices(?:_backward)?|avg_pool2d|scalar_tensor|new_zeros"
    r"|zeros_like|ones_like|full_like|_?unsafe_view|_?to_copy|masked_fill|scaled_dot_product\w{0,40}?_attention"
    r"|convert_element_type|moe_forward|[a-z0-9]+"
)
_NOISE = frozenset(
    {
        "to_copy", "unsafe_view", "view", "t", "transpose", "clone", "expand", "unsqueeze", "squeeze",
        "reshape", "permute", "slice", "select", "split", "detach", "alias", "scalar_tensor", "as_strided",
        "convert_element_type", "full",
    }
)  # fmt: skip


def short_inductor(name: KernelName) -> str:
    """`triton red: layer_norm+gelu #7`: views and casts are left out, the number keeps names apart."""
    parts = inductor_parts(name.lower_function)
    if parts is None:
        return ""
    kind, ops = parts
    number = name.function.rsplit("_", 1)[-1]
    words = list(dict.fromkeys(_shorten(word) for word in _OPS.findall(ops)))
    shown_words = [word for word in words if word not in _NOISE] or words
    suffix = f" #{number}" if number.isdigit() else ""
    body = "+".join(shown_words)
    room = 60 - len(f"triton {kind}: ") - len(suffix)
    if len(body) > room:
        body = body[: room - 1].rstrip("+_") + "…"
    return f"triton {kind}: {body}{suffix}" if body else f"triton {kind}{suffix}"


def _shorten(op: str) -> str:
    return op.strip("_").removeprefix("native_").replace("_backward", "_bwd").replace("_forward", "")


_SOFTMAX_LOG2 = LazyPattern(
    r"softmax_warp_(?:forward|backward)<[^,]{1,200}, [^,]{1,200}, [^,]{1,200}, (\d+), (true|false)"
)


def short_softmax(name: KernelName) -> str:
    """`softmax fwd f16 ≤1024`, `log_softmax bwd f32`."""
    warp = _SOFTMAX_LOG2.search(name.lower_text)
    is_log = "logsoftmax" in name.lower_text or (warp is not None and warp[2] == "true")
    masked = "masked" if "masked" in name.lower_text else ""
    direction = {"forward": "fwd", "backward": "bwd"}.get(find_direction(name), "")
    size = f"≤{2 ** min(bounded.whole(warp[1], absent=20), 20)}" if warp else ""
    dtype = display_dtype(find_dtype(name))
    return join("log_softmax" if is_log else "softmax", direction, masked, dtype, size)


_CAT = LazyPattern(r"catarraybatchedcopy(\w{0,80})<.{0,400}?opaquetype<(\d+)u?>, unsigned int, (\d+)")


def short_cat(name: KernelName) -> str:
    """`cat 2-byte 3d vectorized`."""
    match = _CAT.search(name.lower_text)
    return join("cat", f"{match[2]}-byte", f"{match[3]}d", match[1].strip("_")) if match else ""
