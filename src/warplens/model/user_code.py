"""Which Python frames are the user's own code, and which are of frameworks and tools."""

from __future__ import annotations

import re

from warplens.lazy_patterns import LazyPattern

FRAME = LazyPattern(r"(?P<file>.+?)\((?P<line>\d+)\): (?P<function>.*)", re.DOTALL)
_FRAMEWORKS = (
    r"nn\.Module: "
    r"|(?:.*(?:site|dist)-packages/)?(?:torch|triton|torch_tb_profiler|torchvision/ops|functorch)/"
    r"|.*(?:site|dist)-packages/(?:jax|jaxlib|flax|optax|haiku|equinox)/"
    # JAX's Python tracer leaves the folders out: names of files that are JAX's beyond doubt, and calls of common ones.
    r"|(?:array_methods|ufunc_api|pjit|pxla|xla_bridge|sharding_impls|named_sharding|traceback_util|linear_util|api_util|partial_eval)\.py\("
    r"|(?:api|profiler|tree_util)\.py\(\d+\): "
    r"(?:block_until_ready|try_to_block|device_put|start_trace|stop_trace|trace|wrapper|tree_\w+)$"
    r"|(?:.*/)?torchinductor[^/]*/"
    # What records the run and what starts it: with folders, as PyTorch's profiler names it, and without. A user's own
    # folder may be called warplens as well.
    r"|(?:.*/)?(?:warplens_run/|warplens/(?:capture|cli)/|warplens/__main__\.py\()|jax_backend\.py\("
    r"|(?:session|steps|scopes|windows)\.py\(\d+\): (?:step|mark|_pass_on|__enter__|__exit__|_enter|_exit|is_open)$"
)
_TOOLS = (
    r"<built-in|<frozen|<string>|<eval"
    r"|(?:.*/)?(?:contextlib|functools|threading|dataclasses|typing|abc|enum|copy|inspect|weakref)\.py\("
    # What user code computes with: the line that calls it says more than the line in it.
    r"|(?:.*(?:site|dist)-packages/)?(?:numpy/|PIL/|typing_extensions\.py\()"
    r"|(?:.*/lib/python3[.\d]*/)?(?:collections|json|logging|multiprocessing|importlib)/"
    r"|(?:.*/lib/python3[.\d]*/)?(?:pathlib|posixpath|genericpath|random|pickle|tempfile|shutil|subprocess|warnings)\.py\("
)
FRAMEWORKS = LazyPattern(_FRAMEWORKS)
"""Frames of what launches work for the user, and of what records it."""
INFRASTRUCTURE = LazyPattern(f"{_FRAMEWORKS}|{_TOOLS}")
"""Frames that no user would call their own line."""


def is_own_frame(name: str) -> bool:
    """
    >>> is_own_frame("train.py(12): step"), is_own_frame("torch/nn/modules/linear.py(130): forward")
    (True, False)
    """
    return FRAME.fullmatch(name) is not None and INFRASTRUCTURE.match(name) is None
