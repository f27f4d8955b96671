"""How a kernel's text uses its parameters: which are addresses, descriptors, indices, and values of conditions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from warplens_lab.compiling.kernels_in_text import WrittenKernel

ACCESSES: Final = ("load", "store", "make_block_ptr", "make_tensor_descriptor", "max_contiguous", "multiple_of")
DESCRIPTOR_METHODS: Final = ("load", "store", "gather", "scatter", "atomic_add")
MOST_STEPS: Final = 400
"""Assignments that are followed for one address."""


class KernelUses:
    def __init__(self, kernel: WrittenKernel) -> None:
        self._function = kernel.node
        parameters = kernel.parameters()
        self._names = {parameter.name for parameter in parameters if not parameter.is_constexpr}
        self._constants = {parameter.name for parameter in parameters if parameter.is_constexpr}
        self._assigned = _assigned(kernel.node)

    @cached_property
    def arguments(self) -> Mapping[str, str]:
        """By parameter: "pointer" where an address begins with it, "index" where what it points to is part of one.

        "descriptor" where its methods load or store.
        """
        uses: dict[str, str] = {}
        loaded: dict[str, str] = {}
        addresses: list[ast.expr] = []
        for call in self._accesses():
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if isinstance(owner, ast.Name) and owner.id in self._names:
                uses.setdefault(owner.id, "descriptor")
                continue
            address = _address(call)
            if address is None:
                continue
            addresses.append(address)
            for base in self._bases(address, frozenset()):
                uses[base] = "pointer"
        for name, values in self._assigned.items():
            for value in values:
                for base in self._loaded_from(value):
                    loaded[name] = base
        used = {name for address in addresses for name in self._all_names(address)}
        moved = [node for node in ast.walk(self._function) if isinstance(node, ast.AugAssign)]
        used |= {name for node in moved if _is_name(node.target, uses) for name in self._all_names(node.value)}
        for name, base in loaded.items():
            if name in used:
                uses[base] = "index"
        return uses

    @cached_property
    def constants(self) -> Mapping[str, str]:
        """Entries for constexprs that conditions go by: a word or number that they are compared with, else False."""
        entries: dict[str, str] = {}
        for node in ast.walk(self._function):
            if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id in self._constants:
                other = node.comparators[0]
                if isinstance(other, ast.Constant) and isinstance(node.ops[0], ast.Eq):
                    entries.setdefault(node.left.id, repr(other.value))
        for test in self._tests():
            for part in test.values if isinstance(test, ast.BoolOp) else [test]:
                plain = part.operand if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not) else part
                if isinstance(plain, ast.Name) and plain.id in self._constants:
                    entries.setdefault(plain.id, "False")
        return entries

    @property
    def has_square_tiles(self) -> bool:
        """Whether a dimension is added to a tile: `rows[:, None]`."""
        return any(
            isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and "None" in ast.unparse(node.slice)
            for node in ast.walk(self._function)
        )

    def _tests(self) -> Iterator[ast.expr]:
        for node in ast.walk(self._function):
            if isinstance(node, (ast.If, ast.IfExp, ast.While)):
                yield node.test

    def _accesses(self) -> Iterator[ast.Call]:
        for node in ast.walk(self._function):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            name = node.func.attr
            is_own = isinstance(node.func.value, ast.Name) and node.func.value.id in self._names
            if (is_own and name in DESCRIPTOR_METHODS) or name in ACCESSES or name.startswith("atomic_"):
                yield node

    def _loaded_from(self, value: ast.expr) -> Iterator[str]:
        for node in ast.walk(value):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load":
                yield from self._bases(_address(node), frozenset())

    def _all_names(self, node: ast.expr) -> set[str]:
        """The names that a value is computed from, through what is assigned to them; loads end the search."""
        names: set[str] = set()
        waiting: list[ast.expr] = [node]
        for _ in range(MOST_STEPS):
            if not waiting:
                break
            for name in _names_outside_loads(waiting.pop()):
                if name not in names:
                    names.add(name)
                    waiting.extend(self._assigned.get(name, ()))
        return names

    def _bases(self, node: ast.expr | None, visited: frozenset[str]) -> Iterator[str]:
        """The parameters that an address begins with: the leftmost of a sum."""
        if isinstance(node, ast.Name):
            if node.id in visited:
                return
            if node.id in self._names:
                yield node.id
            else:
                for value in self._assigned.get(node.id, ())[:2]:
                    yield from self._bases(value, visited | {node.id})
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            yield from self._bases(node.left, visited)
        elif isinstance(node, (ast.Subscript, ast.Attribute)):
            yield from self._bases(node.value, visited)
        elif isinstance(node, ast.IfExp):
            yield from self._bases(node.body, visited)
            yield from self._bases(node.orelse, visited)
        elif isinstance(node, ast.Call):
            is_cast = isinstance(node.func, ast.Attribute) and node.func.attr == "to"
            inner = node.func.value if is_cast and isinstance(node.func, ast.Attribute) else _address(node)
            yield from self._bases(inner, visited)


def _is_name(node: ast.expr, names: Mapping[str, str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _names_outside_loads(node: ast.expr) -> Iterator[str]:
    waiting: list[ast.AST] = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, ast.Call) and isinstance(current.func, ast.Attribute) and current.func.attr == "load":
            continue
        if isinstance(current, ast.Name):
            yield current.id
        waiting.extend(ast.iter_child_nodes(current))


def _address(call: ast.Call) -> ast.expr | None:
    by_name = {keyword.arg: keyword.value for keyword in call.keywords}
    return call.args[0] if call.args else by_name.get("pointer") or by_name.get("base")


def _assigned(function: ast.FunctionDef) -> Mapping[str, list[ast.expr]]:
    """By variable: what is assigned to it."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name, value in _targets(target, node.value):
                    assigned.setdefault(name, []).append(value)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)) and isinstance(node.target, ast.Name) and node.value:
            assigned.setdefault(node.target.id, []).append(node.value)
    return assigned


def _targets(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for inner, part in zip(target.elts, value.elts, strict=True):
            yield from _targets(inner, part)
