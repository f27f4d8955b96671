"""PyTorch's switches, set as the plan recorded them (see `warplens_run.base.torch_switches` for which there are)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from warplens_run.base.torch_switches import ATTRIBUTES, CALLS, ONLY_READ, VARIABLE, VARIABLES

WORDS: Final = {
    "get_float32_matmul_precision": ("highest", "high", "medium"),
    "backends.cuda.preferred_blas_library": ("default", "cublas", "cublaslt", "ck"),
}


def restore_variables(settings: Mapping[str, str | int | float | bool]) -> None:
    """Before PyTorch is loaded; `restore` reports those that could not be set."""
    for name, value in settings.items():
        if name.startswith(VARIABLE) and _is_variable(name, value):
            os.environ[name.removeprefix(VARIABLE)] = str(value)


def _is_variable(name: str, value: str | int | float | bool) -> bool:
    pattern = VARIABLES.get(name.removeprefix(VARIABLE))
    return pattern is not None and pattern.fullmatch(str(value)) is not None


def restore(settings: Mapping[str, str | int | float | bool]) -> tuple[str, ...]:
    """Sets them, and returns a note for each that could not be set."""
    import torch

    notes = []
    # Precisions first: setting one also sets the TF32 switches, which the plan names apart.
    for name in sorted(settings, key=lambda setting: setting not in CALLS):
        if name in ONLY_READ or (name.startswith(VARIABLE) and _is_variable(name, settings[name])):
            continue
        problem = _set(torch, name, settings[name])
        if problem:
            notes.append(f"setting {name}={settings[name]} was not restored: {problem}")
    return tuple(notes)


def _set(torch: Any, name: str, value: str | int | float | bool) -> str:
    if name not in CALLS and name not in ATTRIBUTES:
        return "not a known setting that selects kernels"
    if name in WORDS:
        # Some are enumerations, recorded as `_BlasBackend.Cublas`.
        value = str(value).rpartition(".")[2].lower()
        if value not in WORDS[name]:
            return f"not one of {', '.join(WORDS[name])}"
    elif not isinstance(value, bool):
        return "not true or false"
    *path, last = CALLS.get(name, name).split(".")
    try:
        for part in path:
            torch = getattr(torch, part)
        if name in CALLS:
            getattr(torch, last)(value)
        else:
            setattr(torch, last, value)
    except Exception as error:  # noqa: BLE001 - a build without that part; each raises its own
        return str(error).partition("\n")[0]
    return ""
