"""A unit as a plain Python file: it builds the inputs and calls the op, with nothing but PyTorch.

For a bug report or a notebook. What a plan leaves open (a choice of arguments) is its first alternative.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from warplens.errors import UsageError
from warplens.replay.cpp import schema_text
from warplens.replay.plan_file import DTYPES, READY, Argument, Fill, ReplayPlan, Storage, TensorView, Unit
from warplens.torch_switches import ATTRIBUTES, CALLS
from warplens.units import plural

INDENT: Final = "    "
SHORT_NAMES: Final = ("dtype", "layout", "memory_format")
ONE_LINE: Final = 100
FLOATS: Final = ("normal", "rectified", "masked", "uniform")
"""Contents that PyTorch makes as float32 by itself."""


def unit_script(plan: ReplayPlan, name: str) -> str:
    """The file for one unit, or an error that says why there is none."""
    unit = next((unit for unit in plan.units if unit.id == name), None)
    if unit is None:
        raise UsageError(f"the plan has no unit {name!r}", hint="warplens replay plan lists them; so does its JSON")
    if unit.status != READY:
        raise UsageError(f"unit {name} cannot be run: {unit.reason}")
    if unit.triton is not None:
        raise UsageError(f"unit {name} is a generated kernel", hint="its source is in the plan: warplens replay run")
    return "\n".join(_lines(plan, unit)) + "\n"


def _lines(plan: ReplayPlan, unit: Unit) -> Iterator[str]:
    yield from _head(plan, unit)
    yield from ("", "import torch", "", 'device = "cuda" if torch.cuda.is_available() else "cpu"')
    yield from ("torch.manual_seed(0)", "")
    switches = list(_switches(plan))
    if switches:
        yield from ("# PyTorch's switches as they were in the trace.", *switches, "")
    yield "# Memory of the inputs; tensors that share it name the same one."
    for number, storage in enumerate(unit.storages):
        yield f"memory_{number} = {storage_text(storage)}"
    yield from ("", "", "def call():", f"{INDENT}return {_call(unit)}", "", "")
    yield from TIMING


def _head(plan: ReplayPlan, unit: Unit) -> Iterator[str]:
    where = f" on {plan.gpus[0].name}" if plan.gpus and plan.gpus[0].name else ""
    calls = f"{plural(unit.count, 'call')} of {unit.times.median_ns / 1e3:.2f} µs{where}"
    yield f'"""{_op(unit)}: unit {unit.id} of {_plain(plan.trace)}, {calls}.'
    yield ""
    yield "In the trace a call launched:"
    yield from (f"  {_plain(kernel.name)}" for kernel in unit.kernels)
    yield from (f"Note: {_plain(note)}" for note in unit.notes)
    yield '"""'


def _plain(text: str) -> str:
    """Text that cannot end the string around it."""
    return text.replace("\\", "\\\\").replace('"""', "'''").replace("\n", " ")


def _op(unit: Unit) -> str:
    return f"{unit.op}.{unit.overload}" if unit.overload else unit.op


def _switches(plan: ReplayPlan) -> Iterator[str]:
    for name, value in sorted(plan.settings.items(), key=lambda pair: pair[0] not in CALLS):
        if name in ATTRIBUTES and isinstance(value, bool):
            yield f"torch.{name} = {value}"
        elif name in CALLS:
            word = str(value).rpartition(".")[2].lower() if isinstance(value, str) else value
            yield f"torch.{CALLS[name]}({word!r})"


def storage_text(storage: Storage) -> str:
    """
    >>> storage_text(Storage(8, "float32"))
    'torch.randn(2, device=device)'
    >>> storage_text(Storage(4, "bool", Fill("constant", 1.0), device="cpu"))
    'torch.full((4,), 1, device="cpu").to(torch.bool)'
    """
    count = storage.bytes // DTYPES[storage.dtype]
    where = "device=device" if storage.device == "cuda" else 'device="cpu"'
    made = _filled(storage.fill, count, where, is_integer=not storage.dtype.startswith(("float", "bfloat", "complex")))
    is_made_so = storage.dtype == "float32" and storage.fill.kind in FLOATS
    typed = made if is_made_so else f"{made}.to(torch.{storage.dtype})"
    return f"{typed}.pin_memory()" if storage.pinned else typed


