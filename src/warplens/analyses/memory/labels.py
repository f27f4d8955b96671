"""What a stack says of an allocation: the part of the program that it belongs to, and the user's line.

Stacks are innermost first, Python frames and, where they were recorded, those of C++. The innermost frame that is a
mark decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec
import polars as pl

from warplens.lazy_patterns import LazyPattern
from warplens.model.arrays import numbered
from warplens.model.user_code import INFRASTRUCTURE

BUILD, FORWARD, BACKWARD, RECOMPUTE, OPTIMIZER, ZERO_GRAD, CACHE, WORKSPACE = (
    "build", "forward", "backward", "recompute", "optimizer", "zero_grad", "kv cache", "workspace",
)  # fmt: skip
NO_STACK: Final = ""
TRAINING: Final = (BACKWARD, OPTIMIZER, ZERO_GRAD)
"""What only a program that trains has."""
MARKS: Final = (
    # label, pattern of file and function; the first that matches a frame counts
    (WORKSPACE, LazyPattern(r".*\n.*(?:CUDABlas(?:Lt)?(?:Workspace|Handle)|getNewWorkspace|ChosenWorkspaceSize)")),
    (WORKSPACE, LazyPattern(r".*\n.*CublasHandlePool")),
    (ZERO_GRAD, LazyPattern(r".*\nzero_grad$")),
    (RECOMPUTE, LazyPattern(r".*torch/utils/checkpoint\.py\n(?:recompute_fn|unpack_hook|backward)$")),
    (
        OPTIMIZER,
        LazyPattern(r".*(?:torch/optim/|apex/optimizers/|bitsandbytes/optim/|deepspeed/.{0,400}optimizer|galore)"),
    ),
    (OPTIMIZER, LazyPattern(r".*optim[^/]{0,255}\.py\nstep$")),
    (BACKWARD, LazyPattern(r".*\n.*torch::autograd::(?:Engine|python::PythonEngine|generated|AccumulateGrad)")),
    (BACKWARD, LazyPattern(r".*torch/autograd/graph\.py\n_engine_run_backward$")),
    (BACKWARD, LazyPattern(r".*torch/autograd/__init__\.py\n(?:backward|grad)$")),
    (BACKWARD, LazyPattern(r".*torch/_tensor\.py\nbackward$")),
    (CACHE, LazyPattern(r".*(?:cache_utils|kv_?cache|paged_cache|cache_engine)[^/]{0,200}\.py\n", re.IGNORECASE)),
    (CACHE, LazyPattern(r".*\n_?(?:allocate|create|init|initialize)_\w{0,200}kv_cache\w{0,200}$")),
    (BUILD, LazyPattern(r".*torch/nn/modules/module\.py\n(?:_apply|to_empty|load_state_dict|_load_from_state_dict)$")),
    (BUILD, LazyPattern(r".*torch/nn/modules/\w+\.py\n(?:__init__|reset_parameters)$")),
    (BUILD, LazyPattern(r".*(?:torch/nn/parameter\.py|safetensors/\w+\.py)\n")),
    (BUILD, LazyPattern(r".*transformers/(?:modeling_utils|core_model_loading)\.py\n")),
    (FORWARD, LazyPattern(r".*torch/nn/modules/module\.py\n_(?:wrapped_)?call_impl$")),
)  # fmt: skip
CACHE_FILE: Final = LazyPattern(
    r"[^:]*(?:cache_utils|kv_?cache|paged_cache|cache_engine)[^/]{0,200}\.py:", re.IGNORECASE
)
"""A line of code of a cache of keys and values."""
LOSS: Final = LazyPattern(r"cross_entropy|nll_loss|log_softmax|CrossEntropy|ForCausalLMLoss|fixed_cross_entropy")
CPP: Final = LazyPattern(r"\?\?|.*\.(?:cpp|cxx|cc|c|h|hpp|hxx|inl|tcc|cu|cuh|hip|[oSs]|so[.\d]*)$|$")
OMITTED: Final = LazyPattern(r"(?:.*/)?runpy\.py$|<frozen")
FUNCTION_APPLY: Final = LazyPattern(r".*torch/autograd/function\.py\napply$")
"""Calls the forward pass of a function that a program defines, and its backward pass: what is around it decides."""
MODULE_CALL: Final = LazyPattern(r".*torch/nn/modules/module\.py\n_(?:wrapped_)?call_impl$")
NODE: Final = LazyPattern(r"torch::autograd::generated::(\w+)::apply\b")
OP: Final = LazyPattern(
    r"at::_ops::(?=\w+::(?:call|redispatch)\b)(\w+?)(?:_(?:[A-Z]\w*|out|int|self|default|dim|dtype\w*|device))?::(?:call|redispatch)\b"
)
"""In the names of C++ functions: a node of the backward pass, and an op with the name of its overload."""
INSTALLED: Final = LazyPattern(r"\A.*/(?:site|dist)-packages/")
"""What comes before the name of an installed package."""


class StackLabel(msgspec.Struct, frozen=True):
    label: str = NO_STACK
    """One of the above; `FORWARD` also for Python frames without a mark, empty where nothing was recorded."""
    is_marked: bool = False
    in_module: bool = False
    """Inside of a module's call."""
    line: str = ""
    """`file:line function` of the innermost frame of the user's own code, else of the innermost Python frame."""
    op: str = ""
    """The op, or the node of the backward pass, where C++ frames are recorded."""
    is_loss: bool = False


