"""What Triton's own objects say of a kernel: parameters, configs and place. Runs where the user's file is imported."""

from __future__ import annotations

import inspect
from typing import Any, Final

from warplens_lab.compiling.expressions import expression_of
from warplens_lab.compiling.plain_values import is_plain, plain_value
from warplens_lab.compiling.records import Config, OptionValue, Parameter
from warplens_lab.compiling.values import Value

INNER: Final = ("fn", "jit_function", "_fn", "kernel", "func", "__wrapped__")
"""Where wrappers of kernels keep what they wrap: Triton's own `fn`, then what libraries call it."""
MOST_WRAPPERS: Final = 16
USUAL: Final = ("num_warps", "num_stages", "num_ctas")
"""The options that come first in a config's text."""


def unwrapped(wrapped: Any) -> tuple[Any, list[Any], list[str]]:
    """The kernel inside `autotune`, `heuristics` and a library's own wrappers; None where there is none.

    With it the configs of the first and the names that the second sets.
    """
    configs: list[Any] = []
    heuristics: list[str] = []
    for _ in range(MOST_WRAPPERS):
        if wrapped is None or is_kernel(wrapped):
            return wrapped, configs, heuristics
        configs += [config for config in _listed(wrapped, "configs") if hasattr(config, "kwargs")]
        values = getattr(wrapped, "values", None)
        heuristics += list(values) if isinstance(values, dict) else []
        wrapped = _inside(wrapped)
    return None, configs, heuristics


def _listed(wrapped: Any, name: str) -> list[Any]:
    value = getattr(wrapped, name, None)
    return list(value) if isinstance(value, (list, tuple)) else []


def _inside(wrapped: Any) -> Any:
    kept = (getattr(wrapped, name, None) for name in INNER)
    inner = next((value for value in kept if value is not None and value is not wrapped), None)
    if inner is None and inspect.isfunction(wrapped):
        # A plain function around a kernel, as `functools.wraps` does not mark it, holds it in its closure.
        cells = [cell.cell_contents for cell in wrapped.__closure__ or () if _is_filled(cell)]
        return next((content for content in cells if is_kernel(content) or is_kernel(_fn(content))), None)
    return inner


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _fn(value: Any) -> Any:
    return getattr(value, "fn", None)


def is_kernel(value: Any) -> bool:
    from triton.runtime.jit import JITFunction

    return isinstance(value, JITFunction)


def described_parameters(function: Any) -> tuple[Parameter, ...]:
    return tuple(_parameter(parameter, function.fn) for parameter in function.params)


def _parameter(parameter: Any, function: Any) -> Parameter:
    default = getattr(parameter, "default", None) if parameter.has_default else None
    has_plain_default = bool(parameter.has_default) and is_plain(default)
    annotation = str(getattr(parameter, "annotation", "") or "")
    if parameter.has_default and not has_plain_default:
        expression = expression_of(default, function)
        if expression is not None:
            return Parameter(parameter.name, bool(parameter.is_constexpr), True, expression, annotation)
    return Parameter(parameter.name, bool(parameter.is_constexpr), has_plain_default, plain_value(default), annotation)


def described_config(config: Any, function: Any) -> Config:
    """A config of `autotune`: values for parameters of the kernel are constants, all others are compiler options."""
    given = config.all_kwargs() if hasattr(config, "all_kwargs") else dict(config.kwargs)
    names = set(function.arg_names) if hasattr(function, "arg_names") else set()
    constants = {name: constant(value, function.fn) for name, value in given.items() if name in names}
    options = {name: value for name, value in given.items() if name not in names and is_option(value)}
    usual = [name for name in USUAL if name in options]
    return Config(tuple(constants.items()), tuple((name, options[name]) for name in dict.fromkeys([*usual, *options])))


def constant(value: Any, function: Any) -> Value:
    """The value of a constexpr; None where it cannot be written."""
    return plain_value(value) if is_plain(value) else expression_of(value, function)


def is_option(value: Any) -> bool:
    return isinstance(value, OptionValue)


def def_line(function: Any) -> int:
    """The line of the `def` itself, below the decorators."""
    lines, first = inspect.getsourcelines(function)
    return first + next((at for at, text in enumerate(lines) if text.lstrip().startswith("def ")), 0)
