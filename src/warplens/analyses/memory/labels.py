"""What a stack says of an allocation: the part of the program that it belongs to, and the user's line.

Stacks are innermost first, Python frames and, where they were recorded, those of C++. The innermost frame that is a
mark decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from warplens.model.user_code import INFRASTRUCTURE

BUILD, FORWARD, BACKWARD, RECOMPUTE, OPTIMIZER, ZERO_GRAD, CACHE, WORKSPACE = (
    "build", "forward", "backward", "recompute", "optimizer", "zero_grad", "kv cache", "workspace",
)  # fmt: skip
NO_STACK: Final = ""
MARKS: Final = (
    # label, pattern of file and function; the first that matches a frame counts
    (WORKSPACE, re.compile(r".*\n.*(?:CUDABlas(?:Lt)?Workspace|ChosenWorkspaceSize|CublasHandlePool)")),
    (ZERO_GRAD, re.compile(r".*\nzero_grad$")),
    (RECOMPUTE, re.compile(r".*torch/utils/checkpoint\.py\n(?:recompute_fn|unpack_hook|backward)$")),
    (OPTIMIZER, re.compile(r".*(?:torch/optim/|apex/optimizers/|bitsandbytes/optim/|deepspeed/.*optimizer|galore)")),
    (OPTIMIZER, re.compile(r".*optim[^/]*\.py\nstep$")),
    (BACKWARD, re.compile(r".*\n.*torch::autograd::(?:Engine|python::PythonEngine|generated|AccumulateGrad)")),
    (BACKWARD, re.compile(r".*torch/autograd/(?:graph\.py\n_engine_run_backward|function\.py\napply)$")),
    (BACKWARD, re.compile(r".*torch/autograd/__init__\.py\n(?:backward|grad)$")),
    (BACKWARD, re.compile(r".*torch/_tensor\.py\nbackward$")),
    (CACHE, re.compile(r".*(?:cache_utils|kv_?cache|paged_cache|cache_engine)[^/]*\.py\n", re.IGNORECASE)),
    (CACHE, re.compile(r".*\n_?(?:allocate|create|init|initialize)_\w*kv_cache\w*$")),
    (BUILD, re.compile(r".*torch/nn/modules/module\.py\n(?:_apply|to_empty|load_state_dict|_load_from_state_dict)$")),
    (BUILD, re.compile(r".*torch/nn/modules/\w+\.py\n(?:__init__|reset_parameters)$")),
    (BUILD, re.compile(r".*(?:torch/nn/parameter\.py|safetensors/\w+\.py)\n")),
    (BUILD, re.compile(r".*transformers/(?:modeling_utils|core_model_loading)\.py\n")),
    (FORWARD, re.compile(r".*torch/nn/modules/module\.py\n_(?:wrapped_)?call_impl$")),
)  # fmt: skip
CACHE_FILE: Final = re.compile(r"[^:]*(?:cache_utils|kv_?cache|paged_cache|cache_engine)[^/]*\.py:", re.IGNORECASE)
"""A line of code of a cache of keys and values."""
LOSS: Final = re.compile(r"cross_entropy|nll_loss|log_softmax|CrossEntropy|ForCausalLMLoss|fixed_cross_entropy")
CPP: Final = re.compile(r"\?\?|.*\.(?:cpp|cc|c|h|hpp|cu|cuh|so[.\d]*)$|$")
OMITTED: Final = re.compile(r"(?:.*/)?runpy\.py$|<frozen")


class StackLabel(msgspec.Struct, frozen=True):
    label: str = NO_STACK
    """One of the above; `FORWARD` also for Python frames without a mark, empty where nothing was recorded."""
    is_marked: bool = False
    line: str = ""
    """`file:line function` of the innermost frame of the user's own code, else of the innermost Python frame."""
    is_loss: bool = False


NOTHING: Final = StackLabel()


class Labels:
    """Labels of stacks, each made once."""

    def __init__(self, stacks: Sequence[Sequence[int]], frames: Sequence[tuple[str, int, str]]) -> None:
        self._stacks = stacks
        self._texts = frames
        self._marks = [_mark(file, function) for file, _, function in frames]
        self._is_python = [CPP.match(file) is None for file, _, _ in frames]
        self._is_own = [
            python and INFRASTRUCTURE.match(f"{file}({line}): {function}") is None and OMITTED.match(file) is None
            for python, (file, line, function) in zip(self._is_python, frames, strict=True)
        ]
        self._is_loss = [LOSS.search(function) is not None for _, _, function in frames]
        self._known: dict[int, StackLabel] = {}

    def of(self, stack: int) -> StackLabel:
        if stack < 0:
            return NOTHING
        if stack not in self._known:
            self._known[stack] = self._label(self._stacks[stack])
        return self._known[stack]

    def _label(self, stack: Sequence[int]) -> StackLabel:
        label = next((mark for row in stack if (mark := self._marks[row])), "")
        own = next((row for row in stack if self._is_own[row]), None)
        python = next((row for row in stack if self._is_python[row]), None) if own is None else own
        return StackLabel(
            label or (FORWARD if python is not None else NO_STACK),
            is_marked=bool(label),
            line=self._place(python),
            is_loss=any(self._is_loss[row] for row in stack),
        )

    def _place(self, row: int | None) -> str:
        if row is None:
            return ""
        file, line, function = self._texts[row]
        return f"{file}:{line} {function}"


def _mark(file: str, function: str) -> str:
    text = f"{file}\n{function}"
    return next((label for label, pattern in MARKS if pattern.match(text)), "")
