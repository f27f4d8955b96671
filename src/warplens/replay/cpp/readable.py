"""Units as C++ that a person can read: `at::addmm(self, mat1, mat2, /*beta=*/at::Scalar(1), …)`.

Which ops a PyTorch has, and with which arguments, is known only where the project is built. So each call stands between
`#ifdef`s, and CMake looks its op up in that PyTorch's own headers (`ops.cmake`); what is not there is called by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from warplens.replay.cpp import literals, schema_text
from warplens.replay.cpp.literals import NotWritten
from warplens.replay.cpp.values import CppCall, argument_of, cpp_type
from warplens_run.formats.replay_plan import READY, ReplayPlan, Unit
from warplens_run.replay.op_rules import STRIDED, refusal

ATEN: Final = re.compile(r"aten::(\w+)", re.ASCII)
PRETTY: Final = frozenset(
    # ops that at:: has as a function with the schema's own arguments in their order
    """_adaptive_avg_pool2d _foreach_add _foreach_add_ _foreach_mul _foreach_mul_ _log_softmax
    _log_softmax_backward_data _native_batch_norm_legit _softmax _softmax_backward_data _unsafe_view add addcdiv
    addcmul addmm amax amin argmax baddbmm bitwise_and bmm cat ceil clamp clone constant_pad_nd convolution
    convolution_backward cos cumsum div embedding embedding_dense_backward eq erf exp flip floor gather ge gelu
    gelu_backward gt hardtanh index_select isfinite le leaky_relu linear log logical_and logical_not logical_or lt
    masked_fill matmul max_pool2d_with_indices maximum mean minimum mm mul native_batch_norm
    native_batch_norm_backward native_dropout native_group_norm native_layer_norm native_layer_norm_backward ne neg
    pow reciprocal relu rsqrt rsub scatter scatter_add sigmoid sigmoid_backward sign silu sin slice_backward sqrt
    stack sub sum tanh tanh_backward threshold_backward topk tril triu where""".split()  # noqa: SIM905
)
PRETTY_OUT: Final = frozenset(["add", "addmm", "baddbmm", "bmm", "cat", "mm", "mul"])
"""Those whose overload `out` is `at::name_out`, with what it writes first."""

HEADER: Final = """// The plan's calls, written out by `warplens replay export-cpp --readable`.
#include <ATen/core/Tensor.h>

#include <array>
#include <limits>
#include <vector>

#include "readable.hpp"
#include "readable_ops.h"
#include "readable_outputs.hpp"

namespace warplens {
namespace {

using Outputs = std::vector<c10::IValue>;
"""


@dataclass(frozen=True)
class Written:
    """A unit as a function, and what its op must look like in PyTorch's headers."""

    unit: Unit
    struct: str
    header: str
    takes: str
    is_void: bool
    body: str


def files(plan: ReplayPlan) -> dict[str, str]:
    """`units.cpp` and `ops.cmake`."""
    written = [unit_call for unit in plan.units if (unit_call := written_out(unit)) is not None]
    macros: dict[tuple[str, str, bool], str] = {}
    for call in written:
        macros.setdefault((call.struct, call.takes, call.is_void), f"WARPLENS_OP_{len(macros)}")
    functions, rows = [], []
    checks: dict[str, None] = {}
    for number, call in enumerate(written):
        macro = macros[call.struct, call.takes, call.is_void]
        functions.append(_function(number, call, macro))
        rows.append(f"#ifdef {macro}\n      {{{literals.text(call.unit.id)}, unit_{number}}},\n#endif\n")
        is_void = "TRUE" if call.is_void else "FALSE"
        checks[f'warplens_op({macro} {call.struct} {call.header} "{call.takes}" {is_void})\n'] = None
    return {
        "units.cpp": HEADER + "".join(functions) + _table(rows, plan.id),
        "ops.cmake": "# What each macro of units.cpp asks of PyTorch.\n" + "".join(checks),
    }


def written_out(unit: Unit) -> Written | None:
    """None for a unit that is called by name: no ATen op, no schema in the plan, a choice, an odd argument."""
    schema = schema_text.parse(unit.schema)
    named = ATEN.fullmatch(unit.op)
    if unit.status != READY or unit.triton is not None or schema is None or named is None:
        return None
    if refusal(unit.op) or named[1] in STRIDED:  # called by name, it is checked
        return None
    overload = "" if unit.overload == "default" else unit.overload
    if (schema.name, schema.overload) != (named[1], overload) or len(schema.parameters) < len(unit.arguments):
        return None
    try:
        return _written(unit, schema)
    except NotWritten:
        return None


def _written(unit: Unit, schema: schema_text.SchemaText) -> Written:
    if len(schema.parameters) != len(unit.arguments):
        raise NotWritten("its defaults are known to PyTorch only")
    if len({parameter.name for parameter in schema.parameters}) != len(schema.parameters):
        raise NotWritten("two arguments of one name")
    struct = f"{schema.name}_{schema.overload}" if schema.overload else schema.name
    is_out = schema.overload == "out" and schema.name in PRETTY_OUT
    is_pretty = is_out or (schema.name in PRETTY and not _is_out(schema))
    call = CppCall(symbolic=not is_pretty)
    pairs = zip(unit.arguments, schema.parameters, strict=True)
    values = [argument_of(argument, parameter, call) for argument, parameter in pairs]
    if is_out:
        values = [values[-1], *values[:-1]]
        function = f"at::{schema.name}_out"
    else:
        function = f"at::{schema.name}" if is_pretty else f"at::_ops::{struct}::call"
    words = f"{function}({', '.join(values)})"
    last = f"{words};\n  return {{}};" if schema.returns_nothing else f"return outputs({words});"
    takes = ",".join(cpp_type(parameter.type) for parameter in schema.parameters)
    header = schema.name.rstrip("_") if not schema.name.endswith("__") else schema.name
    body = "".join(f"  {line}\n" for line in [*call.lines, last])
    return Written(unit, struct, header or schema.name, takes, schema.returns_nothing, body)


def _is_out(schema: schema_text.SchemaText) -> bool:
    """Whether at:: puts what is written before the rest, unlike the schema."""
    last = schema.parameters[-1] if schema.parameters else None
    return last is not None and last.written and len(schema.parameters) > 1


def _function(number: int, call: Written, macro: str) -> str:
    title = f"{call.unit.op}.{call.unit.overload}" if call.unit.overload else call.unit.op
    return (
        f"\n#ifdef {macro}\n// {title}\n"
        f"Outputs unit_{number}([[maybe_unused]] std::vector<at::Tensor>& tensors, "
        f"[[maybe_unused]] const at::Device& device) {{\n{call.body}}}\n#endif\n"
    )


def _table(rows: list[str], plan_id: str) -> str:
    return (
        "\n}  // namespace\n\n"
        "const std::vector<ReadableUnit>& readable_units() {\n"
        "  static const std::vector<ReadableUnit> units = {\n" + "".join(rows) + "  };\n  return units;\n}\n\n"
        f"const char* readable_plan_id() {{ return {literals.text(plan_id)}; }}\n\n"
        "}  // namespace warplens\n"
    )
