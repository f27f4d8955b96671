"""What an Inductor kernel fuses, read from its name (`triton_red_fused__to_copy_native_layer_norm_7`)."""

from __future__ import annotations

from warplens.lazy_patterns import LazyPattern

_INDUCTOR = LazyPattern(r"^triton_(?P<kind>[a-z]{2,4})_fused(?:_(?P<ops>(?=\w*?[a-z])\w+?))?(?:_\d+)?$")

# The first that the name holds: what costs or explains most comes first.
_FUSED = (
    ("attention", LazyPattern(r"scaled_dot_product|flex_attention|attention")),
    ("loss", LazyPattern(r"_loss|cross_entropy|kl_div")),
    ("normalization", LazyPattern(r"_norm(?!al)|rsqrt|batch_norm_|rms_norm|var_mean")),
    ("softmax", LazyPattern(r"softmax|logsumexp")),
    ("optimizer", LazyPattern(r"_adam|_foreach|addcdiv|_sgd|lerp")),
    ("embedding", LazyPattern(r"embedding|index|gather|scatter")),
    ("random", LazyPattern(r"dropout|bernoulli|rand(?:n|int|perm)?(?:_|$)|uniform")),
    ("pooling", LazyPattern(r"_pool|upsample|grid_sampler")),
    ("convolution", LazyPattern(r"convolution")),
    ("sort/scan", LazyPattern(r"_sort|topk|cumsum|cumprod")),
    (
        "reduction",
        LazyPattern(r"(?:^|_)(?:sum|mean|amax|amin|max|min|prod|argmax|argmin|any|all|std|var)(?:_|$)"),
    ),
    ("activation", LazyPattern(r"silu|gelu|relu|sigmoid|tanh|mish|hardswish|elu")),
)
_MOVES = LazyPattern(
    r"^(?:_?(?:to_copy|unsafe_view|copy|clone|cat|stack|view|t|transpose|permute|expand|split|slice|select"
    r"|unsqueeze|squeeze|constant_pad_nd|zeros?(?:_like)?|ones|full(?:_like)?|fill|mm|bmm|addmm|reshape"
    r"|as_strided|new_zeros|empty|unbind|repeat|detach|alias|lift_fresh|convert_element_type)(?:_|$))+$"
)
_BY_KIND = {
    "poi": "pointwise",
    "red": "reduction",
    "per": "reduction",
    "for": "pointwise",
    "mix": "reduction",
}


def inductor_parts(function: str) -> tuple[str, str] | None:
    """(kind, fused ops) of an Inductor kernel name; None for any other name."""
    match = _INDUCTOR.match(function) if function.startswith("triton_") else None
    return (match["kind"], match["ops"] or "") if match else None


def inductor_fusion(function: str) -> str:
    """What an Inductor kernel mainly does, in one word; empty for any other name."""
    parts = inductor_parts(function)
    if parts is None:
        return ""
    kind, ops = parts
    if ops and _MOVES.match(ops):
        return "copy"
    fusions = (word for word, pattern in _FUSED if pattern.search("_" + ops))
    return next(fusions, _BY_KIND.get(kind, "pointwise"))  # poi, for, tem
