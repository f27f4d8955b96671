"""Kernels of a Python file: found by reading the file where that is enough, by importing it in a child process else.

Importing a file runs it. It never runs in this process: what it prints, sets or breaks stays in the child.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from warplens_lab.compiling.child import kernel_description
from warplens_lab.compiling.kernels_in_text import LOCALS, WrittenKernel, kernels_in
from warplens_lab.compiling.records import Config, OptionValue, Parameter, ScriptOrigin
from warplens_lab.compiling.signature import Signature, outer_parts, parse
from warplens_lab.compiling.triton_options import is_option_name, parse_option
from warplens_lab.compiling.values import Value, parse_value
from warplens_run.base.errors import UsageError

SEPARATOR: Final = "::"
MOST_LISTED: Final = 20


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
    origin: ScriptOrigin | None = None
    """The script to run for it, where importing its file does not make it."""

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
        return signature.with_constants(self.constants_of(config)) if config else signature

    def constants_of(self, config: Config) -> dict[str, Value]:
        """What the config sets of the kernel's constexprs: a name that is an option too sets both, as for Triton."""
        both: Mapping[str, OptionValue] = {n: v for n, v in config.options if n in self.constexpr_names}
        return {**both, **dict(config.constants)}

    def with_configs(self) -> LoadedKernel:
        """This kernel with the configs of its `autotune`, for which the file is imported in a child process."""
        return self if self.configs is not None else _from_import(self.file, self.name)


def load_kernel(text: str) -> LoadedKernel:
    """The kernel that `FILE.py::name` names; `FILE.py` alone will do where it has one kernel only."""
    path, _, name = text.partition(SEPARATOR)
    file = Path(path).resolve()
    if not file.is_file():
        raise UsageError(f"no such file: {path}", hint="kernels are named FILE.py::kernel")
    written = kernels_in(file)
    launched = [kernel for kernel in written.values() if not kernel.is_helper]
    if not name:
        if len(launched) != 1:
            listed = _listed([kernel.name for kernel in launched]) or "none that can be seen without running it"
            raise UsageError(f"say which kernel of {path}: {path}::NAME", hint=f"kernels there: {listed}")
        name = launched[0].name
    kernel = written.get(name) or _inside_a_function(written, name)
    if kernel is None:
        return _from_import(file, name, hint=_names_hint(name, [known.name for known in launched]))
    if kernel.is_helper:
        raise UsageError(
            f"{name} returns a value: kernels call it, and it cannot be launched",
            hint=_names_hint("", [known.name for known in launched]),
        )
    if kernel.maker is not None:
        return _from_import(file, kernel.name)
    return _from_text(file, kernel)


def _inside_a_function(written: Mapping[str, WrittenKernel], name: str) -> WrittenKernel | None:
    """A kernel that a function makes, by its own name."""
    makers = [kernel for kernel in written.values() if kernel.name.rpartition(f"{LOCALS}.")[2] == name]
    return makers[0] if len(makers) == 1 else None


def _names_hint(name: str, known: list[str]) -> str | None:
    """
    >>> _names_hint("softmx", ["softmax", "add"])
    'did you mean softmax? kernels there: softmax, add'
    """
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    listed = f"kernels there: {_listed(known)}" if known else None
    return f"did you mean {close[0]}? {listed}" if close else listed


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_LISTED
    return ", ".join(names[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def parse_config(text: str) -> Config:
    """
    >>> parse_config("BLOCK_M=128,num_warps=8").options
    (('num_warps', 8),)
    """
    constants: list[tuple[str, Value]] = []
    options: list[tuple[str, OptionValue]] = []
    for part in filter(None, (part.strip() for part in outer_parts(text))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise UsageError(f"{part!r} in the config sets nothing", hint="write it as BLOCK_M=128,num_warps=8")
        if is_option_name(name):
            options.append((name, parse_option(name, value)))
        else:
            constants.append((name, parse_value(value)))
    return Config(tuple(constants), tuple(options))


def _from_text(file: Path, kernel: WrittenKernel) -> LoadedKernel:
    configs = None if len(kernel.decorators) > 1 else ()
    return LoadedKernel(
        file, kernel.name, kernel.parameters(), kernel.node.lineno, configs, is_autotuned=kernel.is_autotuned
    )


def _from_import(file: Path, name: str, hint: str | None = None) -> LoadedKernel:
    described = kernel_description(file, name, hint)
    is_autotuned = bool(described.configs)
    parameters = described.parameters or ()
    return LoadedKernel(
        file, name, parameters, described.first_line, described.configs, described.heuristics, is_autotuned
    )
