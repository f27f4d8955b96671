"""A kernel's text as the compiler reads it, where Python would read it otherwise.

`and`, `or` and `not` of blocks are done for each lane, `min` and `max` too, the variable of a loop is a scalar with a
type, and a constant has a `value`. Python asks a block whether it is true, to which the interpreter says yes, and
computes with half of the condition.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import count
from typing import Any, Final

import numpy as np

from warplens_lab.compiling.changing import Change

AND, OR, NOT = "_warplens_and", "_warplens_or", "_warplens_not"
EXTREME, STEPS = "_warplens_extreme", "_warplens_steps"
IS_FALSE, IS_TRUE = "_warplens_is_false", "_warplens_is_true"
EXTREMES: Final = {min: "minimum", max: "maximum"}
"""Python's functions, and what does the same for each lane."""
_numbers = count()


def text_changes(interpreter: Any) -> list[Change]:
    """The interpreter's own change of the text, and the functions that the text then calls."""
    transformer = getattr(interpreter, "ASTTransformer", None)
    if transformer is None:
        return []
    visits = (visit_BoolOp, visit_UnaryOp, visit_Call, visit_Attribute, visit_For)
    changes: list[Change] = [(transformer, visit.__name__, visit) for visit in visits]
    return changes + [(interpreter, name, function) for name, function in _functions(interpreter).items()]


def _functions(interpreter: Any) -> dict[str, Callable[..., Any]]:
    language = interpreter.tl

    def is_dynamic(value: Any) -> bool:
        return isinstance(value, language.tensor)

    def both(left: Any, right: Any) -> Any:
        if is_dynamic(left) and is_dynamic(right):
            return left.logical_and(right)
        return (left if right else right) if is_dynamic(left) else right

    def either(left: Any, right: Any) -> Any:
        if is_dynamic(left) and is_dynamic(right):
            return left.logical_or(right)
        return (right if right else left) if is_dynamic(left) else right

    def negated(value: Any) -> Any:
        return value.__not__() if is_dynamic(value) else not value

    def extreme(function: Any, *values: Any, **kwargs: Any) -> Any:
        """The kernel's file may have a `max` of its own, as the language's library does."""
        name = EXTREMES[function] if function is min or function is max else None
        if name is None or len(values) < 2 or not any(map(is_dynamic, values)):
            return function(*values, **kwargs)
        result = values[0]
        for value in values[1:]:
            result = getattr(language, name)(result, value)
        return result

    def steps(function: Any, *bounds: Any, **options: Any) -> Any:
        """The variable has 64 bits where a bound has, or where it needs them."""
        values = function(*bounds, **options)
        if not isinstance(values, range):
            return values
        is_wide = any(is_dynamic(bound) and bound.dtype.primitive_bitwidth > 32 for bound in bounds)
        is_wide = is_wide or not all(-(2**31) <= end < 2**31 for end in (*values[:1], *values[-1:]))
        dtype, kind = (language.int64, np.int64) if is_wide else (language.int32, np.int32)
        return (language.tensor(interpreter.TensorHandle(np.array([at], kind), dtype), dtype) for at in values)

    return {
        AND: both,
        OR: either,
        NOT: negated,
        EXTREME: extreme,
        STEPS: steps,
        IS_FALSE: lambda value: not is_dynamic(value) and not value,
        IS_TRUE: lambda value: not is_dynamic(value) and bool(value),
    }


def visit_BoolOp(self: Any, node: ast.BoolOp) -> ast.AST:  # noqa: N802 - the interpreter's transformer calls it
    """A constant that decides ends the evaluation, as in Python; a value of the kernel does not."""
    self.generic_visit(node)
    is_and = isinstance(node.op, ast.And)
    result = node.values[0]
    for value in node.values[1:]:
        name = f"_warplens_operand_{next(_numbers)}"
        held = ast.NamedExpr(target=ast.Name(id=name, ctx=ast.Store()), value=result)
        result = ast.IfExp(
            test=_call(IS_FALSE if is_and else IS_TRUE, held),
            body=ast.Name(id=name, ctx=ast.Load()),
            orelse=_call(AND if is_and else OR, ast.Name(id=name, ctx=ast.Load()), value),
        )
    return ast.copy_location(result, node)


def visit_UnaryOp(self: Any, node: ast.UnaryOp) -> ast.AST:  # noqa: N802
    self.generic_visit(node)
    return ast.copy_location(_call(NOT, node.operand), node) if isinstance(node.op, ast.Not) else node


def visit_Call(self: Any, node: ast.Call) -> ast.AST:  # noqa: N802
    self.generic_visit(node)
    if not isinstance(node.func, ast.Name) or node.func.id not in ("min", "max"):
        return node
    called = ast.Name(id=EXTREME, ctx=ast.Load())
    return ast.copy_location(ast.Call(func=called, args=[node.func, *node.args], keywords=node.keywords), node)


def visit_For(self: Any, node: ast.For) -> ast.AST:  # noqa: N802
    """Not of `tl.static_range`, whose variable is a constant."""
    self.generic_visit(node)
    function = node.iter.func if isinstance(node.iter, ast.Call) else None
    name = getattr(function, "id", None) or getattr(function, "attr", None)
    if name == "range" and isinstance(node.iter, ast.Call) and function is not None:
        called = ast.Name(id=STEPS, ctx=ast.Load())
        looped = ast.Call(func=called, args=[function, *node.iter.args], keywords=node.iter.keywords)
        node.iter = ast.copy_location(looped, node.iter)
    return node


def visit_Attribute(self: Any, node: ast.Attribute) -> ast.AST:  # noqa: N802
    """`BLOCK.value`: a constant of the compiler has a value, one of the interpreter is the value."""
    self.generic_visit(node)
    if node.attr != "value" or not isinstance(node.value, ast.Name) or not isinstance(node.ctx, ast.Load):
        return node
    return ast.copy_location(_call("getattr", node.value, ast.Constant(value="value"), node.value), node)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(arguments), keywords=[])