NOTHING: Final = StackLabel()
LABEL_COLUMNS: Final = {
    name: pl.Boolean if isinstance(value, bool) else pl.String
    for name, value in msgspec.structs.asdict(NOTHING).items()
}


class Labels:
    """Labels of stacks, each made once."""

    def __init__(self, stacks: Sequence[Sequence[int]], frames: Sequence[tuple[str, int, str]]) -> None:
        self._stacks = stacks
        self._texts = frames
        texts = [f"{file}\n{function}" for file, _, function in frames]
        self._marks = [_mark(text) for text in texts]
        self._is_apply = [FUNCTION_APPLY.match(text) is not None for text in texts]
        self._is_call = [MODULE_CALL.match(text) is not None for text in texts]
        self._is_installed = [INSTALLED.match(file) is not None for file, _, _ in frames]
        self._is_python = [CPP.match(file) is None for file, _, _ in frames]
        self._is_own = [
            python and INFRASTRUCTURE.match(f"{file}({line}): {function}") is None and OMITTED.match(file) is None
            for python, (file, line, function) in zip(self._is_python, frames, strict=True)
        ]
        self._ops = [_op(function) for _, _, function in frames]
        self._is_loss = [LOSS.search(function) is not None for _, _, function in frames]
        self._known: dict[int, StackLabel] = {}

    def of(self, stack: int) -> StackLabel:
        if stack < 0:
            return NOTHING
        if stack not in self._known:
            self._known[stack] = self._label(self._stacks[stack])
        return self._known[stack]

    def of_all(self, stacks: pl.Series) -> pl.DataFrame:
        """The labels of many stacks, a row each."""
        different, which = numbered(stacks.to_numpy())
        rows = [msgspec.structs.astuple(self.of(stack)) for stack in different.tolist()]
        return pl.DataFrame(rows, schema=LABEL_COLUMNS, orient="row")[which]

    def _label(self, stack: Sequence[int]) -> StackLabel:
        python = [row for row in stack if self._is_python[row]]
        label = next((mark for row in stack if (mark := self._marks[row] or self._of_apply(row, python))), "")
        return StackLabel(
            label or (FORWARD if python else NO_STACK),
            is_marked=bool(label),
            in_module=any(self._is_call[row] for row in python),
            line=self._place(self._own(python)),
            op=self._op(stack),
            is_loss=any(self._is_loss[row] for row in stack),
        )

    def _of_apply(self, row: int, python: Sequence[int]) -> str:
        """Autograd's threads begin with the backward pass of a function; its forward pass has a caller."""
        if not self._is_apply[row]:
            return ""
        place = python.index(row)
        is_inside_backward = place > 0 and self._texts[python[place - 1]][2] == "backward"
        return BACKWARD if is_inside_backward or place == len(python) - 1 else ""

    def _own(self, python: Sequence[int]) -> int | None:
        """The user's frame: the innermost one of no installed package inside the module that runs, else the innermost
        one of a package that is not the framework."""
        calls = (place for place, row in enumerate(python) if self._is_call[row])
        own = [row for row in python if self._is_own[row]]
        inside = python[: next(calls, len(python))]
        written = next((row for row in inside if self._is_own[row] and not self._is_installed[row]), None)
        return next(iter(own or python), None) if written is None else written

    def _op(self, stack: Sequence[int]) -> str:
        """The outermost one below Python."""
        outermost = ""
        for row in stack:
            if self._is_python[row]:
                break
            outermost = self._ops[row] or outermost
        return outermost

    def _place(self, row: int | None) -> str:
        if row is None:
            return ""
        file, line, function = self._texts[row]
        return f"{INSTALLED.sub('', file)}:{line} {function}"


def _mark(text: str) -> str:
    return next((label for label, pattern in MARKS if pattern.match(text)), "")


def _op(function: str) -> str:
    """
    >>> _op("at::_ops::div_Tensor::call(at::Tensor const&)"), _op("torch::autograd::generated::BmmBackward0::apply(x)")
    ('aten::div', 'BmmBackward0')
    """
    if node := NODE.search(function):
        return node[1]
    return f"aten::{op[1]}" if (op := OP.match(function)) else ""
