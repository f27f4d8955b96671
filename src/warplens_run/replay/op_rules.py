"""Which ops a plan may call: those of `aten` and `prims`, and of modules that the user imports.

Plans come from traces, which are not trusted. The names are checked here, without PyTorch, wherever a plan becomes a
call: when it is made, run, or written as Python or C++. The runner then checks the schemas of its own PyTorch.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

OWN: Final = "warplens"
"""The namespace of the ops that proofs define."""
NAMESPACES: Final = frozenset(["aten", "prims", OWN])
NO_UNITS: Final = {
    # namespaces that no plan may call, whatever is imported
    "prim": "it is part of TorchScript's interpreter",
    "profiler": "it is part of the profiler",
    "export": "it is part of torch.export",
    "static_runtime": "it is part of TorchScript's interpreter",
    "debugprims": "it reads files",
    "c10d": "a collective needs the other processes",
    "_c10d_functional": "a collective needs the other processes",
    "_c10d_functional_autograd": "a collective needs the other processes",
    "symm_mem": "a collective needs the other processes",
    "_dtensor": "a collective needs the other processes",
}
STRIDED: Final = frozenset(["as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter"])
"""Names of ops that are given sizes and strides by number; where they run, the bounds are checked first."""
UNCHECKED: Final = "it makes a tensor over memory whose bounds PyTorch does not check"
UNCHECKED_INDICES: Final = "PyTorch does not check its indices"
HAZARDS: Final = {
    # ops of `aten` and `inductor` that no plan may call
    "aten::_print": "it prints a text of the plan",
    "aten::from_file": "it accesses files",
    "aten::set_data": "it replaces the memory of a tensor",
    "aten::set_": "it replaces the memory of a tensor",
    "aten::_reshape_alias": UNCHECKED,
    "aten::_reshape_alias_copy": UNCHECKED,
    "aten::_nested_view_from_buffer": UNCHECKED,
    "aten::_nested_view_from_buffer_copy": UNCHECKED,
    "aten::_nested_view_from_jagged": UNCHECKED,
    "aten::_nested_view_from_jagged_copy": UNCHECKED,
    "inductor::_reinterpret_tensor": UNCHECKED,
    "inductor::_alloc_from_pool": UNCHECKED,
    "inductor::resize_storage_bytes_": "it replaces the memory of a tensor",
    "aten::_unsafe_index": UNCHECKED_INDICES,
    "aten::_unsafe_index_put": UNCHECKED_INDICES,
    "aten::_unsafe_masked_index": UNCHECKED_INDICES,
    "aten::_unsafe_masked_index_put_accumulate": UNCHECKED_INDICES,
    "aten::_sparse_coo_tensor_unsafe": UNCHECKED_INDICES,
    "aten::_sparse_compressed_tensor_unsafe": UNCHECKED_INDICES,
    "aten::_sparse_csr_tensor_unsafe": UNCHECKED_INDICES,
    "aten::_sparse_csc_tensor_unsafe": UNCHECKED_INDICES,
    "aten::_sparse_bsr_tensor_unsafe": UNCHECKED_INDICES,
    "aten::_sparse_bsc_tensor_unsafe": UNCHECKED_INDICES,
}


def hazard(op: str) -> str:
    """Why no plan may call the op; empty for others.

    >>> hazard("aten::_print"), hazard("c10d::send"), hazard("aten::mm")
    ('it prints a text of the plan', 'a collective needs the other processes', '')
    """
    return NO_UNITS.get(op.partition("::")[0], "") or HAZARDS.get(op, "")


def refusal(op: str, imported: Container[str] = ()) -> str:
    """Why the op may not be called; `imported` are namespaces and ops of the modules that the user named.

    >>> refusal("aten::mm"), refusal("mine::op"), refusal("mine::op", ["mine"])
    ('', 'its namespace is neither aten nor prims; --import the module that defines it', '')
    """
    namespace = op.partition("::")[0]
    reason = hazard(op)
    if reason or namespace in NAMESPACES or namespace in imported or op in imported:
        return reason
    return "its namespace is neither aten nor prims; --import the module that defines it"
