"""Kernels of a Python file: found by reading the file where that is enough, by importing it in a child process else.

Importing a file runs it. It never runs in this process: what it prints, sets or breaks stays in the child.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warplens.errors import UsageError
from warplens.kernel_lab.compiling.child import kernel_description
from warplens.kernel_lab.compiling.records import Config, Parameter
from warplens.kernel_lab.compiling.signature import Dtype, Signature, Value, parse, parse_value

SEPARATOR: Final = "::"
OPTION_NAMES: Final = (
    "num_warps",
    "num_stages",
    "num_ctas",
    "maxnreg",
    "waves_per_eu",
    "matrix_instr_nonkdim",
    "kpack",
)
"""What a config may set besides constexprs: the options that Triton's backends take."""
_WRAPPERS: Final = ("jit", "autotune", "heuristics")


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel of a file. `configs` is None until the file has been imported; see `with_configs`."""

    file: Path
    name: str
    parameters: tuple[Parameter, ...]
    first_line: int
    configs: tuple[Config, ...] | None = None
    heuristics: tuple[str, ...] = ()
    is_autotuned: bool = False

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.parameters)

    @property
    def constexpr_names(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.parameters if parameter.is_constexpr)

    def signature(self, text: str, config: Config | None = None) -> Signature:
        """The signature that `text` says, with the config's values in place of its constexprs'."""
        defaults = {p.name: p.default for p in self.parameters if p.has_default}
        signature = parse(text, self.parameter_names, self.constexpr_names, defaults)
        return signature.with_constants(dict(config.constants)) if config else signature

    def with_configs(self) -> LoadedKernel:
        """This kernel with the configs of its `autotune`, for which the file is imported in a child process."""
        return self if self.configs is not None else _from_import(self.file, self.name)


def load_kernel(text: str) -> LoadedKernel:
    """The kernel that `FILE.py::name` names; `FILE.py` alone will do where it has one kernel only."""
    path, _, name = text.partition(SEPARATOR)
    file = Path(path).resolve()
    if not file.is_file():
        raise UsageError(f"no such file: {path}", hint="kernels are named FILE.py::kernel")
    kernels = _kernels_in(file)
    if not name:
        if len(kernels) != 1:
            listed = ", ".join(kernels) or "none that can be seen without running it"
            raise UsageError(f"say which kernel of {path}: {path}::NAME", hint=f"kernels there: {listed}")
        name = next(iter(kernels))
    if name in kernels:
        return kernels[name]
    return _from_import(file, name, hint=f"kernels there: {', '.join(kernels)}" if kernels else None)


def parse_config(text: str) -> Config:
    """
    >>> parse_config("BLOCK_M=128,num_warps=8").options
    (('num_warps', 8),)
    """
    constants: list[tuple[str, Value]] = []
    options: list[tuple[str, int]] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise UsageError(f"{part!r} in the config sets nothing", hint="write it as BLOCK_M=128,num_warps=8")
        if name not in OPTION_NAMES:
            constants.append((name, parse_value(value)))
        elif value.isdecimal():
            options.append((name, int(value)))
        else:
            raise UsageError(f"{name} is a number, not {value!r}")
    return Config(tuple(constants), tuple(options))


def _kernels_in(file: Path) -> dict[str, LoadedKernel]:
    """The kernels that the file's text shows: functions under `@triton.jit` and its wrappers alone."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{file.name} is not valid Python: {error}") from error
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and _is_plain_kernel(node)]
    return {node.name: _from_tree(file, node) for node in functions}


def _is_plain_kernel(node: ast.FunctionDef) -> bool:
    names = [_decorator_name(decorator) for decorator in node.decorator_list]
    return "jit" in names and all(name in _WRAPPERS for name in names)


def _decorator_name(node: ast.expr) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _from_tree(file: Path, node: ast.FunctionDef) -> LoadedKernel:
    arguments = [*node.args.posonlyargs, *node.args.args]
    defaults = [None] * (len(arguments) - len(node.args.defaults)) + list(node.args.defaults)
    pairs = [*zip(arguments, defaults, strict=True), *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    parameters = tuple(_parameter(argument, default) for argument, default in pairs)
    wrappers = [_decorator_name(decorator) for decorator in node.decorator_list]
    tuned = "autotune" in wrappers
    return LoadedKernel(file, node.name, parameters, node.lineno, None if len(wrappers) > 1 else (), is_autotuned=tuned)


def _parameter(argument: ast.arg, default: ast.expr | None) -> Parameter:
    # The annotation's text decides for Triton too.
    is_constexpr = argument.annotation is not None and "constexpr" in ast.unparse(argument.annotation)
    if default is None:
        return Parameter(argument.arg, is_constexpr)
    value = parse_value(ast.unparse(default))
    plain = isinstance(default, ast.Constant) or isinstance(value, (int, float, Dtype))
    return Parameter(argument.arg, is_constexpr, plain, value if plain else None)


def _from_import(file: Path, name: str, hint: str | None = None) -> LoadedKernel:
    described = kernel_description(file, name, hint)
    is_autotuned = bool(described.configs)
    parameters = described.parameters or ()
    return LoadedKernel(
        file, name, parameters, described.first_line, described.configs, described.heuristics, is_autotuned
    )
