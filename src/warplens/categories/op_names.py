"""The family of an operator, from its name; where that says nothing, from the kernels it launched."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from warplens.categories.rules import read_packaged_toml
from warplens.lazy_patterns import LazyPattern

_NAMESPACES = ("aten::", "torch::", "prims::", "quantized::", "mkldnn::", "torchvision::", "fbgemm::")
_AUTOGRAD_NODE = LazyPattern(
    r"(?:^autograd::engine::evaluate_function:\s*)?(?:torch::autograd::)?(\w{1,200}?)Backward(\d*)$"
)
_AUTOGRAD = LazyPattern(r"^(?:autograd::|torch::autograd::)|Backward\d*$|AccumulateGrad")
_CAMEL = LazyPattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

# Families of kernels whose ops are known under a wider name.
_OF_KERNELS = {
    "Flash Attention Forward": "Attention",
    "Flash Attention Backward": "Attention",
    "Attention (other)": "Attention",
    "Memory Ops": "Memory",
    "Sort/Scan": "Sort",
    "Triton Fused": "inductor",
    "Layout Transform": "Layout",
}
_NO_KERNELS: Mapping[str, float] = MappingProxyType({})


def op_category(op: str, kernel_categories: Mapping[str, float] = _NO_KERNELS) -> str:
    """The op's family: from its name, else from the kernels that took most of its time, else `other`."""
    family = _family_of_name(op[:512])
    if family and family != "autograd":
        return family
    named_categories = {category: time for category, time in kernel_categories.items() if category != "Other"}
    if named_categories:
        category = max(sorted(named_categories), key=lambda category: named_categories[category])
        return _OF_KERNELS.get(category, category)
    return family or "other"


@lru_cache(maxsize=8192)
def _family_of_name(op: str) -> str:
    node = _AUTOGRAD_NODE.match(op)
    if node:  # AddmmBackward0, NativeLayerNormBackward0: the forward op's name in camel case
        return _family_of_bare(_CAMEL.sub("_", node.group(1)).lower()) or "autograd"
    if _AUTOGRAD.search(op):
        return "autograd"
    bare = op
    for namespace in _NAMESPACES:
        bare = bare.removeprefix(namespace)
    is_torch_op = bare != op
    return _family_of_bare(_without_overload(bare) if is_torch_op or "::" in bare else bare)


def _without_overload(name: str) -> str:
    """`add_.Tensor` → `add_`; dots of a namespace-less text (a file name, a module) are left alone."""
    namespace, separator, op = name.rpartition("::")
    return namespace + separator + op.split(".", 1)[0]


def _family_of_bare(name: str) -> str:
    op = name.rsplit("::", 1)[-1]
    families, patterns = _tables()
    for spelling in (op, op.removesuffix("_"), op.removesuffix("_backward"), f"_{op}"):
        if spelling in families:
            return families[spelling]
    lower = name.lower()
    return next((family for family, pattern in patterns if pattern.search(lower)), "")


@lru_cache(maxsize=1)
def _tables() -> tuple[dict[str, str], tuple[tuple[str, LazyPattern], ...]]:
    """The family of each whole name, and the patterns for all others."""
    content = read_packaged_toml("ops.toml")
    families = {word: family for family, words in content["names"].items() for word in words}
    return families, tuple((rule["family"], LazyPattern(rule["pattern"])) for rule in content["pattern"])
