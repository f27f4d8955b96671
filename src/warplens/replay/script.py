"""A unit as a plain Python file: it builds the inputs and calls the op or launches the kernel, with nothing but PyTorch
and Triton.

For a bug report or a notebook. What a plan leaves open (a choice of arguments) is its first alternative.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from warplens.replay.cpp import schema_text
from warplens.replay.script_values import storage_text, value_text
from warplens.replay.triton_script import launch_lines, source_lines
from warplens_run.base.errors import UsageError
from warplens_run.base.torch_switches import ATTRIBUTES, CALLS
from warplens_run.base.units import plural
from warplens_run.formats.replay_plan import READY, ReplayPlan, Unit
from warplens_run.replay.op_rules import hazard, refusal

INDENT: Final = "    "
ONE_LINE: Final = 100
CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, marks that turn the direction of text, and halves of characters."""


def unit_script(plan: ReplayPlan, name: str, imports: Sequence[str] = ()) -> str:
    """The file for one unit, or an error that says why there is none. `imports`: modules that define its op."""
    unit = next((unit for unit in plan.units if unit.id == name), None)
    if unit is None:
        raise UsageError(f"the plan has no unit {name!r}", hint="warplens replay plan lists them; so does its JSON")
    if unit.status != READY:
        raise UsageError(f"unit {name} cannot be run: {unit.reason}")
    # Which ops a module defines is known only where it is imported.
    reason = "" if unit.triton is not None else hazard(unit.op) if imports else refusal(unit.op)
    if reason:
        raise UsageError(f"unit {name} is not written: {unit.op}: {reason}")
    return "\n".join(_lines(plan, unit, imports)) + "\n"


def _lines(plan: ReplayPlan, unit: Unit, imports: Sequence[str]) -> Iterator[str]:
    yield from _head(plan, unit)
    yield from ("", "import torch", *(f"import {module}" for module in imports), "")
    if unit.triton is not None:
        yield from (*source_lines(plan, unit), "", "")
    yield 'device = "cuda" if torch.cuda.is_available() else "cpu"'
    yield from ("torch.manual_seed(0)", "")
    switches = list(_switches(plan))
    if switches:
        yield from ("# PyTorch's switches as they were in the trace.", *switches, "")
    yield "# Memory of the inputs; tensors that share it name the same one."
    for number, storage in enumerate(unit.storages):
        yield f"memory_{number} = {storage_text(storage)}"
    body = [f"return {_call(unit)}"] if unit.triton is None else launch_lines(plan, unit)
    yield from ("", "", "def call():", *(f"{INDENT}{line}" for line in body), "", "")
    yield from TIMING


def _head(plan: ReplayPlan, unit: Unit) -> Iterator[str]:
    where = f" on {_plain(plan.gpus[0].name)}" if plan.gpus and plan.gpus[0].name else ""
    calls = f"{plural(unit.count, 'call')} of {unit.times.median_ns / 1e3:.2f} µs{where}"
    yield f'"""{_plain(_op(unit))}: unit {unit.id} of {_plain(plan.trace)}, {calls}.'
    yield ""
    yield "In the trace a call launched:"
    yield from (f"  {_plain(kernel.name)}" for kernel in unit.kernels)
    yield from (f"Note: {_plain(note)}" for note in unit.notes)
    yield '"""'


def _plain(text: str) -> str:
    """Text that cannot end the string around it, nor hide what follows."""
    return CONTROLS.sub(" ", text).replace("\\", "\\\\").replace('"', "'")


def _op(unit: Unit) -> str:
    return f"{unit.op}.{unit.overload}" if unit.overload else unit.op


def _switches(plan: ReplayPlan) -> Iterator[str]:
    for name, value in sorted(plan.settings.items(), key=lambda pair: pair[0] not in CALLS):
        if name in ATTRIBUTES and isinstance(value, bool):
            yield f"torch.{name} = {value}"
        elif name in CALLS:
            word = str(value).rpartition(".")[2].lower() if isinstance(value, str) else value
            yield f"torch.{CALLS[name]}({word!r})"


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
