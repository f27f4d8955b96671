"""What an Inductor kernel fuses, read from its name (`triton_red_fused__to_copy_native_layer_norm_7`)."""

from __future__ import annotations

import re

_INDUCTOR = re.compile(r"^triton_(?P<kind>[a-z]{2,4})_fused(?:_(?P<ops>\w*?[a-z]\w*?))?(?:_\d+)?$")

# The first that the name holds: what costs or explains most comes first.
_FUSED = (
    ("attention", re.compile(r"scaled_dot_product|flex_attention|attention")),
    ("loss", re.compile(r"_loss|cross_entropy|kl_div")),
    ("normalization", re.compile(r"_norm(?!al)|rsqrt|batch_norm_|rms_norm|var_mean")),
    ("softmax", re.compile(r"softmax|logsumexp")),
    ("optimizer", re.compile(r"_adam|_foreach|addcdiv|_sgd|lerp")),
    ("embedding", re.compile(r"embedding|index|gather|scatter")),
    ("random", re.compile(r"dropout|bernoulli|rand(?:n|int|perm)?(?:_|$)|uniform")),
    ("pooling", re.compile(r"_pool|upsample|grid_sampler")),
    ("convolution", re.compile(r"convolution")),
    ("sort/scan", re.compile(r"_sort|topk|cumsum|cumprod")),
    (
        "reduction",
        re.compile(r"(?:^|_)(?:sum|mean|amax|amin|max|min|prod|argmax|argmin|any|all|std|var)(?:_|$)"),
    ),
    ("activation", re.compile(r"silu|gelu|relu|sigmoid|tanh|mish|hardswish|elu")),
)
_MOVES = re.compile(
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