def _filled(fill: Fill, count: int, where: str, *, is_integer: bool) -> str:
    low, high, step = (_number(value, is_integer) for value in (fill.low, fill.high, fill.step))
    if fill.kind == "constant":
        return f"torch.full(({count},), {low}, {where})"
    if fill.kind == "ramp":
        return f"(torch.arange({count}, {where}) * {step} + {low}).clamp(max={high})"
    if fill.kind == "shares":
        total, pieces = int(fill.low), int(fill.step)
        return f"(({total + pieces - 1} - torch.arange({count}, {where}) % {pieces}) // {pieces})"
    if fill.kind == "digits":
        places = f"torch.arange({count}, {where})"
        triples = zip(fill.digits[::3], fill.digits[1::3], fill.digits[2::3], strict=True)
        return "(" + " + ".join(f"{places} // {stride} % {size} * {jump}" for stride, size, jump in triples) + ")"
    if fill.kind == "uniform" and not is_integer:
        return f"(torch.rand({count}, {where}) * {fill.high - fill.low!r} + {low})"
    if fill.kind == "permutation":
        return f"(torch.randperm({count}, {where}) % {int(fill.high - fill.low)} + {int(fill.low)})"
    if fill.kind in ("integers", "uniform"):
        return f"torch.randint({int(fill.low)}, {int(fill.high)}, ({count},), {where})"
    normal = f"torch.randn({count}, {where})"
    if fill.kind == "rectified":
        return f"{normal}.relu()"
    if fill.kind == "masked":
        return f"({normal} * (torch.rand({count}, {where}) < 0.5))"
    return f"{normal}.round().abs()" if is_integer else normal


def _number(value: float, is_integer: bool) -> str:
    return str(int(value)) if is_integer else repr(value)


def _call(unit: Unit) -> str:
    """`torch.ops.aten.mm.default(…)`, an argument on a line of its own where one line would be too long."""
    namespace, _, name = unit.op.partition("::")
    function = f"torch.ops.{namespace}.{name}.{unit.overload or 'default'}"
    arguments = [value_text(argument, unit) for argument in unit.arguments]
    named = _keyword_only(unit)
    texts = [f"{named[place]}={text}" if place in named else text for place, text in enumerate(arguments)]
    line = f"{function}({', '.join(texts)})"
    if len(line) <= ONE_LINE:
        return line
    inner = "".join(f"{INDENT}{INDENT}{text},\n" for text in texts)
    return f"{function}(\n{inner}{INDENT})"


def _keyword_only(unit: Unit) -> dict[int, str]:
    """The names of the arguments after the schema's `*`, by their place."""
    schema = schema_text.parse(unit.schema)
    parameters = schema.parameters if schema is not None else ()
    return {place: parameter.name for place, parameter in enumerate(parameters) if parameter.keyword}


def value_text(argument: Argument, unit: Unit) -> str:
    if argument.kind == "tensor" and argument.tensor is not None:
        return _tensor(argument.tensor, unit.storages[argument.tensor.storage])
    if argument.kind == "choice":
        return value_text(argument.items[0], unit)
    if argument.kind == "list":
        return f"[{', '.join(value_text(item, unit) for item in argument.items)}]"
    if argument.kind in ("none", "undefined"):
        return "None"
    if argument.kind == "device":
        return "device" if str(argument.value).startswith("cuda") else repr(argument.value)
    if argument.kind in SHORT_NAMES:
        return f"torch.{str(argument.value).removeprefix('torch.')}"
    if argument.kind == "complex":
        return repr(complex(*argument.value))
    if argument.kind == "float" and not math.isfinite(argument.value):
        return f'float("{argument.value}")'
    return repr(argument.value)


def _tensor(view: TensorView, storage: Storage) -> str:
    memory = f"memory_{view.storage}"
    typed = memory if view.dtype == storage.dtype else f"{memory}.view(torch.{view.dtype})"
    return f"{typed}.as_strided({view.shape}, {view.stride}, {view.offset})"


TIMING: Final = """if __name__ == "__main__":
    with torch.no_grad():
        for _ in range(3):
            result = call()
        shown = [result] if isinstance(result, torch.Tensor) else list(result or ())
        print("returned", [tuple(item.shape) for item in shown if isinstance(item, torch.Tensor)])
        if device == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(20):
                call()
            end.record()
            torch.cuda.synchronize()
            print(f"{start.elapsed_time(end) / 20 * 1e3:.2f} µs a call, with the launches")""".splitlines()
