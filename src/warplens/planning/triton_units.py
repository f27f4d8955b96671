"""Units of generated kernels: the launch's own arguments, the source it was compiled from, its configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from warplens.planning.arguments import CallBuilder, NotReplayable
from warplens.planning.context import Context
from warplens.planning.fills import INTEGERS
from warplens.planning.recorded import Recorded
from warplens.planning.values import scalar
from warplens.readers.kineto.triton_calls import TritonCall
from warplens_run.formats.replay_plan import Argument, SourceKernel

NO_SOURCE: Final = "a generated kernel without its source (a capture bundle contains it; or pass kernel_files)"
BOUND: Final = re.compile(r"<\s*(\d{1,12})\b")
ASSERTED: Final = re.compile(r"device_assert\((.*)")
WRITTEN: Final = ("in_out_ptr", "out_ptr")


def triton_kernel(name: str, kernel_file: str, launch: TritonCall | None, context: Context) -> SourceKernel:
    files = (launch.file if launch else "", kernel_file)
    source = next((file for file in files if file in context.sources), None)
    if source is None:
        raise NotReplayable(NO_SOURCE)
    return SourceKernel(source, (launch.kernel if launch else "") or name, {**launch.config} if launch else {})


def triton_arguments(
    recorded: Sequence[Recorded], kernel: SourceKernel, text: str, call: CallBuilder
) -> tuple[Argument, ...]:
    """Tensors and numbers in the order of the kernel's own parameters."""
    names = parameters(text, kernel.kernel)
    limit = index_bound(text)
    arguments = []
    for position, value in enumerate(recorded):
        name = names[position] if position < len(names) else ""
        if value.kind == "tensor" and value.tensors[0] is not None:
            tensor = value.tensors[0]
            if tensor.dtype in INTEGERS and limit is not None:
                call.ranges = {**call.ranges, position: (0, limit - 1)}
            arguments.append(call.tensor(name, tensor, written=name.startswith(WRITTEN), position=position))
            continue
        number = scalar(value.text, "Scalar") if value.kind == "scalar" else None
        if number is None:
            raise NotReplayable(f"the value of its argument {position + 1} is not recorded")
        arguments.append(number)
    return tuple(arguments)


def parameters(text: str, kernel: str) -> list[str]:
    """
    >>> parameters("@triton.jit\\ndef f(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):\\n", "f")
    ['in_ptr0', 'out_ptr0', 'xnumel', 'XBLOCK']
    """
    match = re.search(rf"def {re.escape(kernel)}\(((?:(?!\bdef ).)*?)\)\s*:", text, re.DOTALL)
    return [part.split(":")[0].strip() for part in match[1].split(",")] if match else []


def index_bound(text: str) -> int | None:
    """Inductor asserts the bounds of what it looks up by index; the smallest one holds for all."""
    bounds = [int(number) for line in ASSERTED.findall(text) for number in BOUND.findall(line)]
    return min(bounds) if bounds else None
